//! What office applications do again and again: ask whether there is room, try whether they may write, open a
//! structured document, save by way of a temporary file, print into a file.
//!
//! Seen in the captures as sequences of kinds of operations; the names and the numbers here are ours.
//!
//! Not for: which application does what how often (`apps`).

use super::draft::{Burst, Draft, Place};
use super::facts::Made;
use crate::{Intent, PathId, Slot};

/// Size of a sector of a structured document, and of its header.
pub(super) const SECTOR_BYTES: u32 = 512;
/// A page of a client's cache, and the size at which files are printed.
const PAGE_BYTES: u32 = 4096;

impl Draft<'_> {
    /// Whether a file may be made here: makes an empty one and deletes it, having looked whether it is there where
    /// `careful`.
    pub(super) fn try_to_write(&mut self, path: PathId, careful: bool) {
        if careful {
            self.probe(path);
        }
        let slot = self.make(path);
        self.close(slot);
        self.delete(path);
    }

    /// Opens a document that has a file system of sectors inside: its header, its allocation table and its directory
    /// are read first. `asks` file queries go along.
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

    /// Fills a file that was made, piece by piece.
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

    /// Prints into a file: is there room, is there such a file, may it be made; then page by page. What is printed
    /// stays until the sweep.
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
