//! File calls as SMB2 requests.
//!
//! | call | requests | as |
//! |---|---|---|
//! | `Open` | CREATE | |
//! | `Close` | CLOSE | |
//! | `Read` | READ | |
//! | `Write` | WRITE | |
//! | `Flush` | FLUSH | |
//! | `Lock`, `Unlock` | LOCK | exclusive, failing at once |
//! | `QueryHandle`, `QueryTimes` | QUERY_INFO | FileNetworkOpenInformation |
//! | `SetEnd` | SET_INFO | FileEndOfFileInformation |
//! | `SetTimes` | SET_INFO | FileBasicInformation, the time of the last write |
//! | `QueryPath` | CREATE + QUERY_INFO + CLOSE | one compound |
//! | `QuerySpace` | CREATE + QUERY_INFO + CLOSE | one compound: FileFsFullSizeInformation |
//! | `Find` | CREATE + QUERY_DIRECTORY + QUERY_DIRECTORY, then QUERY_DIRECTORY until there is no more, then CLOSE | a compound, then one by one; 64 KiB each |
//! | `Rename` | CREATE + SET_INFO + CLOSE | one compound, FileRenameInformation without replacing |
//! | `Delete`, `RemoveDirectory` | CREATE + SET_INFO + CLOSE | one compound, FileDispositionInformation |
//! | `MakeDirectory` | CREATE + CLOSE | one compound |
//!
//! The parts of a compound are related: each goes on with the file of the one before. The first part that fails decides
//! what the call comes to. Where the CREATE succeeded and the compound's CLOSE did not (a server fails every part after
//! a failed one), a CLOSE of its own follows. `Find` is two round trips at least, because a listing may always be longer
//! than what came: that is how Windows clients do it too.

use super::handles::{level_of, possible, state_of, Handles};
use super::options::NegotiatedSession;
use crate::wire::{
    access, create_options, filetime_now, oplock, CreateRequest, Dialect, FileId, LeaseRequest, Message,
};
use dyno_files::{Access, Ask, Call, Disposition, Handle, LeaseKey, Open, Stability};
use dyno_measure::{Failure, Fault};

/// Bytes of a listing that are asked for at once: what one credit pays for.
pub const LISTING_BYTES: u32 = 65536;

const DISPOSITION_OPEN: u32 = 1;
const DISPOSITION_CREATE: u32 = 2;
/// The longest name that fits a 16-bit length in bytes, in UTF-16 units; no server takes as much.
const MAX_PATH_UNITS: usize = 16_384;

/// What a call that was sent is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// CREATE of a file that stays open.
    Open {
        /// The lease that was asked for.
        lease: Option<LeaseKey>,
        /// That it is not there is an answer.
        may_be_absent: bool,
    },
    /// CLOSE.
    Close(Handle),
    /// READ of so many bytes.
    Read(u32),
    /// WRITE of so many bytes.
    Write(u32),
    /// One request that brings nothing back, or a compound whose parts all only have to succeed.
    Plain,
    /// QUERY_INFO for sizes and attributes of an open file.
    HandleInfo,
    /// The same by path.
    PathInfo,
    /// QUERY_INFO for space.
    Space,
    /// A listing.
    Find,
}

impl Kind {
    /// Whether a path that is not there is an answer.
    #[must_use]
    pub fn may_be_absent(self) -> bool {
        matches!(
            self,
            Self::Open {
                may_be_absent: true,
                ..
            } | Self::PathInfo
                | Self::Find
        )
    }
}

/// Writes the requests of a call; see the module's table.
pub struct Writer<'a> {
    /// Into this.
    pub message: &'a mut Message,
    /// The files that are open.
    pub handles: &'a mut Handles,
    /// What the session can do.
    pub agreed: &'a NegotiatedSession,
    /// Before all paths.
    pub base: &'a str,
}

impl Writer<'_> {
    /// Writes `call`.
    ///
    /// # Errors
    /// Where there is no such handle, or a name that can't be spelt.
    pub fn write(&mut self, call: &Call<'_>) -> Result<Kind, Failure> {
        match *call {
            Call::Open(open) => self.open(&open),
            Call::Close { handle } => self.close(handle),
            Call::Read {
                handle,
                offset,
                bytes,
            } => {
                let file = self.file(handle)?;
                self.message.read(file, offset, bytes);
                Ok(Kind::Read(bytes))
            }
            Call::Write {
                handle,
                offset,
                data,
                stability,
            } => {
                let file = self.file(handle)?;
                let bytes = u32::try_from(data.len()).map_err(|_| Fault::OtherIo)?;
                // The flag is reserved before SMB 2.1 (MS-SMB2 2.2.21).
                let through = stability > Stability::Unstable && self.agreed.dialect > Dialect::Smb202;
                self.message.write(file, offset, bytes, through);
                Ok(Kind::Write(bytes))
            }
            Call::Flush { handle } => self.on_file(handle, |message, file| message.flush(file)),
            Call::Lock {
                handle,
                offset,
                bytes,
            } => self.on_file(handle, |message, file| message.lock(file, offset, bytes, false)),
            Call::Unlock {
                handle,
                offset,
                bytes,
            } => self.on_file(handle, |message, file| message.lock(file, offset, bytes, true)),
            Call::SetEnd { handle, bytes } => {
                self.on_file(handle, |message, file| message.set_end(file, bytes))
            }
            Call::SetTimes { handle } => self.on_file(handle, |message, file| {
                message.set_write_time(file, filetime_now())
            }),
            Call::QueryHandle { handle } | Call::QueryTimes { handle } => {
                self.on_file(handle, Message::query_file_info)?;
                Ok(Kind::HandleInfo)
            }
            Call::QueryPath { .. }
            | Call::QuerySpace { .. }
            | Call::Find { .. }
            | Call::Rename { .. }
            | Call::Delete { .. }
            | Call::MakeDirectory { .. }
            | Call::RemoveDirectory { .. } => self.compound(call),
        }
    }

    fn compound(&mut self, call: &Call<'_>) -> Result<Kind, Failure> {
        const SAME: FileId = FileId::OF_THE_REQUEST_BEFORE;
        let kind = match *call {
            Call::QueryPath { path } => {
                self.open_path(path, access::ATTRIBUTES, DISPOSITION_OPEN, 0)?;
                self.message.query_file_info(SAME);
                Kind::PathInfo
            }
            Call::QuerySpace { directory } => {
                self.open_path(
                    directory,
                    access::ATTRIBUTES,
                    DISPOSITION_OPEN,
                    create_options::DIRECTORY,
                )?;
                self.message.query_space(SAME);
                Kind::Space
            }
            Call::Find { directory, pattern } => {
                check_name(pattern)?;
                self.open_path(
                    directory,
                    access::LIST,
                    DISPOSITION_OPEN,
                    create_options::DIRECTORY,
                )?;
                self.message.query_directory(SAME, pattern, LISTING_BYTES);
                self.message.query_directory(SAME, pattern, LISTING_BYTES);
                return Ok(Kind::Find);
            }
            Call::Rename { from, to } => {
                check_name(to)?;
                self.open_path(from, access::DELETE, DISPOSITION_OPEN, 0)?;
                self.message.rename(SAME, self.base, to);
                Kind::Plain
            }
            Call::Delete { path } => self.delete(path, create_options::NO_DIRECTORY)?,
            Call::RemoveDirectory { path } => self.delete(path, create_options::DIRECTORY)?,
            Call::MakeDirectory { path } => {
                self.open_path(path, access::LIST, DISPOSITION_CREATE, create_options::DIRECTORY)?;
                Kind::Plain
            }
            _ => return Err(Fault::OtherIo.into()),
        };
        self.message.close(SAME);
        Ok(kind)
    }

    fn delete(&mut self, path: &str, options: u32) -> Result<Kind, Failure> {
        self.open_path(path, access::DELETE, DISPOSITION_OPEN, options)?;
        self.message.set_disposition(FileId::OF_THE_REQUEST_BEFORE);
        Ok(Kind::Plain)
    }

    fn open(&mut self, open: &Open<'_>) -> Result<Kind, Failure> {
        check_name(open.path)?;
        let ask = possible(open.ask, self.agreed.leases);
        let lease = match ask {
            Ask::Lease(key, caching) => Some((key, caching)),
            _ => None,
        };
        let mut wanted = match open.access {
            Access::Attributes => access::ATTRIBUTES,
            Access::Read => access::READ,
            Access::ReadWrite => access::READ_WRITE,
            Access::Write => access::WRITE,
            Access::Delete => access::DELETE,
        };
        let mut options = if open.directory {
            create_options::DIRECTORY
        } else {
            create_options::NO_DIRECTORY
        };
        if open.delete_on_close {
            wanted |= access::DELETE;
            options |= create_options::DELETE_ON_CLOSE;
        }
        self.message.create(&CreateRequest {
            oplock: match ask {
                Ask::Oplock(caching) => level_of(caching),
                _ => oplock::NONE,
            },
            lease: lease.map(|(key, caching)| LeaseRequest {
                key: key.0,
                state: state_of(caching),
                second_form: self.agreed.dialect >= Dialect::Smb300,
            }),
            ..request(
                self.base,
                open.path,
                wanted,
                disposition_code(open.disposition),
                options,
            )
        });
        Ok(Kind::Open {
            lease: lease.map(|(key, _)| key),
            may_be_absent: matches!(open.disposition, Disposition::Open | Disposition::Overwrite),
        })
    }

    fn close(&mut self, handle: Handle) -> Result<Kind, Failure> {
        let file = self.file(handle)?;
        if let Some(open) = self.handles.get(handle) {
            open.closing = true;
        }
        self.message.close(file);
        Ok(Kind::Close(handle))
    }

    fn on_file(&mut self, handle: Handle, write: impl FnOnce(&mut Message, FileId)) -> Result<Kind, Failure> {
        let file = self.file(handle)?;
        write(self.message, file);
        Ok(Kind::Plain)
    }

    /// The server's name for a file; one that is not open, or is being closed, was lost with an earlier session.
    fn file(&mut self, handle: Handle) -> Result<FileId, Failure> {
        match self.handles.get(handle) {
            Some(open) if !open.closing => Ok(open.file),
            _ => Err(Fault::SessionLost.into()),
        }
    }

    fn open_path(&mut self, path: &str, access: u32, disposition: u32, options: u32) -> Result<(), Failure> {
        check_name(path)?;
        self.message
            .create(&request(self.base, path, access, disposition, options));
        Ok(())
    }
}

fn request<'a>(
    base: &'a str,
    path: &'a str,
    access: u32,
    disposition: u32,
    options: u32,
) -> CreateRequest<'a> {
    CreateRequest {
        base,
        path,
        access,
        disposition,
        options,
        oplock: oplock::NONE,
        lease: None,
    }
}

fn disposition_code(disposition: Disposition) -> u32 {
    match disposition {
        Disposition::Open => DISPOSITION_OPEN,
        Disposition::Create => DISPOSITION_CREATE,
        Disposition::OpenIf => 3,
        Disposition::Overwrite => 4,
        Disposition::OverwriteIf => 5,
    }
}

/// A name that is too long for the wire is our own fault, and no server's.
fn check_name(name: &str) -> Result<(), Failure> {
    if name.len() < MAX_PATH_UNITS {
        Ok(())
    } else {
        Err(Fault::OtherIo.into())
    }
}
