//! Opens of clients (RFC 8881, 9 and 10), and states of all kinds: data and rules, without encoding.
//!
//! An open belongs to an owner and a file, and a lock to a lock owner and an open. Each has a state with a
//! number, which is in its state ID, and a version, which counts its changes. `locks.rs` sets and releases
//! locks, `delegations.rs` handles delegations.

use super::range::Range;
use super::status::Outcome;
use dyno_nfs::status::{Status, Status4};
use dyno_nfs::wire::FileHandle;
pub(in crate::nfs) use dyno_nfs::wire::Stateid;
use std::collections::{HashMap, HashSet};

/// Maximum number of states of all clients together.
const MOST_STATES: usize = 1 << 20;

pub(in crate::nfs) const READ: u32 = 1;
pub(in crate::nfs) const WRITE: u32 = 2;

/// Owner of an open or lock: the client, and a name chosen by the client.
pub(in crate::nfs) type Owner = (u64, Box<[u8]>);

/// Progress of a delegation's recall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::nfs) enum Recall {
    No,
    /// Time of the first recall, in nanoseconds.
    Since(u64),
    /// The delegation was not returned in time, and is invalid.
    Revoked,
}

#[derive(Debug)]
pub(super) enum Kind {
    Open {
        access: u32,
        deny: u32,
    },
    /// Locks under the open with this number.
    Lock {
        open: u64,
        ranges: Vec<Range>,
    },
    Delegation(Recall),
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) owner: Owner,
    pub(super) file: FileHandle,
    pub(super) version: u32,
    pub(super) kind: Kind,
}

#[derive(Debug, Default)]
pub(in crate::nfs) struct Opens {
    start: u32,
    last: u64,
    pub(super) states: HashMap<u64, State>,
    by_file: HashMap<FileHandle, Vec<u64>>,
    by_client: HashMap<u64, HashSet<u64>>,
    /// Number of revoked delegations that each client has not freed.
    pub(super) revoked: HashMap<u64, usize>,
    /// Time of the last conflict with a delegation, per file.
    pub(super) contended: HashMap<FileHandle, u64>,
}

impl Opens {
    pub(in crate::nfs) fn new(start: u32) -> Self {
        Self {
            start,
            ..Self::default()
        }
    }

    pub(in crate::nfs) fn has_any(&self, client: u64) -> bool {
        self.by_client.contains_key(&client)
    }

    /// Forgets all states of a client.
    pub(in crate::nfs) fn forget(&mut self, client: u64) {
        for number in self.by_client.remove(&client).unwrap_or_default() {
            self.remove(number);
        }
        self.revoked.remove(&client);
    }

    pub(super) fn stateid(&self, number: u64) -> Stateid {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.start.to_be_bytes());
        other[4..].copy_from_slice(&number.to_be_bytes());
        let version = self.states.get(&number).map_or(0, |state| state.version);
        Stateid { version, other }
    }

    pub(super) fn add(&mut self, state: State) -> Outcome<u64> {
        if self.states.len() >= MOST_STATES {
            return Err(Status4::Resource.into());
        }
        self.last += 1;
        self.by_file.entry(state.file).or_default().push(self.last);
        self.by_client.entry(state.owner.0).or_default().insert(self.last);
        self.states.insert(self.last, state);
        Ok(self.last)
    }

    pub(super) fn remove(&mut self, number: u64) {
        let Some(state) = self.states.remove(&number) else {
            return;
        };
        if let Some(numbers) = self.by_file.get_mut(&state.file) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.by_file.remove(&state.file);
            }
        }
        if let Some(numbers) = self.by_client.get_mut(&state.owner.0) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_client.remove(&state.owner.0);
            }
        }
    }

    pub(super) fn of_file(&self, file: &FileHandle) -> impl Iterator<Item = (u64, &State)> {
        let numbers = self.by_file.get(file).into_iter().flatten();
        numbers.filter_map(|number| Some((*number, self.states.get(number)?)))
    }

    pub(super) fn named(&self, client: u64, stateid: Stateid) -> Outcome<(u64, &State)> {
        let start = u32::from_be_bytes(stateid.other[..4].try_into().unwrap_or_default());
        let number = u64::from_be_bytes(stateid.other[4..].try_into().unwrap_or_default());
        if start != self.start {
            // The state ID is from another start of the server.
            return Err(Status4::BadStateid.into());
        }
        let state = self.states.get(&number).filter(|state| state.owner.0 == client);
        let state = state.ok_or(Status4::BadStateid)?;
        match stateid.version {
            0 => Ok((number, state)),
            version if version == state.version => Ok((number, state)),
            version if version < state.version => Err(Status4::OldStateid.into()),
            _ => Err(Status4::BadStateid.into()),
        }
    }

    pub(super) fn of(&self, client: u64, stateid: Stateid, file: &FileHandle) -> Outcome<(u64, &State)> {
        let (number, state) = self.named(client, stateid)?;
        match state.file == *file {
            true => Ok((number, state)),
            false => Err(Status4::BadStateid.into()),
        }
    }

    /// Checks that no other open of the file denies the requested access or has an access that the new open
    /// denies.
    pub(in crate::nfs) fn may_open(
        &self,
        owner: &Owner,
        file: &FileHandle,
        access: u32,
        deny: u32,
    ) -> Outcome {
        let is_in_the_way = |state: &State| match state.kind {
            Kind::Open {
                access: theirs,
                deny: denied,
            } => state.owner != *owner && (access & denied != 0 || deny & theirs != 0),
            Kind::Lock { .. } | Kind::Delegation(_) => false,
        };
        match self.of_file(file).any(|(_, state)| is_in_the_way(state)) {
            true => Err(Status4::ShareDenied.into()),
            false => Ok(()),
        }
    }

    /// Opens a file, or extends the owner's existing open of it.
    pub(in crate::nfs) fn open(
        &mut self,
        owner: Owner,
        file: FileHandle,
        access: u32,
        deny: u32,
    ) -> Outcome<Stateid> {
        self.may_open(&owner, &file, access, deny)?;
        let is_open = |state: &State| matches!(state.kind, Kind::Open { .. }) && state.owner == owner;
        let there = self.of_file(&file).find(|(_, state)| is_open(state));
        let number = match there.map(|(number, _)| number) {
            Some(number) => {
                if let Some(state) = self.states.get_mut(&number) {
                    state.version += 1;
                    if let Kind::Open {
                        access: theirs,
                        deny: denied,
                    } = &mut state.kind
                    {
                        *theirs |= access;
                        *denied |= deny;
                    }
                }
                number
            }
            None => self.add(State {
                owner,
                file,
                version: 1,
                kind: Kind::Open { access, deny },
            })?,
        };
        Ok(self.stateid(number))
    }

    pub(in crate::nfs) fn downgrade(
        &mut self,
        client: u64,
        stateid: Stateid,
        file: &FileHandle,
        (access, deny): (u32, u32),
    ) -> Outcome<Stateid> {
        let number = self.open_of(client, stateid, file)?;
        if let Some(state) = self.states.get_mut(&number) {
            if let Kind::Open {
                access: held,
                deny: denied,
            } = &mut state.kind
            {
                if access == 0 || access & !*held != 0 || deny & !*denied != 0 {
                    return Err(Status::Inval.into());
                }
                (*held, *denied) = (access, deny);
            }
            state.version += 1;
        }
        Ok(self.stateid(number))
    }

    pub(super) fn open_of(&self, client: u64, stateid: Stateid, file: &FileHandle) -> Outcome<u64> {
        match self.of(client, stateid, file)? {
            (number, state) if matches!(state.kind, Kind::Open { .. }) => Ok(number),
            _ => Err(Status4::BadStateid.into()),
        }
    }

    /// Closes an open, with all locks under it.
    pub(in crate::nfs) fn close(&mut self, client: u64, stateid: Stateid, file: &FileHandle) -> Outcome {
        let number = self.open_of(client, stateid, file)?;
        let locks: Vec<u64> = self
            .of_file(file)
            .filter(|(_, state)| matches!(state.kind, Kind::Lock { open, .. } if open == number))
            .map(|(lock, _)| lock)
            .collect();
        for gone in locks.into_iter().chain([number]) {
            self.remove(gone);
        }
        Ok(())
    }

    /// Checks that a state ID permits writing or reading a file.
    pub(in crate::nfs) fn may_use(
        &self,
        client: u64,
        stateid: Stateid,
        file: &FileHandle,
        write: bool,
    ) -> Outcome {
        if [Stateid::ANONYMOUS, Stateid::BYPASS].contains(&stateid) {
            let needed = if write { WRITE } else { READ };
            let denies = |state: &State| matches!(state.kind, Kind::Open { deny, .. } if deny & needed != 0);
            return match self.of_file(file).any(|(_, state)| denies(state)) {
                true => Err(Status4::Locked.into()),
                false => Ok(()),
            };
        }
        let access = match self.of(client, stateid, file)?.1.kind {
            Kind::Open { access, .. } => access,
            Kind::Lock { open, .. } => self.access(open),
            Kind::Delegation(Recall::Revoked) => return Err(Status4::DelegationRevoked.into()),
            Kind::Delegation(_) => READ,
        };
        // A writer may also read, because a write may require a read first (RFC 8881, 9.1.2).
        match !write || access & WRITE != 0 {
            true => Ok(()),
            false => Err(Status4::OpenMode.into()),
        }
    }

    pub(super) fn access(&self, open: u64) -> u32 {
        match self.states.get(&open).map(|state| &state.kind) {
            Some(Kind::Open { access, .. }) => *access,
            _ => 0,
        }
    }

    /// Handles TEST_STATEID: returns the error that the state ID would cause.
    pub(in crate::nfs) fn test(&self, client: u64, stateid: Stateid) -> Outcome {
        match self.named(client, stateid)?.1.kind {
            Kind::Delegation(Recall::Revoked) => Err(Status4::DelegationRevoked.into()),
            _ => Ok(()),
        }
    }

    /// Handles FREE_STATEID for locks without ranges, and for revoked delegations.
    pub(in crate::nfs) fn free(&mut self, client: u64, stateid: Stateid) -> Outcome {
        let (number, state) = self.named(client, stateid)?;
        let is_revoked = matches!(state.kind, Kind::Delegation(Recall::Revoked));
        if !is_revoked && !matches!(&state.kind, Kind::Lock { ranges, .. } if ranges.is_empty()) {
            return Err(Status4::LocksHeld.into());
        }
        if is_revoked {
            self.freed_revoked(client);
        }
        self.remove(number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: u8) -> Owner {
        (u64::from(name), [name].into())
    }

    fn file() -> FileHandle {
        FileHandle::of(b"file").expect("short")
    }

    #[test]
    fn an_open_that_denies_others_excludes_them_until_its_close() {
        let mut opens = Opens::new(1);
        let first = opens.open(owner(1), file(), READ, WRITE).expect("free");
        let denied = Err(Status4::ShareDenied.into());
        assert_eq!(opens.open(owner(2), file(), WRITE, 0), denied);
        assert_eq!(opens.open(owner(2), file(), READ, READ), denied);
        let other = opens.open(owner(2), file(), READ, 0).expect("it may read");
        assert_eq!(
            opens.may_use(2, other, &file(), true),
            Err(Status4::OpenMode.into())
        );
        assert_eq!(
            opens.may_use(9, Stateid::ANONYMOUS, &file(), true),
            Err(Status4::Locked.into())
        );
        let more = opens.open(owner(1), file(), WRITE, 0).expect("its own");
        assert_eq!((more.other, more.version), (first.other, 2));
        assert_eq!(
            opens.may_use(1, first, &file(), false),
            Err(Status4::OldStateid.into())
        );
        let less = opens.downgrade(1, more, &file(), (READ, 0)).expect("less");
        assert_eq!(
            opens.may_use(1, less, &file(), true),
            Err(Status4::OpenMode.into())
        );
        assert_eq!(opens.close(2, less, &file()), Err(Status4::BadStateid.into()));
        assert_eq!(opens.close(1, less, &file()), Ok(()));
        assert_eq!(opens.test(1, less), Err(Status4::BadStateid.into()));
        assert!(opens.open(owner(2), file(), WRITE, 0).is_ok());
        assert!(!opens.has_any(1));
    }
}
