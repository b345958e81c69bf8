//! What is kept of one directory: how many names match a pattern, and what look-ups of names in it have come to. Data alone.

use crate::call::Info;
use std::collections::HashMap;

/// Of one directory; whoever looks up more begins anew.
const MOST_NAMES: usize = 16_384;
const MOST_PATTERNS: usize = 64;

/// What is kept of one directory.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// How many names match, by the pattern.
    listings: HashMap<String, u32>,
    /// By the folded path; None: it is not there.
    looked_up: HashMap<String, Option<Info>>,
    /// Changes that were made here, so that an answer from before one is not kept after it.
    changes: u64,
}

impl Names {
    /// Something in the directory was changed here.
    pub(super) fn forget(&mut self) {
        self.listings.clear();
        self.looked_up.clear();
        self.changes += 1;
    }

    /// How many names match.
    pub(super) fn listing(&self, pattern: &str) -> Option<u32> {
        self.listings.get(pattern).copied()
    }

    /// What a path has come to; the inner None: it is not there.
    pub(super) fn look_up(&self, key: &str) -> Option<Option<Info>> {
        self.looked_up.get(key).copied()
    }

    /// Changes that were made here so far.
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
