//! Byte-range locks of clients (RFC 8881, 9.1 and 18.10 to 18.12).

use super::opens::{Kind, Opens, Owner, State, Stateid, READ, WRITE};
use super::range::Range;
use super::status::Outcome;
use dyno_nfs::status::Status4;
use dyno_nfs::wire::FileHandle;

/// Maximum number of ranges per lock owner and file.
const MOST_RANGES: usize = 4096;

/// A conflicting lock and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::nfs) struct InTheWay {
    pub(in crate::nfs) owner: Owner,
    pub(in crate::nfs) range: Range,
}

impl Opens {
    /// Returns a conflicting lock of another owner in the range.
    pub(in crate::nfs) fn in_the_way(
        &self,
        owner: &Owner,
        file: &FileHandle,
        range: &Range,
    ) -> Option<InTheWay> {
        self.of_file(file).find_map(|(_, state)| {
            let Kind::Lock { ranges, .. } = &state.kind else {
                return None;
            };
            let theirs = ranges
                .iter()
                .find(|theirs| theirs.meets(range) && (theirs.write || range.write))?;
            (state.owner != *owner).then(|| InTheWay {
                owner: state.owner.clone(),
                range: *theirs,
            })
        })
    }

    pub(in crate::nfs) fn lock_owner(&self, client: u64, lock: Stateid, file: &FileHandle) -> Outcome<Owner> {
        match self.of(client, lock, file)?.1 {
            State {
                owner,
                kind: Kind::Lock { .. },
                ..
            } => Ok(owner.clone()),
            _ => Err(Status4::BadStateid.into()),
        }
    }

    /// Locks a range for an owner that has no locks under this open. There must be no conflict
    /// (`in_the_way`).
    pub(in crate::nfs) fn lock_first(
        &mut self,
        owner: Owner,
        open: Stateid,
        file: &FileHandle,
        range: Range,
    ) -> Outcome<Stateid> {
        let open = self.open_of(owner.0, open, file)?;
        self.may_lock(open, range)?;
        let known = self
            .of_file(file)
            .find(|(_, state)| matches!(state.kind, Kind::Lock { .. }) && state.owner == owner)
            .map(|(number, _)| number);
        let number = match known {
            Some(number) => number,
            None => self.add(State {
                owner,
                file: *file,
                version: 0,
                kind: Kind::Lock {
                    open,
                    ranges: Vec::new(),
                },
            })?,
        };
        self.set_range(number, range, true)
    }

    /// Locks a further range. There must be no conflict (`in_the_way`).
    pub(in crate::nfs) fn lock_more(
        &mut self,
        client: u64,
        lock: Stateid,
        file: &FileHandle,
        range: Range,
    ) -> Outcome<Stateid> {
        let (number, state) = self.of(client, lock, file)?;
        let Kind::Lock { open, .. } = state.kind else {
            return Err(Status4::BadStateid.into());
        };
        self.may_lock(open, range)?;
        self.set_range(number, range, true)
    }

    fn may_lock(&self, open: u64, range: Range) -> Outcome {
        let needed = if range.write { WRITE } else { READ };
        match self.access(open) & needed {
            0 => Err(Status4::OpenMode.into()),
            _ => Ok(()),
        }
    }

    pub(in crate::nfs) fn unlock(
        &mut self,
        client: u64,
        lock: Stateid,
        file: &FileHandle,
        range: Range,
    ) -> Outcome<Stateid> {
        match self.of(client, lock, file)? {
            (number, state) if matches!(state.kind, Kind::Lock { .. }) => {
                self.set_range(number, range, false)
            }
            _ => Err(Status4::BadStateid.into()),
        }
    }

    /// Removes the range from all ranges, and adds it if `locked`.
    fn set_range(&mut self, number: u64, range: Range, locked: bool) -> Outcome<Stateid> {
        let state = self.states.get_mut(&number).ok_or(Status4::BadStateid)?;
        let Kind::Lock { ranges, .. } = &mut state.kind else {
            return Err(Status4::BadStateid.into());
        };
        if ranges.len() >= MOST_RANGES {
            return Err(Status4::Resource.into());
        }
        let mut left = range.taken_out_of(ranges);
        if locked {
            left.push(range);
        }
        *ranges = left;
        state.version += 1;
        Ok(self.stateid(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_nfs::status::Status;

    fn owner(name: u8) -> Owner {
        (u64::from(name), [name].into())
    }

    fn file() -> FileHandle {
        FileHandle::of(b"file").expect("short")
    }

    fn range(begin: u64, length: u64, write: bool) -> Range {
        Range::of(begin, length, write).expect("a range")
    }

    #[test]
    fn locks_are_split_and_exclude_other_owners_from_their_ranges() {
        let mut opens = Opens::new(1);
        let (one, two) = (owner(1), owner(2));
        let open = opens.open(one.clone(), file(), READ | WRITE, 0).expect("free");
        let theirs = opens.open(two.clone(), file(), READ, 0).expect("free");
        let lock = opens
            .lock_first(one.clone(), open, &file(), range(0, 100, true))
            .expect("free");
        assert!(opens.in_the_way(&one, &file(), &range(0, 1, true)).is_none());
        let met = opens
            .in_the_way(&two, &file(), &range(99, 5, false))
            .expect("locked");
        assert_eq!((met.owner, met.range), (one.clone(), range(0, 100, true)));
        assert!(opens
            .in_the_way(&two, &file(), &range(100, u64::MAX, true))
            .is_none());
        let lock = opens
            .unlock(1, lock, &file(), range(10, 20, true))
            .expect("its own");
        assert!(opens.in_the_way(&two, &file(), &range(10, 20, false)).is_none());
        assert!(opens.in_the_way(&two, &file(), &range(30, 1, false)).is_some());
        let refused = opens.lock_first(two, theirs, &file(), range(10, 1, true));
        assert_eq!(refused, Err(Status4::OpenMode.into()), "it may not write");
        assert_eq!(opens.free(1, lock), Err(Status4::LocksHeld.into()));
        let lock = opens
            .unlock(1, lock, &file(), range(0, u64::MAX, true))
            .expect("its own");
        assert_eq!(opens.free(1, lock), Ok(()));
        assert_eq!(Range::of(5, u64::MAX - 1, true), Err(Status::Inval.into()));
        assert_eq!(Range::of(5, 0, true), Err(Status::Inval.into()));
    }

    #[test]
    fn locks_match_a_byte_by_byte_model() {
        let mut opens = Opens::new(1);
        let open = opens.open(owner(1), file(), READ | WRITE, 0).expect("free");
        let mut lock = opens
            .lock_first(owner(1), open, &file(), range(0, 1, true))
            .expect("free");
        let mut table = [None; 40];
        table[0] = Some(true);
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let (begin, length, write) = (random(30), random(10) + 1, random(2) == 0);
            let range = range(begin, length, write);
            let locks = random(2) == 0;
            lock = match locks {
                true => opens.lock_more(1, lock, &file(), range),
                false => opens.unlock(1, lock, &file(), range),
            }
            .expect("its own");
            for cell in &mut table[begin as usize..(begin + length) as usize] {
                *cell = locks.then_some(write);
            }
            for (at, cell) in (0..).zip(table) {
                let reads = opens.in_the_way(
                    &owner(2),
                    &file(),
                    &Range {
                        begin: at,
                        end: at + 1,
                        write: false,
                    },
                );
                let writes = opens.in_the_way(
                    &owner(2),
                    &file(),
                    &Range {
                        begin: at,
                        end: at + 1,
                        write: true,
                    },
                );
                assert_eq!(
                    (reads.is_some(), writes.is_some()),
                    (cell == Some(true), cell.is_some())
                );
            }
        }
    }
}
