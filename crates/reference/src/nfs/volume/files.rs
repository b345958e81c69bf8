//! The contract of what holds the files of an export: memory (`memory/`) or a directory (`on_disk/`).
//!
//! Files are named by slots, small numbers that are used again; the serial number of a slot's file is not. A call is made
//! under the lock of the export. Whatever must reach the disk before the reply is given back (`Unsynced`), so that nobody
//! waits for a disk under that lock.

use dyno_nfs::status::Status;
use dyno_nfs::wire::{Attributes3, How, SetAttributes};
use rustix::fd::OwnedFd;
use rustix::fs::{fdatasync, fsync};
use std::fmt::Debug;
use std::sync::Arc;

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
    pub(crate) file_id: u64,
    /// The file, where it was asked for and can be had.
    pub(crate) found: Option<Found>,
}

/// A file by its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
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

/// A file that must be synced before the reply is sent.
#[derive(Debug)]
pub(crate) struct Unsynced {
    pub(crate) file: Arc<OwnedFd>,
    /// Only the data, and what is needed to read them.
    pub(crate) data_alone: bool,
}

impl Unsynced {
    /// Waits for the disk.
    pub(crate) fn sync(&self) -> Result<(), Refused> {
        let synced = if self.data_alone {
            fdatasync(&*self.file)
        } else {
            fsync(&*self.file)
        };
        synced.map_err(|_| Status::Io.into())
    }
}

/// The files of an export. Slots that are given must be those of files that are there (`serial`).
pub(crate) trait Files: Debug + Send {
    /// The slot of the root.
    fn root(&self) -> usize;

    /// Never used again; None: the slot is free.
    fn serial(&self, slot: usize) -> Option<u64>;

    fn attributes(&mut self, slot: usize) -> Result<Attributes3, Refused>;

    /// Also of `.` and `..`; the root's parent is itself.
    fn look_up(&mut self, at: usize, name: &[u8]) -> Result<usize, Refused>;

    /// Where a symbolic link leads.
    fn target(&mut self, link: usize) -> Result<Vec<u8>, Refused>;

    /// Appends up to `most` bytes from `offset` on to `out`. Whether the file ends behind them.
    fn read(&mut self, slot: usize, offset: u64, most: usize, out: &mut Vec<u8>) -> Result<bool, Refused>;

    fn write(&mut self, slot: usize, offset: u64, data: &[u8]) -> Result<(), Refused>;

    /// What COMMIT does and a stable write, as far as flushes are honoured.
    fn flush(&mut self, slot: usize, data_alone: bool) -> Result<Option<Unsynced>, Refused>;

    /// What SETATTR does.
    fn set(&mut self, slot: usize, set: &SetAttributes) -> Result<(), Refused>;

    /// Makes a file, or finds the one that is there, as `how` says.
    fn create(&mut self, at: usize, name: &[u8], how: &How, caller: Caller) -> Result<usize, Refused>;

    /// Makes anything but a file.
    fn make(
        &mut self,
        at: usize,
        name: &[u8],
        made: Made<'_>,
        set: &SetAttributes,
        caller: Caller,
    ) -> Result<usize, Refused>;

    /// What REMOVE does, and RMDIR where `directory`.
    fn remove(&mut self, at: usize, name: &[u8], directory: bool) -> Result<(), Refused>;

    fn rename(&mut self, from_at: usize, from: &[u8], to_at: usize, to: &[u8]) -> Result<(), Refused>;

    fn link(&mut self, slot: usize, at: usize, name: &[u8]) -> Result<(), Refused>;

    /// Gives `take` each name behind `cookie` but `.` and `..` until it refuses one. Whether none was refused.
    /// `found`: with the file.
    fn list(
        &mut self,
        at: usize,
        cookie: u64,
        found: bool,
        take: &mut dyn FnMut(&Listed<'_>) -> bool,
    ) -> Result<bool, Refused>;

    /// What a listing says of a file that is there.
    fn listed<'a>(&mut self, cookie: u64, name: &'a [u8], slot: usize) -> Result<Listed<'a>, Refused> {
        let attributes = self.attributes(slot)?;
        let serial = self.serial(slot).ok_or(Status::Stale)?;
        Ok(Listed {
            cookie,
            name,
            file_id: attributes.file_id,
            found: Some(Found {
                slot,
                serial,
                attributes,
            }),
        })
    }

    fn room(&mut self) -> Result<Room, Refused>;

    /// Of one file.
    fn most_bytes(&self) -> u64;

    /// Forgets what is not stable, as a restart does. How many files lost something.
    fn lose_unstable(&mut self) -> u64;
}

/// That a name can be given.
pub(crate) fn check_name(name: &[u8]) -> Result<(), Refused> {
    if name.len() > MOST_NAME_BYTES as usize {
        return Err(Status::NameTooLong.into());
    }
    match name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        true => Err(Status::Inval.into()),
        false => Ok(()),
    }
}
