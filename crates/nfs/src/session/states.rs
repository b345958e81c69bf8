//! State that only NFSv4.1 has: opens and locks that the server tracks.
//!
//! | call | requests |
//! |---|---|
//! | `Open` of a file that must exist | OPEN; to truncate it, SETATTR of the size |
//! | `Open` of a file that must not exist | OPEN EXCLUSIVE4_1; SETATTR if the server stores its verifier in the times |
//! | `Open` of a file that may exist | OPEN UNCHECKED; to truncate it, with size 0 |
//! | `Open` of a directory, for attributes or to delete | as with NFSv3 |
//! | `Close` | for the last handle of a file: CLOSE, with LOCKU of locked ranges; DELEGRETURN of a delegation |
//! | `Lock`, `Unlock` | LOCK, LOCKU |
//!
//! Everything else is as with NFSv3 (`calls.rs`), with each request as a compound (`v4/operation.rs`).

use super::answers::{absent, Step};
use super::calls::{FILE_MODE, NO_DATA};
use super::conversation::{Conversation, NO_CALL};
use super::names;
use super::options::TransferSizes;
use super::results::Answer;
use super::running::{Opening, Running, Stage, Work};
use crate::status::{Status, Status4};
use crate::v4::{self, Access4, Agreed4, Closing, How4, OpenState, Operation, State};
use crate::wire::{create_verifier, FileHandle, SetAttributes, SetTime};
use dyno_files::{Access, Disposition, Reply};
use dyno_measure::{Failure, Fault};
use std::collections::HashMap;
use std::rc::Rc;

impl Conversation {
    /// Marks an NFSv4.1 session as established.
    pub fn establish4(&mut self, root: FileHandle, agreed: TransferSizes, state: State) {
        self.establish(root, agreed);
        self.four = Some(state);
    }

    /// Returns whether the server no longer knows the session. If so, nothing can be sent before a new session exists.
    pub fn needs_session(&self) -> bool {
        self.four.as_ref().is_some_and(|state| state.is_gone)
    }

    /// Returns the negotiated properties other than sizes.
    pub fn agreed4(&self) -> Option<Agreed4> {
        self.four.as_ref().map(|state| *state.agreed())
    }

    /// Returns the open files, and the server's lease time.
    pub(super) fn opens_and_lease(&self) -> Option<(HashMap<FileHandle, OpenState>, u32)> {
        let state = self.four.as_ref()?;
        Some((state.opens().clone(), state.agreed().lease_s))
    }

    /// Returns the time at which the lease must be renewed, so that the server does not forget the client.
    pub fn renewal_ns(&self) -> Option<u64> {
        self.four.as_ref().map(State::renewal_ns)
    }

    /// Queues a request that renews the lease.
    pub fn renew(&mut self) {
        self.ask4(NO_CALL, &Operation::Renew);
    }

    /// Returns whether an open requires OPEN, and therefore state on the server.
    pub(super) fn opens_with_state(&self, opening: &Opening) -> bool {
        let only_looks = matches!(opening.access, Access::Attributes | Access::Delete);
        let is_kept = only_looks && opening.disposition == Disposition::Open;
        self.four.is_some() && !opening.directory && !is_kept
    }

    pub(super) fn open4(&mut self, call: &mut Running, place: usize, opening: &Opening) {
        let (above, name) = names::split(&opening.path);
        let name = name.as_bytes();
        let Some(at) = self.directory(call, place, above) else {
            return;
        };
        let set = SetAttributes::mode(FILE_MODE);
        let how = match opening.disposition {
            Disposition::Open | Disposition::Overwrite => How4::Open,
            Disposition::OpenIf => How4::Unchecked(set),
            Disposition::OverwriteIf => How4::Unchecked(SetAttributes {
                bytes: Some(0),
                ..set
            }),
            Disposition::Create if self.no_exclusive => How4::Guarded(set),
            Disposition::Create => How4::Exclusive(create_verifier(self.client, call.id.0), set),
        };
        call.stage = Stage::Open {
            exclusive: matches!(how, How4::Exclusive(..)),
        };
        let open = Operation::Open {
            at,
            name,
            access: access4(opening.access),
            wants: opening.lease.is_some() && self.may_hold(),
            how,
            owner: self.client,
        };
        self.ask4(place, &open);
    }

    /// Handles the answer to OPEN.
    pub(super) fn opened4(
        &mut self,
        call: &mut Running,
        place: usize,
        answer: &Answer<'_>,
        exclusive: bool,
    ) -> Result<Step, Failure> {
        let Work::Open(opening) = call.work.clone() else {
            return Err(Fault::OtherIo.into());
        };
        let has_no_exclusive = answer.is(Status::NotSupp)
            || answer.is(Status::Inval)
            || answer.is_one_of(&[Status4::AttributesNotSupported]);
        if exclusive && has_no_exclusive {
            self.no_exclusive = true;
            return Ok(self.restart(call, place));
        }
        if !answer.is(Status::Ok) {
            return Ok(Step::Ends(absent(call, answer)));
        }
        let opened = v4::parse_open(answer.results, opening.lease.is_some() && self.may_hold())?;
        call.file = Some(opened.file);
        call.has_state = true;
        call.created = match opening.disposition {
            Disposition::Create => true,
            Disposition::OpenIf | Disposition::OverwriteIf => opened.changed_directory,
            _ => false,
        };
        if let Some(state) = &mut self.four {
            let change = opened.info.change;
            state.opened(opened.file, opened.stateid, access4(opening.access), change);
        }
        if let (Some(delegation), Some(key)) = (opened.delegation, opening.lease) {
            call.is_held = self.delegated(opened.file, delegation, key);
        }
        if exclusive && !opened.is_furnished {
            let set = SetAttributes {
                mode: Some(FILE_MODE),
                accessed: SetTime::Server,
                modified: SetTime::Server,
                ..SetAttributes::default()
            };
            self.furnish(call, place, set);
            return Ok(Step::Goes);
        }
        if opening.disposition == Disposition::Overwrite && opened.info.bytes > 0 {
            self.empty(call, place);
            return Ok(Step::Goes);
        }
        Ok(Step::Ends(self.opened(call, &opened.info)))
    }

    /// Handles the answer to CLOSE.
    pub(super) fn closed4(
        &mut self,
        call: &mut Running,
        place: usize,
        answer: &Answer<'_>,
    ) -> Result<Step, Failure> {
        let Work::Close {
            file,
            closing,
            remove,
        } = call.work.clone()
        else {
            return Err(Fault::OtherIo.into());
        };
        // The file no longer exists, was reopened meanwhile, or was closed by the first of two transmissions.
        let is_closed = answer.is(Status::Stale)
            || answer.is_one_of(&[Status4::OldStateid])
            || (answer.repeated
                && answer.is_one_of(&[Status4::BadStateid, Status4::StaleStateid, Status4::Expired]));
        if answer.is(Status::Ok) {
            v4::parse_close(answer.results, closing.locks.is_some())?;
        } else if !is_closed && closing.locks.is_some() {
            // The server has lost the locks or can't release them in one range, and did not execute CLOSE:
            // repeat CLOSE without LOCKU.
            let closing = Closing {
                locks: None,
                ..closing
            };
            call.work = Work::Close {
                file,
                closing,
                remove,
            };
            return Ok(self.start(call, place, NO_DATA).map_or(Step::Goes, Step::Ends));
        } else if !is_closed {
            return Ok(Step::Ends(Err(answer.failure())));
        }
        if let Some(stateid) = closing.delegation {
            call.work = Work::GiveBack {
                file,
                stateid,
                remove,
            };
            return Ok(self.start(call, place, NO_DATA).map_or(Step::Goes, Step::Ends));
        }
        Ok(self.remove_closed(call, place, remove))
    }

    /// Queues REMOVE of a closed file that is to be deleted on close. Without a path, ends the call.
    pub(super) fn remove_closed(&mut self, call: &mut Running, place: usize, path: Option<Rc<str>>) -> Step {
        let Some(path) = path else {
            return Step::Ends(Ok(Reply::Done));
        };
        call.work = Work::Remove {
            path,
            directory: false,
        };
        self.start(call, place, NO_DATA).map_or(Step::Goes, Step::Ends)
    }

    /// Queues LOCK, or LOCKU if `ends`.
    pub(super) fn lock4(&mut self, place: usize, file: FileHandle, offset: u64, bytes: u64, ends: bool) {
        let lock = match ends {
            true => Operation::Unlock { file, offset, bytes },
            false => Operation::Lock {
                file,
                offset,
                bytes,
                owner: self.client,
            },
        };
        self.ask4(place, &lock);
    }

    /// Handles the answer to LOCK or LOCKU.
    pub(super) fn locked4(&mut self, call: &Running, answer: &Answer<'_>) -> Result<Step, Failure> {
        let Work::Lock {
            file,
            offset,
            bytes,
            ends,
        } = call.work
        else {
            return Err(Fault::OtherIo.into());
        };
        let lock = v4::parse_lock(answer.results, ends)?;
        if let Some(state) = &mut self.four {
            state.locked(&file, lock);
            state.note_range(&file, offset..offset.saturating_add(bytes), ends);
        }
        Ok(Step::Ends(Ok(Reply::Done)))
    }
}

fn access4(access: Access) -> Access4 {
    match access {
        Access::Attributes | Access::Read | Access::Delete => Access4::READ,
        Access::Write => Access4::WRITE,
        Access::ReadWrite => Access4::BOTH,
    }
}
