//! Due times of a client thread's operations, set by its pace and by the limit on the request rate.
//!
//! The pace determines when a client wants to send. Response time counts from that moment, so it includes the
//! lateness of a paced client. The limit protects other people's servers. Delays by the limit are not
//! response time, and never cause a burst afterwards.

use serde::{Deserialize, Serialize};

/// Distribution of open arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// Random, independent arrivals, like those of many users.
    Poisson,
    Uniform,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrival {
    /// The next operation is due after the previous one and the think time.
    Closed {
        /// Think time between an answer and the next piece of work.
        think_time_s: f64,
    },
    /// Operations are due at fixed intervals, independent of earlier ones.
    Paced { interval_s: f64 },
    /// Operations arrive at a fixed rate per level and are served by the clients' connections. An arrival
    /// that finds no free connection waits. Response time counts from the arrival.
    Open(OpenArrivals),
}

/// Open arrivals of a level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenArrivals {
    pub rate_per_s: f64,
    pub law: Law,
    /// Maximum number of arrivals that wait for a connection. Further arrivals are dropped and counted.
    pub queue: usize,
}

/// Pace of one client thread, in nanoseconds. Open arrivals have no pace: see `schedule.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadPace {
    Closed { think_ns: u64 },
    Paced { interval_ns: u64 },
}

impl ThreadPace {
    /// Returns the time over which the pace spreads the first operations of all client threads.
    pub(crate) fn interval_ns(self) -> u64 {
        match self {
            Self::Closed { .. } => 0,
            Self::Paced { interval_ns } => interval_ns,
        }
    }
}

/// Due times of one client thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DueTimes {
    pace: ThreadPace,
    /// Minimum time between two starts under the rate limit; 0: no limit.
    bound_ns: u64,
    meant_ns: u64,
    released_ns: u64,
}

impl DueTimes {
    pub(crate) fn new(pace: ThreadPace, bound_ns: u64, first_ns: u64) -> Self {
        Self {
            pace,
            bound_ns,
            meant_ns: first_ns,
            released_ns: 0,
        }
    }

    /// Returns the due time of the next operation, from which response time counts.
    pub(crate) fn next_ns(&self) -> u64 {
        self.meant_ns.max(self.released_ns)
    }

    /// Returns the start of the operation's timeout. The client's own lateness does not reduce it.
    pub(crate) fn begins_ns(&self, now_ns: u64) -> u64 {
        match self.pace {
            ThreadPace::Closed { .. } => self.next_ns(),
            ThreadPace::Paced { .. } => self.next_ns().max(now_ns),
        }
    }

    /// Records the end of an operation. `begins_piece`: think time precedes the next operation. `pause_ns`:
    /// pause due to a failure.
    pub(crate) fn ended(&mut self, done_ns: u64, begins_piece: bool, pause_ns: u64) {
        let due_ns = self.next_ns();
        self.released_ns = match self.bound_ns {
            0 => 0,
            bound_ns => due_ns.saturating_add(bound_ns),
        };
        match self.pace {
            ThreadPace::Closed { think_ns } => {
                let think_ns = if begins_piece { think_ns } else { 0 };
                self.meant_ns = done_ns.saturating_add(think_ns).saturating_add(pause_ns);
            }
            ThreadPace::Paced { interval_ns } => {
                self.meant_ns = self.meant_ns.saturating_add(interval_ns);
                if pause_ns > 0 {
                    self.released_ns = self.released_ns.max(done_ns.saturating_add(pause_ns));
                }
            }
        }
    }

    /// Returns the number of operations that were due before `end_ns` but not started.
    pub(crate) fn overdue(&self, end_ns: u64) -> u64 {
        match self.pace {
            ThreadPace::Paced { interval_ns } if self.meant_ns < end_ns => {
                (end_ns - 1 - self.meant_ns) / interval_ns.max(1) + 1
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(mut times: DueTimes, ended: &[u64]) -> Vec<u64> {
        let mut due = vec![times.next_ns()];
        for done_ns in ended {
            times.ended(*done_ns, true, 0);
            due.push(times.next_ns());
        }
        due
    }

    #[test]
    fn a_closed_client_thinks_after_each_answer() {
        let times = DueTimes::new(ThreadPace::Closed { think_ns: 5 }, 0, 100);
        assert_eq!(due(times, &[110, 200]), [100, 115, 205]);
    }

    #[test]
    fn a_paced_client_that_falls_behind_keeps_its_intended_times() {
        let times = DueTimes::new(ThreadPace::Paced { interval_ns: 10 }, 0, 100);
        assert_eq!(due(times, &[135, 136, 137, 138]), [100, 110, 120, 130, 140]);
        assert_eq!(times.begins_ns(150), 150);
    }

    #[test]
    fn the_rate_limit_delays_operations_and_never_causes_a_burst() {
        let closed = DueTimes::new(ThreadPace::Closed { think_ns: 0 }, 50, 100);
        assert_eq!(due(closed, &[101, 300, 301]), [100, 150, 300, 350]);
        let behind = DueTimes::new(ThreadPace::Paced { interval_ns: 10 }, 50, 100);
        assert_eq!(due(behind, &[101, 151, 201]), [100, 150, 200, 250]);
    }

    #[test]
    fn operations_that_were_due_but_never_began_are_counted() {
        let mut times = DueTimes::new(ThreadPace::Paced { interval_ns: 10 }, 0, 0);
        times.ended(95, true, 0);
        assert_eq!(
            (times.overdue(10), times.overdue(11), times.overdue(100)),
            (0, 1, 9)
        );
        assert_eq!(
            DueTimes::new(ThreadPace::Closed { think_ns: 0 }, 0, 0).overdue(100),
            0
        );
    }

    #[test]
    fn a_pause_after_a_failure_delays_one_start_but_not_the_pace() {
        let mut times = DueTimes::new(ThreadPace::Paced { interval_ns: 10 }, 0, 0);
        times.ended(1, true, 30);
        assert_eq!(times.next_ns(), 31);
        times.ended(32, true, 0);
        assert_eq!(times.next_ns(), 20);
    }

    #[test]
    fn a_stall_of_a_tenth_of_the_time_appears_in_the_99th_percentile() {
        const MS: u64 = 1_000_000;
        let mut times = DueTimes::new(ThreadPace::Paced { interval_ns: MS }, 0, 0);
        let mut responses = Vec::new();
        let mut now_ns = 0;
        while times.next_ns() < 10_000 * MS {
            let due_ns = times.next_ns();
            now_ns = now_ns.max(due_ns) + MS / 10;
            if (4_000 * MS..5_000 * MS).contains(&now_ns) {
                now_ns = 5_000 * MS;
            }
            responses.push(now_ns - due_ns);
            times.ended(now_ns, true, 0);
        }
        responses.sort_unstable();
        assert_eq!(responses.len(), 10_000);
        // The server catches up ten times as fast as requests arrive, which adds slightly to the 900 ms.
        assert_eq!(responses[9_900] / MS, 910);
    }
}
