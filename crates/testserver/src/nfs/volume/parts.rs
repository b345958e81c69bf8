//! Types for the files of an export: callers, objects to create, listing entries and refusals.

use dyno_nfs::status::Status;
use dyno_nfs::wire::Attributes3;

/// Cookies of `.` and `..`. The cookies of names are larger.
pub(crate) const OWN_COOKIE: u64 = 1;
pub(crate) const PARENT_COOKIE: u64 = 2;
/// Maximum length of a name, as on Linux file systems.
pub(crate) const MOST_NAME_BYTES: u32 = 255;
pub(crate) const MOST_LINKS: u32 = 32_000;

/// A refusal of a request, with its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) Status);

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

/// User and group of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// An object to create that is not a regular file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Made<'a> {
    Directory,
    SymbolicLink(&'a [u8]),
    /// Type of the object (`ftype3`). For a device, also its major and minor numbers.
    Special(u32, (u32, u32)),
}

/// A name in a directory.
#[derive(Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) cookie: u64,
    pub(crate) name: &'a [u8],
    pub(crate) slot: usize,
    pub(crate) serial: u64,
    pub(crate) attributes: Attributes3,
}

/// Available space in bytes and files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) total_bytes: u64,
    pub(crate) free_bytes: u64,
    pub(crate) free_files: u64,
}
