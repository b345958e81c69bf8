//! Read delegations (RFC 8881, 10.2), which the server recalls before another client may change an open file.
//!
//! An open requests a delegation if the cache wants a lease (`Open::ask`). The client returns a delegation after the
//! last close of its file, or immediately after a recall. It does not reclaim delegations after a restart of the
//! server. A delegation that is recalled or no longer reliable is reported as a break.

use super::answers::Step;
use super::conversation::{Conversation, NO_CALL};
use super::results::Answer;
use super::running::{Running, Work};
use crate::status::{Status, Status4};
use crate::v4::{answer_call, Operation, Procedure4, Wish};
use crate::wire::{FileHandle, Message, Stateid};
use dyno_files::{Break, Caching, Grant, LeaseKey};
use dyno_measure::{Failure, Fault};

/// Upper bound on the unsent replies, in bytes. A server may send calls without reading the replies.
const MOST_ANSWER_BYTES: usize = 1 << 20;

impl Conversation {
    /// Returns whether an open may request a delegation.
    pub(super) fn may_hold(&self) -> bool {
        let agreed = self.four.as_ref().map(|state| state.agreed());
        self.options.delegations && agreed.is_some_and(|agreed| agreed.is_called)
    }

    /// Returns whether the client has any delegation.
    pub fn holds_any(&self) -> bool {
        self.four.as_ref().is_some_and(|state| state.delegated() > 0)
    }

    /// Executes the server's call in `record`, and stores the reply. Returns false if the record is not a
    /// call.
    ///
    /// # Errors
    /// The call violates the protocol, or too many replies wait to be sent.
    pub(super) fn take_call(&mut self, record: &[u8]) -> Result<bool, Failure> {
        let is_call = record.get(4..8) == Some(&[0; 4]);
        let Some(state) = self
            .four
            .as_mut()
            .filter(|state| is_call && state.agreed().is_called)
        else {
            return Ok(false);
        };
        if self.answers.len() > MOST_ANSWER_BYTES {
            return Err(Fault::MalformedMessage.into());
        }
        let is_opening = self
            .outstanding
            .iter()
            .any(|request| request.procedure == Procedure4::Open as usize);
        let breaks = &mut self.breaks;
        let (back, agreed, opens) = state.callee();
        let mut recall = |file: &FileHandle, stateid: Option<Stateid>| {
            let held = opens.get_mut(file).and_then(|open| open.delegation.as_mut());
            let held = held.filter(|held| stateid.is_none_or(|stateid| stateid.other == held.stateid.other));
            if let Some(held) = held {
                if !std::mem::replace(&mut held.is_recalled, true) {
                    breaks.push_back(lost(held.key, true));
                }
                return Status::Ok as u32;
            }
            // The recall may arrive before the answer to the open that grants the delegation. The server must then try
            // again.
            match is_opening {
                true => Status::JukeBox as u32,
                false => Status4::BadStateid as u32,
            }
        };
        let is_refused = answer_call(record, (back, agreed), &mut self.answers, |wish| match wish {
            Wish::Recall(stateid, file) => recall(&file, Some(stateid)),
            Wish::RecallAllBut(kept) => {
                self.all_but = Some(kept as usize);
                Status::Ok as u32
            }
        })?;
        self.counts.calls += 1;
        self.counts.refused_calls += u64::from(is_refused);
        if let Some(kept) = self.all_but.take() {
            self.give_up_all_but(kept, true);
        }
        Ok(true)
    }

    /// Reports breaks of all but `kept` delegations. `acknowledge`: the delegations must be returned; otherwise, they
    /// are already lost.
    pub(super) fn give_up_all_but(&mut self, kept: usize, acknowledge: bool) {
        let Some(state) = &mut self.four else { return };
        let surplus = state.delegated().saturating_sub(kept);
        for held in state.delegations().filter(|held| !held.is_recalled).take(surplus) {
            held.is_recalled = true;
            self.breaks.push_back(lost(held.key, acknowledge));
        }
    }

    /// Gives up all delegations if the server may have forgotten the client, for example after this machine
    /// was suspended.
    pub(super) fn doubt_delegations(&mut self, now_ns: u64) {
        if self
            .four
            .as_ref()
            .is_some_and(|state| now_ns >= state.expiry_ns())
        {
            self.give_up_all_but(0, true);
        }
    }

    /// Drops all delegations, because the new session has none.
    pub(super) fn lose_delegations(&mut self) {
        self.give_up_all_but(0, false);
        if let Some(state) = &mut self.four {
            state.drop_delegations();
        }
    }

    pub fn next_break(&mut self) -> Option<Break> {
        let broken = self.breaks.pop_front();
        self.counts.breaks += u64::from(broken.is_some());
        broken
    }

    /// Moves the replies to the server's calls, as records, to `out`.
    pub fn take_answers(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.answers);
    }

    pub(super) fn owes_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Records the delegation that the server granted with an open. Returns whether the lease `key` has a
    /// delegation now.
    pub(super) fn delegated(
        &mut self,
        file: FileHandle,
        (stateid, is_recalled): (Stateid, bool),
        key: LeaseKey,
    ) -> bool {
        let Some(state) = &mut self.four else { return false };
        self.counts.delegations += 1;
        match state.hold(&file, stateid, key) {
            Ok(()) => {}
            // A second delegation of the same file is useless.
            Err(is_same) => {
                if !is_same {
                    self.ask4(NO_CALL, &Operation::GiveBack { file, stateid });
                }
                return false;
            }
        }
        if is_recalled {
            self.give_up_all_but(0, true);
        }
        true
    }

    /// Queues DELEGRETURN of a delegation after the cache has given up its lease.
    pub fn give_back(&mut self, grant: Grant) {
        let Grant::Lease(key) = grant else { return };
        let given = self.four.as_mut().and_then(|state| state.give_up(key));
        if let Some((file, stateid)) = given {
            self.ask4(NO_CALL, &Operation::GiveBack { file, stateid });
        }
    }

    /// Queues DELEGRETURN of all delegations.
    pub(super) fn give_back_all(&mut self) {
        let Some(state) = &mut self.four else { return };
        let keys: Vec<LeaseKey> = state.delegations().map(|held| held.key).collect();
        for key in keys {
            self.give_back(Grant::Lease(key));
        }
    }

    /// Handles the answer to DELEGRETURN of a closed file: the delegation is gone regardless of the status.
    pub(super) fn gave_back(&mut self, call: &mut Running, place: usize, answer: &Answer<'_>) -> Step {
        let Work::GiveBack { remove, .. } = call.work.clone() else {
            return Step::Ends(Err(Fault::OtherIo.into()));
        };
        debug_assert!(!answer.is(Status::JukeBox), "is asked again");
        self.remove_closed(call, place, remove)
    }

    /// Queues FREE_STATEID if the answered request was a DELEGRETURN and the server had revoked the
    /// delegation, even if no call waited for the answer.
    pub(super) fn free_revoked(&mut self, procedure: usize, status: u32, request: &Message) {
        let is_revoked = status == Status4::DelegationRevoked as u32;
        if procedure != Procedure4::GiveBack as usize || !is_revoked {
            return;
        }
        if let Some(stateid) = Stateid::last_of(request.bytes()) {
            self.ask4(NO_CALL, &Operation::Free { stateid });
        }
    }
}

fn lost(key: LeaseKey, acknowledge: bool) -> Break {
    Break {
        grant: Grant::Lease(key),
        to: Caching::NONE,
        acknowledge,
    }
}
