//! File calls as SMB2 requests.
//!
//! | call | requests | as |
//! |---|---|---|
//! | `Open` | CREATE | |
//! | `Close` | CLOSE | |
//! | `Read` | READ | |
//! | `Write` | WRITE | |
//! | `Flush` | FLUSH | |
//! | `Lock`, `Unlock` | LOCK | exclusive, failing immediately |
//! | `QueryHandle`, `QueryTimes` | QUERY_INFO | FileNetworkOpenInformation |
//! | `SetEnd` | SET_INFO | FileEndOfFileInformation |
//! | `SetTimes` | SET_INFO | FileBasicInformation, the last write time |
//! | `Find` in an open, leased directory | QUERY_DIRECTORY + QUERY_DIRECTORY, then QUERY_DIRECTORY until its end | through that handle |
//! | `QueryPath` | CREATE + QUERY_INFO + CLOSE | one compound |
//! | `QuerySpace` | CREATE + QUERY_INFO + CLOSE | one compound: FileFsFullSizeInformation |
//! | `Find` | CREATE + QUERY_DIRECTORY + QUERY_DIRECTORY, then QUERY_DIRECTORY until its end, then CLOSE | a compound, then single requests; 64 KiB each |
//! | `Rename` | CREATE + SET_INFO + CLOSE | one compound, FileRenameInformation without replacing |
//! | `Delete`, `RemoveDirectory` | CREATE + SET_INFO + CLOSE | one compound, FileDispositionInformation |
//! | `MakeDirectory` | CREATE + CLOSE | one compound |
//!
//! The parts of a compound are related: each uses the file of the previous part. The first part that fails
//! determines the result of the call. If the CREATE succeeded but the compound's CLOSE did not (a server fails
//! every part after a failed one), a separate CLOSE follows. `Find` takes at least two round trips, because a
//! listing may always be longer than the first response; Windows clients do the same.
//!
//! If this session has a lease on a directory, requests that change the directory contain the key of that lease
//! (ParentLeaseKey, MS-SMB2 2.2.13.2.10), so that the server does not break it.

use super::durable::{Durability, Durable};
use super::handles::{level_of, possible, state_of, Handles};
use super::options::NegotiatedSession;
use crate::wire::{
    access, create_options, filetime_now, oplock, CreateRequest, Dialect, FileId, LeaseRequest, Message,
};
use dyno_files::{Access, Ask, Caching, Call, Disposition, Handle, LeaseKey, Open, Stability};
use dyno_measure::{Failure, Fault};

/// Maximum size of the response to one QUERY_DIRECTORY: the size that one credit covers.
pub const LISTING_BYTES: u32 = 65536;

const DISPOSITION_OPEN: u32 = 1;
const DISPOSITION_CREATE: u32 = 2;
/// Upper bound on the length of a name, in UTF-16 code units: the length in bytes must fit a 16-bit field. No
/// server accepts names this long.
const MAX_PATH_UNITS: usize = 16_384;

/// Bit in the lease keys of opens that need a lease context only to send a ParentLeaseKey. Callers' keys count from 1,
/// and keys of durable handles have the next higher bit set.
const NAMING_LEASE: u128 = 1 << 126;

/// Kind of a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// CREATE of a file that stays open.
    Open {
        lease: Option<LeaseKey>,
        /// Whether a missing file is a valid result.
        may_be_absent: bool,
    },
    Close(Handle),
    /// READ of this number of bytes.
    Read(u32),
    /// WRITE of this number of bytes.
    Write(u32),
    /// One request whose response has no data.
    Plain,
    /// A compound whose responses have no data for the caller. The value is the lease key of its CREATE, if the CREATE
    /// has a ParentLeaseKey.
    Change(Option<LeaseKey>),
    /// QUERY_INFO for sizes and attributes of an open file.
    HandleInfo,
    /// QUERY_INFO for sizes and attributes, by path.
    PathInfo,
    Space,
    /// A listing. `leased`: whether it uses the handle of a leased directory, which stays open.
    Find {
        leased: Option<FileId>,
    },
}

impl Kind {
    /// Returns whether a missing path is a valid result.
    pub fn may_be_absent(self) -> bool {
        matches!(
            self,
            Self::Open {
                may_be_absent: true,
                ..
            } | Self::PathInfo
                | Self::Find { .. }
        )
    }

    /// Returns whether the file that the requests use stays open after the call.
    pub fn keeps_file(self) -> bool {
        matches!(self, Self::Find { leased: Some(_) })
    }
}

/// Writes the requests of a call; see the table at the top of this file.
pub struct Writer<'a> {
    pub message: &'a mut Message,
    pub handles: &'a mut Handles,
    pub agreed: &'a NegotiatedSession,
    pub base: &'a str,
    /// State of the durable handles.
    pub durability: &'a mut Durability,
    /// Counter for lease keys of opens that need a lease context only to send a ParentLeaseKey.
    pub next_own_lease: &'a mut u128,
    /// After an open: state for reopening the file, if the server keeps it.
    pub durable: Option<Box<Durable>>,
}

impl Writer<'_> {
    /// Writes the requests of `call`.
    ///
    /// # Errors
    /// The handle does not exist, or a name can't be encoded.
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
                // Before SMB 2.1, the write-through flag is reserved (MS-SMB2 2.2.21).
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
                let leased = self.handles.leased_directory(directory).map(|(file, _)| file);
                if leased.is_none() {
                    let options = create_options::DIRECTORY;
                    self.open_path(directory, access::LIST, DISPOSITION_OPEN, options)?;
                }
                let (file, anew) = (leased.unwrap_or(SAME), leased.is_some());
                self.message.query_directory(file, pattern, LISTING_BYTES, anew);
                self.message.query_directory(SAME, pattern, LISTING_BYTES, false);
                return Ok(Kind::Find { leased });
            }
            Call::Rename { from, to } => {
                check_name(to)?;
                let kind = self.open_to_change(from, access::DELETE, DISPOSITION_OPEN, 0)?;
                self.message.rename(SAME, self.base, to);
                kind
            }
            Call::Delete { path } => self.delete(path, create_options::NO_DIRECTORY)?,
            Call::RemoveDirectory { path } => self.delete(path, create_options::DIRECTORY)?,
            Call::MakeDirectory { path } => {
                self.open_to_change(path, access::LIST, DISPOSITION_CREATE, create_options::DIRECTORY)?
            }
            _ => return Err(Fault::OtherIo.into()),
        };
        self.message.close(SAME);
        Ok(kind)
    }

    fn delete(&mut self, path: &str, options: u32) -> Result<Kind, Failure> {
        let kind = self.open_to_change(path, access::DELETE, DISPOSITION_OPEN, options)?;
        self.message.set_disposition(FileId::OF_THE_REQUEST_BEFORE);
        Ok(kind)
    }

    fn open(&mut self, open: &Open<'_>) -> Result<Kind, Failure> {
        check_name(open.path)?;
        let ask = possible(open.ask, self.agreed.leases);
        let ask = match ask {
            Ask::Nothing => ask,
            _ if open.directory && !self.agreed.directory_leases => Ask::Nothing,
            _ => ask,
        };
        let (ask, keeps) = self.durability.ask(open, ask, self.agreed.leases);
        let parent = self.lease_of_parent(open.path).filter(|_| may_change(open));
        let lease = match ask {
            Ask::Lease(key, caching) => Some((key, caching)),
            Ask::Nothing if parent.is_some() => Some((self.own_lease(), Caching::NONE)),
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
        let mut request = CreateRequest {
            oplock: match ask {
                Ask::Oplock(caching) => level_of(caching),
                _ => oplock::NONE,
            },
            lease: lease.map(|(key, caching)| LeaseRequest {
                key: key.0,
                state: state_of(caching),
                second_form: self.agreed.dialect >= Dialect::Smb300,
                parent,
            }),
            ..request(
                self.base,
                open.path,
                wanted,
                disposition_code(open.disposition),
                options,
            )
        };
        self.durable = keeps.then(|| self.durability.keep(&mut request, self.agreed));
        self.message.create(&request);
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

    /// Returns the server's ID of a file. Fails with `SessionLost` if the file is not open, is being closed, or was
    /// lost with an earlier session.
    fn file(&mut self, handle: Handle) -> Result<FileId, Failure> {
        match self.handles.get(handle) {
            Some(open) if !open.closing => Ok(open.file),
            _ => Err(Fault::SessionLost.into()),
        }
    }

    /// Opens a path to change it. If the session has a lease on the parent directory, the CREATE contains that lease's
    /// key.
    fn open_to_change(
        &mut self,
        path: &str,
        access: u32,
        disposition: u32,
        options: u32,
    ) -> Result<Kind, Failure> {
        let Some(parent) = self.lease_of_parent(path) else {
            self.open_path(path, access, disposition, options)?;
            return Ok(Kind::Change(None));
        };
        check_name(path)?;
        let key = self.own_lease();
        self.message.create(&CreateRequest {
            lease: Some(LeaseRequest {
                key: key.0,
                state: state_of(Caching::NONE),
                second_form: true,
                parent: Some(parent),
            }),
            ..request(self.base, path, access, disposition, options)
        });
        Ok(Kind::Change(Some(key)))
    }

    /// Returns the key of the session's lease on the parent directory of `path`.
    fn lease_of_parent(&self, path: &str) -> Option<u128> {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        self.handles.leased_directory(directory).map(|(_, key)| key.0)
    }

    /// Returns a new lease key for an open that needs a lease context only to send a ParentLeaseKey.
    fn own_lease(&mut self) -> LeaseKey {
        *self.next_own_lease += 1;
        LeaseKey(NAMING_LEASE | *self.next_own_lease)
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
        durable: None,
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

/// Returns whether an open, or the use of its handle, may change the directory.
fn may_change(open: &Open<'_>) -> bool {
    let only_looks = matches!(open.access, Access::Attributes | Access::Read);
    !only_looks || open.disposition != Disposition::Open || open.delete_on_close
}

/// Rejects a name that is too long for the protocol. That is an error of this client, not of the server.
fn check_name(name: &str) -> Result<(), Failure> {
    if name.len() < MAX_PATH_UNITS {
        Ok(())
    } else {
        Err(Fault::OtherIo.into())
    }
}
