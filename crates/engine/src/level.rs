//! A level with its times as integers, its clients, and the part that this process runs.

use crate::arrival::{Arrival, DueTimes, OpenArrivals, ThreadPace};
use crate::spec::{nanoseconds, LevelSpec, PartSpec};
use dyno_measure::{Window, NS_PER_S};
use dyno_net::Pace;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::net::SocketAddr;
use std::ops::Deref;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const DELAY_STREAM: u64 = 0x6465_6c61_7973_0000;

/// A level: its document, and values derived from the document.
#[derive(Debug, Clone)]
pub struct Level {
    pub spec: LevelSpec,
    /// The clients that this process runs.
    pub part: PartSpec,
    /// Length of the level, and its measured part.
    pub window: Window,
    /// Maximum random delay of a client's start.
    pub delay_ns: u64,
    pub(crate) pace: ThreadPace,
    /// Open arrivals of the level; None: each client thread has its own pace.
    pub(crate) open: Option<OpenArrivals>,
    pub timeout_ns: u64,
    /// OS threads that generate the load.
    pub engine_threads: usize,
    /// CPUs to which the engine threads are pinned in turn; if empty, they are not pinned.
    pub cpus: Vec<usize>,
    /// Whether each client has its own engine thread and blocks it in system calls.
    pub clients_block: bool,
}

impl Deref for Level {
    type Target = LevelSpec;

    fn deref(&self) -> &LevelSpec {
        &self.spec
    }
}

impl Level {
    /// Converts a document. `LevelSpec::check` reports its problems.
    pub(crate) fn of(spec: &LevelSpec) -> Self {
        let whole = PartSpec {
            client_offset: 0,
            client_step: 1,
            client_run: 1,
            clients: spec.clients,
        };
        Self {
            part: spec.part.unwrap_or(whole),
            window: Window {
                length_ns: nanoseconds(spec.window.length_s),
                ramp_up_ns: nanoseconds(spec.window.ramp_up_s),
                ramp_down_ns: nanoseconds(spec.window.ramp_down_s),
            },
            delay_ns: nanoseconds(spec.delay_s),
            pace: match spec.arrival {
                Arrival::Closed { think_time_s } => ThreadPace::Closed {
                    think_ns: nanoseconds(think_time_s),
                },
                Arrival::Paced { interval_s } => ThreadPace::Paced {
                    interval_ns: nanoseconds(interval_s),
                },
                Arrival::Open(_) => ThreadPace::Closed { think_ns: 0 },
            },
            open: match spec.arrival {
                Arrival::Open(open) => Some(open),
                Arrival::Closed { .. } | Arrival::Paced { .. } => None,
            },
            timeout_ns: nanoseconds(spec.timeout_s),
            engine_threads: spec.engine.threads,
            cpus: spec.engine.cpus.clone(),
            clients_block: false,
            spec: spec.clone(),
        }
    }

    fn streams(&self) -> usize {
        self.clients * self.threads
    }

    /// Returns whether a client thread may send again immediately after an answer.
    pub(crate) fn never_waits(&self) -> bool {
        self.pace == (ThreadPace::Closed { think_ns: 0 }) && self.max_rate_per_s.is_none()
    }

    /// Returns the number of operations of one client thread: an even share of the total, or no limit.
    pub(crate) fn operations_of(&self, client: usize, thread: usize) -> u64 {
        let (streams, number) = (self.streams() as u64, (client * self.threads + thread) as u64);
        self.operations.map_or(u64::MAX, |operations| {
            operations / streams + u64::from(number < operations % streams)
        })
    }

    /// Returns the number of engine threads of this process; each has at least one client.
    pub(crate) fn threads_here(&self) -> usize {
        self.engine_threads.clamp(1, self.part.clients)
    }

    /// Returns the minimum time between two starts of a client thread that keeps the level within its rate
    /// limit, in nanoseconds; 0 without a limit.
    fn bound_ns(&self) -> u64 {
        self.max_rate_per_s.map_or(0, |rate| {
            (self.streams() as f64 / rate * NS_PER_S as f64).ceil() as u64
        })
    }

    pub(crate) fn due_times(&self, start_ns: u64, client: usize, thread: usize) -> DueTimes {
        let first_ns = start_ns.saturating_add(self.first_start_ns(client, thread));
        DueTimes::new(self.pace, self.bound_ns(), first_ns)
    }

    pub(crate) fn random(&self, stream: u64, client: usize, thread: usize) -> Xoshiro256PlusPlus {
        let place = ((client as u64) << 32) | thread as u64;
        let mut mixed = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ stream);
        Xoshiro256PlusPlus::seed_from_u64(mixed.next_u64() ^ place)
    }

    /// Returns a number unique to this level, equal in all its processes. It distinguishes the level's clients and
    /// their data from those of other levels.
    pub(crate) fn identity(&self) -> u64 {
        xxh3_64_with_seed(&self.nonce.to_le_bytes(), self.seed)
    }

    /// Returns when a client thread starts, relative to the start of the level. The threads of a client start
    /// together, unless there is a pace or a rate limit: then all threads start one after another.
    fn first_start_ns(&self, client: usize, thread: usize) -> u64 {
        let stream = (client * self.threads + thread) as u128;
        let apart_ns = self.bound_ns().max(self.pace.interval_ns());
        let stagger_ns = u128::from(apart_ns) * stream / self.streams() as u128;
        let stagger_ns = u64::try_from(stagger_ns).unwrap_or(u64::MAX);
        self.delay_of(client).saturating_add(stagger_ns)
    }

    /// Returns the rate limit of this process's requests to `address`, or None if there is no limit.
    pub(crate) fn pace_to(&self, address: SocketAddr) -> Option<Pace> {
        let share = (self.part.clients, self.clients);
        Pace::of_part(address, self.max_rate_per_s, share, self.part.client_offset)
    }

    fn delay_of(&self, client: usize) -> u64 {
        let drawn = self.random(DELAY_STREAM, client, 0).next_u64();
        let scaled = (u128::from(drawn) * u128::from(self.delay_ns + 1)) >> 64;
        u64::try_from(scaled).unwrap_or(self.delay_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    const DELAY_NS: u64 = 1_000_000;

    fn level(max_rate_per_s: Option<f64>, delay_ns: u64) -> Level {
        let usual: Value = serde_json::from_str(include_str!("../tests/complete.json")).expect("as made");
        let mut document = usual["level"].clone();
        document["clients"] = json!(200);
        document["threads"] = json!(2);
        document["seed"] = json!(7);
        document["max_rate_per_s"] = json!(max_rate_per_s);
        let spec = LevelSpec::parse(&document.to_string()).expect("a document");
        Level {
            delay_ns,
            ..Level::of(&spec)
        }
    }

    /// Returns the level with another document.
    fn with(level: &Level, change: impl FnOnce(&mut LevelSpec)) -> Level {
        let mut other = level.clone();
        change(&mut other.spec);
        other
    }

    #[test]
    fn a_delay_spreads_the_clients_evenly_and_their_threads_start_together() {
        let level = level(None, DELAY_NS);
        let starts: Vec<u64> = (0..level.clients)
            .map(|client| level.first_start_ns(client, 0))
            .collect();
        assert!(starts.iter().all(|start| *start <= DELAY_NS));
        for quarter in 0..4 {
            let (from, to) = (quarter * DELAY_NS / 4, (quarter + 1) * DELAY_NS / 4);
            let inside = starts.iter().filter(|start| (from..to).contains(*start)).count();
            assert!(
                (30..=70).contains(&inside),
                "{inside} of 200 start in quarter {quarter}"
            );
        }
        let together: Vec<u64> = (0..level.clients)
            .map(|client| level.first_start_ns(client, 1))
            .collect();
        assert_eq!(starts, together);
        let another_seed = with(&level, |spec| spec.seed = 8);
        assert_ne!(starts[0], another_seed.first_start_ns(0, 0));
    }

    #[test]
    fn the_number_of_operations_is_divided_evenly_among_client_threads() {
        let level = with(&level(None, 0), |spec| spec.operations = Some(1001));
        let dealt = |stream: usize| level.operations_of(stream / 2, stream % 2);
        assert_eq!((0..400).map(dealt).sum::<u64>(), 1001);
        assert_eq!((dealt(0), dealt(200), dealt(201)), (3, 3, 2));
    }

    #[test]
    fn without_a_delay_or_a_rate_limit_all_threads_start_at_once() {
        let level = level(None, 0);
        assert!((0..level.clients).all(|client| level.first_start_ns(client, 1) == 0));
    }

    #[test]
    fn with_a_rate_limit_or_a_pace_threads_start_one_after_another() {
        let bounded = level(Some(1000.0), 0);
        assert_eq!(bounded.bound_ns(), 400_000_000);
        let paced = Level {
            pace: ThreadPace::Paced {
                interval_ns: 400_000_000,
            },
            ..level(None, 0)
        };
        for level in [bounded, paced] {
            let starts: Vec<u64> = (0..400)
                .map(|stream| level.first_start_ns(stream / 2, stream % 2))
                .collect();
            let expected: Vec<u64> = (0..400).map(|stream| stream * 1_000_000).collect();
            assert_eq!(starts, expected);
        }
    }

    #[test]
    fn each_process_has_a_share_of_the_bound_by_its_clients() {
        let address = SocketAddr::from(([192, 0, 2, 7], 1));
        let whole = level(Some(1000.0), 0);
        let mut part = whole.clone();
        (part.part.clients, part.part.client_offset) = (50, 1);
        let length_ns = |level: &Level| level.pace_to(address).map(|pace| pace.length_ns(1));
        assert_eq!(
            (length_ns(&whole), length_ns(&part)),
            (Some(1_000_000), Some(4_000_000))
        );
        assert!(level(None, 0).pace_to(address).is_none());
    }

    #[test]
    fn a_tiny_rate_limit_postpones_all_other_clients_for_good() {
        let level = level(Some(1e-300), DELAY_NS);
        assert!(level.first_start_ns(0, 0) <= DELAY_NS);
        assert!(level.first_start_ns(199, 1) > u64::MAX / 2);
    }

    #[test]
    fn a_client_starts_at_the_same_time_whichever_process_runs_it() {
        let whole = level(Some(1000.0), DELAY_NS);
        let part = Level {
            part: PartSpec {
                client_offset: 1,
                client_step: 4,
                client_run: 1,
                clients: 50,
            },
            ..whole.clone()
        };
        assert_eq!(part.part.client(2), 9);
        let runs = PartSpec {
            client_run: 3,
            ..part.part
        };
        let numbers: Vec<usize> = (0..7).map(|place| runs.client(place)).collect();
        assert_eq!(numbers, [1, 2, 3, 5, 6, 7, 9]);
        assert_eq!(part.first_start_ns(9, 1), whole.first_start_ns(9, 1));
        assert_eq!(part.bound_ns(), whole.bound_ns());
        assert_eq!(part.identity(), whole.identity());
        let other = with(&whole, |spec| spec.nonce += 1);
        assert_ne!(part.identity(), other.identity());
    }
}
