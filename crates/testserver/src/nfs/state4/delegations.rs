//! Read delegations (RFC 8881, 10.2 and 10.4): their holders and files, and conflicts with them.
//!
//! A delegation is a state, like an open (`opens.rs`). `callbacks.rs` calls the clients. There are no write
//! delegations.

use super::opens::{Kind, Opens, Recall, State, Stateid, WRITE};
use super::status::Outcome;
use dyno_measure::NS_PER_S;
use dyno_nfs::status::Status4;
use dyno_nfs::wire::FileHandle;

/// Time after a recall in which the file is not delegated again, so that the waiting client gets it before
/// others reopen it. Longer than the retry delay of clients.
const CONTENDED_NS: u64 = 5 * NS_PER_S;
/// Maximum number of files that are not delegated because of a recent recall.
const MOST_CONTENDED: usize = 4096;

/// A delegation that conflicts with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::nfs) struct Delegation {
    pub(in crate::nfs) client: u64,
    pub(in crate::nfs) stateid: Stateid,
    pub(in crate::nfs) file: FileHandle,
}

impl Opens {
    /// Delegates a file to a client. Returns None if that is impossible, for example because the file is open
    /// for writing.
    pub(in crate::nfs) fn delegate(&mut self, client: u64, file: FileHandle, now_ns: u64) -> Option<Stateid> {
        let is_contended = |since_ns: &u64| now_ns < since_ns.saturating_add(CONTENDED_NS);
        if self.contended.get(&file).is_some_and(is_contended) {
            return None;
        }
        let hinders = |state: &State| match &state.kind {
            Kind::Open { access, .. } => access & WRITE != 0,
            Kind::Lock { .. } => false,
            Kind::Delegation(recall) => state.owner.0 == client || *recall != Recall::No,
        };
        if self.of_file(&file).any(|(_, state)| hinders(state)) {
            return None;
        }
        let state = State {
            owner: (client, Box::default()),
            file,
            version: 1,
            kind: Kind::Delegation(Recall::No),
        };
        let number = self.add(state).ok()?;
        Some(self.stateid(number))
    }

    /// Returns the delegations of a file that clients other than `by` must return before a change. Revokes delegations
    /// that were not returned within `limit_ns`.
    pub(in crate::nfs) fn recall(
        &mut self,
        by: Option<u64>,
        file: &FileHandle,
        (now_ns, limit_ns): (u64, u64),
    ) -> Vec<Delegation> {
        let is_theirs = |state: &State| {
            let counts = !matches!(state.kind, Kind::Delegation(Recall::Revoked));
            matches!(state.kind, Kind::Delegation(_)) && counts && by != Some(state.owner.0)
        };
        let theirs = self.of_file(file).filter(|(_, state)| is_theirs(state));
        let numbers: Vec<u64> = theirs.map(|(number, _)| number).collect();
        if !numbers.is_empty() {
            self.note_contention(*file, now_ns);
        }
        let mut awaited = Vec::new();
        for number in numbers {
            let Some(state) = self.states.get_mut(&number) else {
                continue;
            };
            let client = state.owner.0;
            match state.kind {
                Kind::Delegation(Recall::Since(since_ns)) if now_ns >= since_ns.saturating_add(limit_ns) => {
                    state.kind = Kind::Delegation(Recall::Revoked);
                    *self.revoked.entry(client).or_default() += 1;
                    continue;
                }
                Kind::Delegation(Recall::No) => state.kind = Kind::Delegation(Recall::Since(now_ns)),
                _ => {}
            }
            let (stateid, file) = (self.stateid(number), *file);
            awaited.push(Delegation {
                client,
                stateid,
                file,
            });
        }
        awaited
    }

    fn note_contention(&mut self, file: FileHandle, now_ns: u64) {
        if self.contended.len() >= MOST_CONTENDED {
            self.contended
                .retain(|_, since_ns| now_ns < since_ns.saturating_add(CONTENDED_NS));
            if self.contended.len() >= MOST_CONTENDED {
                self.contended.clear();
            }
        }
        self.contended.insert(file, now_ns);
    }

    pub(in crate::nfs) fn give_back(&mut self, client: u64, stateid: Stateid, file: &FileHandle) -> Outcome {
        let (number, state) = self.of(client, stateid, file)?;
        match state.kind {
            Kind::Delegation(Recall::Revoked) => return Err(Status4::DelegationRevoked.into()),
            Kind::Delegation(_) => {}
            _ => return Err(Status4::BadStateid.into()),
        }
        self.remove(number);
        Ok(())
    }

    /// Returns whether a client has revoked delegations that it has not freed.
    pub(in crate::nfs) fn has_revoked(&self, client: u64) -> bool {
        !self.revoked.is_empty() && self.revoked.contains_key(&client)
    }

    /// Records that a client has freed a revoked delegation.
    pub(super) fn freed_revoked(&mut self, client: u64) {
        if let Some(count) = self.revoked.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.revoked.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::opens::READ;
    use super::*;

    const LIMIT_NS: u64 = 10;

    fn file() -> FileHandle {
        FileHandle::of(b"file").expect("short")
    }

    fn open(opens: &mut Opens, client: u64, access: u32) -> Stateid {
        let owner = (client, Box::from(&b"it"[..]));
        opens.open(owner, file(), access, 0).expect("free")
    }

    #[test]
    fn readers_share_delegations_and_a_writer_recalls_all() {
        let mut opens = Opens::new(1);
        let (one, two) = (opens.delegate(1, file(), 0), opens.delegate(2, file(), 0));
        let (one, two) = (one.expect("free"), two.expect("they only read"));
        assert_eq!(opens.delegate(1, file(), 0), None, "it has one");
        assert_eq!(opens.may_use(1, one, &file(), false), Ok(()));
        assert_eq!(
            opens.may_use(1, one, &file(), true),
            Err(Status4::OpenMode.into())
        );
        let of_two = [Delegation {
            client: 2,
            stateid: two,
            file: file(),
        }];
        assert_eq!(opens.recall(Some(1), &file(), (5, LIMIT_NS)), of_two);
        assert_eq!(opens.recall(None, &file(), (6, LIMIT_NS)).len(), 2);
        assert_eq!(opens.give_back(1, two, &file()), Err(Status4::BadStateid.into()));
        assert_eq!(opens.give_back(1, one, &file()), Ok(()));
        assert_eq!(opens.give_back(2, two, &file()), Ok(()));
        assert!(opens.recall(None, &file(), (7, LIMIT_NS)).is_empty());
        assert_eq!(opens.delegate(1, file(), 8), None, "somebody waited for it");
        assert!(opens.delegate(1, file(), 6 + CONTENDED_NS).is_some());
        assert!(!opens.has_any(2));
    }

    #[test]
    fn a_file_that_is_open_for_writing_is_not_delegated() {
        let mut opens = Opens::new(1);
        let writer = open(&mut opens, 1, READ | WRITE);
        open(&mut opens, 2, READ);
        assert_eq!(opens.delegate(2, file(), 0), None);
        opens.close(1, writer, &file()).expect("its own");
        assert!(opens.delegate(2, file(), 0).is_some());
    }

    #[test]
    fn a_delegation_that_is_not_returned_in_time_is_revoked_and_reported_until_freed() {
        let mut opens = Opens::new(1);
        let mine = opens.delegate(1, file(), 0).expect("free");
        assert_eq!(opens.free(1, mine), Err(Status4::LocksHeld.into()));
        assert_eq!(opens.recall(None, &file(), (3, LIMIT_NS)).len(), 1);
        assert_eq!(
            opens.recall(None, &file(), (12, LIMIT_NS)).len(),
            1,
            "there is time yet"
        );
        assert!(opens.recall(None, &file(), (13, LIMIT_NS)).is_empty());
        assert!(opens.has_revoked(1) && !opens.has_revoked(2));
        let revoked = Err(Status4::DelegationRevoked.into());
        assert_eq!(opens.test(1, mine), revoked);
        assert_eq!(opens.may_use(1, mine, &file(), false), revoked);
        assert_eq!(opens.give_back(1, mine, &file()), revoked);
        assert_eq!(opens.free(1, mine), Ok(()));
        assert!(!opens.has_revoked(1) && !opens.has_any(1));
    }
}
