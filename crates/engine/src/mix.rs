//! One mix: what to run, and running it on a few pinned OS threads that share nothing while it lasts.

use crate::client::{ClientState, Schedule, Seat};
use crate::tally::{Live, MixTally, Tally};
use crate::web::{Sampling, Web, WebCatalogue};
use dyno_http::{Client, Connecting, Limits, RequestStyle, Target, Version};
use dyno_measure::{monotonic_ns, thread_cpu, unix_s, Window, NS_PER_S};
use dyno_reactor::{Dialer, Executor};
use dyno_workload::{Catalogue, Op, Outcome, SingleUrl, Tree, WebbenchStatic, Workload};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use rustix::thread::{sched_setaffinity, CpuSet};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant};

/// File descriptors that the process needs beside its connections.
const SPARE_FILES: u64 = 64;

/// Separates the random stream that samples bodies from those that choose operations and delays.
const SAMPLING_STREAM: u64 = 0x7361_6d70_6c69_6e67;
const DELAY_STREAM: u64 = 0x6465_6c61_7973_0000;

/// What clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadKind {
    /// The WebBench static tree.
    WebbenchStatic,
    /// The target's own URL, again and again.
    Url,
}

/// One fixed load for a fixed time.
#[derive(Debug, Clone)]
pub struct Mix {
    /// Where to.
    pub target: Target,
    /// What.
    pub workload: WorkloadKind,
    /// Simulated client machines.
    pub clients: usize,
    /// Request streams in each.
    pub threads: usize,
    /// When, and what of it counts.
    pub window: Window,
    /// Each client starts at a random moment up to this late.
    pub delay_ns: u64,
    /// Between an answer and the next request.
    pub think_ns: u64,
    /// Of every random stream.
    pub seed: u64,
    /// The HTTP version that requests name.
    pub version: Version,
    /// How connections are used, and how long an operation may take.
    pub connecting: Connecting,
    /// Make a new socket for every connection also on loopback, where it can be spared.
    pub fresh_sockets: bool,
    /// The most that one receive call takes.
    pub receive_buffer_bytes: usize,
    /// Errors after which a client leaves; None: never.
    pub leave_after_errors: Option<u32>,
    /// The share of bodies of which the content is checked, 0 to 1.
    pub verify_share: f64,
    /// Operations per second of all clients together, at most.
    pub max_rate_per_s: Option<f64>,
    /// OS threads that make the load.
    pub engine_threads: usize,
    /// The CPUs that they are pinned to, in turn; none: not pinned.
    pub cpus: Vec<usize>,
}

impl Mix {
    fn streams(&self) -> usize {
        self.clients * self.threads
    }

    /// The least time between two starts of one client thread that keeps all of them below the bound.
    fn pace_ns(&self) -> u64 {
        self.max_rate_per_s.map_or(0, |rate| {
            (self.streams() as f64 / rate * NS_PER_S as f64).ceil() as u64
        })
    }

    fn style(&self) -> RequestStyle {
        RequestStyle {
            version: self.version,
            keep_alive: self.connecting.keep_alive,
            host: self.target.host().to_owned(),
        }
    }

    fn catalogue(&self) -> Catalogue {
        match self.workload {
            WorkloadKind::WebbenchStatic => {
                let mut catalogue = Catalogue::webbench_static(&Tree::load());
                // The tree may lie below a path of the server.
                let base = self.target.path().trim_end_matches('/');
                for entry in &mut catalogue.entries {
                    entry.path.insert_str(0, base);
                }
                catalogue
            }
            WorkloadKind::Url => Catalogue::single_url(self.target.path()),
        }
    }

    fn workload_of(&self, client: usize, thread: usize) -> AnyWorkload {
        match self.workload {
            WorkloadKind::WebbenchStatic => AnyWorkload::WebbenchStatic(WebbenchStatic::new(
                Tree::load(),
                self.seed,
                u32::try_from(client).unwrap_or(u32::MAX),
                u32::try_from(thread).unwrap_or(u32::MAX),
            )),
            WorkloadKind::Url => AnyWorkload::Url(SingleUrl),
        }
    }

    fn random(&self, stream: u64, client: usize, thread: usize) -> Xoshiro256PlusPlus {
        let place = ((client as u64) << 32) | thread as u64;
        let mut mixed = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ stream);
        Xoshiro256PlusPlus::seed_from_u64(mixed.next_u64() ^ place)
    }

    /// When a client thread starts, since the start of the mix. The threads of a client start together; under a bound
    /// on the rate, all start one after another.
    fn first_start_ns(&self, client: usize, thread: usize) -> u64 {
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

/// One workload or the other; an enum because it lies in the hot path.
#[derive(Debug)]
enum AnyWorkload {
    WebbenchStatic(WebbenchStatic),
    Url(SingleUrl),
}

impl Workload for AnyWorkload {
    fn next(&mut self, last: &Outcome) -> Op {
        match self {
            Self::WebbenchStatic(workload) => workload.next(last),
            Self::Url(workload) => workload.next(last),
        }
    }
}

/// Why a mix could not be run.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    /// More connections than this process may have.
    #[error("{needed} connections need {needed} file descriptors and some more, this process may have {limit}; raise the hard limit (ulimit -Hn)")]
    Files {
        /// Connections of the mix.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// A system call of the set-up failed.
    #[error("the load could not be set up: {0}")]
    System(#[from] rustix::io::Errno),
    /// The mix has not ended.
    #[error("the mix is still running")]
    Running,
    /// An engine thread ended without a result: a defect of ours.
    #[error("an engine thread ended without a result; its panic message is on standard error")]
    Lost,
}

/// Where a running mix stands.
#[derive(Debug, Clone, Copy, Default)]
pub struct Snapshot {
    /// Since the start of the mix.
    pub elapsed_s: f64,
    /// Successes so far, ramps included.
    pub operations: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Failures so far.
    pub errors: u64,
    /// Clients that have not left.
    pub clients_active: u64,
}

/// What all engine threads share.
#[derive(Debug)]
struct Shared {
    mix: Mix,
    catalogue: Arc<WebCatalogue>,
    classes: Vec<String>,
    start_ns: OnceLock<u64>,
    ready: Barrier,
    stop: AtomicBool,
    lives: Vec<Arc<Live>>,
}

/// A mix under way.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    started_unix_s: f64,
    parts: Receiver<Result<MixTally, LoadError>>,
    missing_parts: usize,
    tally: MixTally,
    failure: Option<LoadError>,
}

impl Load {
    /// Starts `mix` on threads of its own.
    ///
    /// # Errors
    /// Where this process may not have enough file descriptors.
    pub fn start(mix: Mix) -> Result<Self, LoadError> {
        raise_file_limit(mix.streams() as u64)?;
        let catalogue = mix.catalogue();
        let threads = mix.engine_threads.clamp(1, mix.clients);
        let (sender, parts) = channel();
        let shared = Arc::new(Shared {
            catalogue: Arc::new(WebCatalogue::new(&catalogue, &mix.style())),
            classes: catalogue.classes,
            start_ns: OnceLock::new(),
            ready: Barrier::new(threads + 1),
            stop: AtomicBool::new(false),
            lives: (0..threads).map(|_| Arc::default()).collect(),
            mix,
        });
        for number in 0..threads {
            let (shared, sender): (_, Sender<_>) = (shared.clone(), sender.clone());
            std::thread::spawn(move || {
                let part = run_engine_thread(&shared, number);
                // The receiver is gone only where nobody wants the result any more.
                let _ = sender.send(part);
            });
        }
        shared.ready.wait();
        Ok(Self {
            started_unix_s: unix_s(),
            shared,
            parts,
            missing_parts: threads,
            tally: MixTally::default(),
            failure: None,
        })
    }

    /// Where it stands.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let sum = |figure: fn(&Live) -> &std::sync::atomic::AtomicU64| -> u64 {
            self.shared
                .lives
                .iter()
                .map(|live| figure(live).load(Ordering::Relaxed))
                .sum()
        };
        let start_ns = self.shared.start_ns.get().copied();
        let elapsed_ns = start_ns.map_or(0, |start| monotonic_ns().saturating_sub(start));
        Snapshot {
            elapsed_s: elapsed_ns as f64 / NS_PER_S as f64,
            operations: sum(|live| &live.operations),
            bytes_in: sum(|live| &live.bytes_in),
            errors: sum(|live| &live.errors),
            clients_active: (self.shared.mix.clients as u64).saturating_sub(sum(|live| &live.clients_left)),
        }
    }

    /// Ends the mix within a moment; operations under way are dropped.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it was stopped before its end.
    #[must_use]
    pub fn was_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// What it runs.
    #[must_use]
    pub fn mix(&self) -> &Mix {
        &self.shared.mix
    }

    /// Names of the operation classes, by id.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.shared.classes
    }

    /// When it started, seconds since 1970.
    #[must_use]
    pub fn started_unix_s(&self) -> f64 {
        self.started_unix_s
    }

    /// Waits for its end, `timeout` at most; says whether it has ended.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while self.missing_parts > 0 {
            match self
                .parts
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(Ok(part)) => self.tally.add(&part),
                Ok(Err(error)) => self.failure = Some(error),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => {
                    self.failure = Some(LoadError::Lost);
                    self.missing_parts = 1;
                }
            }
            self.missing_parts -= 1;
        }
        true
    }

    /// What it counted.
    ///
    /// # Errors
    /// While it runs, and where an engine thread was lost.
    pub fn result(&self) -> Result<&MixTally, LoadError> {
        match (self.missing_parts, &self.failure) {
            (0, None) => Ok(&self.tally),
            (0, Some(error)) => Err(error.clone()),
            _ => Err(LoadError::Running),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop();
    }
}

fn raise_file_limit(connections: u64) -> Result<(), LoadError> {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    if connections + SPARE_FILES > hard {
        return Err(LoadError::Files {
            needed: connections,
            limit: hard,
        });
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    Ok(setrlimit(Resource::Nofile, raised)?)
}

fn pin(shared: &Shared, number: usize) -> Result<(), LoadError> {
    let cpus = &shared.mix.cpus;
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    set.set(cpus[number % cpus.len()]);
    Ok(sched_setaffinity(None, &set)?)
}

/// The clients whose number leaves `number` when divided by the number of engine threads.
fn run_engine_thread(shared: &Shared, number: usize) -> Result<MixTally, LoadError> {
    let prepared = pin(shared, number).and_then(|()| Ok(Executor::new()?));
    if prepared.is_err() {
        // A mix without one of its threads is not the mix that was asked for: nobody shall wait for its end.
        shared.stop.store(true, Ordering::Relaxed);
    }
    // Every thread comes to the barrier, also one that can't go on: the others must not wait for it.
    shared.ready.wait();
    let start_ns = *shared.start_ns.get_or_init(monotonic_ns);
    let executor = prepared?;
    let mix = &shared.mix;
    let schedule = Schedule {
        start_ns,
        window: mix.window,
        think_ns: mix.think_ns,
        pace_ns: mix.pace_ns(),
        leave_after_errors: mix.leave_after_errors,
    };
    let dialer_number = u8::try_from(number % 250).unwrap_or(0);
    let dialer = Dialer::new(executor.clone(), mix.target.address(), dialer_number);
    let dialer = Rc::new(if mix.fresh_sockets {
        dialer.with_fresh_sockets()
    } else {
        dialer
    });
    let tally = spawn_clients(shared, number, &executor, schedule, &dialer);
    executor.spawn(meter(executor.clone(), schedule, tally.clone()));
    executor.run(|| shared.stop.load(Ordering::Relaxed))?;
    let mut tally = tally.borrow_mut();
    tally.generator().source_addresses = dialer.source_addresses();
    Ok(tally.finish())
}

fn spawn_clients(
    shared: &Shared,
    number: usize,
    executor: &Executor,
    schedule: Schedule,
    dialer: &Rc<Dialer>,
) -> Rc<RefCell<Tally>> {
    let mix = &shared.mix;
    let clients: Vec<usize> = (number..mix.clients).step_by(shared.lives.len()).collect();
    let live = shared.lives[number].clone();
    let tally = Tally::new(mix.window, shared.classes.len(), mix.clients, live);
    let tally = Rc::new(RefCell::new(tally));
    let buffer = Rc::new(RefCell::new(vec![0; mix.receive_buffer_bytes].into_boxed_slice()));
    for client in clients {
        let state = Rc::new(ClientState::default());
        for thread in 0..mix.threads {
            let due_ns = schedule
                .start_ns
                .saturating_add(mix.first_start_ns(client, thread));
            let seat = Seat {
                executor: executor.clone(),
                schedule,
                client,
                state: state.clone(),
                tally: tally.clone(),
            };
            let connection = Client::new(
                executor.clone(),
                dialer.clone(),
                mix.connecting,
                buffer.clone(),
                Limits::default(),
            );
            let sampling = Sampling::new(mix.verify_share, mix.random(SAMPLING_STREAM, client, thread));
            let web = Web::new(shared.catalogue.clone(), connection, sampling);
            executor.spawn(seat.occupy(mix.workload_of(client, thread), web, due_ns));
        }
    }
    tally
}

/// Takes the engine thread's own figures at the borders of the window.
async fn meter(executor: Executor, schedule: Schedule, tally: Rc<RefCell<Tally>>) {
    executor
        .sleep_until(schedule.start_ns + schedule.window.opens_ns())
        .await;
    let before = thread_cpu();
    executor.start_lag();
    executor
        .sleep_until(schedule.start_ns + schedule.window.closes_ns())
        .await;
    let used = thread_cpu().since(before);
    let mut tally = tally.borrow_mut();
    tally.generator().cpu = used;
    tally.generator().busiest_cpu_s = used.user_s + used.system_s;
    tally.generator().loop_lag = executor.take_lag();
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY_NS: u64 = 1_000_000;

    fn mix(max_rate_per_s: Option<f64>, delay_ns: u64) -> Mix {
        Mix {
            target: Target::open("http://127.0.0.1:1/", None).expect("loopback"),
            workload: WorkloadKind::Url,
            clients: 200,
            threads: 2,
            window: Window {
                length_ns: NS_PER_S,
                ramp_up_ns: 0,
                ramp_down_ns: 0,
            },
            delay_ns,
            think_ns: 0,
            seed: 7,
            version: Version::Http11,
            connecting: Connecting {
                keep_alive: true,
                reset: false,
                timeout_ns: NS_PER_S,
            },
            fresh_sockets: false,
            receive_buffer_bytes: 4096,
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
