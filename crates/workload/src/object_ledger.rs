//! Expected contents of the objects of one client thread, and of lists of these objects.
//!
//! An object is known from the answer to its PUT until the next operation that changes it begins, then
//! unknown until such an operation succeeds. An unknown object is never reported as wrong. The last version
//! but one is stored, and the ETags of older ones, to distinguish a stale answer from a wrong one.
//!
//! The server may still execute a change that the client gave up. The state of the key then stays unknown, so
//! the object gets a new key. The old key is retired: it is never used or checked again.

use crate::{content_of, Writing};
use std::collections::VecDeque;

/// Maximum number of ETags of older versions per ledger: a minute of PUTs of one client thread, which is how long caches
/// typically keep an object.
const MOST_OLDER_TAGS: usize = 1 << 16;

/// Version of an object that a client put. Its ETag is stored as a digest, for comparison only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectVersion {
    writing: Writing,
    pub bytes: u64,
    /// None: not known yet.
    tag: Option<u64>,
}

impl ObjectVersion {
    /// Returns `bytes` bytes of the content, starting at `offset`; at most `MOST_BYTES_AT_ONCE`.
    pub fn content(&self, offset: u64, bytes: usize) -> &'static [u8] {
        content_of(self.writing, offset, bytes)
    }

    fn matches(&self, bytes: Option<u64>, tag: Option<u64>) -> bool {
        bytes.is_none_or(|bytes| bytes == self.bytes) && self.has_tag(tag)
    }

    fn has_tag(&self, tag: Option<u64>) -> bool {
        match (self.tag, tag) {
            (Some(own), Some(tag)) => own == tag,
            _ => true,
        }
    }
}

/// Defect in an answer about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFault {
    /// The answer describes an earlier version.
    Stale,
    Length {
        expected: u64,
        got: u64,
    },
    Tag,
    /// An object is missing from the list.
    Missing,
    /// The list shows an object that does not exist, or shows one twice.
    Unexpected,
    /// The list shows another size or ETag.
    Listed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Absent,
    There(ObjectVersion),
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    known: Known,
    before: Option<ObjectVersion>,
    /// Number of the object's retired keys.
    retired: u32,
}

/// The ledger of one client thread's objects, or of the objects that all threads share.
#[derive(Clone, Debug)]
pub struct ObjectLedger {
    /// Number of the client thread, unique in the load.
    owner: u32,
    level: u32,
    generation: u32,
    entries: Vec<Entry>,
    /// Objects and ETags of versions before the last but one, oldest first.
    older: VecDeque<(u32, u64)>,
}

impl ObjectLedger {
    /// Returns the ledger of a thread that has no objects yet.
    pub fn new(owner: u32, objects: u32) -> Self {
        let entry = Entry {
            known: Known::Absent,
            before: None,
            retired: 0,
        };
        Self {
            owner,
            level: 0,
            generation: 0,
            entries: vec![entry; objects as usize],
            older: VecDeque::new(),
        }
    }

    /// Returns the ledger of objects that all exist and never change.
    pub fn shared(level: u32, sizes: &[u64]) -> Self {
        let mut ledger = Self::new(u32::MAX, sizes.len() as u32);
        ledger.level = level;
        for (object, bytes) in (0..).zip(sizes) {
            let version = ledger.version(object, *bytes);
            ledger.entries[object as usize].known = Known::There(version);
        }
        ledger
    }

    /// Starts a level, to which subsequent writes belong. Objects of earlier levels stay known.
    pub fn begin_level(&mut self, level: u32) {
        self.level = level;
    }

    pub fn objects(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Returns the objects that may exist.
    pub fn present(&self) -> impl Iterator<Item = u32> + '_ {
        let there = |entry: &Entry| entry.known != Known::Absent;
        (0..)
            .zip(&self.entries)
            .filter(move |(_, entry)| there(entry))
            .map(|(object, _)| object)
    }

    /// Returns the known content of an object.
    pub fn known(&self, object: u32) -> Option<ObjectVersion> {
        match self.entries.get(object as usize)?.known {
            Known::There(version) => Some(version),
            Known::Absent | Known::Unknown => None,
        }
    }

    /// Returns the content of an object before its last PUT.
    pub fn before(&self, object: u32) -> Option<ObjectVersion> {
        self.entries.get(object as usize)?.before
    }

    fn version(&self, object: u32, bytes: u64) -> ObjectVersion {
        ObjectVersion {
            writing: Writing {
                client: self.owner,
                level: self.level,
                file: object,
                generation: self.generation,
            },
            bytes,
            tag: None,
        }
    }

    /// Begins an operation that changes an object. From now on, the object is unknown.
    pub fn begin_change(&mut self, object: u32) {
        let entry = &mut self.entries[object as usize];
        if let Known::There(version) = entry.known {
            let older = entry.before.replace(version).and_then(|older| older.tag);
            if let Some(tag) = older {
                if self.older.len() == MOST_OLDER_TAGS {
                    self.older.pop_front();
                }
                self.older.push_back((object, tag));
            }
        }
        entry.known = Known::Unknown;
    }

    /// Begins a PUT of `bytes` bytes, and returns its content, which no other PUT has.
    pub fn begin_put(&mut self, object: u32, bytes: u64) -> ObjectVersion {
        self.begin_change(object);
        self.generation = self.generation.wrapping_add(1);
        self.version(object, bytes)
    }

    /// Records that an object was stored, with the ETag of the answer.
    pub fn stored(&mut self, object: u32, version: ObjectVersion, tag: u64) {
        self.entries[object as usize].known = Known::There(ObjectVersion {
            tag: Some(tag),
            ..version
        });
    }

    pub fn deleted(&mut self, object: u32) {
        self.entries[object as usize].known = Known::Absent;
    }

    /// Records that all objects were removed. Later answers may still describe them.
    pub fn clear(&mut self) {
        for object in 0..self.objects() {
            self.begin_change(object);
            self.deleted(object);
        }
    }

    /// Gives an object a new key that was never used.
    pub fn retire(&mut self, object: u32) {
        self.older.retain(|(older, _)| *older != object);
        let entry = &mut self.entries[object as usize];
        *entry = Entry {
            known: Known::Absent,
            before: None,
            retired: entry.retired.saturating_add(1),
        };
    }

    /// Returns the number of an object's retired keys.
    pub fn retired(&self, object: u32) -> u32 {
        self.entries.get(object as usize).map_or(0, |entry| entry.retired)
    }

    /// Compares an answer about an object with what was put. `bytes`: the object's length, or None in an answer with
    /// only a part. Stores the ETag if none was known.
    ///
    /// # Errors
    /// The kind of difference.
    pub fn judge(&mut self, object: u32, bytes: Option<u64>, tag: Option<u64>) -> Result<(), ObjectFault> {
        let entry = &mut self.entries[object as usize];
        let Known::There(version) = &mut entry.known else {
            return Ok(());
        };
        if version.matches(bytes, tag) {
            version.tag = version.tag.or(tag);
            return Ok(());
        }
        let is_older = |tag| version.tag != Some(tag) && self.older.contains(&(object, tag));
        if entry.before.is_some_and(|before| before.matches(bytes, tag)) || tag.is_some_and(is_older) {
            return Err(ObjectFault::Stale);
        }
        match bytes {
            Some(got) if got != version.bytes => Err(ObjectFault::Length {
                expected: version.bytes,
                got,
            }),
            _ => Err(ObjectFault::Tag),
        }
    }

    /// Begins to check a list of the objects from `first` to before `end`.
    pub fn begin_list(&self, first: u32, end: u32) -> ListCheck {
        let end = end.min(self.objects());
        ListCheck {
            first,
            listed: vec![false; end.saturating_sub(first) as usize],
        }
    }
}

/// The check of one list, whose pages arrive one after another.
#[derive(Debug)]
pub struct ListCheck {
    first: u32,
    listed: Vec<bool>,
}

impl ListCheck {
    /// Checks one entry. `turn`: the number of the key among the object's keys, from 0. A retired key may or
    /// may not be listed.
    ///
    /// # Errors
    /// The entry is stale, wrong or unexpected.
    pub fn entry(
        &mut self,
        ledger: &mut ObjectLedger,
        (object, turn): (u32, u32),
        bytes: u64,
        tag: Option<u64>,
    ) -> Result<(), ObjectFault> {
        let place = object.checked_sub(self.first).ok_or(ObjectFault::Unexpected)?;
        let listed = self
            .listed
            .get_mut(place as usize)
            .ok_or(ObjectFault::Unexpected)?;
        let retired = ledger.retired(object);
        if turn < retired {
            return Ok(());
        }
        if turn > retired {
            return Err(ObjectFault::Unexpected);
        }
        if std::mem::replace(listed, true) || ledger.entries[object as usize].known == Known::Absent {
            return Err(ObjectFault::Unexpected);
        }
        ledger
            .judge(object, Some(bytes), tag)
            .map_err(|fault| match fault {
                ObjectFault::Stale => ObjectFault::Stale,
                _ => ObjectFault::Listed,
            })
    }

    /// Checks that no object is missing.
    ///
    /// # Errors
    /// An object is missing.
    pub fn end(self, ledger: &ObjectLedger) -> Result<(), ObjectFault> {
        let missing = (self.first..)
            .zip(&self.listed)
            .any(|(object, listed)| !listed && ledger.known(object).is_some());
        if missing {
            return Err(ObjectFault::Missing);
        }
        Ok(())
    }
}
