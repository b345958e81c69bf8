//! Data types: the server's handles, the applications' handles, deferred closes, and locks.

use super::pages::FileId;
use crate::call::{Access, Handle};

#[derive(Debug, Clone, Copy)]
pub(super) struct Wire {
    pub(super) file: FileId,
    pub(super) access: Access,
    /// Number of application handles that use this handle; 0 while the close is deferred.
    pub(super) users: u32,
    /// Whether the file was created or extended through this handle.
    pub(super) extended: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct OpenHandle {
    pub(super) wire: Handle,
    pub(super) file: FileId,
    pub(super) access: Access,
    /// Offset of the end of the handle's last read.
    pub(super) read_to: Option<u64>,
}

/// A handle whose close is deferred.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deferred {
    pub(super) wire: Handle,
    pub(super) since_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeldLock {
    /// The application's handle.
    pub(super) open: Handle,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Whether the lock exists only in the cache, not on the server.
    pub(super) local: bool,
}
