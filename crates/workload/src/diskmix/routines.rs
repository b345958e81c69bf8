//! Frequent routines of office applications: check for space, test whether they may write, open a structured
//! document, save through a temporary file, print to a file.
//!
//! The captures show them as sequences of kinds of operations. The names and numbers here are ours.
//!
//! `apps` determines how often each application uses them.

use super::draft::{Burst, Draft, Place};
use super::facts::Made;
use crate::{Intent, PathId, Slot};

/// Sector and header size of a structured document.
pub(super) const SECTOR_BYTES: u32 = 512;
/// Page size of a client's cache, and of prints to files.
const PAGE_BYTES: u32 = 4096;

impl Draft<'_> {
    /// Tests whether a file may be created: creates an empty one and deletes it. If `careful` is set, looks for the
    /// file first.
    pub(super) fn try_to_write(&mut self, path: PathId, careful: bool) {
        if careful {
            self.probe(path);
        }
        let slot = self.make(path);
        self.close(slot);
        self.delete(path);
    }

    /// Opens a compound document (a file with its own allocation table and directory, in sectors), and reads its
    /// header, allocation table and directory. `asks`: number of file queries, at least 1.
    pub(super) fn structured(&mut self, path: PathId, intent: Intent, asks: u32) -> Slot {
        let slot = self.open(path, intent);
        self.ask(slot, 1);
        self.read(slot, Place::At(0), SECTOR_BYTES);
        self.read(slot, Place::Seek, SECTOR_BYTES);
        self.read(slot, Place::Seek, SECTOR_BYTES);
        self.ask(slot, asks.saturating_sub(1));
        slot
    }

    /// Opens a structured document, works on it and closes it.
    pub(super) fn view(&mut self, path: PathId, intent: Intent, asks: u32, burst: Burst) {
        let slot = self.structured(path, intent, asks);
        self.burst(slot, burst);
        self.close(slot);
    }

    /// Fills a new file, piece by piece.
    pub(super) fn fill(&mut self, slot: Slot, made: &Made) {
        let mut left = u32::try_from(made.bytes - made.first).expect("some hundred thousand bytes");
        let mut pieces = made.pieces.iter().copied();
        let mut place = Place::At(made.first);
        while left > 0 {
            let bytes = pieces.next().unwrap_or(PAGE_BYTES).min(left);
            self.write(slot, place, bytes);
            place = Place::Next;
            left -= bytes;
        }
    }

    /// Prints to a file: checks the space, that the file does not exist, and that it can be created, then
    /// writes page by page. The sweep deletes prints.
    pub(super) fn print(&mut self, path: PathId, made: &Made, set_times: u32, asks: u32) {
        self.space(1);
        self.miss(path);
        self.try_to_write(path, true);
        self.probe(path);
        let slot = self.make(path);
        self.ask(slot, asks);
        self.fill(slot, made);
        self.set_times(slot, set_times);
        self.close(slot);
    }
}
