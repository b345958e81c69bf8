//! Open arrivals: times of requests that do not wait for answers, and their assignment to connections.
//!
//! Each client of a level is a separate source of arrivals, seeded by its number, so the arrivals do not
//! depend on the distribution of clients to threads and processes. Independent Poisson sources add up to a
//! Poisson process. Uniform sources take turns. All connections of an engine thread serve all of its
//! arrivals: a free connection takes the next one, and waits for it if necessary. An arrival is therefore
//! late only if no connection was free. Waiting arrivals are served in order (G/G/c, first come, first
//! served).
//!
//! Each arrival ends as done, failed, dropped (the queue was full) or overdue (due before the end of the
//! level, but no connection took it).
//!
//! A limit on the request rate delays the arrival whose connection must pause, and those behind it. The
//! schedule therefore also records when each connection would be free without the limit. An arrival could
//! have begun at the earliest of these times, or when it was due if that is later. The limit caused the rest
//! of its wait. This is exact for one connection, and for requests that take equally long. Otherwise it may
//! attribute too little to the limit, because a request in progress frees its connection only when it ends.
//!
//! `client.rs` determines lateness. `tally.rs` has the counts.

use crate::arrival::{Law, OpenArrivals};
use crate::level::Level;
use dyno_measure::NS_PER_S;
use rand_xoshiro::rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const ARRIVAL_STREAM: u64 = 0x6172_7269_7661_6c73;

/// The arrivals of one client.
#[derive(Debug)]
enum Source {
    Poisson {
        mean_ns: f64,
        random: Xoshiro256PlusPlus,
    },
    Uniform {
        next: f64,
        step: f64,
        interval_ns: f64,
    },
}

impl Source {
    fn new(level: &Level, open: OpenArrivals, client: usize) -> Self {
        let interval_ns = NS_PER_S as f64 / open.rate_per_s;
        match open.law {
            Law::Poisson => Self::Poisson {
                mean_ns: interval_ns * level.clients as f64,
                random: level.random(ARRIVAL_STREAM, client, 0),
            },
            Law::Uniform => Self::Uniform {
                next: client as f64,
                step: level.clients as f64,
                interval_ns,
            },
        }
    }

    /// Returns the arrival after the one at `last_ns`, relative to the start of the level.
    fn next_ns(&mut self, last_ns: u64) -> u64 {
        match self {
            Self::Poisson { mean_ns, random } => {
                // Greater than 0 and at most 1, a multiple of 2^-53.
                let drawn = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                last_ns.saturating_add((-drawn.ln() * *mean_ns).round() as u64)
            }
            Self::Uniform {
                next,
                step,
                interval_ns,
            } => {
                let due_ns = (*next * *interval_ns).round() as u64;
                *next += *step;
                due_ns
            }
        }
    }
}

/// Counts of a schedule's arrivals, including those that were never begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ArrivalCounts {
    pub arrivals: u64,
    pub arrivals_in_window: u64,
    pub dropped: u64,
    pub dropped_in_window: u64,
    pub overdue: u64,
}

/// The arrivals of one engine thread's clients.
#[derive(Debug)]
pub(crate) struct Schedule {
    start_ns: u64,
    length_ns: u64,
    window: std::ops::Range<u64>,
    sources: Vec<Source>,
    /// Next arrival of each source, relative to the start of the level. Only arrivals before the level's end.
    coming: BinaryHeap<Reverse<(u64, usize)>>,
    /// Arrivals that are due and wait for a connection.
    queue: VecDeque<u64>,
    most_waiting: usize,
    /// Arrivals that a connection took and put back.
    returned: BinaryHeap<Reverse<u64>>,
    /// When each connection without a request in progress would have been free without the limit on the
    /// request rate. None: there is no limit.
    unheld_ns: Option<BinaryHeap<Reverse<u64>>>,
    counts: ArrivalCounts,
}

impl Schedule {
    /// Returns the schedule of one engine thread's `clients`, by their numbers, for a level that starts at
    /// `start_ns`.
    pub(crate) fn new(
        level: &Level,
        open: OpenArrivals,
        start_ns: u64,
        clients: impl ExactSizeIterator<Item = usize>,
    ) -> Self {
        // This thread's share of the queue, in proportion to its clients, rounded up.
        let connections = clients.len() * level.threads;
        let most_waiting = (open.queue as u128 * clients.len() as u128).div_ceil(level.clients as u128);
        let mut schedule = Self {
            start_ns,
            length_ns: level.window.length_ns,
            window: level.window.opens_ns()..level.window.closes_ns(),
            sources: clients.map(|client| Source::new(level, open, client)).collect(),
            coming: BinaryHeap::new(),
            queue: VecDeque::new(),
            most_waiting: usize::try_from(most_waiting).unwrap_or(usize::MAX),
            returned: BinaryHeap::new(),
            unheld_ns: level
                .max_rate_per_s
                .map(|_| vec![Reverse(start_ns); connections].into()),
            counts: ArrivalCounts::default(),
        };
        for number in 0..schedule.sources.len() {
            let first_ns = schedule.sources[number].next_ns(0);
            schedule.expect(first_ns, number);
        }
        schedule
    }

    fn expect(&mut self, due_ns: u64, source: usize) {
        if due_ns < self.length_ns {
            self.coming.push(Reverse((due_ns, source)));
        }
    }

    /// Takes the next arrival of all sources, if it is due by `until_ns`, relative to the start of the level.
    fn arrive(&mut self, until_ns: u64) -> Option<u64> {
        let mut first = self.coming.peek_mut()?;
        let Reverse((due_ns, source)) = *first;
        if due_ns > until_ns {
            return None;
        }
        let next_ns = self.sources[source].next_ns(due_ns);
        if next_ns < self.length_ns {
            *first = Reverse((next_ns, source));
            drop(first);
        } else {
            std::collections::binary_heap::PeekMut::pop(first);
        }
        self.counts.arrivals += 1;
        self.counts.arrivals_in_window += u64::from(self.window.contains(&due_ns));
        Some(due_ns)
    }

    /// Queues or drops the arrivals up to `until_ns` for which no connection was free.
    fn let_wait(&mut self, until_ns: u64) {
        while let Some(due_ns) = self.arrive(until_ns) {
            if self.queue.len() < self.most_waiting {
                self.queue.push_back(due_ns);
            } else {
                self.counts.dropped += 1;
                self.counts.dropped_in_window += u64::from(self.window.contains(&due_ns));
            }
        }
    }

    /// Returns the arrival for a connection that is free at `now_ns`: the one that has waited longest, or otherwise the
    /// next one. Returns None if no arrivals are left before the end of the level.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<u64> {
        let now_ns = now_ns.saturating_sub(self.start_ns);
        self.let_wait(now_ns);
        let given_back = self.returned.peek().map(|returned| returned.0);
        let due_ns = match (given_back, self.queue.front()) {
            (Some(returned), waiting) if waiting.is_none_or(|waiting| returned <= *waiting) => {
                self.returned.pop();
                Some(returned)
            }
            (_, Some(_)) => self.queue.pop_front(),
            _ => self.arrive(u64::MAX),
        };
        due_ns.map(|due_ns| self.start_ns + due_ns)
    }

    /// Puts back an arrival that was not started, because its connection left or the level ended.
    pub(crate) fn give_back(&mut self, due_ns: u64) {
        self.returned.push(Reverse(due_ns.saturating_sub(self.start_ns)));
    }

    /// Starts an arrival that was due at `due_ns` and had to wait until `ready_ns`. Returns for how much of
    /// this wait the limit on the request rate was the cause, in nanoseconds.
    pub(crate) fn held_ns(&mut self, due_ns: u64, ready_ns: u64) -> u64 {
        let Some(unheld_ns) = &mut self.unheld_ns else {
            return 0;
        };
        let free_ns = unheld_ns.pop().map_or(ready_ns, |earliest| earliest.0);
        ready_ns.saturating_sub(due_ns.max(free_ns))
    }

    /// Ends an arrival. `unheld_ns`: when the connection would be free without the limit on the request rate.
    pub(crate) fn free(&mut self, unheld_ns: u64) {
        if let Some(all) = &mut self.unheld_ns {
            all.push(Reverse(unheld_ns));
        }
    }

    /// Removes a connection without a request in progress.
    pub(crate) fn leave(&mut self) {
        self.unheld_ns.as_mut().and_then(BinaryHeap::pop);
    }

    /// Returns the counts of all arrivals. Call it once all connections are done.
    pub(crate) fn close(&mut self) -> ArrivalCounts {
        self.let_wait(self.length_ns);
        self.counts.overdue = (self.queue.len() + self.returned.len()) as u64;
        self.counts
    }
}

#[cfg(test)]
mod tests;
