//! A mix under way: on a few pinned OS threads that share nothing while it lasts but live counters.

use crate::client::Schedule;
use crate::files::FilesReady;
use crate::mix::{Mix, Work};
use crate::start::Start;
use crate::tally::{Live, MixTally, Tally};
use crate::web::WebReady;
use dyno_measure::{monotonic_ns, thread_cpu, NS_PER_S};
use dyno_reactor::{pin_to, Dialer, Executor};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// File descriptors that the process needs beside its connections.
const SPARE_FILES: u64 = 64;

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
    /// Since the start of the mix; 0 while clients are being prepared.
    pub elapsed_s: f64,
    /// Clients that are ready to start, or never will be.
    pub clients_prepared: u64,
    /// Successes so far, ramps included.
    pub operations: u64,
    /// All bytes that came with them.
    pub bytes_in: u64,
    /// Application bytes that they read and wrote.
    pub bytes_moved: u64,
    /// Failures so far.
    pub errors: u64,
    /// Clients that have not left.
    pub clients_active: u64,
}

/// What clients do, with everything built that can be before the clock runs.
#[derive(Debug)]
enum Ready {
    Web(WebReady),
    Files(Box<FilesReady>),
}

impl Ready {
    fn new(mix: &Mix) -> Self {
        match &mix.work {
            Work::Web(work) => Self::Web(WebReady::new(work)),
            Work::Files(work) => Self::Files(Box::new(FilesReady::new(work))),
        }
    }

    fn classes(&self) -> &[String] {
        match self {
            Self::Web(web) => &web.classes,
            Self::Files(files) => &files.classes,
        }
    }

    fn seat_clients(&self, bench: &Rc<Bench>) {
        match self {
            Self::Web(web) => web.seat_clients(bench),
            Self::Files(files) => files.seat_clients(bench),
        }
    }

    /// What a thread must do before it makes a socket.
    fn enter(&self) -> Result<(), LoadError> {
        match self {
            Self::Web(_) => Ok(()),
            Self::Files(files) => files.enter(),
        }
    }
}

/// What all engine threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub mix: Mix,
    ready: Ready,
    stop: AtomicBool,
    lives: Vec<Arc<Live>>,
}

/// One engine thread's place: its loop, its clients and what is counted for them.
#[derive(Debug)]
pub(crate) struct Bench {
    pub shared: Arc<Shared>,
    pub executor: Executor,
    pub tally: Rc<RefCell<Tally>>,
    pub start: Arc<Start>,
    pub dialer: OnceCell<Rc<Dialer>>,
    number: usize,
}

impl Bench {
    /// The clients whose number leaves ours when divided by the number of engine threads.
    pub(crate) fn clients(&self) -> impl ExactSizeIterator<Item = usize> {
        (self.number..self.shared.mix.clients).step_by(self.threads())
    }

    /// How many engine threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.shared.lives.len()
    }

    pub(crate) fn dialer_number(&self) -> u8 {
        u8::try_from(self.number % 250).unwrap_or(0)
    }

    pub(crate) fn schedule(&self, start_ns: u64) -> Schedule {
        let mix = &self.shared.mix;
        Schedule {
            start_ns,
            window: mix.window,
            think_ns: mix.think_ns,
            pace_ns: mix.pace_ns(),
            leave_after_errors: mix.leave_after_errors,
        }
    }
}

/// A mix under way.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    start: Arc<Start>,
    parts: Receiver<Result<MixTally, LoadError>>,
    missing_parts: usize,
    tally: MixTally,
    failure: Option<LoadError>,
}

impl Load {
    /// Starts `mix` on threads of its own. First every client is made ready; the mix starts when all are.
    ///
    /// # Errors
    /// Where this process may not have enough file descriptors.
    pub fn start(mix: Mix) -> Result<Self, LoadError> {
        raise_file_limit(mix.streams() as u64)?;
        let threads = mix.engine_threads.clamp(1, mix.clients);
        let (sender, parts) = channel();
        let shared = Arc::new(Shared {
            ready: Ready::new(&mix),
            stop: AtomicBool::new(false),
            lives: (0..threads).map(|_| Arc::default()).collect(),
            mix,
        });
        let start = Arc::new(Start::new(match &shared.mix.work {
            Work::Web(_) => threads,
            Work::Files(_) => shared.mix.clients,
        }));
        for number in 0..threads {
            let (shared, sender): (_, Sender<_>) = (shared.clone(), sender.clone());
            let start = start.clone();
            std::thread::spawn(move || {
                let part = run_engine_thread(&shared, number, start);
                if part.is_err() {
                    // A mix without one of its threads is not the mix that was asked for: nobody shall wait for its end.
                    shared.stop.store(true, Ordering::Relaxed);
                }
                // The receiver is gone only where nobody wants the result any more.
                let _ = sender.send(part);
            });
        }
        Ok(Self {
            shared,
            start,
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
        let elapsed_ns = self
            .start
            .ns()
            .map_or(0, |start| monotonic_ns().saturating_sub(start));
        Snapshot {
            elapsed_s: elapsed_ns as f64 / NS_PER_S as f64,
            clients_prepared: self.start.arrived() as u64,
            operations: sum(|live| &live.operations),
            bytes_in: sum(|live| &live.bytes_in),
            bytes_moved: sum(|live| &live.bytes_moved),
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
        self.shared.ready.classes()
    }

    /// When it started, seconds since 1970; None where it was stopped before.
    #[must_use]
    pub fn started_unix_s(&self) -> Option<f64> {
        self.start.unix_s()
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
    Ok(pin_to(cpus[number % cpus.len()])?)
}

/// From the first client's preparation to the last one's leaving.
fn run_engine_thread(shared: &Arc<Shared>, number: usize, start: Arc<Start>) -> Result<MixTally, LoadError> {
    pin(shared, number)?;
    shared.ready.enter()?;
    let executor = Executor::new()?;
    let mix = &shared.mix;
    let live = shared.lives[number].clone();
    let tally = Tally::new(mix.window, shared.ready.classes().len(), mix.clients, live);
    let bench = Rc::new(Bench {
        shared: shared.clone(),
        executor: executor.clone(),
        tally: Rc::new(RefCell::new(tally)),
        start,
        dialer: OnceCell::new(),
        number,
    });
    shared.ready.seat_clients(&bench);
    executor.spawn(meter(bench.clone()));
    executor.run(|| shared.stop.load(Ordering::Relaxed))?;
    let mut tally = bench.tally.borrow_mut();
    tally.generator().source_addresses = bench.dialer.get().map_or(0, |dialer| dialer.source_addresses());
    Ok(tally.finish())
}

/// Takes the engine thread's own figures at the borders of the window.
async fn meter(bench: Rc<Bench>) {
    let executor = &bench.executor;
    let start_ns = bench.start.wait(executor).await;
    let window = bench.shared.mix.window;
    executor.sleep_until(start_ns + window.opens_ns()).await;
    let before = thread_cpu();
    executor.start_lag();
    executor.sleep_until(start_ns + window.closes_ns()).await;
    let used = thread_cpu().since(before);
    let mut tally = bench.tally.borrow_mut();
    tally.generator().cpu = used;
    tally.generator().busiest_cpu_s = used.user_s + used.system_s;
    tally.generator().loop_lag = executor.take_lag();
}
