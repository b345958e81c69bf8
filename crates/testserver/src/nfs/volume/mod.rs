//! One export: its files, their handles, and the duplicate request cache.
//!
//! All threads of the server use a volume under a lock. A file's handle is unique across all files and starts
//! of the server.

mod files;
mod parts;

pub(crate) use files::Files;
pub(crate) use parts::{
    Caller, Listed, Made, Refused, Room, MOST_LINKS, MOST_NAME_BYTES, OWN_COOKIE, PARENT_COOKIE,
};

use super::replies::Replies;
use dyno_nfs::status::Status;
use dyno_nfs::wire::{Attributes3, FileHandle, Wcc};

const HANDLE_BYTES: usize = 24;

/// Identity of an export during one start of a server: the prefix of its file handles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExportName {
    server: u64,
    number: u32,
}

impl ExportName {
    pub(crate) fn handle(self, slot: usize, serial: u64) -> Result<FileHandle, Refused> {
        let place = u32::try_from(slot).map_err(|_| Status::NoSpc)?;
        let mut bytes = [0; HANDLE_BYTES];
        bytes[..8].copy_from_slice(&self.server.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_be_bytes());
        bytes[12..16].copy_from_slice(&place.to_be_bytes());
        bytes[16..].copy_from_slice(&serial.to_be_bytes());
        FileHandle::of(&bytes).ok_or_else(|| Status::ServerFault.into())
    }

    /// Returns attributes for clients, with the file system ID. IDs start at 1, because some clients treat 0 as
    /// missing.
    pub(crate) fn told(self, attributes: Attributes3) -> Attributes3 {
        Attributes3 {
            file_system: u64::from(self.number) + 1,
            ..attributes
        }
    }
}

#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) export: ExportName,
    pub(crate) files: Files,
    pub(crate) replies: Replies,
}

impl Volume {
    /// Creates a volume. `server` differs between starts of a server. `number` is the index of the export.
    pub(crate) fn new(server: u64, number: u32, files: Files) -> Self {
        Self {
            export: ExportName { server, number },
            files,
            replies: Replies::default(),
        }
    }

    /// Returns the export number in a handle, or None if the handle is invalid or from another start of the server.
    pub(crate) fn number_in(handle: &FileHandle, server: u64) -> Option<usize> {
        let bytes = handle.as_bytes();
        let of_server = bytes.get(..8)? == server.to_be_bytes() && bytes.len() == HANDLE_BYTES;
        let number = u32::from_be_bytes(bytes.get(8..12)?.try_into().ok()?);
        of_server.then_some(number as usize)
    }

    pub(crate) fn handle(&self, slot: usize) -> Result<FileHandle, Refused> {
        self.export
            .handle(slot, self.files.serial(slot).ok_or(Status::Stale)?)
    }

    /// Returns the slot of a handle's file.
    pub(crate) fn find(&self, handle: &FileHandle) -> Result<usize, Refused> {
        let Ok(bytes) = <[u8; HANDLE_BYTES]>::try_from(handle.as_bytes()) else {
            return Err(Status::BadHandle.into());
        };
        let number = |range: std::ops::Range<usize>| {
            bytes[range]
                .iter()
                .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        if number(0..8) != self.export.server {
            return Err(Status::Stale.into());
        }
        if number(8..12) != u64::from(self.export.number) {
            return Err(Status::XDev.into());
        }
        // Does not truncate: the number has four bytes.
        let slot = number(12..16) as usize;
        match self.files.serial(slot) == Some(number(16..24)) {
            true => Ok(slot),
            false => Err(Status::Stale.into()),
        }
    }

    pub(crate) fn attributes(&self, slot: usize) -> Attributes3 {
        self.export.told(self.files.attributes(slot))
    }

    /// Returns the attributes of a file before and after a call.
    pub(crate) fn wcc(&self, slot: usize, before: &Attributes3) -> Wcc {
        Wcc {
            before: Some(before.before()),
            after: Some(self.attributes(slot)),
        }
    }

    /// Discards unstable data and the cached replies. Returns the number of files that lost data.
    pub(crate) fn lose_unstable(&mut self) -> u64 {
        self.replies.forget_all();
        self.files.lose_unstable()
    }
}
