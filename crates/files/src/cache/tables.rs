//! Tables of the cache: files, the server's handles, and the applications' handles.

pub(super) use super::held::{Deferred, HeldLock, OpenHandle, Wire};
use super::names::Names;
use super::pages::{FileId, Pages, PAGE_BYTES};
use super::sent::SentRuns;
use super::validity::Validity;
use crate::call::{Access, Caching, Handle, Info, LeaseKey};
use crate::client::Piggyback;
use dyno_measure::{Failure, Fault};
use rustc_hash::FxHashMap;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// Maximum number of closed files that close-to-open rules keep. The oldest are dropped.
const MOST_CLOSED: usize = 4096;

/// One file that this client has open, under one oplock or lease.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) key: String,
    /// Server's file number; 0 if it has none.
    pub(super) number: u64,
    /// Validity of cached data, for close-to-open rules.
    pub(super) validity: Option<Validity>,
    pub(super) sent: SentRuns,
    /// Caching currently allowed by the server.
    pub(super) caching: Caching,
    pub(super) lease: Option<LeaseKey>,
    /// The server's handles. With oplocks at most one: a second would break the first one's oplock.
    pub(super) wires: Vec<Handle>,
    /// Size as applications see it. This field and the next two are valid only while reads may be cached.
    pub(super) bytes: u64,
    /// Size at the server. Data beyond this size exists only in the cache.
    pub(super) server_end: u64,
    /// Space allocated by the server.
    pub(super) allocated_bytes: u64,
    pub(super) read_only: bool,
    /// Number of page transfers in progress, including the background flush.
    pub(super) transfers: u32,
    /// Pages being fetched.
    pub(super) coming: Vec<Range<u64>>,
    /// Bytes being sent. Their pages count as clean and may have been evicted.
    pub(super) going: Vec<Range<u64>>,
    /// End of the read-ahead. Only a hint: the pages may have been evicted.
    pub(super) ahead_to: u64,
    /// Write-back failure, to be reported by the next call on the file.
    pub(super) failed: Option<Failure>,
    /// Failure of a fetch, to be reported to the waiting read or write.
    pub(super) fetch_failed: Option<Failure>,
    /// Whether the size at the server is uncertain.
    pub(super) doubtful: bool,
    pub(super) locks: Vec<HeldLock>,
    pub(super) plain: bool,
    /// Whether the file is deleted, or will be on close, so that its handles are not kept.
    pub(super) doomed: bool,
    /// Number of breaks. An open compares it to detect whether its grant is still valid.
    pub(super) breaks: u64,
    /// Cache of a leased directory. None: a file.
    pub(super) names: Option<Box<Names>>,
    /// Number of opens in progress that share the file's lease. The entry stays while they run, even without handles.
    pub(super) opening: u32,
}

impl File {
    pub(super) fn new(key: String, info: &Info, caching: Caching, lease: Option<LeaseKey>) -> Self {
        let mut file = Self {
            key,
            number: info.file_id,
            caching,
            lease,
            ..Self::default()
        };
        file.learn(info);
        file
    }

    /// Applies information from the server.
    pub(super) fn learn(&mut self, info: &Info) {
        self.bytes = info.bytes;
        self.server_end = info.bytes;
        self.allocated_bytes = info.allocated_bytes;
        self.read_only = info.read_only;
        self.doubtful = false;
    }

    /// Returns size and attributes as applications see them.
    pub(super) fn info(&self) -> Info {
        Info {
            file_id: self.number,
            change: self.validity.as_ref().map_or(0, Validity::change),
            bytes: self.bytes,
            allocated_bytes: self.allocated_bytes.max(self.bytes),
            read_only: self.read_only,
            ..Info::default()
        }
    }

    /// Records a change by this client. `piggyback` contains the attributes from the reply.
    pub(super) fn changed_by_us(&mut self, piggyback: &Piggyback) {
        let Some(validity) = &mut self.validity else {
            return;
        };
        match piggyback.attributes {
            Some(attributes) => validity.changed_by_us(attributes.change_before, attributes.info.change),
            None => validity.doubt(),
        }
    }

    /// Applies attributes from the reply to a call that changes nothing.
    pub(super) fn seen(&mut self, piggyback: &Piggyback) {
        if let (Some(validity), Some(attributes)) = (&mut self.validity, piggyback.attributes) {
            validity.seen(attributes.info.change);
        }
    }

    /// Returns whether close-to-open rules keep the file's data after its close.
    fn is_known_by_rules(&self) -> bool {
        self.validity.is_some() && self.number != 0 && !self.doomed
    }

    /// Returns whether any of these pages is being fetched.
    pub(super) fn comes(&self, pages: &Range<u64>) -> bool {
        self.coming.iter().any(|run| meets(run, pages))
    }

    /// Returns whether any of these pages is being sent.
    pub(super) fn goes(&self, pages: &Range<u64>) -> bool {
        let bytes = pages.start * PAGE_BYTES..pages.end * PAGE_BYTES;
        self.going.iter().any(|run| meets(run, &bytes))
    }

    /// Returns whether read data may be cached. This is not allowed while a range is locked: Windows caches "unless
    /// locked" (KB Q165966), and the captures show every read of a locked document on the wire.
    pub(super) fn keeps_reads(&self) -> bool {
        self.caching.read && self.locks.iter().all(|lock| lock.local)
    }

    /// Returns whether writes may be held back.
    pub(super) fn keeps_writes(&self) -> bool {
        self.caching.write && self.keeps_reads()
    }

    /// Returns whether the path certainly still names this file: a rename or delete by another client would have
    /// required a break.
    pub(super) fn is_at_its_path(&self) -> bool {
        (self.caching.handle || self.caching.write) && !self.doomed && !self.plain
    }
}

#[derive(Debug)]
pub(super) struct Tables {
    pub(super) pages: Pages,
    files: Vec<Option<File>>,
    by_path: HashMap<String, FileId>,
    by_lease: HashMap<LeaseKey, FileId>,
    /// Leased directories by path.
    pub(super) directories: HashMap<String, FileId>,
    /// Files by the server's file number, for close-to-open rules.
    by_number: HashMap<u64, FileId>,
    /// Closed files in `by_number`, oldest first.
    closed: VecDeque<FileId>,
    wires: FxHashMap<Handle, Wire>,
    open_handles: Vec<Option<OpenHandle>>,
    /// Handles with a deferred close, oldest first.
    pub(super) deferred: Vec<Deferred>,
    last_lease: u128,
}

/// Returns the path with ASCII letters in lower case. Paths that differ only in case are the same file.
pub(super) fn folded(path: &str) -> String {
    path.to_ascii_lowercase()
}

fn meets(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

fn is_within(key: &str, directory: &str) -> bool {
    key.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Tables {
    pub(super) fn new(bytes: u64, exact: bool) -> Self {
        Self {
            pages: Pages::new(bytes, exact),
            files: Vec::new(),
            by_path: HashMap::new(),
            by_lease: HashMap::new(),
            directories: HashMap::new(),
            by_number: HashMap::new(),
            closed: VecDeque::new(),
            wires: FxHashMap::default(),
            open_handles: Vec::new(),
            deferred: Vec::new(),
            last_lease: 0,
        }
    }

    /// Clears everything except the record of used lease keys, which the server may still hold for a lost session.
    pub(super) fn clear(&mut self) {
        self.pages.clear();
        self.files.clear();
        self.by_path.clear();
        self.by_lease.clear();
        self.directories.clear();
        self.by_number.clear();
        self.closed.clear();
        self.wires.clear();
        self.open_handles.clear();
        self.deferred.clear();
    }

    pub(super) fn new_lease(&mut self) -> LeaseKey {
        self.last_lease += 1;
        LeaseKey(self.last_lease)
    }

    pub(super) fn file(&self, id: FileId) -> &File {
        self.files[id as usize]
            .as_ref()
            .expect("a file stays while it has a handle")
    }

    pub(super) fn file_mut(&mut self, id: FileId) -> &mut File {
        self.files[id as usize]
            .as_mut()
            .expect("a file stays while it has a handle")
    }

    /// Adds a file. Adds its path too, unless nothing of the file is cached.
    pub(super) fn add_file(&mut self, file: File) -> FileId {
        let place = self
            .files
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.files.len());
        let id = FileId::try_from(place).expect("handles are fewer than this");
        if file.names.is_some() {
            self.directories.insert(file.key.clone(), id);
        } else if !file.plain {
            self.by_path.insert(file.key.clone(), id);
        }
        if let Some(key) = file.lease {
            self.by_lease.insert(key, id);
        }
        if file.is_known_by_rules() {
            self.by_number.insert(file.number, id);
        }
        if place == self.files.len() {
            self.files.push(None);
        }
        self.files[place] = Some(file);
        id
    }

    pub(super) fn file_at(&self, key: &str) -> Option<FileId> {
        let id = *self.by_path.get(key)?;
        self.file(id).is_at_its_path().then_some(id)
    }

    /// Returns the file last opened by a path. It may have been renamed since.
    pub(super) fn file_once_at(&self, key: &str) -> Option<FileId> {
        self.by_path.get(key).copied()
    }

    pub(super) fn file_of_lease(&self, key: LeaseKey) -> Option<FileId> {
        self.by_lease.get(&key).copied()
    }

    pub(super) fn file_of_number(&self, number: u64) -> Option<FileId> {
        self.by_number.get(&number).copied()
    }

    /// Records that a path names a known file, for close-to-open rules.
    pub(super) fn leads_to(&mut self, key: String, id: FileId) {
        let old = std::mem::replace(&mut self.file_mut(id).key, key.clone());
        if self.by_path.get(&old) == Some(&id) {
            self.by_path.remove(&old);
        }
        self.by_path.insert(key, id);
    }

    pub(super) fn leads_nowhere(&mut self, key: &str) {
        self.by_path.remove(key);
    }

    /// Returns other entries opened by the same path, which may be the same file.
    pub(super) fn siblings(&self, id: FileId) -> Vec<FileId> {
        let key = &self.file(id).key;
        let same = |(place, file): (usize, &Option<File>)| {
            let place = FileId::try_from(place).ok()?;
            (place != id && file.as_ref().is_some_and(|file| file.key == *key)).then_some(place)
        };
        self.files.iter().enumerate().filter_map(same).collect()
    }

    pub(super) fn wire(&self, handle: Handle) -> Option<Wire> {
        self.wires.get(&handle).copied()
    }

    pub(super) fn add_wire(&mut self, handle: Handle, file: FileId, access: Access) {
        self.file_mut(file).wires.push(handle);
        self.closed.retain(|closed| *closed != file);
        self.wires.insert(
            handle,
            Wire {
                file,
                access,
                users: 0,
                extended: false,
            },
        );
    }

    /// Records that a file was created or extended through the handle.
    pub(super) fn set_extended(&mut self, handle: Handle) {
        if let Some(wire) = self.wires.get_mut(&handle) {
            wire.extended = true;
        }
    }

    /// Removes a handle. The file's state is dropped with its last handle.
    pub(super) fn remove_wire(&mut self, handle: Handle) {
        let Some(wire) = self.wires.remove(&handle) else {
            return;
        };
        self.deferred.retain(|deferred| deferred.wire != handle);
        let file = self.file_mut(wire.file);
        file.wires.retain(|other| *other != handle);
        self.remove_unused(wire.file);
    }

    pub(super) fn begin_opening(&mut self, id: FileId) {
        self.file_mut(id).opening += 1;
    }

    /// Ends an open that produced no handle.
    pub(super) fn end_opening(&mut self, id: FileId) {
        self.file_mut(id).opening -= 1;
        self.remove_unused(id);
    }

    /// Records a lease of a file. From now on, a break announces changes by others.
    pub(super) fn hold(&mut self, id: FileId, key: LeaseKey) {
        self.release(id);
        let file = self.file_mut(id);
        (file.lease, file.caching) = (Some(key), Caching::ALL);
        if let Some(validity) = &mut file.validity {
            validity.hold();
        }
        self.by_lease.insert(key, id);
    }

    /// Ends the lease: from now on, only close-to-open rules apply.
    pub(super) fn release(&mut self, id: FileId) {
        let file = self.file_mut(id);
        let Some(validity) = &mut file.validity else {
            return;
        };
        validity.release();
        let Some(key) = file.lease.take() else {
            return;
        };
        file.caching = Caching::READ_WRITE;
        self.by_lease.remove(&key);
    }

    fn remove_unused(&mut self, id: FileId) {
        let file = self.file(id);
        if !file.wires.is_empty() || file.opening > 0 {
            return;
        }
        // A lease ends with the last handle.
        self.release(id);
        let file = self.file(id);
        if !file.is_known_by_rules() {
            return self.remove_file(id);
        }
        self.closed.push_back(id);
        if self.closed.len() > MOST_CLOSED {
            if let Some(oldest) = self.closed.pop_front() {
                self.remove_file(oldest);
            }
        }
    }

    fn remove_file(&mut self, id: FileId) {
        self.pages.forget_file(id);
        let Some(file) = self.files[id as usize].take() else {
            return;
        };
        if self.by_path.get(&file.key) == Some(&id) {
            self.by_path.remove(&file.key);
        }
        if file.names.is_some() {
            self.directories.remove(&file.key);
        }
        if let Some(key) = file.lease {
            self.by_lease.remove(&key);
        }
        if self.by_number.get(&file.number) == Some(&id) {
            self.by_number.remove(&file.number);
        }
    }

    /// Returns a handle of the file that allows `access`, preferably one with exactly that access.
    pub(super) fn fitting_wire(&self, id: FileId, access: Access) -> Option<Handle> {
        let fits = |handle: &&Handle| {
            let has = self.wires[handle].access;
            has == access || has == Access::ReadWrite || access == Access::Attributes
        };
        let rank = |handle: &&Handle| (self.wires[handle].access != access, handle.0);
        self.file(id).wires.iter().filter(fits).min_by_key(rank).copied()
    }

    /// Returns a handle of the file that allows writes.
    pub(super) fn writing_wire(&self, id: FileId) -> Option<Handle> {
        let writes =
            |handle: &&Handle| matches!(self.wires[handle].access, Access::ReadWrite | Access::Write);
        self.file(id).wires.iter().find(writes).copied()
    }

    /// Creates an application handle that uses the server's handle `wire`.
    pub(super) fn add_open_handle(&mut self, wire: Handle, access: Access) -> Handle {
        self.deferred.retain(|deferred| deferred.wire != wire);
        let below = self.wires.get_mut(&wire).expect("called only for open handles");
        below.users += 1;
        let open = OpenHandle {
            wire,
            file: below.file,
            access,
            read_to: None,
        };
        let place = self
            .open_handles
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.open_handles.len());
        if place == self.open_handles.len() {
            self.open_handles.push(None);
        }
        self.open_handles[place] = Some(open);
        Handle(u32::try_from(place).expect("handles are fewer than this"))
    }

    /// Returns the state of an application's handle. An unknown handle belongs to a lost session.
    pub(super) fn open_handle_of(&self, handle: Handle) -> Result<OpenHandle, Failure> {
        let open = self.open_handles.get(handle.0 as usize).copied().flatten();
        open.ok_or_else(|| Fault::SessionLost.into())
    }

    pub(super) fn set_read_to(&mut self, handle: Handle, offset: u64) {
        if let Some(Some(open)) = self.open_handles.get_mut(handle.0 as usize) {
            open.read_to = Some(offset);
        }
    }

    pub(super) fn remove_open_handle(&mut self, handle: Handle) {
        if let Some(open) = self
            .open_handles
            .get_mut(handle.0 as usize)
            .and_then(Option::take)
        {
            if let Some(wire) = self.wires.get_mut(&open.wire) {
                wire.users -= 1;
            }
        }
    }

    /// Returns a file's handles with a deferred close.
    pub(super) fn deferred_of(&self, id: FileId) -> Vec<Handle> {
        self.deferred_where(|file, _| file == id)
    }

    /// Returns the handles with a deferred close of files at or below these paths.
    pub(super) fn deferred_within(&self, keys: &[&str]) -> Vec<Handle> {
        self.deferred_where(|_, other| keys.iter().any(|key| is_within(other, key)))
    }

    fn deferred_where(&self, matches: impl Fn(FileId, &str) -> bool) -> Vec<Handle> {
        let of = |deferred: &&Deferred| {
            let file = self.wires[&deferred.wire].file;
            matches(file, &self.file(file).key)
        };
        self.deferred
            .iter()
            .filter(of)
            .map(|deferred| deferred.wire)
            .collect()
    }

    pub(super) fn all_deferred(&self) -> Vec<Handle> {
        self.deferred.iter().map(|deferred| deferred.wire).collect()
    }

    /// Records the deletion of a path. Open handles of the file stay valid, but the file has no name.
    pub(super) fn deleted(&mut self, key: &str) {
        if let Some(id) = self.by_path.remove(key) {
            self.file_mut(id).doomed = true;
            // The server may reuse the file number for another file.
            self.by_number.retain(|_, numbered| *numbered != id);
            if self.closed.contains(&id) {
                self.closed.retain(|closed| *closed != id);
                self.remove_file(id);
            }
        }
    }

    /// Records the rename of a path and of all paths below it.
    pub(super) fn renamed(&mut self, from: &str, to: &str) {
        self.by_path.remove(to);
        for (place, file) in self.files.iter_mut().enumerate() {
            let Some(file) = file else { continue };
            if !is_within(&file.key, from) {
                continue;
            }
            let id = FileId::try_from(place).expect("unchanged since it was added");
            let was_there = self.by_path.get(&file.key) == Some(&id);
            let key = format!("{to}{}", &file.key[from.len()..]);
            let old = std::mem::replace(&mut file.key, key);
            if was_there {
                self.by_path.remove(&old);
                self.by_path.insert(file.key.clone(), id);
            }
        }
    }

    pub(super) fn first_failure(&mut self) -> Option<Failure> {
        self.files
            .iter_mut()
            .flatten()
            .find_map(|file| file.failed.take())
    }
}
