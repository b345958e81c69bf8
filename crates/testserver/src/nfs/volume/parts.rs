//! What is said of the files of an export: who asks, what is made, what a listing has, why something is refused.

use dyno_nfs::status::Status;
use dyno_nfs::wire::Attributes3;

/// Cookies of `.` and `..`; those of names are larger.
pub(crate) const OWN_COOKIE: u64 = 1;
pub(crate) const PARENT_COOKIE: u64 = 2;
/// As of any file system of Linux.
pub(crate) const MOST_NAME_BYTES: u32 = 255;
pub(crate) const MOST_LINKS: u32 = 32_000;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) Status);

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

/// User and group of who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// What shall be made, if not a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Made<'a> {
    Directory,
    SymbolicLink(&'a [u8]),
    /// Its kind (`ftype3`), and of a device major and minor number.
    Special(u32, (u32, u32)),
}

/// One name of a directory.
#[derive(Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) cookie: u64,
    pub(crate) name: &'a [u8],
    pub(crate) slot: usize,
    pub(crate) serial: u64,
    pub(crate) attributes: Attributes3,
}

/// Bytes and files that there is room for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) total_bytes: u64,
    pub(crate) free_bytes: u64,
    pub(crate) free_files: u64,
}
