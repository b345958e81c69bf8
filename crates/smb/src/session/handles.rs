//! A session's open files.

use super::durable::Durable;
use crate::wire::{oplock, FileId};
use dyno_files::{Ask, Caching, Grant, Handle, LeaseKey};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    pub file: FileId,
    /// Caching that the oplock allows. Not used for leases, which several handles share.
    pub oplock: Caching,
    /// The granted lease, if any.
    pub lease: Option<LeaseKey>,
    /// Path of the file, if it is a leased directory.
    pub directory: Option<Box<str>>,
    /// Whether the CLOSE has been sent, so that breaks no longer concern the file.
    pub closing: bool,
    /// State for reopening the file, if the server keeps it when the connection is lost.
    pub durable: Option<Box<Durable>>,
    /// Whether the file was reopened on this connection, which replaced a lost one.
    pub reopened: bool,
}

/// All open files, indexed by number.
#[derive(Debug, Default)]
pub struct Handles {
    files: Vec<Option<OpenFile>>,
    free: Vec<u32>,
    /// Handles of leased directories.
    directories: Vec<Handle>,
    /// Lease keys of unanswered opens. A break may arrive before the response to the open.
    asked: Vec<LeaseKey>,
}

impl Handles {
    /// Adds `file` and returns its number.
    pub fn insert(&mut self, file: OpenFile) -> Handle {
        let is_leased_directory = file.directory.is_some();
        let handle = match self.free.pop() {
            Some(number) => {
                self.files[number as usize] = Some(file);
                Handle(number)
            }
            None => {
                self.files.push(Some(file));
                Handle(u32::try_from(self.files.len() - 1).unwrap_or(u32::MAX))
            }
        };
        if is_leased_directory {
            self.directories.push(handle);
        }
        handle
    }

    pub fn leased_directory(&self, path: &str) -> Option<(FileId, LeaseKey)> {
        let open = |handle: &Handle| self.files.get(handle.0 as usize)?.as_ref();
        let mut found = self.directories.iter().filter_map(open);
        let open = found.find(|open| !open.closing && open.directory.as_deref() == Some(path))?;
        Some((open.file, open.lease?))
    }

    pub fn get(&mut self, handle: Handle) -> Option<&mut OpenFile> {
        self.files.get_mut(handle.0 as usize)?.as_mut()
    }

    pub fn remove(&mut self, handle: Handle) {
        if let Some(slot) = self.files.get_mut(handle.0 as usize) {
            if slot.take().is_some() {
                self.free.push(handle.0);
                self.directories.retain(|directory| *directory != handle);
            }
        }
    }

    /// Returns the handles that the server keeps when the connection is lost.
    pub fn durable(&self) -> impl Iterator<Item = Handle> + '_ {
        let kept = |slot: &Option<OpenFile>| slot.as_ref().is_some_and(|open| open.durable.is_some());
        (0..)
            .map(Handle)
            .zip(&self.files)
            .filter(move |(_, slot)| kept(slot))
            .map(|(handle, _)| handle)
    }

    /// Marks the files that were not reopened on the new connection as unusable. Their numbers stay in use,
    /// so that calls on these files fail.
    pub fn drop_not_reopened(&mut self) {
        for open in self.files.iter_mut().flatten() {
            if !std::mem::take(&mut open.reopened) {
                (open.closing, open.durable) = (true, None);
            }
        }
    }

    /// Records the caching that a lease still allows.
    pub fn note_lease(&mut self, key: LeaseKey, left: Caching) {
        let under = |open: &&mut OpenFile| open.lease == Some(key);
        for open in self.files.iter_mut().flatten().filter(under) {
            if let Some(durable) = &mut open.durable {
                durable.granted = left;
            }
        }
    }

    /// Returns the handle of the file with this server ID, unless the file is being closed.
    pub fn of_file(&self, file: FileId) -> Option<Handle> {
        self.find(|open| open.file == file)
    }

    /// Returns whether a file is being opened, or is open and not being closed, under `key`.
    pub fn has_lease(&self, key: LeaseKey) -> bool {
        self.asked.contains(&key) || self.find(|open| open.lease == Some(key)).is_some()
    }

    /// Records that a file is being opened under `key`.
    pub fn lease_asked(&mut self, key: LeaseKey) {
        self.asked.push(key);
    }

    /// Records that an open under `key` was answered.
    pub fn lease_answered(&mut self, key: LeaseKey) {
        if let Some(place) = self.asked.iter().position(|asked| *asked == key) {
            self.asked.swap_remove(place);
        }
    }

    /// Forgets all unanswered opens.
    pub fn no_leases_asked(&mut self) {
        self.asked.clear();
    }

    /// Returns all grants of caching, each lease once.
    pub fn grants(&self) -> Vec<Grant> {
        let mut grants = Vec::new();
        for (number, open) in (0..).zip(&self.files) {
            let Some(open) = open.as_ref().filter(|open| !open.closing) else {
                continue;
            };
            let grant = match open.lease {
                Some(key) => Grant::Lease(key),
                None if open.oplock != Caching::NONE => Grant::Handle(Handle(number)),
                None => continue,
            };
            if !grants.contains(&grant) {
                grants.push(grant);
            }
        }
        grants
    }

    fn find(&self, is_it: impl Fn(&OpenFile) -> bool) -> Option<Handle> {
        let index = self
            .files
            .iter()
            .position(|slot| slot.as_ref().is_some_and(|open| !open.closing && is_it(open)))?;
        u32::try_from(index).ok().map(Handle)
    }
}

/// Returns the oplock level for `caching`, or the next lower one: only a lease can grant handle caching
/// without write caching.
pub fn level_of(caching: Caching) -> u8 {
    match caching {
        Caching { read: false, .. } => oplock::NONE,
        Caching { write: false, .. } => oplock::LEVEL_II,
        Caching { handle: false, .. } => oplock::EXCLUSIVE,
        Caching { .. } => oplock::BATCH,
    }
}

/// Returns the caching that an oplock level allows: none for an unknown level.
pub fn caching_of_level(level: u8) -> Caching {
    match level {
        oplock::LEVEL_II => Caching::READ,
        oplock::EXCLUSIVE => Caching::READ_WRITE,
        oplock::BATCH => Caching::ALL,
        _ => Caching::NONE,
    }
}

/// Returns the lease state bits for `caching`.
pub fn state_of(caching: Caching) -> u32 {
    let bit = |wanted, bit| if wanted { bit } else { 0 };
    bit(caching.read, oplock::LEASE_READ)
        | bit(caching.handle, oplock::LEASE_HANDLE)
        | bit(caching.write, oplock::LEASE_WRITE)
}

/// Returns the caching that the lease state bits allow.
pub fn caching_of_state(state: u32) -> Caching {
    Caching {
        read: state & oplock::LEASE_READ != 0,
        write: state & oplock::LEASE_WRITE != 0,
        handle: state & oplock::LEASE_HANDLE != 0,
    }
}

/// Returns `ask` in a form that the server can grant: if the server grants no leases, an oplock replaces a
/// lease.
pub fn possible(ask: Ask, leases: bool) -> Ask {
    match ask {
        Ask::Lease(_, caching) if !leases => Ask::Oplock(caching),
        ask => ask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(file: u8, lease: Option<LeaseKey>) -> OpenFile {
        OpenFile {
            file: FileId([file; 16]),
            oplock: Caching::NONE,
            lease,
            directory: None,
            closing: false,
            durable: None,
            reopened: false,
        }
    }

    #[test]
    fn numbers_are_reused_and_a_closing_file_is_not_found() {
        let mut handles = Handles::default();
        let first = handles.insert(open(1, None));
        let second = handles.insert(open(2, Some(LeaseKey(9))));
        assert_eq!(handles.of_file(FileId([2; 16])), Some(second));
        handles.get(second).expect("open").closing = true;
        assert_eq!(handles.of_file(FileId([2; 16])), None);
        assert!(!handles.has_lease(LeaseKey(9)));
        handles.remove(first);
        handles.remove(first);
        assert_eq!(handles.insert(open(3, None)), first);
        assert_eq!(handles.insert(open(4, None)), Handle(2));
    }

    #[test]
    fn levels_and_states_convert_both_ways() {
        for caching in [Caching::NONE, Caching::READ, Caching::READ_WRITE, Caching::ALL] {
            assert_eq!(caching_of_level(level_of(caching)), caching);
        }
        for state in 0..8 {
            assert_eq!(state_of(caching_of_state(state)), state);
        }
        assert_eq!(level_of(Caching::READ_HANDLE), oplock::LEVEL_II);
    }
}
