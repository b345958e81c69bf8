//! What a client keeps of its session (RFC 8881, 2.10) and of the files that it has open (9.1): data and rules, no
//! bytes but those of SEQUENCE.
//!
//! All opens of a client have one owner, so that the server keeps one state for each file, whichever way it was opened;
//! it is closed with the last of its handles, as Linux's client does it.

use crate::wire::{FileHandle, Malformed, Reader, Writer};
use dyno_files::LeaseKey;
use std::collections::HashMap;
use std::ops::Range;

/// The most slots that are used: as many as NFSv3's requests under way at once.
pub(crate) const MOST_SLOTS: u32 = 64;
/// `OP_SEQUENCE`.
pub(crate) const SEQUENCE: u32 = 53;
/// Longer than any tag of a reply; ours are empty.
const MOST_TAG_BYTES: usize = 1024;
/// The lease has ended, or the server wants everything reclaimed, as it says behind SEQUENCE.
const EXPIRED_ALL_STATE_REVOKED: u32 = 0x8;
const RESTART_RECLAIM_NEEDED: u32 = 0x100;
/// The server can't call the client (`CB_PATH_DOWN`, `CB_PATH_DOWN_SESSION`, `BACKCHANNEL_FAULT`).
const NOT_CALLED: u32 = 0x601;
/// It has taken something away (`ADMIN_STATE_REVOKED`, `RECALLABLE_STATE_REVOKED`).
const STATE_REVOKED: u32 = 0x60;
/// A server that says less would have us do nothing but renew it.
const LEAST_LEASE_S: u32 = 6;
/// Replies that are kept by the server are no longer than this.
const KEPT_REPLY_BYTES: u32 = 2048;

// Answers to SEQUENCE that concern the session, not the call (RFC 8881, 15.1).
const DELAY: u32 = 10_008;
const GRACE: u32 = 10_013;
const RETRY_UNCACHED: u32 = 10_068;
/// The session is not known, or not in a state to go on: another has to be made.
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

/// The server's name for a state, without the number of its versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stateid {
    pub(crate) version: u32,
    pub(crate) other: [u8; 12],
}

impl Stateid {
    /// Of nobody: for a SETATTR of a file that is not open.
    pub(crate) const ANONYMOUS: Self = Self {
        version: 0,
        other: [0; 12],
    };

    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let version = reader.u32()?;
        let other = reader.bytes(12)?.try_into().map_err(|_| Malformed)?;
        Ok(Self { version, other })
    }

    /// Reads the one that a message ends with.
    pub(crate) fn last_of(message: &[u8]) -> Option<Self> {
        let begin = message.len().checked_sub(16)?;
        Self::parse(&mut Reader::new(&message[begin..])).ok()
    }

    /// Returns its bytes in a request. With the version 0 it means the server's newest (RFC 8881, 8.2.2).
    pub(crate) fn bytes(&self, version: u32) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&version.to_be_bytes());
        bytes[4..].copy_from_slice(&self.other);
        bytes
    }
}

/// No delegation is wanted, which saves the server from asking for it back.
const WANT_NO_DELEGATION: u32 = 0x0400;
const WANT_READ_DELEGATION: u32 = 0x0100;

/// For what a file is opened.
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

    /// Appends it, with nobody kept out, and whether a delegation for reading is wanted.
    pub(super) fn write(self, wants: bool, writer: &mut Writer<'_>) {
        let wish = if wants {
            WANT_READ_DELEGATION
        } else {
            WANT_NO_DELEGATION
        };
        writer.u32(self.0 | wish).u32(0);
    }
}

/// What a client has agreed on with a server, from which a `State` is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed4 {
    /// The minor version that is spoken.
    pub minor: u32,
    /// The server's number for the client.
    pub client_id: u64,
    /// Its name for the session.
    pub session: [u8; 16],
    /// So many requests may be under way.
    pub slots: u32,
    /// The longest reply that it keeps.
    pub kept_reply_bytes: u32,
    /// After so long without a request it forgets the client.
    pub lease_s: u32,
    /// It calls the client over the session's connection, and so may delegate files.
    pub is_called: bool,
}

/// A file that is delegated for reading: nobody else changes it before the server has called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) stateid: Stateid,
    /// As whoever keeps the file calls it.
    pub(crate) key: LeaseKey,
    /// Whoever keeps the file was told that it ends.
    pub(crate) is_recalled: bool,
}

/// A file that is open.
#[derive(Debug, Clone)]
pub(crate) struct OpenState {
    pub(crate) stateid: Stateid,
    /// Of the byte ranges that are locked, once one was.
    pub(crate) lock: Option<Stateid>,
    /// Those ranges: from an offset to an end, `u64::MAX` for whatever is beyond.
    pub(crate) locked: Vec<Range<u64>>,
    pub(crate) access: Access4,
    pub(crate) delegation: Option<Held>,
    handles: u32,
    /// The change attribute behind our own last change.
    change: u64,
}

/// What is to be closed with the last handle of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Closing {
    pub(crate) stateid: Stateid,
    /// To be given back before, where any range is still locked.
    pub(crate) locks: Option<Stateid>,
    /// To be given back afterwards.
    pub(crate) delegation: Option<Stateid>,
}

/// What the beginning of a reply says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply4 {
    /// The compound has come to that status; the results behind SEQUENCE begin there.
    Done(u32, usize),
    /// The server wants to be asked again later.
    Later,
    /// It has carried the request out and has not kept the reply: it is to be asked anew.
    Anew,
    /// It does not know the session.
    NoSession,
}

/// The slot of a back channel: the number of its last call, and what was answered; nothing while it is carried out.
#[derive(Debug, Default)]
pub(crate) struct Back {
    pub(super) number: u32,
    pub(super) answer: Vec<u8>,
}

/// The state of one session.
#[derive(Debug)]
pub struct State {
    agreed: Agreed4,
    /// The number of the next request of each slot.
    numbers: Vec<u32>,
    /// A bit for each slot: a request without its answer has it.
    busy: u64,
    /// So many slots may be used, as the server has said last.
    limit: u32,
    opens: HashMap<FileHandle, OpenState>,
    /// Another session has to be made.
    pub(crate) is_gone: bool,
    /// The server has said that it can't call the client, or has revoked what it had delegated.
    pub(crate) is_doubtful: bool,
    /// How many files are delegated.
    delegated: usize,
    back: Back,
    /// When the server has last heard of the client.
    heard_ns: u64,
}

impl State {
    /// Of a new session.
    #[must_use]
    pub fn new(agreed: Agreed4) -> Self {
        let slots = agreed.slots.clamp(1, MOST_SLOTS);
        Self {
            agreed,
            numbers: vec![1; slots as usize],
            busy: 0,
            limit: slots,
            opens: HashMap::new(),
            is_gone: false,
            is_doubtful: false,
            delegated: 0,
            back: Back::default(),
            heard_ns: 0,
        }
    }

    /// Notes for how long the server remembers the client.
    pub(crate) fn set_lease(&mut self, lease_s: u32) {
        self.agreed.lease_s = lease_s.max(LEAST_LEASE_S);
    }

    /// Takes over what the last session had open; what was delegated was so by that session alone.
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

    /// The most requests that may be under way now.
    pub(crate) fn limit(&self) -> usize {
        self.limit as usize
    }

    /// Whether the server shall keep the replies to requests that must not be carried out twice.
    pub(crate) fn keeps_replies(&self) -> bool {
        self.agreed.kept_reply_bytes >= KEPT_REPLY_BYTES
    }

    /// Returns when the server has to hear of the client again: after two thirds of its lease, as from Linux's.
    pub(crate) fn renewal_ns(&self) -> u64 {
        const NS_PER_S: u64 = 1_000_000_000;
        let lease_ns = u64::from(self.agreed.lease_s) * NS_PER_S;
        self.heard_ns.saturating_add(lease_ns / 3 * 2)
    }

    /// Returns when the server may have forgotten the client.
    pub(crate) fn expiry_ns(&self) -> u64 {
        const NS_PER_S: u64 = 1_000_000_000;
        self.heard_ns
            .saturating_add(u64::from(self.agreed.lease_s) * NS_PER_S)
    }

    /// Returns what is needed to answer a call of the server's.
    pub(crate) fn callee(&mut self) -> (&mut Back, &Agreed4, &mut HashMap<FileHandle, OpenState>) {
        (&mut self.back, &self.agreed, &mut self.opens)
    }

    /// The server can't call the client: it delegates nothing that could be trusted.
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

    /// Notes that an open file is delegated. Refused where it is already, with whether that is by the same name.
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

    /// Forgets a delegation, which is given back: of which file, and the server's name for it.
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

    /// Gives a slot back. `counts`: its number was used by the server.
    pub(crate) fn free_slot(&mut self, slot: u32, counts: bool) {
        self.busy &= !(1_u64.checked_shl(slot).unwrap_or(0));
        if let (true, Some(number)) = (counts, self.numbers.get_mut(slot as usize)) {
            *number = number.wrapping_add(1);
        }
    }

    /// Returns the arguments of SEQUENCE for a slot, up to whether the reply is to be kept.
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

    /// Reads the beginning of a reply to the request in `slot`, of `operations` operations, and gives the slot back.
    ///
    /// # Errors
    /// Where it breaks the format, or is the answer to another request.
    pub(crate) fn read_reply(&mut self, results: &[u8], slot: u32) -> Result<Reply4, Malformed> {
        let mut reader = Reader::new(results);
        let status = reader.u32()?;
        reader.opaque(MOST_TAG_BYTES)?;
        if reader.u32()? == 0 {
            // Refused before its first operation.
            self.free_slot(slot, false);
            return match status {
                0 => Err(Malformed),
                DELAY => Ok(Reply4::Later),
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
                DELAY | GRACE => Reply4::Later,
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
            DELAY | GRACE => Reply4::Later,
            _ => Reply4::Done(status, reader.position()),
        })
    }

    /// Notes what the server has answered to an open.
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

    /// Notes the name that a file has in another session, which knows nothing of its locks yet.
    pub(crate) fn reopened(&mut self, file: &FileHandle, stateid: Stateid) {
        if let Some(state) = self.opens.get_mut(file) {
            (state.stateid, state.lock) = (stateid, None);
        }
    }

    /// Notes that a lock of a file could not be had again: its old name stays, by which the server refuses everything.
    pub(crate) fn lost_locks(&mut self, file: &FileHandle, old: Stateid) {
        if let Some(state) = self.opens.get_mut(file) {
            state.lock = Some(old);
        }
    }

    /// Counts a handle of a file that was opened.
    pub(crate) fn add_handle(&mut self, file: &FileHandle) {
        if let Some(state) = self.opens.get_mut(file) {
            state.handles += 1;
        }
    }

    /// Counts a handle less. Returns what is to be closed, where it was the last.
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

    /// Notes another name of the locks of a file.
    pub(crate) fn locked(&mut self, file: &FileHandle, lock: Stateid) {
        if let Some(state) = self.opens.get_mut(file) {
            state.lock = Some(lock);
        }
    }

    /// Notes a range of a file that was locked, or is no more where `ends`.
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

    /// Returns the name by which a file is read and written.
    pub(crate) fn stateid(&self, file: &FileHandle) -> Stateid {
        let state = self.opens.get(file);
        state.map_or(Stateid::ANONYMOUS, |state| state.lock.unwrap_or(state.stateid))
    }

    /// The change attribute behind a change of our own came. Returns that from which the change went out, as far as this
    /// client knows: the protocol does not tell it, and Linux's client takes it for so, too. Answers come in any order:
    /// one that is older than what is known changes nothing.
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

    /// The server has said what a file is, at an open or when it was asked.
    pub(crate) fn seen(&mut self, file: &FileHandle, change: u64) {
        if let Some(state) = self.opens.get_mut(file) {
            state.change = change;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges that are locked after each of these were locked (true) and unlocked.
    fn held(changes: &[(Range<u64>, bool)]) -> Vec<Range<u64>> {
        let mut state = State::new(Agreed4 {
            minor: 1,
            client_id: 1,
            session: [0; 16],
            slots: 1,
            kept_reply_bytes: 0,
            lease_s: 0,
            is_called: false,
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
    #[allow(clippy::single_range_in_vec_init)] // One range is meant, not what lies in it.
    fn what_is_locked_again_after_a_restart_is_what_was_locked_and_not_given_back() {
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
