//! State of an NFSv4.1 session (RFC 8881, 2.10) and of the client's open files (9.1): data and rules,
//! without encoding except for SEQUENCE.
//!
//! All opens of a client have one owner, so the server keeps one state per file, for all access modes. CLOSE is sent
//! when a file's last handle is closed, as by Linux's client.

use crate::wire::operation4::SEQUENCE;
use crate::wire::{FileHandle, Malformed, Reader, Stateid, Writer};
use dyno_files::LeaseKey;
use std::collections::HashMap;
use std::ops::Range;

/// Maximum number of slots, the same as the maximum number of concurrent requests with NFSv3.
pub(crate) const MOST_SLOTS: u32 = 64;
/// Upper bound on the length of a reply's tag; the client's own tags are empty.
const MOST_TAG_BYTES: usize = 1024;
/// SEQUENCE status flags: the lease has expired, or the server has restarted and all state must be reclaimed.
const EXPIRED_ALL_STATE_REVOKED: u32 = 0x8;
const RESTART_RECLAIM_NEEDED: u32 = 0x100;
/// The server can't call the client (`CB_PATH_DOWN`, `CB_PATH_DOWN_SESSION`, `BACKCHANNEL_FAULT`).
const NOT_CALLED: u32 = 0x601;
/// The server has revoked state (`ADMIN_STATE_REVOKED`, `RECALLABLE_STATE_REVOKED`).
const STATE_REVOKED: u32 = 0x60;
/// Minimum lease time that the client assumes. With a shorter one, it would send little but renewals.
const LEAST_LEASE_S: u32 = 6;
/// Maximum size of replies that the server must cache.
const KEPT_REPLY_BYTES: u32 = 2048;

// Statuses of SEQUENCE that concern the session rather than the call (RFC 8881, 15.1).
const DELAY: u32 = 10_008;
const GRACE: u32 = 10_013;
const RETRY_UNCACHED: u32 = 10_068;
/// The session is unknown or unusable: another one is necessary.
const NO_SESSION: [u32; 8] = [
    10_022, // STALE_CLIENTID
    10_052, // BADSESSION
    10_053, // BADSLOT
    10_055, // CONN_NOT_BOUND_TO_SESSION
    10_063, // SEQ_MISORDERED
    10_076, // SEQ_FALSE_RETRY
    10_077, // BAD_HIGH_SLOT
    10_078, // DEADSESSION
];

/// OPEN flag: the client wants no delegation.
const WANT_NO_DELEGATION: u32 = 0x0400;
const WANT_READ_DELEGATION: u32 = 0x0100;

/// Access mode of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Access4(pub(crate) u32);

impl Access4 {
    pub(crate) const READ: Self = Self(1);
    pub(crate) const WRITE: Self = Self(2);
    pub(crate) const BOTH: Self = Self(3);

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn writes(self) -> bool {
        self.0 & Self::WRITE.0 != 0
    }

    /// Appends the access mode, with a flag for or against a read delegation, and an empty deny mode.
    pub(super) fn write(self, wants: bool, writer: &mut Writer<'_>) {
        let wish = if wants {
            WANT_READ_DELEGATION
        } else {
            WANT_NO_DELEGATION
        };
        writer.u32(self.0 | wish).u32(0);
    }
}

/// Properties negotiated with a server; the initial data of a `State`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Agreed4 {
    pub minor: u32,
    pub client_id: u64,
    /// The server's ID of the session.
    pub session: [u8; 16],
    /// Maximum number of concurrent requests.
    pub slots: u32,
    /// Maximum size of a cached reply.
    pub kept_reply_bytes: u32,
    /// Lease time in seconds: the server forgets a client that is silent for longer.
    pub lease_s: u32,
    /// Whether the server can call the client over the session's connection, and may therefore grant
    /// delegations.
    pub is_called: bool,
}

/// A read delegation: the server recalls it before another client changes the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) stateid: Stateid,
    /// The cache's key of the lease.
    pub(crate) key: LeaseKey,
    /// Whether a break of the delegation was reported.
    pub(crate) is_recalled: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct OpenState {
    pub(crate) stateid: Stateid,
    /// State ID of the file's byte-range locks, after the first lock.
    pub(crate) lock: Option<Stateid>,
    /// Locked ranges, from an offset to an end; `u64::MAX` for an open end.
    pub(crate) locked: Vec<Range<u64>>,
    pub(crate) access: Access4,
    pub(crate) delegation: Option<Held>,
    handles: u32,
    /// The change attribute that this client last knew.
    change: u64,
}

/// State to release when a file's last handle is closed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closing {
    pub(crate) stateid: Stateid,
    /// State of the locks, to be released first, if any range is still locked.
    pub(crate) locks: Option<Stateid>,
    /// Delegation to be returned after the close.
    pub(crate) delegation: Option<Stateid>,
}

/// Outcome of a request, from the first part of its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply4 {
    /// The status of the compound, and the start of the results after SEQUENCE.
    Done(u32, usize),
    /// The server asks to repeat the request later, because of its grace period or for another reason.
    Later { in_grace: bool },
    /// The server has executed the request without caching the reply: send it again as a new request.
    Anew,
    /// The server does not know the session.
    NoSession,
}

/// Slot of the back channel: the sequence number of the last call, and the reply to it, which is empty while
/// the call is executed.
#[derive(Debug, Default)]
pub(crate) struct Back {
    pub(super) number: u32,
    pub(super) answer: Vec<u8>,
}

/// State of one session.
#[derive(Debug, Default)]
pub struct State {
    agreed: Agreed4,
    /// Sequence number of the next request in each slot.
    numbers: Vec<u32>,
    /// One bit per slot with an outstanding request.
    busy: u64,
    /// Number of usable slots, as last reported by the server.
    limit: u32,
    opens: HashMap<FileHandle, OpenState>,
    /// Whether another session must be created.
    pub(crate) is_gone: bool,
    /// Whether the server has reported that it can't call the client, or has revoked a delegation.
    pub(crate) is_doubtful: bool,
    /// Number of delegations.
    delegated: usize,
    back: Back,
    /// Time at which the client last sent a request.
    heard_ns: u64,
}

impl State {
    /// Creates the state of a new session.
    pub fn new(agreed: Agreed4) -> Self {
        let slots = agreed.slots.clamp(1, MOST_SLOTS);
        Self {
            agreed,
            numbers: vec![1; slots as usize],
            limit: slots,
            ..Self::default()
        }
    }

    /// Records the server's lease time.
    pub(crate) fn set_lease(&mut self, lease_s: u32) {
        self.agreed.lease_s = lease_s.max(LEAST_LEASE_S);
    }

    /// Takes over the open files of the previous session. The delegations are dropped, because they ended
    /// with that session.
    pub(crate) fn take_opens(&mut self, opens: HashMap<FileHandle, OpenState>) {
        self.opens = opens;
        self.drop_delegations();
    }

    pub(crate) fn opens(&self) -> &HashMap<FileHandle, OpenState> {
        &self.opens
    }

    pub(crate) fn agreed(&self) -> &Agreed4 {
        &self.agreed
    }

    /// Returns the current maximum number of concurrent requests.
    pub(crate) fn limit(&self) -> usize {
        self.limit as usize
    }

    /// Returns whether the server must cache the replies to requests that may not be repeated.
    pub(crate) fn keeps_replies(&self) -> bool {
        self.agreed.kept_reply_bytes >= KEPT_REPLY_BYTES
    }

    /// Returns the time at which the lease must be renewed: after two thirds of the lease time, as in Linux's
    /// client.
    pub(crate) fn renewal_ns(&self) -> u64 {
        const NS_PER_S: u64 = 1_000_000_000;
        let lease_ns = u64::from(self.agreed.lease_s) * NS_PER_S;
        self.heard_ns.saturating_add(lease_ns / 3 * 2)
    }

    /// Returns the time from which the server may have forgotten the client.
    pub(crate) fn expiry_ns(&self) -> u64 {
        const NS_PER_S: u64 = 1_000_000_000;
        self.heard_ns
            .saturating_add(u64::from(self.agreed.lease_s) * NS_PER_S)
    }

    /// Returns the state for handling a call from the server.
    pub(crate) fn callee(&mut self) -> (&mut Back, &Agreed4, &mut HashMap<FileHandle, OpenState>) {
        (&mut self.back, &self.agreed, &mut self.opens)
    }

    /// Records that the server can't call the client, so that no delegation is reliable.
    pub(crate) fn set_uncalled(&mut self) {
        self.agreed.is_called = false;
    }

    pub(crate) fn delegated(&self) -> usize {
        self.delegated
    }

    pub(crate) fn delegations(&mut self) -> impl Iterator<Item = &mut Held> {
        self.opens
            .values_mut()
            .filter_map(|open| open.delegation.as_mut())
    }

    /// Records the delegation of an open file. The error is false if the file is not open. If the file already has a
    /// delegation, the error says whether its state ID is the same.
    pub(crate) fn hold(&mut self, file: &FileHandle, stateid: Stateid, key: LeaseKey) -> Result<(), bool> {
        let open = self.opens.get_mut(file).ok_or(false)?;
        if let Some(held) = &open.delegation {
            return Err(held.stateid.other == stateid.other);
        }
        open.delegation = Some(Held {
            stateid,
            key,
            is_recalled: false,
        });
        self.delegated += 1;
        Ok(())
    }

    /// Forgets a delegation; returns its file and state ID.
    pub(crate) fn give_up(&mut self, key: LeaseKey) -> Option<(FileHandle, Stateid)> {
        let has_it = |open: &OpenState| open.delegation.is_some_and(|held| held.key == key);
        let (file, open) = self.opens.iter_mut().find(|(_, open)| has_it(open))?;
        let held = open.delegation.take()?;
        self.delegated -= 1;
        Some((*file, held.stateid))
    }

    pub(crate) fn drop_delegations(&mut self) {
        for open in self.opens.values_mut() {
            open.delegation = None;
        }
        self.delegated = 0;
    }

    pub(crate) fn heard(&mut self, now_ns: u64) {
        self.heard_ns = now_ns;
    }

    /// Takes the lowest free slot, as RFC 8881, 2.10.6.1 recommends.
    pub(crate) fn take_slot(&mut self) -> Option<u32> {
        let slot = self.busy.trailing_ones();
        if slot >= self.limit {
            return None;
        }
        self.busy |= 1 << slot;
        Some(slot)
    }

    /// Frees a slot. `counts`: whether the server has used the slot's sequence number.
    pub(crate) fn free_slot(&mut self, slot: u32, counts: bool) {
        self.busy &= !(1_u64.checked_shl(slot).unwrap_or(0));
        if let (true, Some(number)) = (counts, self.numbers.get_mut(slot as usize)) {
            *number = number.wrapping_add(1);
        }
    }

    /// Returns the arguments of SEQUENCE for a slot, up to the flag for caching the reply.
    pub(crate) fn sequence(&self, slot: u32) -> [u8; 28] {
        let mut bytes = [0; 28];
        let highest = 63_u32.saturating_sub(self.busy.leading_zeros());
        bytes[..16].copy_from_slice(&self.agreed.session);
        for (at, number) in [(16, self.number(slot)), (20, slot), (24, highest)] {
            bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    fn number(&self, slot: u32) -> u32 {
        self.numbers.get(slot as usize).copied().unwrap_or(0)
    }

    /// Parses the start of the reply to the request in `slot`, and frees the slot.
    ///
    /// # Errors
    /// The reply is malformed, or answers another request.
    pub(crate) fn read_reply(&mut self, results: &[u8], slot: u32) -> Result<Reply4, Malformed> {
        let mut reader = Reader::new(results);
        let status = reader.u32()?;
        reader.opaque(MOST_TAG_BYTES)?;
        if reader.u32()? == 0 {
            // The server refused the compound before its first operation.
            self.free_slot(slot, false);
            return match status {
                0 => Err(Malformed),
                DELAY => Ok(Reply4::Later { in_grace: false }),
                _ => Ok(Reply4::Done(status, results.len())),
            };
        }
        if reader.u32()? != SEQUENCE {
            return Err(Malformed);
        }
        let refused = reader.u32()?;
        if refused != 0 {
            if refused != status {
                return Err(Malformed);
            }
            self.free_slot(slot, refused == RETRY_UNCACHED);
            return Ok(match refused {
                DELAY | GRACE => Reply4::Later {
                    in_grace: refused == GRACE,
                },
                RETRY_UNCACHED => Reply4::Anew,
                _ if NO_SESSION.contains(&refused) => {
                    self.is_gone = true;
                    Reply4::NoSession
                }
                _ => Reply4::Done(status, reader.position()),
            });
        }
        let session = reader.bytes(16)?;
        let (number, answered) = (reader.u32()?, reader.u32()?);
        let (_highest, target, flags) = (reader.u32()?, reader.u32()?, reader.u32()?);
        if session != self.agreed.session || answered != slot || number != self.number(slot) {
            return Err(Malformed);
        }
        self.free_slot(slot, true);
        let granted = u32::try_from(self.numbers.len()).unwrap_or(MOST_SLOTS);
        self.limit = target.saturating_add(1).clamp(1, granted);
        self.is_gone |= flags & (EXPIRED_ALL_STATE_REVOKED | RESTART_RECLAIM_NEEDED) != 0;
        self.is_doubtful |= flags & (NOT_CALLED | STATE_REVOKED) != 0;
        Ok(match status {
            DELAY | GRACE => Reply4::Later {
                in_grace: status == GRACE,
            },
            _ => Reply4::Done(status, reader.position()),
        })
    }

    /// Records the state that the server returned for an open.
    pub(crate) fn opened(&mut self, file: FileHandle, stateid: Stateid, access: Access4, change: u64) {
        let state = self.opens.entry(file).or_insert(OpenState {
            stateid,
            lock: None,
            locked: Vec::new(),
            access,
            delegation: None,
            handles: 0,
            change,
        });
        if state.stateid.other != stateid.other {
            (state.stateid, state.lock) = (stateid, None);
        }
        state.change = change;
        state.stateid.version = state.stateid.version.max(stateid.version);
        state.access = state.access.with(access);
    }

    /// Records the state ID of a file that was reopened in another session. Its locks must still be
    /// reclaimed.
    pub(crate) fn reopened(&mut self, file: &FileHandle, stateid: Stateid) {
        if let Some(state) = self.opens.get_mut(file) {
            (state.stateid, state.lock) = (stateid, None);
        }
    }

    /// Records that a lock could not be reclaimed. Requests keep the old state ID, so that the server refuses them.
    pub(crate) fn lost_locks(&mut self, file: &FileHandle, old: Stateid) {
        if let Some(state) = self.opens.get_mut(file) {
            state.lock = Some(old);
        }
    }

    /// Counts a new handle of a file.
    pub(crate) fn add_handle(&mut self, file: &FileHandle) {
        if let Some(state) = self.opens.get_mut(file) {
            state.handles += 1;
        }
    }

    /// Removes a handle of a file. Returns the state to release if the handle was the last one.
    pub(crate) fn remove_handle(&mut self, file: &FileHandle) -> Option<Closing> {
        let state = self.opens.get_mut(file)?;
        state.handles = state.handles.saturating_sub(1);
        if state.handles > 0 {
            return None;
        }
        let state = self.opens.remove(file)?;
        self.delegated -= usize::from(state.delegation.is_some());
        Some(Closing {
            stateid: state.stateid,
            locks: state.lock.filter(|_| !state.locked.is_empty()),
            delegation: state.delegation.map(|held| held.stateid),
        })
    }

    /// Records the state ID of a file's locks.
    pub(crate) fn locked(&mut self, file: &FileHandle, lock: Stateid) {
        if let Some(state) = self.opens.get_mut(file) {
            state.lock = Some(lock);
        }
    }

    /// Records a locked range, or an unlocked one if `ends`.
    pub(crate) fn note_range(&mut self, file: &FileHandle, range: Range<u64>, ends: bool) {
        let Some(state) = self.opens.get_mut(file) else {
            return;
        };
        let outside = |held: &Range<u64>| {
            let before = held.start..held.end.min(range.start);
            let behind = held.start.max(range.end)..held.end;
            [before, behind].into_iter().filter(|part| !part.is_empty())
        };
        state.locked = state.locked.iter().flat_map(outside).collect();
        if !ends {
            state.locked.push(range);
        }
    }

    /// Returns the state ID for reading and writing a file.
    pub(crate) fn stateid(&self, file: &FileHandle) -> Stateid {
        let state = self.opens.get(file);
        state.map_or(Stateid::ANONYMOUS, |state| state.lock.unwrap_or(state.stateid))
    }

    /// Records the change attribute after a change by this client. Returns the attribute before and after the change.
    /// The protocol does not report the attribute before the change, so the last value known to the client is
    /// returned. Linux's client makes the same assumption. Answers arrive in any order, so a value below the known one
    /// is ignored.
    pub(crate) fn changed(&mut self, file: &FileHandle, after: u64) -> (u64, u64) {
        match self.opens.get_mut(file) {
            Some(state) => {
                let before = state.change;
                state.change = before.max(after);
                (before, state.change)
            }
            None => (0, after),
        }
    }

    /// Records the change attribute that the server reported.
    pub(crate) fn seen(&mut self, file: &FileHandle, change: u64) {
        if let Some(state) = self.opens.get_mut(file) {
            state.change = change;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the locked ranges after `changes`: ranges that were locked (true) or unlocked (false).
    fn held(changes: &[(Range<u64>, bool)]) -> Vec<Range<u64>> {
        let mut state = State::new(Agreed4 {
            minor: 1,
            client_id: 1,
            slots: 1,
            ..Agreed4::default()
        });
        let file = FileHandle::of(&[1]).expect("short");
        state.opened(file, Stateid::ANONYMOUS, Access4::BOTH, 1);
        for (range, locks) in changes {
            state.note_range(&file, range.clone(), !locks);
        }
        let mut held = state.opens()[&file].locked.clone();
        held.sort_by_key(|range| range.start);
        held
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)] // The vector contains one range, not the range's elements.
    fn after_a_restart_exactly_the_ranges_still_locked_are_locked_again() {
        assert_eq!(held(&[(0..10, true), (20..30, true)]), [0..10, 20..30]);
        assert_eq!(held(&[(0..10, true), (5..30, true)]), [0..5, 5..30]);
        assert_eq!(held(&[(0..10, true), (0..10, true)]), [0..10]);
        assert_eq!(held(&[(0..10, true), (0..10, false)]), []);
        assert_eq!(held(&[(0..u64::MAX, true), (4..6, false)]), [0..4, 6..u64::MAX]);
        assert_eq!(
            held(&[(0..10, true), (20..30, true), (5..25, false)]),
            [0..5, 25..30]
        );
        assert_eq!(held(&[(0..10, true), (10..20, false)]), [0..10]);
    }
}
