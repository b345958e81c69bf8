//! Counts of answers that contain no result, but ask the client to wait.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a server's answers that asked a client to wait, in all of the server's sessions.
#[derive(Debug, Default)]
pub struct Postponed {
    all: AtomicU64,
    in_grace: AtomicU64,
}

impl Postponed {
    /// Counts an answer. `in_grace`: the server has restarted and waits for its earlier clients.
    pub fn add(&self, in_grace: bool) {
        self.all.fetch_add(1, Ordering::Relaxed);
        self.in_grace.fetch_add(in_grace.into(), Ordering::Relaxed);
    }

    pub fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Returns the number of answers that were caused by a grace period.
    pub fn in_grace(&self) -> u64 {
        self.in_grace.load(Ordering::Relaxed)
    }
}
