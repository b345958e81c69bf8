//! The start of a level for all engine threads: as soon as all clients are ready, or by a later command.

use crate::spec::StartRule;
use dyno_measure::{monotonic_ns, unix_s, NS_PER_S};
use dyno_net::Executor;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

/// Polling interval of `Start::wait`.
const LOOK_NS: u64 = 1_000_000;
/// Time between the readiness of all clients and the start, long enough for all threads to poll.
const NOTICE_NS: u64 = 5_000_000;

/// Barrier that sets the start time once all clients have arrived.
#[derive(Debug)]
pub(crate) struct Start {
    rule: StartRule,
    missing: AtomicUsize,
    expected: usize,
    moment: OnceLock<(u64, f64)>,
}

impl Start {
    pub(crate) fn new(rule: StartRule, expected: usize) -> Self {
        Self {
            rule,
            missing: AtomicUsize::new(expected),
            expected,
            moment: OnceLock::new(),
        }
    }

    /// Records that `count` clients are ready or never will be. The last client sets the start time, unless a
    /// command does.
    pub(crate) fn arrive(&self, count: usize) {
        let last = self.missing.fetch_sub(count, Ordering::AcqRel) == count;
        if last && self.rule == StartRule::Ready {
            self.go(monotonic_ns() + NOTICE_NS);
        }
    }

    /// Starts the level at `start_ns` of the monotonic clock. Later calls have no effect.
    pub(crate) fn go(&self, start_ns: u64) {
        self.moment.get_or_init(|| {
            let ahead_s = (start_ns as f64 - monotonic_ns() as f64) / NS_PER_S as f64;
            (start_ns, unix_s() + ahead_s)
        });
    }

    pub(crate) fn arrived(&self) -> usize {
        self.expected - self.missing.load(Ordering::Relaxed).min(self.expected)
    }

    /// Returns the level's start on the monotonic clock, or None if the start is not known yet.
    pub(crate) fn ns(&self) -> Option<u64> {
        self.moment.get().map(|moment| moment.0)
    }

    /// Returns the level's start in seconds since 1970, or None if it is not known yet.
    pub(crate) fn unix_s(&self) -> Option<f64> {
        self.moment.get().map(|moment| moment.1)
    }

    /// Waits until the start is known, not until it is reached.
    pub(crate) async fn wait(&self, executor: &Executor) -> u64 {
        loop {
            if let Some(start_ns) = self.ns() {
                return start_ns;
            }
            executor.sleep_until(monotonic_ns() + LOOK_NS).await;
        }
    }
}
