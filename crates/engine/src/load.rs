//! A running level on a few OS threads, usually pinned, that share only live counters.

use crate::counting::Live;
use crate::engine_thread::EngineThread;
use crate::kind::Work;
use crate::level::Level;
use crate::prepared::PreparedLevel;
use crate::recent::p99_ns;
use crate::stall::StallWatch;
use crate::start::Start;
use crate::tally::LevelTally;
use dyno_measure::{monotonic_ns, thread_cpu, Failure, Fault, NS_PER_S};
use dyno_net::{pin_to, run_delay_ns, wake_on_time, LocalPorts, NO_FILES};
use merge::Merge;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use serde::Serialize;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between checks whether a level with a fixed number of operations has ended.
const LOOK_NS: u64 = 1_000_000;
/// File descriptors needed in addition to connections.
const SPARE_FILES: u64 = 64;

/// Why a level could not be run.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    /// The process may not open enough files.
    #[error("connections and the tool itself need {needed} file descriptors, but this process may have only {limit}: raise the hard limit (ulimit -Hn)")]
    Files {
        /// Number of files for the level's connections and the tool itself.
        needed: u64,
        limit: u64,
    },
    /// The machine has too few local ports.
    #[error("{needed} connections to one server need as many local ports, but this machine has {}: use fewer clients, a wider net.ipv4.ip_local_port_range (sysctl; now {} to {}), or several machines (--fleet)", range.count(), range.first, range.last)]
    Ports { needed: u64, range: LocalPorts },
    /// A system call failed.
    #[error("the load could not be set up: {0}")]
    System(#[from] rustix::io::Errno),
    /// The level has not ended.
    #[error("the level is still running")]
    Running,
    /// An engine thread ended without a result, because of a bug.
    #[error("an engine thread ended without a result; its panic message is on standard error")]
    Lost,
}

/// State of a running level.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Snapshot {
    /// Time since the start of the level; 0 during preparation.
    pub elapsed_s: f64,
    /// Clients that are ready or have failed.
    pub clients_prepared: u64,
    /// Successes so far, including ramps.
    pub operations: u64,
    /// All bytes received by these operations, including ramps.
    pub bytes_in: u64,
    /// Application bytes read and written.
    pub bytes_moved: u64,
    pub errors: u64,
    /// Clients that have not left.
    pub clients_active: u64,
    /// 99th percentile of response times so far, including ramps. It is at most an eighth too high. None if there are
    /// too few response times.
    pub p99_ms: Option<f64>,
}

#[derive(Debug)]
struct Shared {
    level: Arc<Level>,
    work: Arc<dyn Work>,
    start: Arc<Start>,
    stop: AtomicBool,
    lives: Vec<Arc<Live>>,
}

/// A running level.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    stall: StallWatch,
    parts: Receiver<Result<LevelTally, LoadError>>,
    missing_parts: usize,
    tally: LevelTally,
    failure: Option<LoadError>,
}

impl Load {
    /// Starts a level on its own threads. The level begins when all clients are ready, or at the time that `go` sets.
    ///
    /// # Errors
    /// There are too few file descriptors or local ports.
    pub fn start(prepared: &PreparedLevel) -> Result<Self, LoadError> {
        let level = prepared.level();
        let connections = prepared.work().connections(level.part.clients, level.threads);
        raise_file_limit(connections as u64)?;
        if !prepared.is_loopback() {
            check_ports(connections as u64)?;
        }
        let threads = level.threads_here();
        let (sender, parts) = channel();
        let shared = Arc::new(Shared {
            level: level.clone(),
            work: prepared.work().clone(),
            start: Arc::new(Start::new(level.start, level.part.clients)),
            stop: AtomicBool::new(false),
            lives: (0..threads).map(|_| Arc::default()).collect(),
        });
        for number in 0..threads {
            let (shared, sender): (_, Sender<_>) = (shared.clone(), sender.clone());
            std::thread::spawn(move || {
                let part = run_engine_thread(&shared, number);
                if part.is_err() {
                    // Stop if one thread fails, because the level would no longer be the requested one.
                    shared.stop.store(true, Ordering::Relaxed);
                }
                // Sending fails only if nobody waits for the result any more.
                let _ = sender.send(part);
            });
        }
        let mut tally = LevelTally::new();
        tally.generator.processes = 1;
        tally.client_cache = shared.work.client_cache();
        Ok(Self {
            stall: StallWatch::begin(shared.start.clone(), level.window.length_ns),
            shared,
            parts,
            missing_parts: threads,
            tally,
            failure: None,
        })
    }

    /// Sets the start of a waiting level, on the monotonic clock.
    pub fn go(&self, start_ns: u64) {
        self.shared.start.go(start_ns);
    }

    pub fn snapshot(&self) -> Snapshot {
        let Shared {
            level, start, lives, ..
        } = &*self.shared;
        let sum = |figure: fn(&Live) -> &AtomicU64| -> u64 {
            lives
                .iter()
                .map(|live| figure(live).load(Ordering::Relaxed))
                .sum()
        };
        let elapsed_ns = start.ns().map_or(0, |start| monotonic_ns().saturating_sub(start));
        Snapshot {
            elapsed_s: elapsed_ns as f64 / NS_PER_S as f64,
            clients_prepared: start.arrived() as u64,
            operations: sum(|live| &live.operations),
            bytes_in: sum(|live| &live.bytes_in),
            bytes_moved: sum(|live| &live.bytes_moved),
            errors: sum(|live| &live.errors),
            clients_active: (level.part.clients as u64).saturating_sub(sum(|live| &live.clients_left)),
            p99_ms: p99_ns(lives.iter().map(|live| &live.response_times))
                .map(|ns| ns as f64 * 1000.0 / NS_PER_S as f64),
        }
    }

    /// Ends the level at once and drops operations in progress.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    pub fn wait(&mut self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while self.missing_parts > 0 {
            match self
                .parts
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(Ok(part)) => self.tally.merge(part),
                Ok(Err(error)) => self.failure = Some(error),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => {
                    self.failure = Some(LoadError::Lost);
                    self.missing_parts = 1;
                }
            }
            self.missing_parts -= 1;
        }
        self.tally.stopped = self.shared.stop.load(Ordering::Relaxed);
        self.tally.started_unix_s = self.shared.start.unix_s();
        self.tally.generator.stalled_ns = self.stall.stalled_ns();
        true
    }

    /// Returns the counts.
    ///
    /// # Errors
    /// The level is running, or an engine thread was lost.
    pub fn result(&self) -> Result<&LevelTally, LoadError> {
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
            needed: connections + SPARE_FILES,
            limit: hard,
        });
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    Ok(setrlimit(Resource::Nofile, raised)?)
}

fn check_ports(connections: u64) -> Result<(), LoadError> {
    match LocalPorts::here() {
        Some(range) if connections > range.count() => Err(LoadError::Ports {
            needed: connections,
            range,
        }),
        _ => Ok(()),
    }
}

/// Returns a hint for a failure caused by a limit of this machine.
fn advice_on_limits(failure: &Failure) -> Option<String> {
    match failure.fault {
        Fault::NoPorts => {
            let range = LocalPorts::here();
            let now = range.map_or(String::new(), |range| {
                format!("; now {} to {}", range.first, range.last)
            });
            Some(format!(
                "Use fewer clients, a wider net.ipv4.ip_local_port_range (sysctl{now}), or several machines \
                 (--fleet). A closed connection keeps its port for a minute (TIME_WAIT)."
            ))
        }
        Fault::NoFiles => Some(NO_FILES.to_owned()),
        _ => None,
    }
}

fn pin(shared: &Shared, number: usize) -> Result<(), LoadError> {
    let cpus = &shared.level.cpus;
    if cpus.is_empty() {
        return Ok(());
    }
    Ok(pin_to(cpus[number % cpus.len()])?)
}

/// Runs one engine thread, from the first client's preparation to the last client's end.
fn run_engine_thread(shared: &Shared, number: usize) -> Result<LevelTally, LoadError> {
    pin(shared, number)?;
    wake_on_time()?;
    shared.work.enter()?;
    let (start, live) = (shared.start.clone(), shared.lives[number].clone());
    let thread = EngineThread::new(&shared.level, number, start, shared.work.classes(), live)?;
    shared.work.spawn_clients(&thread);
    thread.executor.spawn(meter(thread.clone()));
    thread.executor.run(|| shared.stop.load(Ordering::Relaxed))?;
    let source_addresses = thread.dialer.get().map_or(0, |dialer| dialer.source_addresses());
    let mut tally = thread.tally.borrow_mut();
    if let Some(schedule) = thread.schedule.get() {
        tally.add_arrivals(schedule.borrow_mut().close());
    }
    let first = &thread.first_answer;
    tally.set_server(first.server.get().cloned());
    let mut lives = shared.lives.iter();
    first
        .others_succeed
        .set(lives.any(|live| live.operations.load(Ordering::Relaxed) > 0));
    Ok(tally.finish(source_addresses, |failure| {
        if let Some(advice) = advice_on_limits(failure) {
            return Some(advice);
        }
        let advice = shared.work.advice(failure, first)?;
        let explaining = dyno_http::explaining(failure).and_then(|name| Some((name, first.header(name)?)));
        Some(match explaining {
            Some((name, value)) => format!("{advice} {name}: {value}"),
            None => advice,
        })
    }))
}

/// Samples the engine thread's own resource use at the start and the end of the window.
async fn meter(thread: Rc<EngineThread>) {
    let executor = &thread.executor;
    let start_ns = thread.start.wait(executor).await;
    let window = thread.level.window;
    executor.sleep_until(start_ns + window.opens_ns()).await;
    let (before, delayed_ns) = (thread_cpu(), run_delay_ns());
    executor.start_lag();
    executor.start_ready_work();
    let closes_ns = start_ns + window.closes_ns();
    if thread.level.operations.is_some() {
        while thread.working.get() > 0 && monotonic_ns() < closes_ns {
            executor
                .sleep_until(closes_ns.min(monotonic_ns() + LOOK_NS))
                .await;
        }
        if thread.working.get() == 0 {
            thread.tally.borrow_mut().end_window();
        }
    } else {
        executor.sleep_until(closes_ns).await;
    }
    let used = thread_cpu().since(before);
    let run_delay_ns = run_delay_ns()
        .zip(delayed_ns)
        .map(|(after, before)| after - before);
    let mut tally = thread.tally.borrow_mut();
    tally.set_generator(used, executor.take_lag());
    let ready_work = executor.take_ready_work();
    if !thread.level.clients_block {
        tally.set_waiting(ready_work, run_delay_ns);
    }
}
