//! The one moment at which a mix starts, for all engine threads: once everybody is ready.

use dyno_measure::{monotonic_ns, unix_s, NS_PER_S};
use dyno_reactor::Executor;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

/// How often somebody who waits looks.
const LOOK_NS: u64 = 1_000_000;
/// From the moment that everybody is ready to the start, so that all have looked by then.
const NOTICE_NS: u64 = 5_000_000;

/// Everybody arrives; then there is a start.
#[derive(Debug)]
pub(crate) struct Start {
    missing: AtomicUsize,
    expected: usize,
    moment: OnceLock<(u64, f64)>,
}

impl Start {
    pub(crate) fn new(expected: usize) -> Self {
        Self {
            missing: AtomicUsize::new(expected),
            expected,
            moment: OnceLock::new(),
        }
    }

    /// So many are ready, or will never be. The last one sets the start.
    pub(crate) fn arrive(&self, count: usize) {
        if self.missing.fetch_sub(count, Ordering::AcqRel) == count {
            self.moment.get_or_init(|| {
                let start_ns = monotonic_ns() + NOTICE_NS;
                (start_ns, unix_s() + NOTICE_NS as f64 / NS_PER_S as f64)
            });
        }
    }

    /// How many have arrived.
    pub(crate) fn arrived(&self) -> usize {
        self.expected - self.missing.load(Ordering::Relaxed).min(self.expected)
    }

    /// When the mix starts, on the monotonic clock; None while somebody is missing.
    pub(crate) fn ns(&self) -> Option<u64> {
        self.moment.get().map(|moment| moment.0)
    }

    /// The same in seconds since 1970.
    pub(crate) fn unix_s(&self) -> Option<f64> {
        self.moment.get().map(|moment| moment.1)
    }

    /// Ends once the moment is known, not when it has come.
    pub(crate) async fn wait(&self, executor: &Executor) -> u64 {
        loop {
            if let Some(start_ns) = self.ns() {
                return start_ns;
            }
            executor.sleep_until(monotonic_ns() + LOOK_NS).await;
        }
    }
}
