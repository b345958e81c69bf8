//! Calls as the in-memory server stores them. `server.rs` executes them.

use dyno_files::{Access, Ask, CallKind, Disposition, Handle, Stability};

/// A call with its strings and data, waiting on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Open {
        path: String,
        access: Access,
        disposition: Disposition,
        delete_on_close: bool,
        directory: bool,
        ask: Ask,
    },
    Close(Handle),
    Read(Handle, u64, u32),
    Write(Handle, u64, Vec<u8>, Stability),
    Flush(Handle),
    Lock(Handle, u64, u64),
    Unlock(Handle, u64, u64),
    QueryHandle(Handle),
    SetEnd(Handle, u64),
    SetTimes(Handle),
    QueryPath(String),
    QuerySpace,
    Find(String, String),
    Rename(String, String),
    Delete(String),
    MakeDirectory(String),
    RemoveDirectory(String),
}

impl Request {
    pub fn kind(&self) -> CallKind {
        match self {
            Self::Open { disposition, .. } => match disposition {
                Disposition::Open | Disposition::Overwrite => CallKind::Open,
                _ => CallKind::Create,
            },
            Self::Close(..) => CallKind::Close,
            Self::Read(..) => CallKind::Read,
            Self::Write(..) => CallKind::Write,
            Self::Flush(..) => CallKind::Flush,
            Self::Lock(..) => CallKind::Lock,
            Self::Unlock(..) => CallKind::Unlock,
            Self::QueryHandle(..) => CallKind::QueryHandle,
            Self::SetEnd(..) => CallKind::SetEnd,
            Self::SetTimes(..) => CallKind::SetTimes,
            Self::QueryPath(..) => CallKind::QueryPath,
            Self::QuerySpace => CallKind::QuerySpace,
            Self::Find(..) => CallKind::Find,
            Self::Rename(..) => CallKind::Rename,
            Self::Delete(..) => CallKind::Delete,
            Self::MakeDirectory(..) => CallKind::MakeDirectory,
            Self::RemoveDirectory(..) => CallKind::RemoveDirectory,
        }
    }

    pub fn extent(&self) -> (u64, u64) {
        match self {
            Self::Read(_, offset, bytes) => (*offset, u64::from(*bytes)),
            Self::Write(_, offset, data, _) => (*offset, data.len() as u64),
            Self::Lock(_, offset, bytes) | Self::Unlock(_, offset, bytes) => (*offset, *bytes),
            _ => (0, 0),
        }
    }
}
