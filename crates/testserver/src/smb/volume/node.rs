//! A file or a directory with its attributes.

use super::names::Key;
use super::watching::Changes;
use super::{Lock, Waiter};
use crate::pages::Pages;
use std::collections::BTreeMap;

/// FILE_ATTRIBUTE_* (MS-FSCC 2.6).
pub(crate) mod attribute {
    pub(crate) const READ_ONLY: u32 = 0x01;
    pub(crate) const DIRECTORY: u32 = 0x10;
    pub(crate) const ARCHIVE: u32 = 0x20;
    pub(crate) const NORMAL: u32 = 0x80;
    pub(crate) const TEMPORARY: u32 = 0x100;
    /// Bits for volume and device, and undefined bits.
    pub(crate) const UNKNOWN: u32 = 0xffff_8048;
    /// Read-only, hidden, system and archive: the attributes that a client may set.
    pub(crate) const SETTABLE: u32 = 0x27;
}

/// Unit of the reported space.
pub(crate) const CLUSTER_BYTES: u64 = 4096;
/// Assumed size of a name, its directory entry and a node, so that the number of empty files is limited, too.
pub(crate) const NODE_BYTES: u64 = 1024;

/// Times in units of 100 ns since 1601.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) created: u64,
    pub(crate) accessed: u64,
    pub(crate) written: u64,
    pub(crate) changed: u64,
}

impl Times {
    pub(crate) fn all(now: u64) -> Self {
        Self {
            created: now,
            accessed: now,
            written: now,
            changed: now,
        }
    }
}

/// Contents of a node.
#[derive(Debug)]
pub(crate) enum Body {
    File(Pages),
    /// Child nodes by their names in capitals.
    Directory(BTreeMap<Key, usize>),
}

/// A file or a directory.
#[derive(Debug)]
pub(crate) struct Node {
    /// The name in its original spelling. Empty for the root.
    pub(crate) name: Box<[u16]>,
    /// The parent directory. The root is its own parent.
    pub(crate) parent: usize,
    pub(crate) number: u64,
    pub(crate) attributes: u32,
    pub(crate) times: Times,
    pub(crate) body: Body,
    pub(crate) opens: Vec<usize>,
    pub(crate) locks: Vec<Lock>,
    pub(crate) delete_pending: bool,
    pub(crate) changes: Changes,
    /// Requests to retry when an oplock, lease or lock on the file is released, or something in the directory
    /// changes.
    pub(crate) waiters: Vec<Waiter>,
}

/// Properties of a node for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) number: u64,
    pub(crate) attributes: u32,
    pub(crate) times: Times,
    pub(crate) end: u64,
    pub(crate) allocated: u64,
    pub(crate) delete_pending: bool,
}

impl Facts {
    pub(crate) fn is_directory(&self) -> bool {
        self.attributes & attribute::DIRECTORY != 0
    }
}

impl Node {
    pub(crate) fn new(name: &[u16], parent: usize, number: u64, attributes: u32, now: u64) -> Self {
        let directory = attributes & attribute::DIRECTORY != 0;
        Self {
            name: name.into(),
            parent,
            number,
            attributes,
            times: Times::all(now),
            body: if directory {
                Body::Directory(BTreeMap::new())
            } else {
                Body::File(Pages::default())
            },
            opens: Vec::new(),
            locks: Vec::new(),
            delete_pending: false,
            changes: Changes::default(),
            waiters: Vec::new(),
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    pub(crate) fn pages(&self) -> Option<&Pages> {
        match &self.body {
            Body::File(pages) => Some(pages),
            Body::Directory(_) => None,
        }
    }

    pub(crate) fn pages_mut(&mut self) -> Option<&mut Pages> {
        match &mut self.body {
            Body::File(pages) => Some(pages),
            Body::Directory(_) => None,
        }
    }

    pub(crate) fn entries(&self) -> Option<&BTreeMap<Key, usize>> {
        match &self.body {
            Body::Directory(entries) => Some(entries),
            Body::File(_) => None,
        }
    }

    pub(crate) fn entries_mut(&mut self) -> Option<&mut BTreeMap<Key, usize>> {
        match &mut self.body {
            Body::Directory(entries) => Some(entries),
            Body::File(_) => None,
        }
    }

    pub(crate) fn facts(&self) -> Facts {
        let end = self.pages().map_or(0, Pages::end);
        Facts {
            number: self.number,
            attributes: self.attributes,
            times: self.times,
            end,
            allocated: end.next_multiple_of(CLUSTER_BYTES),
            delete_pending: self.delete_pending,
        }
    }

    /// Updates times and attributes after a write.
    pub(crate) fn touch(&mut self, now: u64) {
        self.times.written = now;
        self.times.changed = now;
        if !self.is_directory() {
            self.attributes |= attribute::ARCHIVE;
            self.attributes &= !attribute::NORMAL;
        }
    }
}
