//! Byte-range locks of a file (MS-FSA 2.1.5.8, 2.1.4.10).

use super::holds::caching;
use super::{Moment, Volume, Waiter};
use crate::smb::status::{Status, Stop};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) open: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) exclusive: bool,
}

impl Lock {
    fn overlaps(&self, offset: u64, bytes: u64) -> bool {
        // Use 128-bit sums, because a range may end at 2^64. An empty range overlaps the ranges that contain it.
        let end = |offset: u64, bytes: u64| u128::from(offset) + u128::from(bytes);
        u128::from(self.offset) < end(offset, bytes) && u128::from(offset) < end(self.offset, self.bytes)
    }
}

/// Returns whether a lock and a range overlap.
fn touches(lock: &Lock, offset: u64, bytes: u64) -> bool {
    bytes > 0 && lock.bytes > 0 && lock.overlaps(offset, bytes)
}

/// Returns whether another open's exclusive lock prevents reading a range.
pub(super) fn hinders_reading(locks: &[Lock], open: usize, offset: u64, bytes: u64) -> bool {
    locks
        .iter()
        .any(|lock| lock.exclusive && lock.open != open && touches(lock, offset, bytes))
}

/// Returns whether a lock prevents writing a range: any lock of another open, or a shared lock of the same open.
pub(super) fn hinders_writing(locks: &[Lock], open: usize, offset: u64, bytes: u64) -> bool {
    let forbids = |lock: &Lock| lock.open != open || !lock.exclusive;
    locks
        .iter()
        .any(|lock| forbids(lock) && touches(lock, offset, bytes))
}

/// Identifies a repeated lock request (MS-SMB2 2.2.26) by a number and one of 64 indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockSequence {
    place: u32,
    number: u32,
}

impl LockSequence {
    const PLACES: u32 = 64;

    /// Parses the field. Returns None if it is unused.
    pub(crate) fn of(field: u32) -> Option<Self> {
        let (place, number) = (field >> 4, field & 0xf);
        (1..=Self::PLACES)
            .contains(&place)
            .then_some(Self { place, number })
    }
}

impl Volume {
    /// Returns whether the request was already executed. If not, clears the request's index.
    pub(crate) fn is_repeated(&mut self, open: usize, sequence: LockSequence) -> bool {
        let locked = &mut self.opens[open].locked;
        let is_repeated = locked.contains(&sequence);
        if !is_repeated {
            locked.retain(|known| known.place != sequence.place);
        }
        is_repeated
    }

    /// Records that a lock request was executed.
    pub(crate) fn note_locked(&mut self, open: usize, sequence: LockSequence) {
        self.opens[open].locked.push(sequence);
    }

    /// Locks a range. A waiting request is retried when a lock is released.
    pub(crate) fn lock(&mut self, lock: Lock, waits: Option<Waiter>, moment: Moment) -> Result<(), Stop> {
        let index = self.opens[lock.open].node;
        let node = &self.nodes[index];
        if node.is_directory() {
            return Err(Status::INVALID_DEVICE_REQUEST.into());
        }
        if lock.bytes > 0 && lock.offset.checked_add(lock.bytes - 1).is_none() {
            return Err(Status::INVALID_LOCK_RANGE.into());
        }
        let hinders = |other: &Lock| {
            // A shared lock permits other shared locks, and an exclusive lock permits a shared lock of the
            // same open.
            let suits = !lock.exclusive && (!other.exclusive || other.open == lock.open);
            !suits && other.overlaps(lock.offset, lock.bytes)
        };
        if node.locks.iter().any(hinders) {
            return Err(match waits {
                Some(waiter) => self.wait(index, waiter),
                None => Status::LOCK_NOT_GRANTED.into(),
            });
        }
        self.nodes[index].locks.push(lock);
        // A client that caches would not notice the lock.
        if self.nodes[index].opens.len() > 1 || self.held(lock.open).state == caching::READ {
            let own = self.own(lock.open);
            let _ = self.take_away(index, own, caching::NONE, moment);
        }
        Ok(())
    }

    /// Releases a lock with exactly this range. An exclusive lock takes precedence.
    pub(crate) fn unlock(&mut self, open: usize, offset: u64, bytes: u64) -> Result<(), Status> {
        let index = self.opens[open].node;
        let locks = &mut self.nodes[index].locks;
        let is_it = |lock: &Lock| (lock.open, lock.offset, lock.bytes) == (open, offset, bytes);
        let place = locks
            .iter()
            .position(|lock| is_it(lock) && lock.exclusive)
            .or_else(|| locks.iter().position(is_it))
            .ok_or(Status::RANGE_NOT_LOCKED)?;
        locks.remove(place);
        self.wake(index);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_overlap_if_they_have_a_byte_in_common() {
        let lock = Lock {
            open: 0,
            offset: 10,
            bytes: 5,
            exclusive: true,
        };
        for (offset, bytes, expected) in [
            (0, 10, false),
            (0, 11, true),
            (14, 1, true),
            (15, 1, false),
            (12, 0, true),
            (10, 0, false),
            (15, 0, false),
            (0, u64::MAX, true),
            (u64::MAX, u64::MAX, false),
        ] {
            assert_eq!(lock.overlaps(offset, bytes), expected, "{offset} {bytes}");
        }
    }
}
