//! A range of bytes that is locked.

use super::status::Outcome;
use dyno_nfs::status::Status;

/// A range of bytes: from, up to, and whether for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::nfs) struct Range {
    pub(in crate::nfs) begin: u64,
    /// Behind the last; `u64::MAX`: without end.
    pub(in crate::nfs) end: u64,
    pub(in crate::nfs) write: bool,
}

impl Range {
    /// As a client names it.
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

    /// What is left of ranges without this one.
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
