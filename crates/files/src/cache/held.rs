//! What applications and the cache hold open: handles above and below it, closes that are put off, and locks. Data alone.

use super::pages::FileId;
use crate::call::{Access, Handle};

/// A handle that is open below the cache.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wire {
    pub(super) file: FileId,
    pub(super) access: Access,
    /// Handles of applications on it; none while its close is put off.
    pub(super) users: u32,
    /// The file was made through it, or has grown.
    pub(super) extended: bool,
}

/// A handle as an application holds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenHandle {
    pub(super) wire: Handle,
    pub(super) file: FileId,
    pub(super) access: Access,
    /// Where its last read ended.
    pub(super) read_to: Option<u64>,
}

/// A handle whose close is put off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deferred {
    pub(super) wire: Handle,
    pub(super) since_ns: u64,
}

/// A lock that an application holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeldLock {
    /// Of which application's handle.
    pub(super) open: Handle,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The server knows nothing of it.
    pub(super) local: bool,
}
