//! How many requests each thread of a server has answered, by kind.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one thread. In cache lines of its own, so that the threads don't slow each other down.
#[derive(Debug)]
#[repr(align(128))]
struct OfThread<const KINDS: usize>([AtomicU64; KINDS]);

/// A counter per thread and kind of request. Only the thread itself writes to its counters.
#[derive(Debug)]
pub(crate) struct Counts<const KINDS: usize>(Box<[OfThread<KINDS>]>);

impl<const KINDS: usize> Counts<KINDS> {
    pub(crate) fn new(threads: usize) -> Self {
        let zeros = || OfThread(std::array::from_fn(|_| AtomicU64::new(0)));
        Self((0..threads).map(|_| zeros()).collect())
    }

    /// Counts a request before it is answered: who has the answer must find it counted. Unknown kinds don't count.
    pub(crate) fn add(&self, thread: usize, kind: usize) {
        if let Some(counter) = self.0[thread].0.get(kind) {
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Take back one that `add` has counted, because its answer could not be sent.
    pub(crate) fn take_back(&self, thread: usize, kind: usize) {
        let counter = &self.0[thread].0[kind];
        counter.store(counter.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Return how many requests of a kind all threads have counted.
    pub(crate) fn of_kind(&self, kind: usize) -> u64 {
        let of_threads = self.0.iter().map(|thread| &thread.0[kind]);
        of_threads.map(|counter| counter.load(Ordering::Relaxed)).sum()
    }
}
