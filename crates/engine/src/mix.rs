//! One mix as it was asked for: how many clients, when they start and how they pace themselves, and what they do.

use crate::files::FilesWork;
use crate::web::WebWork;
use dyno_measure::{Window, NS_PER_S};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const DELAY_STREAM: u64 = 0x6465_6c61_7973_0000;

/// What clients do, and against what.
#[derive(Debug, Clone)]
pub enum Work {
    /// Fetch documents over HTTP.
    Web(WebWork),
    /// Use files over SMB.
    Files(Box<FilesWork>),
}

/// One fixed load for a fixed time.
#[derive(Debug, Clone)]
pub struct Mix {
    /// What, and where to.
    pub work: Work,
    /// Simulated client machines.
    pub clients: usize,
    /// Request streams in each.
    pub threads: usize,
    /// When, and what of it counts.
    pub window: Window,
    /// Each client starts at a random moment up to this late.
    pub delay_ns: u64,
    /// Between an answer and the next piece of work.
    pub think_ns: u64,
    /// How long an operation may take, from its intended start to its end.
    pub timeout_ns: u64,
    /// Of every random stream.
    pub seed: u64,
    /// Errors after which a client leaves; None: never.
    pub leave_after_errors: Option<u32>,
    /// The share of what is read of which the content is checked, 0 to 1.
    pub verify_share: f64,
    /// Operations per second of all clients together, at most.
    pub max_rate_per_s: Option<f64>,
    /// OS threads that make the load.
    pub engine_threads: usize,
    /// The CPUs that they are pinned to, in turn; none: not pinned.
    pub cpus: Vec<usize>,
}

impl Mix {
    pub(crate) fn streams(&self) -> usize {
        self.clients * self.threads
    }

    /// The least time between two starts of one client thread that keeps all of them below the bound.
    pub(crate) fn pace_ns(&self) -> u64 {
        self.max_rate_per_s.map_or(0, |rate| {
            (self.streams() as f64 / rate * NS_PER_S as f64).ceil() as u64
        })
    }

    pub(crate) fn random(&self, stream: u64, client: usize, thread: usize) -> Xoshiro256PlusPlus {
        let place = ((client as u64) << 32) | thread as u64;
        let mut mixed = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ stream);
        Xoshiro256PlusPlus::seed_from_u64(mixed.next_u64() ^ place)
    }

    /// When a client thread starts, since the start of the mix. The threads of a client start together; under a bound
    /// on the rate, all start one after another.
    pub(crate) fn first_start_ns(&self, client: usize, thread: usize) -> u64 {
        let stream = (client * self.threads + thread) as u128;
        let stagger_ns = u128::from(self.pace_ns()) * stream / self.streams() as u128;
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
    use crate::web::WebWorkload;
    use dyno_http::{Target, Version};

    const DELAY_NS: u64 = 1_000_000;

    fn mix(max_rate_per_s: Option<f64>, delay_ns: u64) -> Mix {
        Mix {
            work: Work::Web(WebWork {
                target: Target::open("http://127.0.0.1:1/", None).expect("loopback"),
                workload: WebWorkload::Url,
                version: Version::Http11,
                keep_alive: true,
                reset: false,
                fresh_sockets: false,
                receive_buffer_bytes: 4096,
            }),
            clients: 200,
            threads: 2,
            window: Window {
                length_ns: NS_PER_S,
                ramp_up_ns: 0,
                ramp_down_ns: 0,
            },
            delay_ns,
            think_ns: 0,
            timeout_ns: NS_PER_S,
            seed: 7,
            leave_after_errors: None,
            verify_share: 1.0,
            max_rate_per_s,
            engine_threads: 1,
            cpus: Vec::new(),
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
    fn without_delay_and_bound_all_start_at_once() {
        let mix = mix(None, 0);
        assert!((0..mix.clients).all(|client| mix.first_start_ns(client, 1) == 0));
    }

    #[test]
    fn under_a_bound_the_threads_start_at_its_pace() {
        let mix = mix(Some(1000.0), 0);
        assert_eq!(mix.pace_ns(), 400_000_000);
        let starts: Vec<u64> = (0..400)
            .map(|stream| mix.first_start_ns(stream / 2, stream % 2))
            .collect();
        let expected: Vec<u64> = (0..400).map(|stream| stream * 1_000_000).collect();
        assert_eq!(starts, expected);
    }

    #[test]
    fn a_bound_of_next_to_nothing_puts_the_others_off_for_good() {
        let mix = mix(Some(1e-300), DELAY_NS);
        assert!(mix.first_start_ns(0, 0) <= DELAY_NS);
        assert!(mix.first_start_ns(199, 1) > u64::MAX / 2);
    }
}
