//! One mix in whole numbers: how many clients, which of them are here, when each starts and how often it may.

use crate::arrival::{Arrival, DueTimes, OpenArrivals, Pace};
use crate::spec::{nanoseconds, MixSpec, StartRule};
use dyno_measure::{Window, NS_PER_S};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const DELAY_STREAM: u64 = 0x6465_6c61_7973_0000;

/// The clients that this process carries, of those that the whole mix numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Number of the first.
    pub offset: usize,
    /// From one run to the next.
    pub step: usize,
    /// How many stand next to each other.
    pub run: usize,
    /// How many in all.
    pub clients: usize,
}

impl Part {
    /// The number that a client has in the mix.
    #[must_use]
    pub fn client(&self, place: usize) -> usize {
        self.offset + self.step * (place / self.run) + place % self.run
    }
}

/// One fixed load for a fixed time.
#[derive(Debug, Clone)]
pub struct Mix {
    /// Simulated client machines of the whole mix.
    pub clients: usize,
    /// Request streams in each.
    pub threads: usize,
    /// Those that are here.
    pub part: Part,
    /// When, and what of it counts.
    pub window: Window,
    /// Each client starts at a random moment up to this late.
    pub delay_ns: u64,
    /// How clients arrive with their operations.
    pub(crate) pace: Pace,
    /// None: each client thread has a pace of its own.
    pub(crate) open: Option<OpenArrivals>,
    /// How long an operation may take.
    pub timeout_ns: u64,
    /// Of every random stream.
    pub seed: u64,
    /// Of this mix alone.
    pub nonce: u64,
    /// Errors after which a client leaves; None: never.
    pub leave_after_errors: Option<u32>,
    /// The share of what is read of which the content is checked, 0 to 1.
    pub verify_share: f64,
    /// Operations per second of all clients together, at most.
    pub max_rate_per_s: Option<f64>,
    /// Operations of all clients together, after which the mix ends.
    pub operations: Option<u64>,
    /// What sets its start.
    pub start: StartRule,
    /// OS threads that make the load.
    pub engine_threads: usize,
    /// The CPUs that they are pinned to, in turn; none: not pinned.
    pub cpus: Vec<usize>,
    /// Each client has an engine thread of its own, in which it waits for system calls.
    pub clients_block: bool,
    /// CPU time that is wasted on each operation.
    pub added_cpu_ns: u32,
    /// So many first operations go into a client's digest.
    pub digest_operations: u32,
}

impl Mix {
    /// The mix of a document that was checked, or that is refused for what was found.
    pub(crate) fn of(spec: &MixSpec) -> Self {
        let whole = Part {
            offset: 0,
            step: 1,
            run: 1,
            clients: spec.clients,
        };
        Self {
            clients: spec.clients,
            threads: spec.threads,
            part: spec.part.map_or(whole, |part| Part {
                offset: part.client_offset,
                step: part.client_step,
                run: part.client_run,
                clients: part.clients,
            }),
            window: Window {
                length_ns: nanoseconds(spec.window.length_s),
                ramp_up_ns: nanoseconds(spec.window.ramp_up_s),
                ramp_down_ns: nanoseconds(spec.window.ramp_down_s),
            },
            delay_ns: nanoseconds(spec.delay_s),
            pace: match spec.arrival {
                Arrival::Closed { think_time_s } => Pace::Closed {
                    think_ns: nanoseconds(think_time_s),
                },
                Arrival::Paced { interval_s } => Pace::Paced {
                    interval_ns: nanoseconds(interval_s),
                },
                Arrival::Open { .. } => Pace::Closed { think_ns: 0 },
            },
            open: match spec.arrival {
                Arrival::Open {
                    rate_per_s,
                    law,
                    queue,
                } => Some(OpenArrivals {
                    rate_per_s,
                    law,
                    queue,
                }),
                Arrival::Closed { .. } | Arrival::Paced { .. } => None,
            },
            timeout_ns: nanoseconds(spec.timeout_s),
            seed: spec.seed,
            nonce: spec.nonce,
            leave_after_errors: spec.leave_after_errors,
            verify_share: spec.verify_share,
            max_rate_per_s: spec.max_rate_per_s,
            operations: spec.operations,
            start: spec.start,
            engine_threads: spec.engine.threads,
            cpus: spec.engine.cpus.clone(),
            clients_block: false,
            added_cpu_ns: spec.added_cpu_ns,
            digest_operations: spec.digest_operations,
        }
    }

    fn streams(&self) -> usize {
        self.clients * self.threads
    }

    /// Whether a client thread that is answered may ask again at once.
    pub(crate) fn never_waits(&self) -> bool {
        self.pace == (Pace::Closed { think_ns: 0 }) && self.max_rate_per_s.is_none()
    }

    /// The operations of one client thread: its even part of all, or as many as it can make.
    pub(crate) fn operations_of(&self, client: usize, thread: usize) -> u64 {
        let (streams, number) = (self.streams() as u64, (client * self.threads + thread) as u64);
        self.operations.map_or(u64::MAX, |operations| {
            operations / streams + u64::from(number < operations % streams)
        })
    }

    /// Engine threads of this process: never one without a client.
    pub(crate) fn threads_here(&self) -> usize {
        self.engine_threads.clamp(1, self.part.clients)
    }

    /// The least time between two starts of one client thread that keeps all of the mix below the bound.
    fn bound_ns(&self) -> u64 {
        self.max_rate_per_s.map_or(0, |rate| {
            (self.streams() as f64 / rate * NS_PER_S as f64).ceil() as u64
        })
    }

    /// The due times of a client thread of a mix that starts at `start_ns`.
    pub(crate) fn due_times(&self, start_ns: u64, client: usize, thread: usize) -> DueTimes {
        let first_ns = start_ns.saturating_add(self.first_start_ns(client, thread));
        DueTimes::new(self.pace, self.bound_ns(), first_ns)
    }

    pub(crate) fn random(&self, stream: u64, client: usize, thread: usize) -> Xoshiro256PlusPlus {
        let place = ((client as u64) << 32) | thread as u64;
        let mut mixed = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ stream);
        Xoshiro256PlusPlus::seed_from_u64(mixed.next_u64() ^ place)
    }

    /// A number that stands for this mix and no other, whichever process asks for it: by it clients are told from those
    /// of other mixes, and what they write from what others wrote.
    pub(crate) fn identity(&self) -> u64 {
        xxh3_64_with_seed(&self.nonce.to_le_bytes(), self.seed)
    }

    /// When a client thread starts, since the start of the mix. The threads of a client start together; where there is a
    /// pace or a bound on the rate, all start one after another.
    fn first_start_ns(&self, client: usize, thread: usize) -> u64 {
        let stream = (client * self.threads + thread) as u128;
        let apart_ns = self.bound_ns().max(self.pace.interval_ns());
        let stagger_ns = u128::from(apart_ns) * stream / self.streams() as u128;
        let stagger_ns = u64::try_from(stagger_ns).unwrap_or(u64::MAX);
        self.delay_of(client).saturating_add(stagger_ns)
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

    const DELAY_NS: u64 = 1_000_000;

    fn mix(max_rate_per_s: Option<f64>, delay_ns: u64) -> Mix {
        Mix {
            clients: 200,
            threads: 2,
            part: Part {
                offset: 0,
                step: 1,
                run: 1,
                clients: 200,
            },
            window: Window {
                length_ns: NS_PER_S,
                ramp_up_ns: 0,
                ramp_down_ns: 0,
            },
            delay_ns,
            pace: Pace::Closed { think_ns: 0 },
            open: None,
            timeout_ns: NS_PER_S,
            seed: 7,
            nonce: 0,
            leave_after_errors: None,
            verify_share: 1.0,
            max_rate_per_s,
            operations: None,
            start: StartRule::Ready,
            engine_threads: 1,
            cpus: Vec::new(),
            clients_block: false,
            added_cpu_ns: 0,
            digest_operations: 0,
        }
    }

    #[test]
    fn a_delay_spreads_the_clients_evenly_and_their_threads_start_together() {
        let mix = mix(None, DELAY_NS);
        let starts: Vec<u64> = (0..mix.clients)
            .map(|client| mix.first_start_ns(client, 0))
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
        let together: Vec<u64> = (0..mix.clients)
            .map(|client| mix.first_start_ns(client, 1))
            .collect();
        assert_eq!(starts, together);
        let another_seed = Mix { seed: 8, ..mix };
        assert_ne!(starts[0], another_seed.first_start_ns(0, 0));
    }

    #[test]
    fn a_number_of_operations_is_dealt_out_evenly_to_all_client_threads() {
        let mix = Mix {
            operations: Some(1001),
            ..mix(None, 0)
        };
        let dealt = |stream: usize| mix.operations_of(stream / 2, stream % 2);
        assert_eq!((0..400).map(dealt).sum::<u64>(), 1001);
        assert_eq!((dealt(0), dealt(200), dealt(201)), (3, 3, 2));
    }

    #[test]
    fn without_delay_and_bound_all_start_at_once() {
        let mix = mix(None, 0);
        assert!((0..mix.clients).all(|client| mix.first_start_ns(client, 1) == 0));
    }

    #[test]
    fn under_a_bound_or_at_a_pace_the_threads_start_one_after_another() {
        let bounded = mix(Some(1000.0), 0);
        assert_eq!(bounded.bound_ns(), 400_000_000);
        let paced = Mix {
            pace: Pace::Paced {
                interval_ns: 400_000_000,
            },
            ..mix(None, 0)
        };
        for mix in [bounded, paced] {
            let starts: Vec<u64> = (0..400)
                .map(|stream| mix.first_start_ns(stream / 2, stream % 2))
                .collect();
            let expected: Vec<u64> = (0..400).map(|stream| stream * 1_000_000).collect();
            assert_eq!(starts, expected);
        }
    }

    #[test]
    fn a_bound_of_next_to_nothing_puts_the_others_off_for_good() {
        let mix = mix(Some(1e-300), DELAY_NS);
        assert!(mix.first_start_ns(0, 0) <= DELAY_NS);
        assert!(mix.first_start_ns(199, 1) > u64::MAX / 2);
    }

    #[test]
    fn a_client_starts_at_the_same_moment_whichever_process_carries_it() {
        let whole = mix(Some(1000.0), DELAY_NS);
        let part = Mix {
            part: Part {
                offset: 1,
                step: 4,
                run: 1,
                clients: 50,
            },
            ..whole.clone()
        };
        assert_eq!(part.part.client(2), 9);
        let runs = Part { run: 3, ..part.part };
        let numbers: Vec<usize> = (0..7).map(|place| runs.client(place)).collect();
        assert_eq!(numbers, [1, 2, 3, 5, 6, 7, 9]);
        assert_eq!(part.first_start_ns(9, 1), whole.first_start_ns(9, 1));
        assert_eq!(part.bound_ns(), whole.bound_ns());
        assert_eq!(part.identity(), whole.identity());
        assert_ne!(part.identity(), Mix { nonce: 1, ..whole }.identity());
    }
}
