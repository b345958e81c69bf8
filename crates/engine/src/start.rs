//! The one moment at which a mix starts, for all engine threads: once everybody is ready, or once it is told after that.

use crate::spec::StartRule;
use dyno_measure::{monotonic_ns, unix_s, NS_PER_S};
use dyno_net::Executor;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

/// How often somebody who waits looks.
const LOOK_NS: u64 = 1_000_000;
/// From the moment that everybody is ready to the start, so that all have looked by then.
const NOTICE_NS: u64 = 5_000_000;

/// Everybody arrives; then there is a start.
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

    /// So many are ready, or will never be. The last one sets the start, unless it is to be told.
    pub(crate) fn arrive(&self, count: usize) {
        let last = self.missing.fetch_sub(count, Ordering::AcqRel) == count;
        if last && self.rule == StartRule::Ready {
            self.go(monotonic_ns() + NOTICE_NS);
        }
    }

    /// The mix starts at `start_ns` of the monotonic clock. The first moment that was set stays.
    pub(crate) fn go(&self, start_ns: u64) {
        self.moment.get_or_init(|| {
            let ahead_s = (start_ns as f64 - monotonic_ns() as f64) / NS_PER_S as f64;
            (start_ns, unix_s() + ahead_s)
        });
    }

    /// How many have arrived.
    pub(crate) fn arrived(&self) -> usize {
        self.expected - self.missing.load(Ordering::Relaxed).min(self.expected)
    }

    /// When the mix starts, on the monotonic clock; None while that is not known.
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
