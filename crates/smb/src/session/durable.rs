//! Handles that outlive their connection: what is asked of the server for them (MS-SMB2 3.2.4.3.5), what it granted, and
//! what must be known to open them again and to send once more what was not answered.
//!
//! A server keeps a durable handle only together with an oplock or lease that lets its owner keep the handle. Where the
//! caller asks for none, this session asks for one of its own: batch, or a lease of reads and the handle. Nothing is cached
//! under it. Not for: making the connection anew (`recovery.rs`).

use super::options::NegotiatedSession;
use crate::wire::{CreateRequest, Dialect, DurableRequest, FileId, LeaseRequest};
use dyno_files::{Access, Ask, Caching, Call, Handle, KeptHandles, LeaseKey, Open, Stability};

/// Set in the keys of leases that this session asks for by itself: those of callers count from 1.
const OWN_LEASE: u128 = 1 << 127;

/// What one session knows of handles that outlive a connection, over all its connections.
#[derive(Debug, Default)]
pub struct Durability {
    /// They are asked for.
    pub wanted: bool,
    /// Calls are kept until they are answered: they may have to be sent once more.
    pub keeps_calls: bool,
    /// Makes the names of opens: no other client has them.
    pub client_guid: u128,
    /// Goes up with each connection that takes the place of a lost one.
    pub channel_sequence: u16,
    pub counts: KeptHandles,
    opens: u128,
}

/// What it takes to open a file again that the server has kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durable {
    path: String,
    access: u32,
    options: u32,
    oplock: u8,
    lease: Option<LeaseRequest>,
    /// Of SMB 3; None: of SMB 2.
    create_guid: Option<u128>,
    persistent: bool,
    /// What may be cached under its lease, as last agreed on.
    pub granted: Caching,
}

impl Durability {
    /// What an open asks for instead of `ask`, which can be asked for here, and whether it is to be kept.
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

    /// Asks the server to keep what `request` opens. Gives what it takes to open it again, if it is granted.
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

    /// The server has answered an open that it was asked to keep: `kept` says how, None not at all.
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
    /// The request that opens the file again.
    pub fn request<'a>(&'a self, base: &'a str, file: FileId) -> CreateRequest<'a> {
        CreateRequest {
            base,
            path: &self.path,
            access: self.access,
            // It must be there; what the server kept is not looked at anew.
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

    /// The lease that it was opened under.
    pub fn lease_key(&self) -> Option<LeaseKey> {
        self.lease.map(|lease| LeaseKey(lease.key))
    }
}

/// A call that may be sent once more where nobody knows whether the server carried it out: done twice it comes to the same.
/// Locks, opens and what goes by name and changes something do not.
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
    /// Of `call`; None where it may not be sent twice.
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

    /// Whether it changes a file: the server is told then that it may have seen it before.
    pub fn changes(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::SetEnd { .. })
    }
}
