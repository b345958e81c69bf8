//! What the cache knows: files, the handles that are open below it, and the handles that applications hold above it.
//! Not for: asking the server anything.

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

/// Files that are known by rules and not open; the ones closed longest ago are forgotten.
const MOST_CLOSED: usize = 4096;

/// One file as this client has it open: under one oplock or one lease.
#[derive(Debug)]
pub(super) struct File {
    pub(super) key: String,
    /// The server's number of it; 0 for none.
    pub(super) number: u64,
    /// Where rules, and no grants, say what may be kept: how long what is known counts.
    pub(super) validity: Option<Validity>,
    /// What the server has and may still lose.
    pub(super) sent: SentRuns,
    /// What the server lets be kept now.
    pub(super) caching: Caching,
    pub(super) lease: Option<LeaseKey>,
    /// Handles below the cache. With oplocks never more than one: a second would break the first one's.
    pub(super) wires: Vec<Handle>,
    /// Its end as applications see it. Like what follows right only while reads may be kept.
    pub(super) bytes: u64,
    /// Its end as the server has it: what lies beyond is here alone.
    pub(super) server_end: u64,
    /// Room that the server keeps for it.
    pub(super) allocated_bytes: u64,
    pub(super) read_only: bool,
    /// Page transfers under way, and the flush in the background.
    pub(super) transfers: u32,
    /// Pages that are on their way from the server.
    pub(super) coming: Vec<Range<u64>>,
    /// Bytes that are on their way to it. Their pages count as clean, and may have left memory.
    pub(super) going: Vec<Range<u64>>,
    /// Pages before this one have been asked for ahead of an application. A hint: they may be gone again.
    pub(super) ahead_to: u64,
    /// Of a write-back; the next call on the file is told.
    pub(super) failed: Option<Failure>,
    /// Of a fetch; the read or write that wanted it is told.
    pub(super) fetch_failed: Option<Failure>,
    /// The server has another end than we thought.
    pub(super) doubtful: bool,
    pub(super) locks: Vec<HeldLock>,
    /// Opened for attributes alone, as a directory or to be deleted: none of it is kept.
    pub(super) plain: bool,
    /// Deleted, or to be with its last close: its handles are not kept.
    pub(super) doomed: bool,
    /// Breaks that concerned it, so that an open knows whether what it was granted still stands.
    pub(super) breaks: u64,
    /// What is kept of a directory that is leased; None: it is a file.
    pub(super) names: Option<Box<Names>>,
    /// Opens of it under way, that share its lease: it stays for them, even if its last handle goes meanwhile.
    pub(super) opening: u32,
}

impl File {
    pub(super) fn new(key: String, info: &Info, caching: Caching, lease: Option<LeaseKey>) -> Self {
        let mut file = Self {
            key,
            number: info.file_id,
            validity: None,
            sent: SentRuns::default(),
            caching,
            lease,
            wires: Vec::new(),
            bytes: 0,
            server_end: 0,
            allocated_bytes: 0,
            read_only: false,
            transfers: 0,
            coming: Vec::new(),
            going: Vec::new(),
            ahead_to: 0,
            failed: None,
            fetch_failed: None,
            doubtful: false,
            locks: Vec::new(),
            plain: false,
            doomed: false,
            breaks: 0,
            names: None,
            opening: 0,
        };
        file.learn(info);
        file
    }

    /// Takes over what the server says of it.
    pub(super) fn learn(&mut self, info: &Info) {
        self.bytes = info.bytes;
        self.server_end = info.bytes;
        self.allocated_bytes = info.allocated_bytes;
        self.read_only = info.read_only;
        self.doubtful = false;
    }

    /// What an application is told of it.
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

    /// A call of ours has changed it, as its reply tells.
    pub(super) fn changed_by_us(&mut self, piggyback: &Piggyback) {
        let Some(validity) = &mut self.validity else {
            return;
        };
        match piggyback.attributes {
            Some(attributes) => validity.changed_by_us(attributes.change_before, attributes.info.change),
            None => validity.doubt(),
        }
    }

    /// A call of ours that changes nothing has brought its attributes.
    pub(super) fn seen(&mut self, piggyback: &Piggyback) {
        if let (Some(validity), Some(attributes)) = (&mut self.validity, piggyback.attributes) {
            validity.seen(attributes.info.change);
        }
    }

    /// Whether it is known by rules, also while it is not open.
    fn is_known_by_rules(&self) -> bool {
        self.validity.is_some() && self.number != 0 && !self.doomed
    }

    /// Whether any of these pages is on its way.
    pub(super) fn comes(&self, pages: &Range<u64>) -> bool {
        self.coming.iter().any(|run| meets(run, pages))
    }

    /// Whether any of these pages is on its way to the server.
    pub(super) fn goes(&self, pages: &Range<u64>) -> bool {
        let bytes = pages.start * PAGE_BYTES..pages.end * PAGE_BYTES;
        self.going.iter().any(|run| meets(run, &bytes))
    }

    /// Whether data read may be kept. Not while a range is locked: Windows caches "unless locked" (KB Q165966), and the
    /// captures have every read of a locked document on the wire.
    pub(super) fn keeps_reads(&self) -> bool {
        self.caching.read && self.locks.iter().all(|lock| lock.local)
    }

    /// Whether data written may be kept back.
    pub(super) fn keeps_writes(&self) -> bool {
        self.caching.write && self.keeps_reads()
    }

    /// Whether it is still the file that its path leads to: nobody can have renamed or deleted it, because that takes
    /// the right to the handle, and nobody can even have opened it while we alone may write.
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
    /// Directories that are leased, by their paths.
    pub(super) directories: HashMap<String, FileId>,
    /// Those that are known by rules, by the server's number.
    by_number: HashMap<u64, FileId>,
    /// Those of them that are not open, the one closed longest ago first.
    closed: VecDeque<FileId>,
    wires: FxHashMap<Handle, Wire>,
    open_handles: Vec<Option<OpenHandle>>,
    /// The one put off longest ago first.
    pub(super) deferred: Vec<Deferred>,
    last_lease: u128,
}

/// The path under which a file is known: names differ by more than the case of ASCII letters.
pub(super) fn folded(path: &str) -> String {
    path.to_ascii_lowercase()
}

fn meets(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Whether `key` is `directory` or lies below it.
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

    /// Forgets everything but which lease keys were used: the server may still have those of a session that broke.
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

    /// Adds a file; from now on it is the one at its path, unless none of it is to be kept.
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

    /// The file at a path, where it surely is the one that we have open.
    pub(super) fn file_at(&self, key: &str) -> Option<FileId> {
        let id = *self.by_path.get(key)?;
        self.file(id).is_at_its_path().then_some(id)
    }

    /// The file opened last under a path, which may lie elsewhere or be gone by now.
    pub(super) fn file_once_at(&self, key: &str) -> Option<FileId> {
        self.by_path.get(key).copied()
    }

    pub(super) fn file_of_lease(&self, key: LeaseKey) -> Option<FileId> {
        self.by_lease.get(&key).copied()
    }

    /// The file that the server calls so, where it is known by rules.
    pub(super) fn file_of_number(&self, number: u64) -> Option<FileId> {
        self.by_number.get(&number).copied()
    }

    /// A path has led to a file of ours that is known by rules.
    pub(super) fn leads_to(&mut self, key: String, id: FileId) {
        let old = std::mem::replace(&mut self.file_mut(id).key, key.clone());
        if self.by_path.get(&old) == Some(&id) {
            self.by_path.remove(&old);
        }
        self.by_path.insert(key, id);
    }

    /// A path leads to no file of ours any more.
    pub(super) fn leads_nowhere(&mut self, key: &str) {
        self.by_path.remove(key);
    }

    /// Others of our files that were opened under the same path: they may be the same one.
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

    /// A file was made through the handle, or has grown.
    pub(super) fn set_extended(&mut self, handle: Handle) {
        if let Some(wire) = self.wires.get_mut(&handle) {
            wire.extended = true;
        }
    }

    /// Takes a handle out; with its last one goes the file and all that was kept of it.
    pub(super) fn remove_wire(&mut self, handle: Handle) {
        let Some(wire) = self.wires.remove(&handle) else {
            return;
        };
        self.deferred.retain(|deferred| deferred.wire != handle);
        let file = self.file_mut(wire.file);
        file.wires.retain(|other| *other != handle);
        self.remove_unused(wire.file);
    }

    /// Another open of a file is under way that shares its lease.
    pub(super) fn begin_opening(&mut self, id: FileId) {
        self.file_mut(id).opening += 1;
    }

    /// It has ended without a handle.
    pub(super) fn end_opening(&mut self, id: FileId) {
        self.file_mut(id).opening -= 1;
        self.remove_unused(id);
    }

    /// The server has granted a lease of a file that is known by rules: it tells before anybody else changes it.
    pub(super) fn hold(&mut self, id: FileId, key: LeaseKey) {
        self.release(id);
        let file = self.file_mut(id);
        (file.lease, file.caching) = (Some(key), Caching::ALL);
        if let Some(validity) = &mut file.validity {
            validity.hold();
        }
        self.by_lease.insert(key, id);
    }

    /// It does not any more: the rules alone count.
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
        // A lease goes with the last handle.
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

    /// A handle of the file on which `access` may be had, the least one that will do.
    pub(super) fn fitting_wire(&self, id: FileId, access: Access) -> Option<Handle> {
        let fits = |handle: &&Handle| {
            let has = self.wires[handle].access;
            has == access || has == Access::ReadWrite || access == Access::Attributes
        };
        let rank = |handle: &&Handle| (self.wires[handle].access != access, handle.0);
        self.file(id).wires.iter().filter(fits).min_by_key(rank).copied()
    }

    /// A handle of the file that may be written through.
    pub(super) fn writing_wire(&self, id: FileId) -> Option<Handle> {
        let writes =
            |handle: &&Handle| matches!(self.wires[handle].access, Access::ReadWrite | Access::Write);
        self.file(id).wires.iter().find(writes).copied()
    }

    /// Gives an application a handle of its own on one below.
    pub(super) fn add_open_handle(&mut self, wire: Handle, access: Access) -> Handle {
        self.deferred.retain(|deferred| deferred.wire != wire);
        let below = self.wires.get_mut(&wire).expect("asked for of one that is open");
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

    /// What an application's handle stands for. One that isn't known went with a session that was lost.
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

    /// Handles of a file whose close is put off.
    pub(super) fn deferred_of(&self, id: FileId) -> Vec<Handle> {
        self.deferred_where(|file, _| file == id)
    }

    /// Handles put off of these paths, or below them.
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

    /// All handles put off.
    pub(super) fn all_deferred(&self) -> Vec<Handle> {
        self.deferred.iter().map(|deferred| deferred.wire).collect()
    }

    /// A path was deleted: what is still open of it is a file without a name.
    pub(super) fn deleted(&mut self, key: &str) {
        if let Some(id) = self.by_path.remove(key) {
            self.file_mut(id).doomed = true;
            // Its number may be given to another.
            self.by_number.retain(|_, numbered| *numbered != id);
            if self.closed.contains(&id) {
                self.closed.retain(|closed| *closed != id);
                self.remove_file(id);
            }
        }
    }

    /// A path was renamed, and with it all below it.
    pub(super) fn renamed(&mut self, from: &str, to: &str) {
        self.by_path.remove(to);
        for (place, file) in self.files.iter_mut().enumerate() {
            let Some(file) = file else { continue };
            if !is_within(&file.key, from) {
                continue;
            }
            let id = FileId::try_from(place).expect("as when it was added");
            let was_there = self.by_path.get(&file.key) == Some(&id);
            let key = format!("{to}{}", &file.key[from.len()..]);
            let old = std::mem::replace(&mut file.key, key);
            if was_there {
                self.by_path.remove(&old);
                self.by_path.insert(file.key.clone(), id);
            }
        }
    }

    /// Failures of write-backs that nobody was told of yet; the first of them.
    pub(super) fn first_failure(&mut self) -> Option<Failure> {
        self.files
            .iter_mut()
            .flatten()
            .find_map(|file| file.failed.take())
    }
}
