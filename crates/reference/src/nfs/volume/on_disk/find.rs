//! From a slot to the file: over the names that led to it, each held against what the file was.

use super::known::identity;
use super::opened::Opened;
use super::OnDisk;
use crate::nfs::volume::files::{Found, Refused};
use dyno_nfs::status::Status;
use dyno_nfs::wire::{Attributes3, Time, DIRECTORY, REGULAR, SYMBOLIC_LINK};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{fstat, major, minor, openat, statat, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::sync::Arc;

/// A path that is longer is of directories that are not there any more.
const MOST_DEPTH: usize = 4096;
const NS_PER_S: u64 = 1_000_000_000;
const BLOCK_BYTES: u64 = 512; // stat(2)

pub(super) fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// A path that names what is open, whatever its name is by now (proc_pid_fd(5)).
pub(super) fn path_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

impl OnDisk {
    /// A directory, to find names in.
    pub(super) fn directory(&mut self, slot: usize) -> Result<Arc<OwnedFd>, Refused> {
        let mut way = Vec::new();
        let mut at = slot;
        let mut open = loop {
            if at == self.root_slot {
                break self.root.clone();
            }
            if let Some(opened) = self.open.get(at) {
                break opened.file;
            }
            if way.len() == MOST_DEPTH {
                return Err(Status::Stale.into());
            }
            way.push(at);
            at = self.parent(at);
            if way.last() == Some(&at) {
                return Err(Status::Stale.into());
            }
        };
        while let Some(next) = way.pop() {
            let name = self.name_of(next)?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(&*open, &*name, flags, Mode::empty()).map_err(gone)?;
            self.must_be(next, &fstat(&file)?)?;
            open = Arc::new(file);
            let file = open.clone();
            self.open.keep(
                next,
                Opened {
                    file,
                    writable: false,
                },
            );
        }
        match slot == self.root_slot || is_directory(&fstat(&*open)?) {
            true => Ok(open),
            false => Err(Status::NotDir.into()),
        }
    }

    /// Where a directory is, or any file was found; of the root the root, and of what is nowhere any more itself.
    pub(super) fn parent(&self, slot: usize) -> usize {
        let places = self.known.get(slot).map(|node| node.places.as_slice());
        places.and_then(<[_]>::last).map_or(slot, |place| place.0)
    }

    fn name_of(&self, slot: usize) -> Result<Box<[u8]>, Refused> {
        let places = self.known.get(slot).map(|node| node.places.as_slice());
        let last = places.and_then(<[_]>::last);
        Ok(last.ok_or(Status::Stale)?.1.clone())
    }

    fn must_be(&self, slot: usize, stat: &Stat) -> Result<(), Refused> {
        let expected = self.known.get(slot).map(|node| node.identity);
        match expected == Some(identity(stat)) {
            true => Ok(()),
            false => Err(Status::Stale.into()),
        }
    }

    /// What lies in a directory under that name.
    pub(super) fn stat_in(&mut self, at: usize, name: &[u8]) -> Result<Stat, Refused> {
        let directory = self.directory(at)?;
        let stat = statat(
            &*directory,
            name,
            AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
        )?;
        match identity(&stat).0 == self.device {
            true => Ok(stat),
            // Another file system is mounted there: its numbers may be those of files here.
            false => Err(Status::Access.into()),
        }
    }

    /// The slot of what was found in a directory.
    pub(super) fn slot_in(&mut self, at: usize, name: &[u8], stat: &Stat) -> Result<usize, Refused> {
        // The root can't be below itself: its directory was moved.
        match identity(stat) == self.known.get(self.root_slot).ok_or(Status::Stale)?.identity {
            true => Err(Status::Access.into()),
            false => Ok(self.known.found(identity(stat), Some((at, name)))),
        }
    }

    pub(super) fn stat(&mut self, slot: usize) -> Result<Stat, Refused> {
        if slot == self.root_slot {
            return Ok(fstat(&*self.root)?);
        }
        if let Some(opened) = self.open.get(slot) {
            return Ok(fstat(&*opened.file)?);
        }
        self.at_a_place(slot, |directory, name| {
            statat(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
                .map(|stat| (stat, stat))
        })
    }

    /// Whatever the file is, open for its attributes alone (O_PATH).
    pub(super) fn reference(&mut self, slot: usize) -> Result<OwnedFd, Refused> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if slot == self.root_slot {
            return Ok(openat(&*self.root, c".", flags, Mode::empty())?);
        }
        self.at_a_place(slot, |directory, name| {
            let file = openat(directory, name, flags, Mode::empty())?;
            Ok((fstat(&file)?, file))
        })
    }

    /// A file's contents; `writable`: they can be written, too.
    pub(super) fn contents(&mut self, slot: usize, writable: bool) -> Result<Arc<OwnedFd>, Refused> {
        if let Some(opened) = self.open.get(slot).filter(|opened| opened.writable >= writable) {
            // Directories are open for their names alone.
            return match self.open_is_directory(&opened)? {
                true => Err(Status::IsDir.into()),
                false => Ok(opened.file),
            };
        }
        match FileType::from_raw_mode(self.stat(slot)?.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Status::IsDir.into()),
            _ => return Err(Status::Inval.into()),
        }
        let how = if writable { OFlags::RDWR } else { OFlags::RDONLY };
        let flags = how | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.at_a_place(slot, |directory, name| {
            let file = openat(directory, name, flags, Mode::empty())?;
            Ok((fstat(&file)?, Arc::new(file)))
        })?;
        let opened = Opened { file, writable };
        self.open.keep(slot, opened.clone());
        Ok(opened.file)
    }

    fn open_is_directory(&self, opened: &Opened) -> Result<bool, Errno> {
        Ok(!opened.writable && is_directory(&fstat(&*opened.file)?))
    }

    /// Uses a name that leads to the file still, the last found first.
    fn at_a_place<T>(
        &mut self,
        slot: usize,
        mut with: impl FnMut(&OwnedFd, &[u8]) -> Result<(Stat, T), Errno>,
    ) -> Result<T, Refused> {
        let places = self.known.get(slot).ok_or(Status::Stale)?.places.clone();
        let mut refused = Refused::from(Status::Stale);
        for (at, name) in places.iter().rev() {
            let directory = match self.directory(*at) {
                Ok(directory) => directory,
                Err(_) => continue,
            };
            match with(&directory, name) {
                Ok((stat, found)) if self.must_be(slot, &stat).is_ok() => return Ok(found),
                Ok(_) | Err(Errno::NOENT | Errno::LOOP) => {}
                Err(errno) => refused = errno.into(),
            }
        }
        Err(refused)
    }

    /// The file of a name; None: it is gone by now, or of another file system.
    pub(super) fn found_in(&mut self, at: usize, name: &[u8]) -> Option<Found> {
        let stat = self.stat_in(at, name).ok()?;
        let slot = self.slot_in(at, name, &stat).ok()?;
        Some(Found {
            slot,
            serial: self.known.get(slot)?.serial,
            attributes: self.attributes_of(slot, &stat),
        })
    }

    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)] // Its types differ between machines.
    pub(super) fn attributes_of(&self, slot: usize, stat: &Stat) -> Attributes3 {
        let changes = self.known.get(slot).map_or(0, |node| node.changes);
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => DIRECTORY,
            FileType::Symlink => SYMBOLIC_LINK,
            FileType::BlockDevice => 3,
            FileType::CharacterDevice => 4,
            FileType::Socket => 6,
            FileType::Fifo => 7,
            _ => REGULAR,
        };
        let device = matches!(kind, 3 | 4).then(|| (major(stat.st_rdev), minor(stat.st_rdev)));
        Attributes3 {
            kind,
            mode: stat.st_mode & 0o7777,
            links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
            uid: stat.st_uid,
            gid: stat.st_gid,
            bytes: stat.st_size as u64,
            used_bytes: stat.st_blocks as u64 * BLOCK_BYTES,
            device: device.unwrap_or((0, 0)),
            // The export knows it.
            file_system: 0,
            file_id: identity(stat).1,
            accessed: time(stat.st_atime as i64, stat.st_atime_nsec as u64),
            modified: time(stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            changed: time(stat.st_ctime as i64, stat.st_ctime_nsec as u64 + changes),
        }
    }
}

/// What NFSv3 can tell of a time: until 2106. Nanoseconds above a second are seconds.
fn time(seconds: i64, nanoseconds: u64) -> Time {
    let seconds = u64::try_from(seconds).unwrap_or(0) + nanoseconds / NS_PER_S;
    // Less than 1e9.
    let rest = (nanoseconds % NS_PER_S) as u32;
    (u32::try_from(seconds).unwrap_or(u32::MAX), rest)
}

/// A directory that is not where it was.
fn gone(errno: Errno) -> Refused {
    match errno {
        Errno::NOENT | Errno::LOOP => Status::Stale.into(),
        other => other.into(),
    }
}
