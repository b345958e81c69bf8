//! Counts of answered requests, per thread of a server and kind of request.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one thread. Aligned to separate cache lines, so that threads don't slow each other down.
#[derive(Debug)]
#[repr(align(128))]
struct OfThread<const KINDS: usize>([AtomicU64; KINDS]);

/// Counters per thread and kind of request. Only the thread itself writes to its counters.
#[derive(Debug)]
pub(crate) struct Counts<const KINDS: usize>(Box<[OfThread<KINDS>]>);

impl<const KINDS: usize> Counts<KINDS> {
    pub(crate) fn new(threads: usize) -> Self {
        let zeros = || OfThread(std::array::from_fn(|_| AtomicU64::new(0)));
        Self((0..threads).map(|_| zeros()).collect())
    }

    /// Counts a request. Call it before the answer is sent: when a client has the answer, the request must
    /// already be counted. Ignores unknown kinds.
    pub(crate) fn add(&self, thread: usize, kind: usize) {
        if let Some(counter) = self.0[thread].0.get(kind) {
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Uncounts a request whose answer could not be sent.
    pub(crate) fn take_back(&self, thread: usize, kind: usize) {
        let counter = &self.0[thread].0[kind];
        counter.store(counter.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Returns the number of requests of a kind, summed over all threads.
    pub(crate) fn of_kind(&self, kind: usize) -> u64 {
        let of_threads = self.0.iter().map(|thread| &thread.0[kind]);
        of_threads.map(|counter| counter.load(Ordering::Relaxed)).sum()
    }
}
