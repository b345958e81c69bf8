//! Counts of the answers with which a server asked its clients to wait, instead of a result.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a server's answers, in all of its sessions, that asked to wait.
#[derive(Debug, Default)]
pub struct Postponed {
    all: AtomicU64,
    in_grace: AtomicU64,
}

impl Postponed {
    /// Counts an answer. `in_grace`: the server waits for clients from before its restart.
    pub fn add(&self, in_grace: bool) {
        self.all.fetch_add(1, Ordering::Relaxed);
        self.in_grace.fetch_add(in_grace.into(), Ordering::Relaxed);
    }

    pub fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Returns the number of these answers that a grace period caused.
    pub fn in_grace(&self) -> u64 {
        self.in_grace.load(Ordering::Relaxed)
    }
}
