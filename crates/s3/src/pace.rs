//! Paces requests by a bound of their rate: over all targets, clients and threads of the process that use one address.

use dyno_measure::{monotonic_ns, NS_PER_S};
use dyno_net::Executor;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// When the next request to an address is permitted.
static FREE_NS: Mutex<BTreeMap<SocketAddr, Arc<AtomicU64>>> = Mutex::new(BTreeMap::new());

/// The turns of all requests to an address.
#[derive(Debug, Clone)]
pub struct Pace {
    free_ns: Arc<AtomicU64>,
    interval_ns: u64,
}

impl Pace {
    /// Returns the pace of this process. It has a share of the bound, `part` of `whole` clients, and its next request is
    /// not permitted before those of `turn` others.
    #[must_use]
    pub fn of(address: SocketAddr, max_rate_per_s: f64, (part, whole): (usize, usize), turn: usize) -> Self {
        let all_ns = NS_PER_S as f64 / max_rate_per_s;
        let mut known = FREE_NS.lock().unwrap_or_else(PoisonError::into_inner);
        let free_ns = known.entry(address).or_default().clone();
        let first_ns = monotonic_ns().saturating_add((all_ns * turn as f64).ceil() as u64);
        free_ns.fetch_max(first_ns, Ordering::Relaxed);
        Self {
            free_ns,
            interval_ns: (all_ns * whole as f64 / part.max(1) as f64).ceil() as u64,
        }
    }

    /// Takes the next turn, and returns its time.
    pub(crate) fn take(&self) -> u64 {
        let now_ns = monotonic_ns();
        let after = |free_ns: u64| free_ns.max(now_ns).saturating_add(self.interval_ns);
        let before = self
            .free_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free_ns| {
                Some(after(free_ns))
            });
        before.unwrap_or_else(|free_ns| free_ns).max(now_ns)
    }

    /// Waits until a request is permitted, and counts none.
    pub async fn wait(&self, executor: &Executor) {
        executor.sleep_until(self.free_ns.load(Ordering::Relaxed)).await;
    }

    /// Returns how long this number of requests takes at least.
    #[must_use]
    pub fn length_ns(&self, requests: usize) -> u64 {
        self.interval_ns.saturating_mul(requests as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_use_an_address_take_turns_and_a_part_waits_longer() {
        let address = SocketAddr::from(([192, 0, 2, 1], 1));
        let (whole, half) = (
            Pace::of(address, 10.0, (1, 1), 0),
            Pace::of(address, 10.0, (1, 2), 3),
        );
        let begun_ns = monotonic_ns();
        let turns = [whole.take(), half.take(), whole.take()];
        assert!(turns[0] + NS_PER_S > begun_ns && turns[0] > begun_ns);
        assert_eq!(turns[1] - turns[0], NS_PER_S / 10);
        assert_eq!(turns[2] - turns[1], NS_PER_S / 5);
        assert_eq!(half.length_ns(5), NS_PER_S);
    }
}
