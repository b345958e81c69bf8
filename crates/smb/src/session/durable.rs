//! Durable handles, which survive their connection: requests for them (MS-SMB2 3.2.4.3.5), the server's grants, and
//! the state for reopening files and repeating unanswered calls.
//!
//! A server keeps a durable handle only together with an oplock or lease that includes handle caching. If the
//! caller requests none, this session requests its own: a batch oplock, or a lease for read and handle
//! caching. Nothing is cached under it. `recovery.rs` reconnects.

use super::options::NegotiatedSession;
use crate::wire::{CreateRequest, Dialect, DurableRequest, FileId, LeaseRequest};
use dyno_files::{Access, Ask, Caching, Call, Handle, KeptHandles, LeaseKey, Open, Stability};

/// Bit in the keys of leases that the session itself requests; callers' keys count from 1.
const OWN_LEASE: u128 = 1 << 127;

/// State of a session's durable handles over all its connections.
#[derive(Debug, Default)]
pub struct Durability {
    /// Whether opens request durable handles.
    pub wanted: bool,
    /// Whether calls are kept until they are answered, because they may have to be sent again.
    pub keeps_calls: bool,
    /// GUID of the client. It makes the create GUIDs of opens differ between clients.
    pub client_guid: u128,
    /// Channel sequence of new requests (MS-SMB2 2.2.1.2), incremented each time a connection is lost.
    pub channel_sequence: u16,
    pub counts: KeptHandles,
    opens: u128,
}

/// State for reopening a file that the server has kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durable {
    path: String,
    access: u32,
    options: u32,
    oplock: u8,
    lease: Option<LeaseRequest>,
    /// Identifies the open with SMB 3; None with SMB 2.
    create_guid: Option<u128>,
    persistent: bool,
    /// Caching that the oplock or lease last allowed.
    pub granted: Caching,
}

impl Durability {
    /// Returns the oplock or lease that an open requests in place of `ask`, and whether the open requests a
    /// durable handle. `leases`: whether the server grants leases.
    pub fn ask(&mut self, open: &Open<'_>, ask: Ask, leases: bool) -> (Ask, bool) {
        let of_data = matches!(open.access, Access::Read | Access::ReadWrite | Access::Write);
        if !self.wanted || !of_data || open.directory || open.delete_on_close {
            return (ask, false);
        }
        self.opens += 1;
        match ask {
            Ask::Nothing if leases => {
                let key = LeaseKey(OWN_LEASE | self.opens);
                (Ask::Lease(key, Caching::READ_HANDLE), true)
            }
            Ask::Nothing => (Ask::Oplock(Caching::ALL), true),
            ask => (ask, true),
        }
    }

    /// Adds the request for a durable handle to `request`. Returns the state for reopening the file, for use
    /// if the server grants the handle.
    pub fn keep(&mut self, request: &mut CreateRequest<'_>, agreed: &NegotiatedSession) -> Box<Durable> {
        self.counts.asked += 1;
        let second = agreed.dialect >= Dialect::Smb300;
        let create_guid = second.then(|| self.client_guid.wrapping_add(self.opens));
        let persistent = second && agreed.continuously_available;
        request.durable = Some(match create_guid {
            Some(create_guid) => DurableRequest::Second {
                create_guid,
                persistent,
            },
            None => DurableRequest::First,
        });
        Box::new(Durable {
            path: request.path.to_owned(),
            access: request.access,
            options: request.options,
            oplock: request.oplock,
            lease: request.lease,
            create_guid,
            persistent,
            granted: Caching::NONE,
        })
    }

    /// Records the response to an open that requested a durable handle. `kept`: whether the handle is
    /// persistent; None if the server did not grant a durable handle. Returns the state for reopening the
    /// file, if granted.
    pub fn answered(
        &mut self,
        mut asked: Box<Durable>,
        kept: Option<bool>,
        granted: Caching,
    ) -> Option<Box<Durable>> {
        asked.persistent = kept?;
        asked.granted = granted;
        self.counts.granted += 1;
        self.counts.persistent += u64::from(asked.persistent);
        Some(asked)
    }
}

impl Durable {
    /// Returns the request that reopens the file.
    pub fn request<'a>(&'a self, base: &'a str, file: FileId) -> CreateRequest<'a> {
        CreateRequest {
            base,
            path: &self.path,
            access: self.access,
            // OPEN, because the file must exist. The server ignores the disposition when it reconnects a
            // handle.
            disposition: 1,
            options: self.options,
            oplock: self.oplock,
            lease: self.lease,
            durable: Some(match self.create_guid {
                Some(create_guid) => DurableRequest::SecondAgain {
                    file,
                    create_guid,
                    persistent: self.persistent,
                },
                None => DurableRequest::FirstAgain(file),
            }),
        }
    }

    pub fn lease_key(&self) -> Option<LeaseKey> {
        self.lease.map(|lease| LeaseKey(lease.key))
    }
}

/// A call that may be sent again if it is unknown whether the server executed it, because a repetition has
/// the same result. Locks, opens and changes by name do not qualify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Again {
    Read {
        handle: Handle,
        offset: u64,
        bytes: u32,
    },
    Write {
        handle: Handle,
        offset: u64,
        data: Vec<u8>,
        stability: Stability,
    },
    Flush(Handle),
    QueryHandle(Handle),
    SetEnd {
        handle: Handle,
        bytes: u64,
    },
    Close(Handle),
    QueryPath(String),
}

impl Again {
    /// Returns the repeatable form of `call`, or None if it may not be sent twice.
    pub fn of(call: &Call<'_>) -> Option<Self> {
        Some(match *call {
            Call::Read {
                handle,
                offset,
                bytes,
            } => Self::Read {
                handle,
                offset,
                bytes,
            },
            Call::Write {
                handle,
                offset,
                data,
                stability,
            } => Self::Write {
                handle,
                offset,
                data: data.to_vec(),
                stability,
            },
            Call::Flush { handle } => Self::Flush(handle),
            Call::QueryHandle { handle } | Call::QueryTimes { handle } => Self::QueryHandle(handle),
            Call::SetEnd { handle, bytes } => Self::SetEnd { handle, bytes },
            Call::Close { handle } => Self::Close(handle),
            Call::QueryPath { path } => Self::QueryPath(path.to_owned()),
            _ => return None,
        })
    }

    pub fn call(&self) -> Call<'_> {
        match *self {
            Self::Read {
                handle,
                offset,
                bytes,
            } => Call::Read {
                handle,
                offset,
                bytes,
            },
            Self::Write {
                handle,
                offset,
                ref data,
                stability,
            } => Call::Write {
                handle,
                offset,
                data,
                stability,
            },
            Self::Flush(handle) => Call::Flush { handle },
            Self::QueryHandle(handle) => Call::QueryHandle { handle },
            Self::SetEnd { handle, bytes } => Call::SetEnd { handle, bytes },
            Self::Close(handle) => Call::Close { handle },
            Self::QueryPath(ref path) => Call::QueryPath { path },
        }
    }

    /// Returns whether the call changes a file. If so, its repetition carries the replay flag with SMB 3.
    pub fn changes(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::SetEnd { .. })
    }
}
