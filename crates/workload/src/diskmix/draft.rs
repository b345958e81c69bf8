//! A draft of a script: operations in order, with requests whose offsets and sizes are not yet chosen.
//!
//! `fill.rs` chooses them. `routines.rs` and `apps` define what the applications do.

use crate::{FileAction, Intent, PathId, Presence, Slot};
use std::collections::HashMap;

/// The names of a workspace, without duplicates.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) paths: Vec<String>,
    ids: HashMap<String, PathId>,
}

impl Names {
    pub(super) fn id(&mut self, path: &str) -> PathId {
        if let Some(&id) = self.ids.get(path) {
            return id;
        }
        let id = PathId(u32::try_from(self.paths.len()).expect("some hundred names"));
        self.paths.push(path.to_owned());
        self.ids.insert(path.to_owned(), id);
        id
    }
}

/// Offset of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    At(u64),
    /// To be chosen, different from the end of the previous request.
    Seek,
    /// The end of the previous request on this handle.
    Next,
}

/// A read or a write. If the size is None, it is still to be chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) slot: Slot,
    pub(super) write: bool,
    pub(super) place: Place,
    pub(super) bytes: Option<u32>,
    /// Whether to choose one of the largest sizes.
    pub(super) large: bool,
}

/// Weights by which an application's remaining requests are distributed among its bursts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// Weight for all remaining requests.
    pub(super) requests: u32,
    /// Weight for the remaining requests that continue the previous one.
    pub(super) sequential: u32,
}

/// Work on an open file: reads, writes and file queries, interleaved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burst {
    pub(super) reads: Share,
    pub(super) writes: Share,
    /// Weight for file queries.
    pub(super) asks: u32,
    /// Whether requests of the burst that seek have the largest sizes.
    pub(super) large: bool,
}

impl Burst {
    /// Adds weights for reads and for sequential reads.
    pub(super) fn reads(requests: u32, sequential: u32) -> Self {
        Self::default().and_reads(requests, sequential)
    }

    pub(super) fn writes(requests: u32, sequential: u32) -> Self {
        Self::default().and_writes(requests, sequential)
    }

    pub(super) fn and_reads(mut self, requests: u32, sequential: u32) -> Self {
        self.reads = Share { requests, sequential };
        self
    }

    pub(super) fn and_writes(mut self, requests: u32, sequential: u32) -> Self {
        self.writes = Share { requests, sequential };
        self
    }

    pub(super) fn and_asks(mut self, asks: u32) -> Self {
        self.asks = asks;
        self
    }

    pub(super) fn of_large(mut self) -> Self {
        self.large = true;
        self
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Rough {
    Act(FileAction),
    Data(Request),
    Burst(Slot, Burst),
}

/// Index of the pattern "*" in the catalogue.
pub(super) const EVERYTHING: u16 = 0;
/// Index of a pattern that matches no file.
pub(super) const NOTHING: u16 = 1;
pub(super) const PATTERNS: [&str; 2] = ["*", "*.qzx"];

/// Draft of the operations of one piece, such as an application.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    names: &'a mut Names,
    directory: &'static str,
    pub(super) steps: Vec<Rough>,
    slots: Vec<bool>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(names: &'a mut Names, directory: &'static str) -> Self {
        Self {
            names,
            directory,
            steps: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Returns the path number of a file in the piece's directory.
    pub(super) fn file(&mut self, name: &str) -> PathId {
        let path = format!("{}/{name}", self.directory);
        self.names.id(&path)
    }

    /// Returns the number of a path below the client's directory; "" is that directory itself.
    pub(super) fn path(&mut self, path: &str) -> PathId {
        self.names.id(path)
    }

    fn act(&mut self, action: FileAction) {
        self.steps.push(Rough::Act(action));
    }

    fn times(&mut self, count: u32, action: FileAction) {
        for _ in 0..count {
            self.act(action);
        }
    }

    fn free_slot(&mut self) -> Slot {
        let place = self
            .slots
            .iter()
            .position(|used| !used)
            .unwrap_or(self.slots.len());
        if place == self.slots.len() {
            self.slots.push(false);
        }
        Slot(u16::try_from(place).expect("some twenty slots"))
    }

    fn open_as(&mut self, path: PathId, intent: Intent, presence: Presence) -> Slot {
        let slot = self.free_slot();
        self.slots[usize::from(slot.0)] = presence == Presence::There;
        self.act(FileAction::Open {
            slot,
            path,
            intent,
            directory: false,
            presence,
        });
        slot
    }

    /// Opens an existing file.
    pub(super) fn open(&mut self, path: PathId, intent: Intent) -> Slot {
        self.open_as(path, intent, Presence::There)
    }

    /// Creates a new file.
    pub(super) fn make(&mut self, path: PathId) -> Slot {
        self.open_as(path, Intent::Make, Presence::There)
    }

    /// Tries to open a missing file.
    pub(super) fn probe(&mut self, path: PathId) {
        self.open_as(path, Intent::Read, Presence::NotThere);
    }

    pub(super) fn close(&mut self, slot: Slot) {
        self.slots[usize::from(slot.0)] = false;
        self.act(FileAction::Close { slot });
    }

    /// Opens a file for its attributes, and closes it.
    pub(super) fn look(&mut self, path: PathId) {
        let slot = self.open(path, Intent::Look);
        self.close(slot);
    }

    /// Opens and closes a file without using it.
    pub(super) fn touch(&mut self, path: PathId, intent: Intent) {
        let slot = self.open(path, intent);
        self.close(slot);
    }

    pub(super) fn space(&mut self, count: u32) {
        self.times(count, FileAction::QuerySpace);
    }

    /// Searches for missing files.
    pub(super) fn look_for(&mut self, count: u32) {
        let directory = self.path(self.directory);
        let pattern = NOTHING;
        let presence = Presence::NotThere;
        self.times(
            count,
            FileAction::Find {
                directory,
                pattern,
                presence,
            },
        );
    }

    /// Lists the client's directory.
    pub(super) fn list(&mut self, count: u32) {
        let directory = self.path("");
        self.list_in(directory, count);
    }

    /// Lists a directory that is not empty.
    pub(super) fn list_in(&mut self, directory: PathId, count: u32) {
        let pattern = EVERYTHING;
        let presence = Presence::There;
        self.times(
            count,
            FileAction::Find {
                directory,
                pattern,
                presence,
            },
        );
    }

    /// Queries an existing path.
    pub(super) fn stat(&mut self, path: PathId) {
        let presence = Presence::There;
        self.act(FileAction::QueryPath { path, presence });
    }

    /// Queries a missing path.
    pub(super) fn miss(&mut self, path: PathId) {
        let presence = Presence::NotThere;
        self.act(FileAction::QueryPath { path, presence });
    }

    /// Queries `count` missing templates or parts, named `stem` and a number.
    pub(super) fn miss_some(&mut self, stem: &str, count: u32) {
        for number in 0..count {
            let path = self.file(&format!("{stem}{number}.tpl"));
            self.miss(path);
        }
    }

    pub(super) fn ask(&mut self, slot: Slot, count: u32) {
        self.times(count, FileAction::QueryFile { slot });
    }

    /// Queries a file's times, which a client's cache does not store.
    pub(super) fn ask_times(&mut self, slot: Slot, count: u32) {
        self.times(count, FileAction::QueryTimes { slot });
    }

    pub(super) fn set_times(&mut self, slot: Slot, count: u32) {
        self.times(count, FileAction::SetTimes { slot });
    }

    pub(super) fn flush(&mut self, slot: Slot) {
        self.act(FileAction::Flush { slot });
    }

    pub(super) fn lock(&mut self, slot: Slot, offset: u64, bytes: u64) {
        self.act(FileAction::Lock { slot, offset, bytes });
    }

    pub(super) fn unlock(&mut self, slot: Slot, offset: u64, bytes: u64) {
        self.act(FileAction::Unlock { slot, offset, bytes });
    }

    pub(super) fn delete(&mut self, path: PathId) {
        let presence = Presence::There;
        self.act(FileAction::Delete { path, presence });
    }

    pub(super) fn rename(&mut self, from: PathId, to: PathId) {
        self.act(FileAction::Rename { from, to });
    }

    pub(super) fn read(&mut self, slot: Slot, place: Place, bytes: impl Into<Option<u32>>) {
        self.data(slot, false, place, bytes.into());
    }

    pub(super) fn write(&mut self, slot: Slot, place: Place, bytes: impl Into<Option<u32>>) {
        self.data(slot, true, place, bytes.into());
    }

    fn data(&mut self, slot: Slot, write: bool, place: Place, bytes: Option<u32>) {
        self.steps.push(Rough::Data(Request {
            slot,
            write,
            place,
            bytes,
            large: false,
        }));
    }

    pub(super) fn burst(&mut self, slot: Slot, burst: Burst) {
        self.steps.push(Rough::Burst(slot, burst));
    }
}
