//! Limits the rate of requests to one address, across all targets, clients and threads of the process.
//!
//! A request waits just before it is sent: in `Dialer::turn` for file sessions, in `Pace::turn` for object
//! clients. The wait moves the task's deadline, so it does not count toward a timeout.
//! `Executor::postponed_ns` returns the sum of these waits.

use crate::executor::Executor;
use dyno_measure::{monotonic_ns, NS_PER_S};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A rate that no generator reaches. A limit of this rate or more counts as no limit.
const UNBOUNDED_PER_S: f64 = 1e7;
/// Maximum interval between two requests (two years), so that adding a few does not overflow.
const MOST_NS: u64 = 1 << 56;

/// Time at which the next request to an address is permitted, in nanoseconds of the monotonic clock.
static FREE_NS: Mutex<BTreeMap<SocketAddr, Arc<AtomicU64>>> = Mutex::new(BTreeMap::new());

/// The rate limit for all requests to an address: each request takes a turn, and turns have a minimum interval.
#[derive(Debug, Clone)]
pub struct Pace {
    free_ns: Arc<AtomicU64>,
    interval_ns: u64,
}

/// A turn that was taken. Dropping it gives the turn back unless the requests were sent.
struct Turn<'a> {
    pace: &'a Pace,
    requests: usize,
    is_used: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            let length_ns = self.pace.length_ns(self.requests);
            self.pace.free_ns.fetch_sub(length_ns, Ordering::Relaxed);
        }
    }
}

impl Pace {
    /// Returns the rate limit of this process, or None if there is no limit. A process that runs `part` of
    /// `whole` clients gets this share of the rate. Its first request comes after the turns of `turn` other
    /// clients.
    #[must_use]
    pub fn of(
        address: SocketAddr,
        max_rate_per_s: Option<f64>,
        (part, whole): (usize, usize),
        turn: usize,
    ) -> Option<Self> {
        let rate_per_s = max_rate_per_s.filter(|rate| *rate < UNBOUNDED_PER_S)?;
        let all_ns = NS_PER_S as f64 / rate_per_s;
        let mut known = FREE_NS.lock().unwrap_or_else(PoisonError::into_inner);
        let free_ns = known.entry(address).or_default().clone();
        let first_ns = monotonic_ns().saturating_add(((all_ns * turn as f64).ceil() as u64).min(MOST_NS));
        free_ns.fetch_max(first_ns, Ordering::Relaxed);
        let interval_ns = (all_ns * whole as f64 / part.max(1) as f64).ceil() as u64;
        Some(Self {
            free_ns,
            interval_ns: interval_ns.min(MOST_NS),
        })
    }

    /// Returns the rate limit of a process that runs `part` of `whole` clients, starting at number `first`. If other
    /// processes run the rest, one of them may just have sent a request, so this process waits for one more turn.
    #[must_use]
    pub fn of_part(
        address: SocketAddr,
        max_rate_per_s: Option<f64>,
        (part, whole): (usize, usize),
        first: usize,
    ) -> Option<Self> {
        let turn = if part < whole { first + 1 } else { 0 };
        Self::of(address, max_rate_per_s, (part, whole), turn)
    }

    /// Takes the next turn, for this number of requests at once. Returns its time in nanoseconds of the
    /// monotonic clock.
    #[must_use]
    pub fn take(&self, requests: usize) -> u64 {
        let (now_ns, length_ns) = (monotonic_ns(), self.length_ns(requests));
        let after = |free_ns: u64| free_ns.max(now_ns).saturating_add(length_ns);
        let before = self
            .free_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free_ns| {
                Some(after(free_ns))
            });
        before.unwrap_or_else(|free_ns| free_ns).max(now_ns)
    }

    /// Waits until this number of requests may be sent at once, and counts them. Returns the time waited, in
    /// nanoseconds.
    pub async fn turn(&self, executor: &Executor, requests: usize) -> u64 {
        let turn_ns = self.take(requests);
        let mut turn = Turn {
            pace: self,
            requests,
            is_used: false,
        };
        let waited_ns = executor.postpone_until(turn_ns).await;
        turn.is_used = true;
        waited_ns
    }

    /// Waits until a request is permitted, without counting one.
    pub async fn wait(&self, executor: &Executor) {
        executor.sleep_until(self.free_ns()).await;
    }

    /// Returns the time on the monotonic clock at which the next request is permitted.
    #[must_use]
    pub fn free_ns(&self) -> u64 {
        self.free_ns.load(Ordering::Relaxed)
    }

    /// Returns the time that this number of requests takes up under the rate limit, in nanoseconds.
    #[must_use]
    pub fn length_ns(&self, requests: usize) -> u64 {
        self.interval_ns.saturating_mul(requests as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    fn pace(port: u16, max_rate_per_s: f64) -> Pace {
        let address = SocketAddr::from(([192, 0, 2, 1], port));
        Pace::of(address, Some(max_rate_per_s), (1, 1), 0).expect("a bound")
    }

    #[test]
    fn all_that_use_an_address_take_turns_and_a_part_waits_longer() {
        let address = SocketAddr::from(([192, 0, 2, 1], 1));
        let half = Pace::of(address, Some(10.0), (1, 2), 3).expect("a bound");
        let whole = pace(1, 10.0);
        let begun_ns = monotonic_ns();
        let turns = [whole.take(1), half.take(1), whole.take(3), whole.take(1)];
        assert!(turns[0] + NS_PER_S > begun_ns && turns[0] > begun_ns);
        assert_eq!(turns[1] - turns[0], NS_PER_S / 10);
        assert_eq!(turns[2] - turns[1], NS_PER_S / 5);
        assert_eq!(turns[3] - turns[2], 3 * NS_PER_S / 10);
        assert_eq!(half.length_ns(5), NS_PER_S);
    }

    #[test]
    fn a_bound_that_no_generator_reaches_is_none() {
        let address = SocketAddr::from(([192, 0, 2, 1], 4));
        assert!([None, Some(1e7)].map(|rate| Pace::of(address, rate, (1, 1), 0).is_some()) == [false; 2]);
    }

    #[test]
    fn a_wait_for_a_turn_moves_the_deadline_and_is_told() {
        let (pace, executor) = (pace(2, 20.0), Executor::new().expect("an event loop"));
        let (handle, told) = (executor.clone(), Rc::new(Cell::new(false)));
        let (slot, deadline_ns) = (told.clone(), monotonic_ns() + NS_PER_S / 50);
        executor.spawn(async move {
            handle.set_deadline(deadline_ns);
            let waits = [
                pace.turn(&handle, 2).await,
                pace.turn(&handle, 2).await,
                pace.turn(&handle, 1).await,
            ];
            assert!(waits[0] == 0 && waits[1] > 0 && waits[2] > 0, "{waits:?}");
            assert!(!handle.deadline_passed());
            let sum_ns: u64 = waits.iter().sum();
            assert_eq!(handle.postponed_ns(), sum_ns);
            assert_eq!(handle.deadline_ns(), deadline_ns + sum_ns);
            slot.set(true);
        });
        executor.run(|| false).expect("the loop runs");
        assert!(told.get());
    }

    #[test]
    fn a_turn_that_nobody_waits_for_any_more_is_given_back() {
        let (pace, executor) = (pace(3, 1e-3), Executor::new().expect("an event loop"));
        assert!(pace.take(1) <= monotonic_ns());
        let free_ns = pace.free_ns();
        for _ in 0..3 {
            let (pace, handle) = (pace.clone(), executor.clone());
            executor.spawn(async move {
                pace.turn(&handle, 1).await;
            });
        }
        executor.run(|| true).expect("the loop runs");
        assert_eq!(pace.free_ns(), free_ns);
    }
}
