//! Handles the answer to a running call: ends the call, or sends its next request.

use super::calls::{FILE_MODE, NO_DATA};
use super::conversation::{Conversation, Data, Ended};
use super::results::{Answer, Changed};
use super::running::{NewName, Opening, Running, Stage, Work};
use crate::status::{Status, Status4};
use crate::wire::{FileHandle, Message, Payload, Request, SetAttributes, SetTime};
use dyno_files::{
    matches_pattern, Attributes, Disposition, Info, PageRun, Piggyback, Reply, Stability, Stored,
};
use dyno_measure::{Failure, Fault};

/// Maximum number of times that a call is restarted because its earlier look-ups became invalid.
const MOST_RESTARTS: u32 = 3;
/// Upper bound on the number of entries in a listing, larger than any directory of a load.
const MOST_ENTRIES: u32 = 100_000_000;

/// State of a call after an answer.
pub(super) enum Step {
    /// The call waits for another answer.
    Goes,
    Ends(Result<Reply, Failure>),
    Read(Result<Reply, Failure>, Data),
}

use Step::{Ends, Goes};

impl Conversation {
    /// Processes the answer to a request of the call in `place`. Returns the call's result if the call has ended.
    pub(super) fn answered(
        &mut self,
        place: usize,
        repeated: bool,
        status: u32,
        results: &[u8],
        begin: usize,
        request: &Message,
    ) -> Result<Option<Ended>, Failure> {
        let Some(mut call) = self.running.get_mut(place).and_then(Option::take) else {
            return Ok(None);
        };
        let answer = Answer {
            is_four: self.four.is_some(),
            status,
            results,
            begin,
            repeated,
            request,
        };
        Ok(match self.step(&mut call, place, &answer)? {
            Goes => {
                self.running[place] = Some(call);
                None
            }
            Ends(result) => Some(self.ended(place, &call, result, Data::None)),
            Step::Read(result, data) => Some(self.ended(place, &call, result, data)),
        })
    }

    fn step(&mut self, call: &mut Running, place: usize, answer: &Answer<'_>) -> Result<Step, Failure> {
        if answer.is_stale() && self.forget_way(call) {
            return Ok(self.restart(call, place));
        }
        match call.stage.clone() {
            Stage::Walk(path) => self.walked(call, place, answer, &path),
            Stage::Look => self.looked(call, place, answer),
            Stage::Create { exclusive } => self.created(call, place, answer, exclusive),
            Stage::Open { exclusive } => self.opened4(call, place, answer, exclusive),
            Stage::Furnish => self.furnished(call, place, answer),
            Stage::Ask => {
                if !answer.is(Status::Ok) {
                    return Ok(Ends(Err(answer.failure())));
                }
                let info = answer.info()?;
                Ok(Ends(match call.work {
                    Work::Open(_) => self.opened(call, &info),
                    _ => Ok(Reply::Info(info)),
                }))
            }
            Stage::Main => self.done(call, place, answer),
        }
    }

    /// Forgets the directories on the path of a call, because they may have been replaced. Returns false if the call
    /// uses an open file, or has been restarted too often.
    fn forget_way(&mut self, call: &mut Running) -> bool {
        let (one, other) = match &call.work {
            Work::Open(opening) => (&opening.path, None),
            Work::QueryPath { path } | Work::Remove { path, .. } | Work::MakeDirectory { path } => {
                (path, None)
            }
            Work::Space { directory } | Work::Find { directory, .. } => (directory, None),
            Work::Rename { from, to, .. } => (from, Some(to)),
            _ => return false,
        };
        if call.restarts >= MOST_RESTARTS {
            return false;
        }
        for path in [Some(one), other].into_iter().flatten() {
            self.names.forget(path.split('/').next().unwrap_or_default());
        }
        true
    }

    pub(super) fn restart(&mut self, call: &mut Running, place: usize) -> Step {
        call.restarts += 1;
        self.start(call, place, NO_DATA).map_or(Goes, Ends)
    }

    fn walked(
        &mut self,
        call: &mut Running,
        place: usize,
        answer: &Answer<'_>,
        path: &str,
    ) -> Result<Step, Failure> {
        if !answer.is(Status::Ok) {
            return Ok(Ends(absent(call, answer)));
        }
        let (file, _) = answer.found()?;
        self.names.learn(path, file, self.now_ns);
        if matches!(call.work, Work::Find { .. }) && call.cookie != 0 {
            // The directory was forgotten in the middle of its listing.
            call.restarts += 1;
            if call.restarts > MOST_RESTARTS {
                return Ok(Ends(Err(Fault::SessionLost.into())));
            }
        }
        Ok(self.start(call, place, NO_DATA).map_or(Goes, Ends))
    }

    fn looked(&mut self, call: &mut Running, place: usize, answer: &Answer<'_>) -> Result<Step, Failure> {
        let is_there = answer.is(Status::Ok);
        match call.work.clone() {
            Work::Rename { from, to, new_name } => {
                let new_name = match (new_name, is_there) {
                    (NewName::Unknown, true) => NewName::Taken,
                    (NewName::Unknown, false) if answer.is(Status::NoEnt) => NewName::Free,
                    (_, true) => return Ok(Ends(Err(answer.failure_of(Status::Exist)))),
                    (_, false) => return Ok(Ends(Err(answer.failure()))),
                };
                call.work = Work::Rename { from, to, new_name };
                Ok(self.start(call, place, NO_DATA).map_or(Goes, Ends))
            }
            Work::Open(opening) if answer.is(Status::NoEnt) && makes(opening.disposition) => {
                self.create(call, place, &opening);
                Ok(Goes)
            }
            _ if !is_there => Ok(Ends(absent(call, answer))),
            Work::Find { .. } => Ok(Ends(Ok(Reply::Found { entries: 1 }))),
            work => {
                let (file, info) = answer.found()?;
                call.file = Some(file);
                match (&work, info) {
                    (Work::Open(opening), _) if empties(opening) => self.empty(call, place),
                    (Work::Open(_), Some(info)) => return Ok(Ends(self.opened(call, &info))),
                    (_, Some(info)) => return Ok(Ends(Ok(Reply::Info(info)))),
                    (_, None) => self.ask_attributes(call, place),
                }
                Ok(Goes)
            }
        }
    }

    pub(super) fn empty(&mut self, call: &mut Running, place: usize) {
        let set = SetAttributes {
            bytes: Some(0),
            ..SetAttributes::default()
        };
        self.furnish(call, place, set);
    }

    pub(super) fn furnish(&mut self, call: &mut Running, place: usize, set: SetAttributes) {
        if let Some(file) = call.file {
            call.stage = Stage::Furnish;
            let guard = None;
            self.ask(place, &Request::SetAttributes { file, set, guard });
        }
    }

    fn created(
        &mut self,
        call: &mut Running,
        place: usize,
        answer: &Answer<'_>,
        exclusive: bool,
    ) -> Result<Step, Failure> {
        let Work::Open(opening) = call.work.clone() else {
            return Err(Fault::OtherIo.into());
        };
        if exclusive && answer.is(Status::NotSupp) {
            self.no_exclusive = true;
            return Ok(self.restart(call, place));
        }
        // The file was created by another client, or by the first of two transmissions of this request.
        let ours_or_any = answer.repeated || opening.disposition != Disposition::Create;
        if answer.is(Status::Exist) && !exclusive && ours_or_any && call.restarts < MOST_RESTARTS {
            if opening.disposition == Disposition::Create {
                call.work = Work::Open(Opening {
                    disposition: Disposition::OpenIf,
                    ..opening
                });
            }
            return Ok(self.restart(call, place));
        }
        if !answer.is(Status::Ok) {
            return Ok(Ends(Err(answer.failure())));
        }
        let (file, info) = answer.made()?;
        (call.file, call.created) = (file, true);
        match (file, info) {
            (None, _) => {
                // Without a handle in the answer, a look-up is necessary (RFC 1813, 3.3.8).
                call.work = Work::Open(Opening {
                    disposition: Disposition::Open,
                    ..opening
                });
                return Ok(self.start(call, place, NO_DATA).map_or(Goes, Ends));
            }
            (Some(_), _) if exclusive => {
                // The server may have stored the verifier in the file's timestamps (RFC 1813, 3.3.8).
                let set = SetAttributes {
                    mode: Some(FILE_MODE),
                    accessed: SetTime::Server,
                    modified: SetTime::Server,
                    ..SetAttributes::default()
                };
                self.furnish(call, place, set);
            }
            (Some(_), Some(info)) => return Ok(Ends(self.opened(call, &info))),
            (Some(_), None) => self.ask_attributes(call, place),
        }
        Ok(Goes)
    }

    fn furnished(&mut self, call: &mut Running, place: usize, answer: &Answer<'_>) -> Result<Step, Failure> {
        if !answer.is(Status::Ok) {
            return Ok(Ends(Err(answer.failure())));
        }
        let changed = self.changed(call.file.as_ref(), answer.set()?);
        match changed {
            Some(attributes) => Ok(Ends(self.opened(call, &attributes.info))),
            None => {
                self.ask_attributes(call, place);
                Ok(Goes)
            }
        }
    }

    /// Processes the answer to the main request of a call.
    fn done(&mut self, call: &mut Running, place: usize, answer: &Answer<'_>) -> Result<Step, Failure> {
        if let Work::Find { directory, pattern } = call.work.clone() {
            return self.listed(call, place, answer, &directory, &pattern);
        }
        match call.work {
            Work::Close { .. } => return self.closed4(call, place, answer),
            Work::GiveBack { .. } => return Ok(self.gave_back(call, place, answer)),
            _ => {}
        }
        if self.names_old_locks(call, answer) {
            return Ok(self.restart(call, place));
        }
        if !answer.is(Status::Ok) {
            return Ok(Ends(self.not_done(call, answer)));
        }
        match call.work.clone() {
            Work::Read { file, offset, bytes } => {
                let step = self.was_read(call, answer, bytes)?;
                if let Goes = step {
                    let came = u32::try_from(call.joined.len()).unwrap_or(bytes);
                    self.read(place, file, offset.saturating_add(u64::from(came)), bytes - came);
                }
                Ok(step)
            }
            Work::Write { .. } => self.was_written(call, place, answer),
            Work::Flush { .. } => {
                let (verifier, attributes) = answer.committed()?;
                call.piggyback = Piggyback {
                    attributes,
                    stored: Some(Stored {
                        stability: Stability::File,
                        verifier,
                    }),
                };
                Ok(Ends(Ok(Reply::Done)))
            }
            Work::Query { file } => {
                let info = answer.info()?;
                if let Some(state) = &mut self.four {
                    state.seen(&file, info.change);
                }
                Ok(Ends(Ok(Reply::Info(info))))
            }
            Work::Set { file, .. } => {
                call.piggyback.attributes = self.changed(Some(&file), answer.set()?);
                Ok(Ends(Ok(Reply::Done)))
            }
            Work::Lock { .. } => self.locked4(call, answer),
            Work::Space { .. } => Ok(Ends(Ok(Reply::Space(answer.space()?)))),
            Work::MakeDirectory { path } => {
                if let (Some(file), _) = answer.made()? {
                    self.names.learn(&path, file, self.now_ns);
                }
                Ok(Ends(Ok(Reply::Done)))
            }
            Work::Remove { path, .. } => {
                self.names.forget(&path);
                Ok(Ends(Ok(Reply::Done)))
            }
            Work::Rename { from, .. } => {
                self.names.forget(&from);
                Ok(Ends(Ok(Reply::Done)))
            }
            _ => Err(Fault::OtherIo.into()),
        }
    }

    /// Returns whether a lock request was written before the server restarted, so that it contains the old
    /// lock state ID.
    fn names_old_locks(&self, call: &Running, answer: &Answer<'_>) -> bool {
        let is_lock = matches!(call.work, Work::Lock { .. });
        is_lock && answer.repeated && answer.is_one_of(&[Status4::BadStateid, Status4::StaleStateid])
    }

    /// Returns the result of a call whose main request was refused. If the request was sent twice, the server
    /// may have refused the second transmission because the first one succeeded.
    fn not_done(&mut self, call: &Running, answer: &Answer<'_>) -> Result<Reply, Failure> {
        let undone = match call.work {
            Work::MakeDirectory { .. } => answer.is(Status::Exist),
            Work::Remove { .. } | Work::Rename { .. } => answer.is(Status::NoEnt),
            _ => false,
        };
        if undone && answer.repeated {
            return Ok(Reply::Done);
        }
        Err(answer.failure())
    }

    fn was_read(&mut self, call: &mut Running, answer: &Answer<'_>, bytes: u32) -> Result<Step, Failure> {
        let before = call.joined.len();
        let left = bytes - u32::try_from(before).unwrap_or(bytes);
        let asked = self.agreed.map_or(left, |agreed| left.min(agreed.max_read_bytes));
        let read = answer.read(asked)?;
        call.piggyback.attributes = read.info.map(|info| Attributes {
            info,
            change_before: None,
        });
        let came = read.data.len();
        let is_all = read.is_end || came == 0 || before + came == bytes as usize;
        if is_all && before == 0 {
            let data = Data::Received(answer.begin + read.data.start..answer.begin + read.data.end);
            let bytes = u32::try_from(came).unwrap_or(bytes);
            return Ok(Step::Read(Ok(Reply::Read { bytes }), data));
        }
        call.joined.extend_from_slice(&answer.results[read.data]);
        if !is_all {
            return Ok(Goes);
        }
        let bytes = u32::try_from(call.joined.len()).unwrap_or(bytes);
        let data = Data::Joined(std::mem::take(&mut call.joined));
        Ok(Step::Read(Ok(Reply::Read { bytes }), data))
    }

    fn was_written(
        &mut self,
        call: &mut Running,
        place: usize,
        answer: &Answer<'_>,
    ) -> Result<Step, Failure> {
        let Work::Write {
            file,
            offset,
            bytes,
            stability,
        } = call.work
        else {
            return Err(Fault::OtherIo.into());
        };
        let later_bytes = call.later.as_ref().map_or(0, PageRun::len);
        let left = bytes - call.written - u32::try_from(later_bytes).unwrap_or(bytes);
        let written = answer.written(left, stability)?;
        let now = Stored {
            stability: written.stability,
            verifier: written.verifier,
        };
        // If the server restarted in between, it may have lost the first part: the first verifier reveals
        // this at the next flush.
        let stored = call.stored.map_or(now, |first| Stored {
            stability: first.stability.min(now.stability),
            ..first
        });
        call.stored = Some(stored);
        let mut attributes = self.changed(Some(&file), written.changed);
        if let Some(attributes) = attributes.as_mut().filter(|_| call.written > 0) {
            attributes.change_before = None;
        }
        call.piggyback = Piggyback {
            attributes,
            stored: Some(stored),
        };
        call.written += written.bytes;
        if call.written == bytes {
            return Ok(Ends(Ok(Reply::Written { bytes })));
        }
        if written.bytes == 0 {
            return Ok(Ends(Ok(Reply::Written { bytes: call.written })));
        }
        let offset = offset.saturating_add(u64::from(call.written));
        if written.bytes == left {
            let later = call.later.take().unwrap_or_default();
            self.write(call, place, (file, offset, stability), Payload::Pages(&later));
            return Ok(Goes);
        }
        // In the request, only padding and, with NFSv4.1, further operations follow the data.
        let sent = answer.request.bytes();
        let end = sent.len() - answer.bytes_behind_data() - (left.wrapping_neg() % 4) as usize;
        let rest = (left - written.bytes) as usize;
        let pages = answer.request.pages();
        let pages = pages.map(|pages| pages.part(pages.len() - rest..pages.len()));
        let request = Request::Write {
            file,
            offset,
            data: match &pages {
                Some(pages) => Payload::Pages(pages),
                None => Payload::Whole(&sent[end - rest..end]),
            },
            stability,
        };
        self.ask(place, &request);
        Ok(Goes)
    }

    /// Returns the attributes of a file after a change by this client, with the change attribute before the change.
    /// The latter comes from the server or, with NFSv4.1, is the value last known to this client.
    fn changed(&mut self, file: Option<&FileHandle>, changed: Changed) -> Option<Attributes> {
        let info = match changed {
            Changed::Told(attributes) => return attributes,
            Changed::After(info) => info,
        };
        let (before, change) = match (&mut self.four, file) {
            (Some(state), Some(file)) => state.changed(file, info.change),
            _ => (0, info.change),
        };
        Some(Attributes {
            info: Info { change, ..info },
            change_before: (before != 0).then_some(before),
        })
    }

    fn listed(
        &mut self,
        call: &mut Running,
        place: usize,
        answer: &Answer<'_>,
        directory: &str,
        pattern: &str,
    ) -> Result<Step, Failure> {
        if call.plus && answer.is(Status::NotSupp) {
            self.no_plus = true;
            return Ok(self.restart(call, place));
        }
        if answer.is(Status::BadCookie) && call.restarts < MOST_RESTARTS {
            // The directory has changed so much that the server can't continue the listing (RFC 1813,
            // 3.3.16).
            return Ok(self.restart(call, place));
        }
        if !answer.is(Status::Ok) {
            return Ok(Ends(absent(call, answer)));
        }
        let mut listing = answer.listing(call.plus)?;
        call.verifier = listing.verifier();
        let mut any = false;
        let is_last = listing.each(|cookie, name| {
            any = true;
            call.cookie = cookie;
            let is_own = matches!(name, b"." | b"..");
            if !is_own && matches_pattern(pattern, name) {
                call.entries += 1;
            }
        })?;
        if is_last {
            let entries = call.entries;
            return Ok(Ends(Ok(Reply::Found { entries })));
        }
        if !any || call.entries > MOST_ENTRIES {
            // A part without entries, or too many entries: the listing might never end.
            return Err(Fault::MalformedMessage.into());
        }
        self.list(call, place, directory);
        Ok(Goes)
    }
}

/// Returns the result of a call whose request failed. For some calls, a path that does not exist is a valid
/// result.
pub(super) fn absent(call: &Running, answer: &Answer<'_>) -> Result<Reply, Failure> {
    let may_be_absent = match &call.work {
        Work::Open(opening) => matches!(opening.disposition, Disposition::Open | Disposition::Overwrite),
        Work::QueryPath { .. } | Work::Find { .. } => true,
        _ => false,
    };
    let is_absent = answer.is(Status::NoEnt) || answer.is(Status::NotDir);
    match (may_be_absent && is_absent, &call.work) {
        (true, Work::Find { .. }) => Ok(Reply::Found { entries: 0 }),
        (true, _) => Ok(Reply::NotThere),
        (false, _) => Err(answer.failure()),
    }
}

fn makes(disposition: Disposition) -> bool {
    matches!(disposition, Disposition::OpenIf | Disposition::OverwriteIf)
}

fn empties(opening: &Opening) -> bool {
    !opening.directory
        && matches!(
            opening.disposition,
            Disposition::Overwrite | Disposition::OverwriteIf
        )
}
