//! Cache of one directory: numbers of names that match a pattern, and results of look-ups.

use crate::call::Info;
use std::collections::HashMap;

/// Maximum number of look-ups per directory. Once it is reached, all are dropped before the next one is stored.
const MOST_NAMES: usize = 16_384;
const MOST_PATTERNS: usize = 64;

/// Cached results of one directory.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Number of matching names by pattern.
    listings: HashMap<String, u32>,
    looked_up: HashMap<String, Option<Info>>,
    changes: u64,
}

impl Names {
    /// Drops all results, after a local change in the directory or a break.
    pub(super) fn forget(&mut self) {
        self.listings.clear();
        self.looked_up.clear();
        self.changes += 1;
    }

    /// Returns the number of matching names.
    pub(super) fn listing(&self, pattern: &str) -> Option<u32> {
        self.listings.get(pattern).copied()
    }

    /// Returns the result of a look-up. Outer None: it is not cached. Inner None: the path does not exist.
    pub(super) fn look_up(&self, key: &str) -> Option<Option<Info>> {
        self.looked_up.get(key).copied()
    }

    /// Returns how often all results were dropped, so that a reply to an earlier request is not stored.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn keep_listing(&mut self, pattern: &str, entries: u32) {
        if self.listings.len() >= MOST_PATTERNS {
            self.listings.clear();
        }
        self.listings.insert(pattern.to_owned(), entries);
    }

    pub(super) fn keep_look_up(&mut self, key: &str, known: Option<Info>) {
        if self.looked_up.len() >= MOST_NAMES {
            self.looked_up.clear();
        }
        self.looked_up.insert(key.to_owned(), known);
    }
}
