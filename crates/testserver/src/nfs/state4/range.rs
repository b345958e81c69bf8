//! A locked range of bytes.

use super::status::Outcome;
use dyno_nfs::status::Status;

/// A range of bytes, and whether it is locked for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::nfs) struct Range {
    pub(in crate::nfs) begin: u64,
    /// End of the range (exclusive); `u64::MAX`: unlimited.
    pub(in crate::nfs) end: u64,
    pub(in crate::nfs) write: bool,
}

impl Range {
    /// Returns the range for an offset and a length in a request.
    pub(in crate::nfs) fn of(offset: u64, length: u64, write: bool) -> Outcome<Self> {
        let end = match length {
            0 => return Err(Status::Inval.into()),
            u64::MAX => u64::MAX,
            _ => offset.checked_add(length).ok_or(Status::Inval)?,
        };
        let begin = offset;
        Ok(Self { begin, end, write })
    }

    pub(in crate::nfs) fn meets(&self, other: &Self) -> bool {
        self.begin < other.end && other.begin < self.end
    }

    /// Returns the parts of `ranges` that lie outside this range.
    pub(in crate::nfs) fn taken_out_of(&self, ranges: &[Self]) -> Vec<Self> {
        let mut left = Vec::with_capacity(ranges.len() + 2);
        for old in ranges {
            if !old.meets(self) {
                left.push(*old);
                continue;
            }
            if old.begin < self.begin {
                left.push(Self {
                    end: self.begin,
                    ..*old
                });
            }
            if old.end > self.end {
                left.push(Self {
                    begin: self.end,
                    ..*old
                });
            }
        }
        left
    }
}
