//! Read delegations (RFC 8881, 10.2): a server's promise to call before it lets anybody else change a file that is open.
//!
//! An open asks for one where whoever keeps files wants a lease (`Open::ask`). A delegation lives no longer than the file is
//! open: with its last handle it is given back, at once when it is recalled, and it is not reclaimed from a server that was
//! started again. What the server recalls, or what cannot be trusted any more, becomes a break.

use super::answers::Step;
use super::conversation::{Conversation, NO_CALL};
use super::results::Answer;
use super::running::{Running, Work};
use crate::status::{Status, Status4};
use crate::v4::{answer_call, Operation, Procedure4, Stateid, Wish};
use crate::wire::{FileHandle, Message};
use dyno_files::{Break, Caching, Grant, LeaseKey};
use dyno_measure::{Failure, Fault};

/// Answers to the server's calls that may wait to be sent: the server takes none while it goes on calling.
const MOST_ANSWER_BYTES: usize = 1 << 20;

impl Conversation {
    /// Whether an open may ask for a delegation.
    pub(super) fn may_hold(&self) -> bool {
        let agreed = self.four.as_ref().map(|state| state.agreed());
        self.options.delegations && agreed.is_some_and(|agreed| agreed.is_called)
    }

    /// Whether the server has promised to call before somebody changes a file.
    #[must_use]
    pub fn holds_any(&self) -> bool {
        self.four.as_ref().is_some_and(|state| state.delegated() > 0)
    }

    /// Takes a record that is a call of the server's, and keeps the answer to be sent. False where it is none.
    ///
    /// # Errors
    /// Where it breaks the protocol.
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
            // It may be one that an open brings whose answer has not come yet: the server is to ask again.
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

    /// Breaks what is delegated, up to so many: to be given back where `acknowledge`, or because it is lost.
    pub(super) fn give_up_all_but(&mut self, kept: usize, acknowledge: bool) {
        let Some(state) = &mut self.four else { return };
        let surplus = state.delegated().saturating_sub(kept);
        for held in state.delegations().filter(|held| !held.is_recalled).take(surplus) {
            held.is_recalled = true;
            self.breaks.push_back(lost(held.key, acknowledge));
        }
    }

    /// What is delegated cannot be trusted any more where the server may have forgotten the client by now, as after a long
    /// sleep of this machine.
    pub(super) fn doubt_delegations(&mut self, now_ns: u64) {
        if self
            .four
            .as_ref()
            .is_some_and(|state| now_ns >= state.expiry_ns())
        {
            self.give_up_all_but(0, true);
        }
    }

    /// The session is another one: nothing is delegated in it.
    pub(super) fn lose_delegations(&mut self) {
        self.give_up_all_but(0, false);
        if let Some(state) = &mut self.four {
            state.drop_delegations();
        }
    }

    /// Returns the next break, for whoever keeps files.
    pub fn next_break(&mut self) -> Option<Break> {
        let broken = self.breaks.pop_front();
        self.counts.breaks += u64::from(broken.is_some());
        broken
    }

    /// Takes the answers to the server's calls, as records.
    pub fn take_answers(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.answers);
    }

    pub(super) fn owes_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Notes what an open has brought. Whether it is held by that name from now on.
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
            // A second one of the same file is of no use.
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

    /// Whoever keeps files has given a lease up.
    pub fn give_back(&mut self, grant: Grant) {
        let Grant::Lease(key) = grant else { return };
        let given = self.four.as_mut().and_then(|state| state.give_up(key));
        if let Some((file, stateid)) = given {
            self.ask4(NO_CALL, &Operation::GiveBack { file, stateid });
        }
    }

    /// Gives everything back that is delegated.
    pub(super) fn give_back_all(&mut self) {
        let Some(state) = &mut self.four else { return };
        let keys: Vec<LeaseKey> = state.delegations().map(|held| held.key).collect();
        for key in keys {
            self.give_back(Grant::Lease(key));
        }
    }

    /// The answer to DELEGRETURN of a file that was closed: whatever it says, nothing is delegated any more.
    pub(super) fn gave_back(&mut self, call: &mut Running, place: usize, answer: &Answer<'_>) -> Step {
        let Work::GiveBack { remove, .. } = call.work.clone() else {
            return Step::Ends(Err(Fault::OtherIo.into()));
        };
        debug_assert!(!answer.is(Status::JukeBox), "is asked again");
        self.remove_closed(call, place, remove)
    }

    /// A delegation was revoked before it was given back: its name is to be freed, whoever has waited for the answer.
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
