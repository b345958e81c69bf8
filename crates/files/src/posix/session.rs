//! One client's files below a directory. Each call is executed by system calls as soon as it starts.
//!
//! | call | system calls |
//! | --- | --- |
//! | `Open` | openat, fstat; `OpenIf` and `OverwriteIf` first try without `O_CREAT`, to detect a creation |
//! | `Close` | close, and unlinkat for delete-on-close |
//! | `Read`, `Write` | pread64, pwrite64; pwritev2 with `RWF_DSYNC` or `RWF_SYNC` by `Stability` |
//! | `Flush` | fsync, fdatasync or nothing, by the options |
//! | `Lock`, `Unlock` | fcntl `F_OFD_SETLK` |
//! | `QueryHandle`, `QueryTimes`, `QueryPath` | fstat, newfstatat |
//! | `QuerySpace` | fstatfs |
//! | `Find` | openat, getdents64 |
//! | `Rename` | renameat2 `RENAME_NOREPLACE`, or a check and renameat if the file system lacks it |
//! | others | ftruncate, utimensat, unlinkat, mkdirat |
//!
//! Directories on a path are opened once and stay open (openat2, beneath the root, no links).

use crate::posix::counts::{Counts, Kind};
use crate::posix::direct::{aligned, is_aligned};
use crate::posix::failure::{failure, is_absent};
use crate::posix::options::{FlushCall, Options};
use crate::posix::status::info;
use crate::{
    matches_pattern, Access, Break, Caching, Call, CallId, Disposition, Event, FileClient, Handle, Open,
    Piggyback, Reply, SpaceInfo, Stability, Traffic,
};
use dyno_measure::{Failure, Fault};
use dyno_net::{Executor, Pace};
use nix::fcntl::{fcntl, FcntlArg};
use nix::libc;
use rustix::fs::{
    fdatasync, fstat, fstatvfs, fsync, ftruncate, futimens, mkdirat, openat, openat2, renameat,
    renameat_with, statat, unlinkat, AtFlags, Dir, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Timespec,
    Timestamps, UTIME_NOW,
};
use rustix::io::{pread, pwrite, pwritev2, Errno, ReadWriteFlags};
use rustix::time::{clock_gettime, ClockId};
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum size of a read or write.
const MOST_TRANSFER_BYTES: u32 = 1 << 20;
/// Maximum number of kept directories. When it is reached, all are closed.
const MOST_DIRECTORIES: usize = 256;
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);
const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o777);

#[derive(Debug)]
struct OpenFile {
    file: OwnedFd,
    /// The same file, opened with `O_DIRECT`.
    direct: Option<OwnedFd>,
    /// Directory and name to delete on close.
    delete: Option<(Rc<OwnedFd>, String)>,
}

/// A completed call whose end has not been reported yet.
#[derive(Debug)]
struct Ended {
    id: CallId,
    result: Result<Reply, Failure>,
    buffer: Vec<u8>,
    data: Range<usize>,
}

#[derive(Debug)]
pub struct Session {
    executor: Executor,
    pace: Option<Pace>,
    root: Arc<OwnedFd>,
    options: Options,
    files: Vec<Option<OpenFile>>,
    free: Vec<u32>,
    directories: HashMap<Box<str>, Rc<OwnedFd>>,
    ended: VecDeque<Ended>,
    told: Vec<u8>,
    spare: Vec<Vec<u8>>,
    next_call: u64,
    counts: Counts,
    traffic: Traffic,
    /// Tick of the kernel's coarse clock at which the task's current turn began.
    turn: Timespec,
}

impl Session {
    pub(crate) fn new(executor: Executor, pace: Option<Pace>, root: Arc<OwnedFd>, options: Options) -> Self {
        Self {
            executor,
            pace,
            root,
            options,
            files: Vec::new(),
            free: Vec::new(),
            directories: HashMap::new(),
            ended: VecDeque::new(),
            told: Vec::new(),
            spare: Vec::new(),
            next_call: 0,
            counts: Counts::default(),
            traffic: Traffic::default(),
            turn: clock_gettime(ClockId::MonotonicCoarse),
        }
    }

    fn count(&mut self, kind: Kind) {
        self.counts.0[kind as usize] += 1;
        self.traffic.requests += 1;
    }

    /// Yields to the thread's other tasks, such as the one that samples its CPU time, once per tick of the kernel's
    /// coarse clock (1 to 10 ms). The coarse clock is cheaper to read than the exact time.
    async fn give_way(&mut self) {
        let now = clock_gettime(ClockId::MonotonicCoarse);
        if now != self.turn {
            self.turn = now;
            self.executor.give_way().await;
        }
    }

    /// Waits until the rate limit, if any, permits a call.
    async fn take_turn(&self) {
        if let Some(pace) = &self.pace {
            pace.turn(&self.executor, 1).await;
        }
    }

    /// Returns the parent directory of `path` and the last name; "." for the root.
    fn parent<'p>(&mut self, path: &'p str) -> Result<(Rc<OwnedFd>, &'p str), Errno> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        if name == ".." {
            return Err(Errno::XDEV);
        }
        let name = if name.is_empty() { "." } else { name };
        Ok((self.directory(directory)?, name))
    }

    fn directory(&mut self, path: &str) -> Result<Rc<OwnedFd>, Errno> {
        if let Some(known) = self.directories.get(path) {
            return Ok(known.clone());
        }
        let below = if path.is_empty() { "." } else { path };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        self.count(Kind::Open);
        let opened = Rc::new(openat2(&*self.root, below, flags, Mode::empty(), resolve)?);
        if self.directories.len() >= MOST_DIRECTORIES {
            self.directories.clear();
        }
        self.directories.insert(path.into(), opened.clone());
        Ok(opened)
    }

    /// Closes kept directories at and below a path that may be renamed or removed.
    fn forget(&mut self, path: &str) {
        self.directories.retain(|known, _| {
            let below = known.strip_prefix(path);
            !below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
    }

    fn file(&self, handle: Handle) -> Result<&OpenFile, Failure> {
        let place = self.files.get(handle.0 as usize).and_then(Option::as_ref);
        place.ok_or_else(|| Fault::SessionLost.into())
    }

    fn carry_out(&mut self, call: &Call<'_>, data: &mut (Vec<u8>, Range<usize>)) -> Result<Reply, Failure> {
        match *call {
            Call::Open(open) => self.open(&open),
            Call::Close { handle } => self.close(handle),
            Call::Read {
                handle,
                offset,
                bytes,
            } => self.read(handle, offset, bytes, data),
            Call::Write {
                handle,
                offset,
                data,
                stability,
            } => self.write(handle, offset, data, stability),
            Call::Flush { handle } => self.flush(handle),
            Call::Lock {
                handle,
                offset,
                bytes,
            } => self.lock(handle, offset, bytes, libc::F_WRLCK),
            Call::Unlock {
                handle,
                offset,
                bytes,
            } => self.lock(handle, offset, bytes, libc::F_UNLCK),
            Call::QueryHandle { handle } | Call::QueryTimes { handle } => {
                self.count(Kind::Stat);
                let found = fstat(&self.file(handle)?.file).map_err(failure)?;
                Ok(Reply::Info(info(&found)))
            }
            Call::SetEnd { handle, bytes } => {
                self.count(Kind::Set);
                ftruncate(&self.file(handle)?.file, bytes).map_err(failure)?;
                Ok(Reply::Done)
            }
            Call::SetTimes { handle } => self.touch(handle),
            Call::QueryPath { path } => match self.status_of(path) {
                Ok(found) => Ok(Reply::Info(info(&found))),
                Err(errno) if is_absent(errno) => Ok(Reply::NotThere),
                Err(errno) => Err(failure(errno)),
            },
            Call::QuerySpace { directory } => self.space(directory).map_err(failure),
            Call::Find { directory, pattern } => match self.find(directory, pattern) {
                Ok(entries) => Ok(Reply::Found { entries }),
                Err(errno) if is_absent(errno) => Ok(Reply::NotThere),
                Err(errno) => Err(failure(errno)),
            },
            Call::Rename { from, to } => self.rename(from, to).map_err(failure),
            Call::Delete { path } => self.unlink(path, AtFlags::empty()).map_err(failure),
            Call::MakeDirectory { path } => {
                let (parent, name) = self.parent(path).map_err(failure)?;
                self.count(Kind::MakeDirectory);
                mkdirat(&*parent, name, NEW_DIRECTORY).map_err(failure)?;
                Ok(Reply::Done)
            }
            Call::RemoveDirectory { path } => {
                self.forget(path);
                self.unlink(path, AtFlags::REMOVEDIR).map_err(failure)
            }
        }
    }

    fn open(&mut self, open: &Open<'_>) -> Result<Reply, Failure> {
        let opened = self.parent(open.path).and_then(|(parent, name)| {
            let (file, created) = self.open_file(&parent, name, open)?;
            self.count(Kind::Stat);
            let found = fstat(&file)?;
            let direct = if self.options.direct && !open.directory && open.access != Access::Attributes {
                self.count(Kind::Open);
                let flags = access_flags(open.access) | OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                Some(openat(&*parent, name, flags, Mode::empty())?)
            } else {
                None
            };
            let delete = open.delete_on_close.then(|| (parent, name.to_owned()));
            Ok((OpenFile { file, direct, delete }, created, info(&found)))
        });
        let may_be_absent = matches!(open.disposition, Disposition::Open | Disposition::Overwrite);
        let (file, created, info) = match opened {
            Err(errno) if may_be_absent && is_absent(errno) => return Ok(Reply::NotThere),
            opened => opened.map_err(failure)?,
        };
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.files.push(None);
                u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.files[number as usize] = Some(file);
        Ok(Reply::Opened {
            handle: Handle(number),
            granted: Caching::NONE,
            created,
            info,
        })
    }

    fn open_file(&mut self, parent: &OwnedFd, name: &str, open: &Open<'_>) -> Result<(OwnedFd, bool), Errno> {
        let mut flags = access_flags(open.access) | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if open.directory {
            flags |= OFlags::DIRECTORY;
        }
        let new = OFlags::CREATE | OFlags::EXCL;
        let there = match open.disposition {
            Disposition::Overwrite | Disposition::OverwriteIf => OFlags::TRUNC,
            _ => OFlags::empty(),
        };
        let is_new_wanted = matches!(open.disposition, Disposition::OpenIf | Disposition::OverwriteIf);
        loop {
            if open.disposition != Disposition::Create {
                self.count(Kind::Open);
                match openat(parent, name, flags | there, Mode::empty()) {
                    Err(Errno::NOENT) if is_new_wanted => {}
                    opened => return Ok((opened?, false)),
                }
            }
            if open.directory {
                self.count(Kind::MakeDirectory);
                mkdirat(parent, name, NEW_DIRECTORY)?;
                self.count(Kind::Open);
                return Ok((openat(parent, name, flags, Mode::empty())?, true));
            }
            self.count(Kind::Open);
            match openat(parent, name, flags | new, NEW_FILE) {
                // Another client has created the file in the meantime.
                Err(Errno::EXIST) if is_new_wanted => {}
                opened => return Ok((opened?, true)),
            }
        }
    }

    fn close(&mut self, handle: Handle) -> Result<Reply, Failure> {
        let place = self.files.get_mut(handle.0 as usize);
        let file: OpenFile = place.and_then(Option::take).ok_or(Fault::SessionLost)?;
        self.free.push(handle.0);
        self.count(Kind::Close);
        let delete = file.delete;
        drop((file.file, file.direct));
        if let Some((parent, name)) = delete {
            self.count(Kind::Unlink);
            unlinkat(&*parent, name.as_str(), AtFlags::empty()).map_err(failure)?;
        }
        Ok(Reply::Done)
    }

    fn read(
        &mut self,
        handle: Handle,
        offset: u64,
        bytes: u32,
        (buffer, data): &mut (Vec<u8>, Range<usize>),
    ) -> Result<Reply, Failure> {
        self.count(Kind::Read);
        let wanted = bytes as usize;
        let start = aligned(buffer, wanted);
        let open = self.file(handle)?;
        let file = match &open.direct {
            Some(direct) if is_aligned(offset, wanted) => direct,
            _ => &open.file,
        };
        let count = pread(file, &mut buffer[start..start + wanted], offset).map_err(failure)?;
        *data = start..start + count;
        self.traffic.bytes_in += count as u64;
        Ok(Reply::Read {
            bytes: u32::try_from(count).unwrap_or(bytes),
        })
    }

    fn write(
        &mut self,
        handle: Handle,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Reply, Failure> {
        self.count(Kind::Write);
        let flags = match stability {
            Stability::Unstable => ReadWriteFlags::empty(),
            Stability::Data => ReadWriteFlags::DSYNC,
            Stability::File => ReadWriteFlags::SYNC,
        };
        let mut buffer = self.spare.pop().unwrap_or_default();
        let open = self.file(handle)?;
        let written = match &open.direct {
            Some(direct) if is_aligned(offset, data.len()) => {
                let start = aligned(&mut buffer, data.len());
                let copy = &mut buffer[start..start + data.len()];
                copy.copy_from_slice(data);
                pwritev2(direct, &[IoSlice::new(copy)], offset, flags)
            }
            _ if flags.is_empty() => pwrite(&open.file, data, offset),
            _ => pwritev2(&open.file, &[IoSlice::new(data)], offset, flags),
        };
        self.spare.push(buffer);
        let count = written.map_err(failure)?;
        self.traffic.bytes_out += count as u64;
        Ok(Reply::Written {
            bytes: u32::try_from(count).unwrap_or(u32::MAX),
        })
    }

    fn flush(&mut self, handle: Handle) -> Result<Reply, Failure> {
        if self.options.flush != FlushCall::Nothing {
            self.count(Kind::Sync);
        }
        let file = &self.file(handle)?.file;
        match self.options.flush {
            FlushCall::Fsync => fsync(file),
            FlushCall::Fdatasync => fdatasync(file),
            FlushCall::Nothing => Ok(()),
        }
        .map_err(failure)?;
        Ok(Reply::Done)
    }

    /// Sets or releases a lock. Locks belong to the open file, so clients in one process exclude each other.
    fn lock(&mut self, handle: Handle, offset: u64, bytes: u64, kind: libc::c_int) -> Result<Reply, Failure> {
        self.count(Kind::Lock);
        let wrong = |_| Failure::from(Fault::OtherIo);
        let lock = libc::flock {
            l_type: libc::c_short::try_from(kind).map_err(wrong)?,
            l_whence: 0,
            l_start: libc::off_t::try_from(offset).map_err(wrong)?,
            l_len: libc::off_t::try_from(bytes).map_err(wrong)?,
            l_pid: 0,
        };
        match fcntl(&self.file(handle)?.file, FcntlArg::F_OFD_SETLK(&lock)) {
            Ok(_) => Ok(Reply::Done),
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Err(Fault::LockConflict.into()),
            Err(errno) => Err(failure(Errno::from_raw_os_error(errno as i32))),
        }
    }

    fn touch(&mut self, handle: Handle) -> Result<Reply, Failure> {
        self.count(Kind::Set);
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        futimens(&self.file(handle)?.file, &times).map_err(failure)?;
        Ok(Reply::Done)
    }

    fn status_of(&mut self, path: &str) -> Result<Stat, Errno> {
        let (parent, name) = self.parent(path)?;
        self.count(Kind::Stat);
        statat(&*parent, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn space(&mut self, directory: &str) -> Result<Reply, Errno> {
        let directory = self.directory(directory)?;
        self.count(Kind::StatFs);
        let found = fstatvfs(&*directory)?;
        Ok(Reply::Space(SpaceInfo {
            total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
            free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        }))
    }

    fn find(&mut self, directory: &str, pattern: &str) -> Result<u32, Errno> {
        let parent = self.directory(directory)?;
        self.count(Kind::Open);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut entries = Dir::new(openat(&*parent, ".", flags, Mode::empty())?)?;
        self.count(Kind::List);
        let mut found = 0u32;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") && matches_pattern(pattern, name) {
                found = found.saturating_add(1);
            }
        }
        Ok(found)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<Reply, Errno> {
        let (old, old_name) = self.parent(from)?;
        let (new, new_name) = self.parent(to)?;
        self.count(Kind::Rename);
        match renameat_with(&*old, old_name, &*new, new_name, RenameFlags::NOREPLACE) {
            // Some file systems, for example NFS, lack this flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                self.count(Kind::Stat);
                match statat(&*new, new_name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(_) => return Err(Errno::EXIST),
                    Err(Errno::NOENT) => renameat(&*old, old_name, &*new, new_name)?,
                    Err(errno) => return Err(errno),
                }
            }
            renamed => renamed?,
        }
        self.forget(from);
        Ok(Reply::Done)
    }

    fn unlink(&mut self, path: &str, flags: AtFlags) -> Result<Reply, Errno> {
        let (parent, name) = self.parent(path)?;
        self.count(Kind::Unlink);
        unlinkat(&*parent, name, flags)?;
        Ok(Reply::Done)
    }
}

fn access_flags(access: Access) -> OFlags {
    match access {
        Access::Attributes | Access::Read | Access::Delete => OFlags::RDONLY,
        Access::ReadWrite => OFlags::RDWR,
        Access::Write => OFlags::WRONLY,
    }
}

impl FileClient for Session {
    /// Checks the directory, which is already open.
    async fn connect(&mut self) -> Result<(), Failure> {
        self.traffic.connections = 1;
        fstat(self.root.as_fd()).map(|_| ()).map_err(failure)
    }

    async fn begin(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        self.take_turn().await;
        let id = CallId(self.next_call);
        self.next_call += 1;
        let mut read = (self.spare.pop().unwrap_or_default(), 0..0);
        let result = self.carry_out(call, &mut read);
        let (buffer, data) = read;
        self.ended.push_back(Ended {
            id,
            result,
            buffer,
            data,
        });
        Ok(id)
    }

    async fn call_at_once(
        &mut self,
        call: &Call<'_>,
        data: &mut impl FnMut(&[u8]),
    ) -> Option<Result<Reply, Failure>> {
        self.give_way().await;
        self.take_turn().await;
        let mut read = (std::mem::take(&mut self.told), 0..0);
        let result = self.carry_out(call, &mut read);
        let (told, range) = read;
        if !range.is_empty() {
            data(&told[range]);
        }
        self.told = told;
        Some(result)
    }

    async fn next(&mut self) -> Result<Event<'_>, Failure> {
        self.give_way().await;
        let ended = self.ended.pop_front().ok_or(Fault::SessionLost)?;
        self.spare.push(std::mem::replace(&mut self.told, ended.buffer));
        Ok(Event::Ended {
            id: ended.id,
            result: ended.result,
            data: &self.told[ended.data],
            piggyback: Piggyback::default(),
        })
    }

    /// Reads without a copy, except with `O_DIRECT`, which needs an aligned buffer.
    async fn read_into(
        &mut self,
        handle: Handle,
        offset: u64,
        into: &mut [u8],
    ) -> Option<Result<u32, Failure>> {
        if self.file(handle).is_ok_and(|open| open.direct.is_some()) {
            return None;
        }
        self.give_way().await;
        self.take_turn().await;
        self.count(Kind::Read);
        let count = self
            .file(handle)
            .and_then(|open| pread(&open.file, into, offset).map_err(failure));
        self.traffic.bytes_in += *count.as_ref().unwrap_or(&0) as u64;
        Some(count.map(|count| u32::try_from(count).unwrap_or(u32::MAX)))
    }

    async fn break_until(&mut self, due_ns: u64) -> Result<Option<Break>, Failure> {
        self.executor.sleep_until(due_ns).await;
        Ok(None)
    }

    /// Returns false: the kernel has the data and outlives the client.
    fn loses_unstable_writes(&self) -> bool {
        false
    }

    async fn disconnect(&mut self) {
        self.files.clear();
        self.free.clear();
        self.directories.clear();
        self.ended.clear();
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }

    fn requests_by_name(&self) -> Vec<(&'static str, u64)> {
        Kind::ALL.into_iter().map(Kind::name).zip(self.counts.0).collect()
    }

    fn max_read_bytes(&self) -> u32 {
        MOST_TRANSFER_BYTES
    }

    fn max_write_bytes(&self) -> u32 {
        MOST_TRANSFER_BYTES
    }
}
