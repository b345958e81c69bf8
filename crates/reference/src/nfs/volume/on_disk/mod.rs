//! The files of an export in a directory of this machine. Knows nothing of messages, but answers with the statuses of NFS.
//!
//! Nothing outside of the directory is reached: every name is opened relative to its directory, alone and over no link
//! (O_NOFOLLOW), `..` is looked up here, and other file systems below the directory are refused. A handle stands for a
//! device and an inode, and for the names that led to them (`known.rs`): what is found there is held against it.
//!
//! A flush that is honoured is an fsync, which the caller carries out. Names are as durable as the file system makes them:
//! nothing is synced after CREATE, REMOVE or RENAME. Whoever is let in may do what the server's own account may, with two
//! exceptions: no device is made, and no file gets a set-user-ID or set-group-ID bit.

mod find;
mod known;
mod opened;
mod status;

use super::files::{check_name, Caller, Files, Listed, Made, Refused, Room, Unsynced, PARENT_COOKIE};
use crate::nfs::options::Flush;
use dyno_nfs::status::Status;
use dyno_nfs::wire::{Attributes3, How, SetAttributes, SetTime};
use find::is_directory;
use known::{identity, Known};
use opened::{OpenFiles, Opened};
use rustix::fd::OwnedFd;
use rustix::fs::{
    chmodat, chownat, fchmod, fchown, fstat, fstatvfs, ftruncate, linkat, mkdirat, mknodat, openat,
    readlinkat, renameat, seek, symlinkat, unlinkat, utimensat, AtFlags, FileType, Gid, Mode, OFlags, RawDir,
    SeekFrom, Timespec, Timestamps, Uid, CWD, UTIME_NOW, UTIME_OMIT,
};
use rustix::io::{pread, pwrite, Errno};
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;

const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
const SOCKET: u32 = 6;
const PIPE: u32 = 7;
/// Permissions and the sticky bit.
const PERMISSIONS: u32 = 0o1777;
const LISTING_BYTES: usize = 32 << 10;

/// The files of an export.
#[derive(Debug)]
pub(crate) struct OnDisk {
    flush: Flush,
    /// It and all below are of this device.
    device: u64,
    root: Arc<OwnedFd>,
    root_slot: usize,
    known: Known,
    open: OpenFiles,
    /// Whether files can be given to who makes them.
    may_give: bool,
}

impl OnDisk {
    /// Those of a directory that is there; no more than `most_open` are kept open.
    pub(crate) fn open(directory: &Path, flush: Flush, most_open: usize) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty())?;
        let stat = fstat(&root)?;
        let mut known = Known::default();
        let root_slot = known.found(identity(&stat), None);
        Ok(Self {
            flush,
            device: identity(&stat).0,
            root: Arc::new(root),
            root_slot,
            known,
            open: OpenFiles::new(most_open),
            may_give: rustix::process::geteuid().is_root(),
        })
    }

    /// Gives a file to who made it, where that is allowed, and sets what was asked for. What can't be set is refused.
    fn furnish(
        &mut self,
        file: &OwnedFd,
        mode: u32,
        set: &SetAttributes,
        caller: Caller,
    ) -> Result<(), Errno> {
        if self.may_give {
            fchown(
                file,
                owner(Some(set.uid.unwrap_or(caller.uid))),
                group(Some(set.gid.unwrap_or(caller.gid))),
            )?;
        }
        fchmod(file, permissions(set.mode.unwrap_or(mode)))?;
        if let Some(end) = set.bytes {
            ftruncate(file, end)?;
        }
        utimensat(file, c"", &times(set), AtFlags::EMPTY_PATH)
    }

    fn create_new(
        &mut self,
        at: usize,
        name: &[u8],
        set: &SetAttributes,
        caller: Caller,
    ) -> Result<usize, Refused> {
        check_name(name)?;
        let directory = self.directory(at)?;
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&*directory, name, new, Mode::RUSR | Mode::WUSR)?;
        let furnished = self.furnish(&file, FILE_MODE, set, caller);
        let stat = furnished.and_then(|()| fstat(&file));
        let stat = stat.inspect_err(|_| {
            let _ = unlinkat(&*directory, name, AtFlags::empty());
        })?;
        self.known.changed(at);
        let slot = self.is_new(&stat, at, name);
        let file = Arc::new(file);
        self.open.keep(slot, Opened { file, writable: true });
        Ok(slot)
    }

    /// Remembers what was just made; what was known of its inode was of a file that others removed.
    fn is_new(&mut self, stat: &rustix::fs::Stat, at: usize, name: &[u8]) -> usize {
        if let Some(gone) = self.known.slot_of(identity(stat)) {
            self.forget(gone);
        }
        self.known.found(identity(stat), Some((at, name)))
    }

    fn forget(&mut self, slot: usize) {
        self.open.close(slot);
        self.known.forget(slot);
    }

    /// A name of a file is gone, and with the last one the file; `links`: how many it had.
    fn lost_name(&mut self, slot: Option<usize>, at: usize, name: &[u8], is_directory: bool, links: u64) {
        let Some(slot) = slot else { return };
        if is_directory || links <= 1 {
            return self.forget(slot);
        }
        self.known.forget_place(slot, at, name);
        self.known.changed(slot);
    }
}

impl Files for OnDisk {
    fn root(&self) -> usize {
        self.root_slot
    }

    fn serial(&self, slot: usize) -> Option<u64> {
        self.known.get(slot).map(|node| node.serial)
    }

    fn attributes(&mut self, slot: usize) -> Result<Attributes3, Refused> {
        let stat = self.stat(slot)?;
        Ok(self.attributes_of(slot, &stat))
    }

    fn look_up(&mut self, at: usize, name: &[u8]) -> Result<usize, Refused> {
        match name {
            b"." => self.directory(at).map(|_| at),
            b".." => {
                self.directory(at)?;
                Ok(self.parent(at))
            }
            _ => {
                check_name(name)?;
                let stat = self.stat_in(at, name)?;
                self.slot_in(at, name, &stat)
            }
        }
    }

    fn target(&mut self, link: usize) -> Result<Vec<u8>, Refused> {
        let file = self.reference(link)?;
        // EINVAL or ENOENT of what is no link (readlink(2)).
        let target = readlinkat(&file, c"", Vec::new()).map_err(|_| Status::Inval)?;
        Ok(target.into_bytes())
    }

    fn read(&mut self, slot: usize, offset: u64, most: usize, out: &mut Vec<u8>) -> Result<bool, Refused> {
        let file = self.contents(slot, false)?;
        let end = fstat(&*file)?.st_size;
        let left = u64::try_from(end).unwrap_or(0).saturating_sub(offset);
        let most = most.min(usize::try_from(left).unwrap_or(most));
        let begin = out.len();
        out.resize(begin + most, 0);
        let mut count = 0;
        while count < most {
            match pread(&*file, &mut out[begin + count..], offset + count as u64) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    out.truncate(begin);
                    return Err(errno.into());
                }
            }
        }
        out.truncate(begin + count);
        Ok(count as u64 >= left || count < most)
    }

    fn write(&mut self, slot: usize, offset: u64, data: &[u8]) -> Result<(), Refused> {
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > self.most_bytes()) {
            return Err(Status::FBig.into());
        }
        let file = self.contents(slot, true)?;
        self.known.changed(slot);
        let mut done = 0;
        while done < data.len() {
            match pwrite(&*file, &data[done..], offset + done as u64) {
                Ok(0) => return Err(Status::Io.into()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn flush(&mut self, slot: usize, data_alone: bool) -> Result<Option<Unsynced>, Refused> {
        let file = self.contents(slot, true)?;
        Ok((self.flush == Flush::Honour).then_some(Unsynced { file, data_alone }))
    }

    fn set(&mut self, slot: usize, set: &SetAttributes) -> Result<(), Refused> {
        if let Some(end) = set.bytes {
            if end > self.most_bytes() {
                return Err(Status::FBig.into());
            }
            ftruncate(&*self.contents(slot, true)?, end)?;
        }
        let file = self.reference(slot)?;
        self.known.changed(slot);
        if set.uid.is_some() || set.gid.is_some() {
            chownat(&file, c"", owner(set.uid), group(set.gid), AtFlags::EMPTY_PATH)?;
        }
        let is_link = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::Symlink;
        if let Some(mode) = set.mode.filter(|_| !is_link) {
            chmodat(CWD, find::path_of(&file), permissions(mode), AtFlags::empty())?;
        }
        if set.accessed != SetTime::Keep || set.modified != SetTime::Keep {
            utimensat(&file, c"", &times(set), AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }

    fn create(&mut self, at: usize, name: &[u8], how: &How, caller: Caller) -> Result<usize, Refused> {
        let there = match self.look_up(at, name) {
            Ok(there) => Some(there),
            Err(Refused(Status::NoEnt)) => None,
            Err(other) => return Err(other),
        };
        match (there, how) {
            (None, How::Unchecked(set) | How::Guarded(set)) => self.create_new(at, name, set, caller),
            (None, How::Exclusive(verifier)) => {
                let slot = self.create_new(at, name, &SetAttributes::default(), caller)?;
                if let Some(node) = self.known.get_mut(slot) {
                    node.verifier = Some(*verifier);
                }
                Ok(slot)
            }
            (Some(slot), How::Unchecked(set)) => {
                if is_directory(&self.stat(slot)?) {
                    return Err(Status::Exist.into());
                }
                if let Some(bytes) = set.bytes {
                    let end_alone = SetAttributes {
                        bytes: Some(bytes),
                        ..SetAttributes::default()
                    };
                    self.set(slot, &end_alone)?;
                }
                Ok(slot)
            }
            (Some(slot), How::Exclusive(verifier)) => {
                let made_with = self.known.get(slot).and_then(|node| node.verifier);
                (made_with == Some(*verifier))
                    .then_some(slot)
                    .ok_or_else(|| Status::Exist.into())
            }
            (Some(_), How::Guarded(_)) => Err(Status::Exist.into()),
        }
    }

    fn make(
        &mut self,
        at: usize,
        name: &[u8],
        made: Made<'_>,
        set: &SetAttributes,
        caller: Caller,
    ) -> Result<usize, Refused> {
        if matches!(name, b"." | b"..") {
            return Err(Status::Exist.into());
        }
        check_name(name)?;
        let directory = self.directory(at)?;
        let mine = Mode::RUSR | Mode::WUSR | Mode::XUSR;
        let mode = match made {
            Made::Directory => {
                mkdirat(&*directory, name, mine)?;
                DIRECTORY_MODE
            }
            Made::SymbolicLink(target) => {
                symlinkat(target, &*directory, name)?;
                FILE_MODE
            }
            Made::Special(kind, _) => {
                let kind = match kind {
                    SOCKET => FileType::Socket,
                    PIPE => FileType::Fifo,
                    _ => return Err(Status::Perm.into()),
                };
                mknodat(&*directory, name, kind, mine, 0)?;
                FILE_MODE
            }
        };
        self.known.changed(at);
        let stat = self.stat_in(at, name)?;
        let slot = self.is_new(&stat, at, name);
        let given = self.may_give;
        let set = SetAttributes {
            bytes: None,
            mode: Some(set.mode.unwrap_or(mode)),
            uid: set.uid.or(given.then_some(caller.uid)),
            gid: set.gid.or(given.then_some(caller.gid)),
            ..*set
        };
        self.set(slot, &set)?;
        Ok(slot)
    }

    fn remove(&mut self, at: usize, name: &[u8], directory: bool) -> Result<(), Refused> {
        if matches!(name, b"." | b"..") {
            return Err(Status::Inval.into());
        }
        check_name(name)?;
        let stat = self.stat_in(at, name)?;
        let slot = self.known.slot_of(identity(&stat));
        let flags = if directory {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        if is_directory(&stat) && !directory {
            return Err(Status::IsDir.into());
        }
        unlinkat(&*self.directory(at)?, name, flags)?;
        self.known.changed(at);
        #[allow(clippy::useless_conversion)] // Its type differs between machines.
        self.lost_name(slot, at, name, directory, stat.st_nlink.into());
        Ok(())
    }

    fn rename(&mut self, from_at: usize, from: &[u8], to_at: usize, to: &[u8]) -> Result<(), Refused> {
        if [from, to].iter().any(|name| matches!(*name, b"." | b"..")) {
            return Err(Status::Inval.into());
        }
        check_name(from)?;
        let stat = self.stat_in(from_at, from)?;
        check_name(to)?;
        let slot = self.slot_in(from_at, from, &stat)?;
        let before = match self.stat_in(to_at, to) {
            Ok(there) => Some(there),
            Err(Refused(Status::NoEnt)) => None,
            Err(other) => return Err(other),
        };
        if before.is_some_and(|there| identity(&there) == identity(&stat)) {
            return Ok(());
        }
        renameat(&*self.directory(from_at)?, from, &*self.directory(to_at)?, to)?;
        for at in [from_at, to_at] {
            self.known.changed(at);
        }
        if let Some(there) = before {
            let gone = self.known.slot_of(identity(&there));
            #[allow(clippy::useless_conversion)] // Its type differs between machines.
            self.lost_name(gone, to_at, to, is_directory(&there), there.st_nlink.into());
        }
        self.known.forget_place(slot, from_at, from);
        self.known.found(identity(&stat), Some((to_at, to)));
        self.known.changed(slot);
        Ok(())
    }

    fn link(&mut self, slot: usize, at: usize, name: &[u8]) -> Result<(), Refused> {
        if matches!(name, b"." | b"..") {
            return Err(Status::Exist.into());
        }
        check_name(name)?;
        let file = self.reference(slot)?;
        let stat = fstat(&file)?;
        if is_directory(&stat) {
            return Err(Status::IsDir.into());
        }
        let directory = self.directory(at)?;
        linkat(
            CWD,
            find::path_of(&file),
            &*directory,
            name,
            AtFlags::SYMLINK_FOLLOW,
        )?;
        self.known.found(identity(&stat), Some((at, name)));
        for changed in [slot, at] {
            self.known.changed(changed);
        }
        Ok(())
    }

    fn list(
        &mut self,
        at: usize,
        cookie: u64,
        found: bool,
        take: &mut dyn FnMut(&Listed<'_>) -> bool,
    ) -> Result<bool, Refused> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(&*self.directory(at)?, c".", flags, Mode::empty())?;
        // The kernel's cookies, above those of `.` and `..`.
        seek(&directory, SeekFrom::Start(cookie.saturating_sub(PARENT_COOKIE)))
            .map_err(|_| Status::BadCookie)?;
        let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
        let mut entries = RawDir::new(&directory, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let found = if found { self.found_in(at, name) } else { None };
            let listed = Listed {
                cookie: entry.next_entry_cookie().saturating_add(PARENT_COOKIE),
                name,
                file_id: found.map_or(entry.ino(), |found| found.attributes.file_id),
                found,
            };
            if !take(&listed) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn room(&mut self) -> Result<Room, Refused> {
        let found = fstatvfs(&*self.root)?;
        Ok(Room {
            total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
            free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
            free_files: found.f_favail,
        })
    }

    fn most_bytes(&self) -> u64 {
        i64::MAX.unsigned_abs()
    }

    /// None: the kernel has what this process has written, whatever becomes of it.
    fn lose_unstable(&mut self) -> u64 {
        0
    }
}

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & PERMISSIONS)
}

/// No account has the number that stands for "none" (chown(2)).
fn owner(uid: Option<u32>) -> Option<Uid> {
    uid.filter(|uid| *uid != u32::MAX).map(Uid::from_raw)
}

fn group(gid: Option<u32>) -> Option<Gid> {
    gid.filter(|gid| *gid != u32::MAX).map(Gid::from_raw)
}

fn times(set: &SetAttributes) -> Timestamps {
    let time = |set: SetTime| match set {
        SetTime::Keep => Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        SetTime::Server => Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        },
        SetTime::Client((seconds, nanoseconds)) => Timespec {
            tv_sec: seconds.into(),
            tv_nsec: nanoseconds.min(999_999_999).into(),
        },
    };
    Timestamps {
        last_access: time(set.accessed),
        last_modification: time(set.modified),
    }
}
