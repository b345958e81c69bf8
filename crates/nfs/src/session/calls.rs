//! File calls as NFSv3 requests; `states.rs` has the differences of NFSv4.1.
//!
//! | call | requests |
//! |---|---|
//! | `Open` of a file that must exist | LOOKUP; to truncate it, SETATTR of the size |
//! | `Open` of a file that must not exist | CREATE EXCLUSIVE, SETATTR of mode and times; for a directory MKDIR |
//! | `Open` of a file that may exist | LOOKUP; if it does not exist, CREATE GUARDED |
//! | `Close` | none; it ends immediately. REMOVE of a file to delete on close |
//! | `Read` | READ, repeated after a short read before the end of the file |
//! | `Write` | WRITE, repeated after a short write |
//! | `Flush` | COMMIT of the whole file |
//! | `Lock`, `Unlock` | none: granted by the client itself, as by a mount with `nolock`; no effect on others |
//! | `QueryHandle`, `QueryTimes` | GETATTR |
//! | `SetEnd`, `SetTimes` | SETATTR |
//! | `QueryPath` | LOOKUP |
//! | `QuerySpace` | FSSTAT |
//! | `Find` | READDIRPLUS or READDIR until the end; LOOKUP of a name without wildcards |
//! | `Rename` | LOOKUP of the new name, which must not exist; RENAME |
//! | `Delete`, `RemoveDirectory` | REMOVE; RMDIR |
//! | `MakeDirectory` | MKDIR |
//!
//! Calls by path begin with LOOKUP of each unknown directory on the path (`names.rs`); GETATTR follows answers without
//! attributes. ACCESS, which Linux's client sends once per file, is not sent, because the server checks each READ and
//! WRITE itself. A file that is removed while it is open is not renamed to `.nfs...`: later calls on it fail.

use super::conversation::{Conversation, Data, Ended};
use super::names;
use super::running::{NewName, OpenFile, Opening, Running, Stage, Work};
use crate::v4::{Closing, Operation};
use crate::wire::{create_verifier, FileHandle, How, Payload, Request, SetAttributes, SetTime};
use dyno_files::{
    Access, Ask, Caching, Call, CallId, Disposition, Handle, Info, Open, PageRun, Piggyback, Reply, Stability,
};
use dyno_measure::{Failure, Fault};
use std::rc::Rc;

/// Payload of a call that writes no data.
pub(super) const NO_DATA: Payload<'static> = Payload::Whole(&[]);
pub(super) const FILE_MODE: u32 = 0o644;
pub(super) const DIRECTORY_MODE: u32 = 0o755;
/// Upper bound on the length of a path (`PATH_MAX` of Linux); no server accepts longer ones.
const MAX_PATH_BYTES: usize = 4096;

/// State of a call that has just started.
enum Begun {
    Work(Work),
    Ended(Result<Reply, Failure>),
}

impl Conversation {
    /// Starts `call`: queues its first request, or ends it immediately.
    pub fn begin(&mut self, call: &Call<'_>, now_ns: u64) -> Result<CallId, Failure> {
        let begun = self.work(call);
        let data = match call {
            Call::Write { data, .. } => data,
            _ => &[][..],
        };
        self.begun(begun, Payload::Whole(data), now_ns)
    }

    /// Starts a write whose data is in pages.
    pub fn begin_write(
        &mut self,
        handle: Handle,
        offset: u64,
        pages: &PageRun,
        stability: Stability,
        now_ns: u64,
    ) -> Result<CallId, Failure> {
        let bytes = u32::try_from(pages.len()).map_err(|_| Fault::OtherIo)?;
        let work = self.file(handle).map(|open| {
            Begun::Work(Work::Write {
                file: open.file,
                offset,
                bytes,
                stability,
            })
        });
        self.begun(work, Payload::Pages(pages), now_ns)
    }

    fn begun(
        &mut self,
        begun: Result<Begun, Failure>,
        data: Payload<'_>,
        now_ns: u64,
    ) -> Result<CallId, Failure> {
        self.now_ns = now_ns;
        if self.agreed.is_none() {
            return Err(Fault::SessionLost.into());
        }
        let id = self.next_id();
        let result = match begun {
            Ok(Begun::Work(work)) => {
                let place = self.place();
                let mut running = Running::new(id, work);
                if let Some(result) = self.start(&mut running, place, data) {
                    let ended = self.ended(place, &running, result, Data::None);
                    self.ended.push_back(ended);
                } else {
                    self.running[place] = Some(running);
                }
                return Ok(id);
            }
            Ok(Begun::Ended(result)) => result,
            Err(failure) => Err(failure),
        };
        self.ended.push_back(Ended {
            id,
            result,
            data: Data::None,
            piggyback: Piggyback::default(),
        });
        Ok(id)
    }

    fn work(&mut self, call: &Call<'_>) -> Result<Begun, Failure> {
        Ok(Begun::Work(match *call {
            Call::Close { handle } => return self.close(handle),
            Call::Lock { handle, .. } | Call::Unlock { handle, .. } if !self.file(handle)?.has_state => {
                return Ok(Begun::Ended(Ok(Reply::Done)));
            }
            Call::Read { .. }
            | Call::Write { .. }
            | Call::Flush { .. }
            | Call::Lock { .. }
            | Call::Unlock { .. }
            | Call::QueryHandle { .. }
            | Call::QueryTimes { .. }
            | Call::SetEnd { .. }
            | Call::SetTimes { .. } => self.work_on_file(call)?,
            _ => work_by_path(call)?,
        }))
    }

    fn work_on_file(&self, call: &Call<'_>) -> Result<Work, Failure> {
        let set = |handle: Handle, set: SetAttributes| -> Result<Work, Failure> {
            let file = self.file(handle)?.file;
            Ok(Work::Set { file, set })
        };
        match *call {
            Call::Read {
                handle,
                offset,
                bytes,
            } => Ok(Work::Read {
                file: self.file(handle)?.file,
                offset,
                bytes,
            }),
            Call::Write {
                handle,
                offset,
                data,
                stability,
            } => Ok(Work::Write {
                file: self.file(handle)?.file,
                offset,
                bytes: u32::try_from(data.len()).map_err(|_| Fault::OtherIo)?,
                stability,
            }),
            Call::Flush { handle } => Ok(Work::Flush {
                file: self.file(handle)?.file,
            }),
            Call::Lock {
                handle,
                offset,
                bytes,
            }
            | Call::Unlock {
                handle,
                offset,
                bytes,
            } => Ok(Work::Lock {
                file: self.file(handle)?.file,
                offset,
                bytes,
                ends: matches!(call, Call::Unlock { .. }),
            }),
            Call::SetEnd { handle, bytes } => set(
                handle,
                SetAttributes {
                    bytes: Some(bytes),
                    ..SetAttributes::default()
                },
            ),
            Call::SetTimes { handle } => set(
                handle,
                SetAttributes {
                    accessed: SetTime::Server,
                    modified: SetTime::Server,
                    ..SetAttributes::default()
                },
            ),
            Call::QueryHandle { handle } | Call::QueryTimes { handle } => Ok(Work::Query {
                file: self.file(handle)?.file,
            }),
            _ => unreachable!("the other calls use paths, or end at once"),
        }
    }

    fn close(&mut self, handle: Handle) -> Result<Begun, Failure> {
        let OpenFile {
            file,
            remove,
            has_state,
        } = self.take_file(handle)?;
        let last = match &mut self.four {
            Some(state) if has_state => state.remove_handle(&file),
            _ => None,
        };
        if let Some(closing) = last {
            return Ok(Begun::Work(Work::Close {
                file,
                closing,
                remove,
            }));
        }
        Ok(match remove {
            Some(path) => Begun::Work(Work::Remove {
                path,
                directory: false,
            }),
            None => Begun::Ended(Ok(Reply::Done)),
        })
    }

    /// Queues the first request of a call, or the look-up of the next directory on its path; returns the
    /// result if the call has ended.
    pub(super) fn start(
        &mut self,
        call: &mut Running,
        place: usize,
        data: Payload<'_>,
    ) -> Option<Result<Reply, Failure>> {
        call.stage = Stage::Main;
        match call.work.clone() {
            Work::Read { file, offset, bytes } => self.read(place, file, offset, bytes),
            Work::Write {
                file,
                offset,
                stability,
                ..
            } => self.write(call, place, (file, offset, stability), data),
            Work::Flush { file } => self.ask(place, &Request::commit_of_all(file)),
            Work::Close { file, closing, .. } => {
                let Closing { stateid, locks, .. } = closing;
                self.ask4(place, &Operation::Close { file, stateid, locks });
            }
            Work::GiveBack { file, stateid, .. } => self.ask4(place, &Operation::GiveBack { file, stateid }),
            Work::Lock {
                file,
                offset,
                bytes,
                ends,
            } => self.lock4(place, file, offset, bytes, ends),
            Work::Query { file } => self.ask(place, &Request::GetAttributes { file }),
            Work::Set { file, set } => {
                let guard = None;
                self.ask(place, &Request::SetAttributes { file, set, guard });
            }
            Work::Open(opening) => self.start_open(call, place, &opening),
            Work::QueryPath { path } => {
                if path.is_empty() {
                    call.file = self.names.root();
                    self.ask_attributes(call, place);
                } else {
                    self.look(call, place, &path);
                }
            }
            Work::Space { directory } => {
                if let Some(root) = self.directory(call, place, &directory) {
                    self.ask(place, &Request::FsStat { root });
                }
            }
            Work::Find { directory, pattern } => self.start_find(call, place, &directory, &pattern),
            Work::Rename { from, to, new_name } => self.start_rename(call, place, &from, &to, new_name),
            Work::Remove { path, directory } => self.remove(call, place, &path, directory),
            Work::MakeDirectory { path } => {
                let (above, name) = names::split(&path);
                let (name, set) = (name.as_bytes(), SetAttributes::mode(DIRECTORY_MODE));
                if let Some(at) = self.directory(call, place, above) {
                    self.ask(place, &Request::MakeDirectory { at, name, set });
                }
            }
        }
        None
    }

    fn remove(&mut self, call: &mut Running, place: usize, path: &str, directory: bool) {
        let (above, name) = names::split(path);
        let name = name.as_bytes();
        if let Some(at) = self.directory(call, place, above) {
            let request = match directory {
                true => Request::RemoveDirectory { at, name },
                false => Request::Remove { at, name },
            };
            self.ask(place, &request);
        }
    }

    /// Queues READ, limited to the maximum read size.
    pub(super) fn read(&mut self, place: usize, file: FileHandle, offset: u64, bytes: u32) {
        let most = self.agreed.map_or(bytes, |agreed| agreed.max_read_bytes);
        let bytes = bytes.min(most);
        self.ask(place, &Request::Read { file, offset, bytes });
    }

    /// Queues WRITE, limited to the maximum write size; keeps the rest for the next request.
    pub(super) fn write(
        &mut self,
        call: &mut Running,
        place: usize,
        (file, offset, stability): (FileHandle, u64, Stability),
        data: Payload<'_>,
    ) {
        let request = |data| Request::Write {
            file,
            offset,
            data,
            stability,
        };
        let most = self
            .agreed
            .map_or(usize::MAX, |agreed| agreed.max_write_bytes as usize);
        if data.len() <= most {
            return self.ask(place, &request(data));
        }
        let pages = match data {
            Payload::Whole(data) => &PageRun::of(data),
            Payload::Pages(pages) => pages,
        };
        call.later = Some(pages.part(most..pages.len()));
        self.ask(place, &request(Payload::Pages(&pages.part(0..most))));
    }

    fn start_open(&mut self, call: &mut Running, place: usize, opening: &Opening) {
        if opening.path.is_empty() {
            call.file = self.names.root();
            return self.ask_attributes(call, place);
        }
        match opening.disposition {
            _ if self.opens_with_state(opening) => self.open4(call, place, opening),
            Disposition::Create => self.create(call, place, opening),
            _ => self.look(call, place, &opening.path),
        }
    }

    /// Queues LOOKUP of the last name of a path.
    fn look(&mut self, call: &mut Running, place: usize, path: &str) {
        let (above, name) = names::split(path);
        let name = name.as_bytes();
        if let Some(at) = self.directory(call, place, above) {
            call.stage = Stage::Look;
            self.ask(place, &Request::Lookup { at, name });
        }
    }

    /// Queues CREATE, or MKDIR for a directory. A file that must not exist is created exclusively, so that a
    /// retransmission is harmless.
    pub(super) fn create(&mut self, call: &mut Running, place: usize, opening: &Opening) {
        let (above, name) = names::split(&opening.path);
        let name = name.as_bytes();
        let Some(at) = self.directory(call, place, above) else {
            return;
        };
        if opening.directory {
            call.stage = Stage::Create { exclusive: false };
            let set = SetAttributes::mode(DIRECTORY_MODE);
            return self.ask(place, &Request::MakeDirectory { at, name, set });
        }
        let exclusive = (opening.disposition == Disposition::Create && !self.no_exclusive)
            .then(|| create_verifier(self.client, call.id.0));
        call.stage = Stage::Create {
            exclusive: exclusive.is_some(),
        };
        let how = match exclusive {
            Some(verifier) => How::Exclusive(verifier),
            None => How::Guarded(SetAttributes::mode(FILE_MODE)),
        };
        self.ask(place, &Request::Create { at, name, how });
    }

    /// Queues GETATTR of the file that a call has found.
    pub(super) fn ask_attributes(&mut self, call: &mut Running, place: usize) {
        if let Some(file) = call.file {
            call.stage = Stage::Ask;
            self.ask(place, &Request::GetAttributes { file });
        }
    }

    fn start_find(&mut self, call: &mut Running, place: usize, directory: &str, pattern: &str) {
        if names::is_plain(pattern) {
            if let Some(at) = self.directory(call, place, directory) {
                call.stage = Stage::Look;
                let name = pattern.as_bytes();
                self.ask(place, &Request::Lookup { at, name });
            }
            return;
        }
        (call.cookie, call.verifier, call.entries) = (0, 0, 0);
        self.list(call, place, directory);
    }

    /// Queues the next part of a listing.
    pub(super) fn list(&mut self, call: &mut Running, place: usize, path: &str) {
        let Some(directory) = self.directory(call, place, path) else {
            return;
        };
        call.stage = Stage::Main;
        call.plus = self.options.attributes_in_listings && !self.no_plus;
        let request = Request::List {
            directory,
            cookie: call.cookie,
            verifier: call.verifier,
            bytes: self.agreed.map_or(4096, |agreed| agreed.listing_bytes),
            plus: call.plus,
        };
        self.ask(place, &request);
    }

    fn start_rename(&mut self, call: &mut Running, place: usize, from: &str, to: &str, new_name: NewName) {
        match new_name {
            NewName::Unknown => return self.look(call, place, to),
            NewName::Taken => return self.look(call, place, from),
            NewName::Free => {}
        }
        let ((from_above, from), (to_above, to)) = (names::split(from), names::split(to));
        let Some(to_at) = self.directory(call, place, to_above) else {
            return;
        };
        let Some(from_at) = self.directory(call, place, from_above) else {
            return;
        };
        self.ask(
            place,
            &Request::Rename {
                from_at,
                from: from.as_bytes(),
                to_at,
                to: to.as_bytes(),
            },
        );
    }

    /// Returns the handle of a directory if it is known; otherwise queues LOOKUP of the first unknown
    /// component.
    pub(super) fn directory(&mut self, call: &mut Running, place: usize, path: &str) -> Option<FileHandle> {
        let (at, known) = self.names.nearest(path, self.now_ns)?;
        if known == path.len() {
            return Some(at);
        }
        let begin = if known == 0 { 0 } else { known + 1 };
        let end = path[begin..].find('/').map_or(path.len(), |part| begin + part);
        call.stage = Stage::Walk(path[..end].into());
        let name = &path.as_bytes()[begin..end];
        self.ask(place, &Request::Lookup { at, name });
        None
    }

    /// Ends an open with a handle, after checking that the file's type is the requested one.
    pub(super) fn opened(&mut self, call: &Running, info: &Info) -> Result<Reply, Failure> {
        let (Work::Open(opening), Some(file)) = (&call.work, call.file) else {
            return Err(Fault::OtherIo.into());
        };
        // An open for attributes accepts any type of file.
        let any_kind = opening.access == Access::Attributes && !opening.directory;
        if !any_kind && info.directory != opening.directory {
            return Err(Fault::ErrorStatus.into());
        }
        let remove = opening.delete_on_close.then(|| opening.path.clone());
        let has_state = call.has_state;
        if let (true, Some(state)) = (has_state, &mut self.four) {
            state.add_handle(&file);
        }
        let open = OpenFile {
            file,
            remove,
            has_state,
        };
        Ok(Reply::Opened {
            handle: self.add_file(open),
            granted: match call.is_held {
                true => Caching::READ_HANDLE,
                false => Caching::NONE,
            },
            created: call.created,
            info: *info,
        })
    }
}

fn work_by_path(call: &Call<'_>) -> Result<Work, Failure> {
    Ok(match *call {
        Call::Open(open) => Work::Open(opening(&open)?),
        Call::QueryPath { path } => Work::QueryPath { path: checked(path)? },
        Call::QuerySpace { directory } => Work::Space {
            directory: checked(directory)?,
        },
        Call::Find { directory, pattern } => Work::Find {
            directory: checked(directory)?,
            pattern: checked(pattern)?,
        },
        Call::Rename { from, to } => Work::Rename {
            from: checked(from)?,
            to: checked(to)?,
            new_name: NewName::Unknown,
        },
        Call::Delete { path } => Work::Remove {
            path: checked(path)?,
            directory: false,
        },
        Call::RemoveDirectory { path } => Work::Remove {
            path: checked(path)?,
            directory: true,
        },
        Call::MakeDirectory { path } => Work::MakeDirectory { path: checked(path)? },
        _ => unreachable!("the other calls are on open files"),
    })
}

fn opening(open: &Open<'_>) -> Result<Opening, Failure> {
    Ok(Opening {
        path: checked(open.path)?,
        access: open.access,
        disposition: open.disposition,
        directory: open.directory,
        delete_on_close: open.delete_on_close,
        lease: match open.ask {
            Ask::Lease(key, wanted) if wanted.read => Some(key),
            _ => None,
        },
    })
}

/// Rejects a path that is too long for the protocol. That is an error of this client, not of the server.
fn checked(path: &str) -> Result<Rc<str>, Failure> {
    if path.len() < MAX_PATH_BYTES {
        Ok(path.into())
    } else {
        Err(Fault::OtherIo.into())
    }
}
