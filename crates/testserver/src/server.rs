//! Starts, restarts and stops a server with any protocol: one thread per CPU.
//!
//! The protocol's `Service` defines the work of the threads.

use crate::common::lock;
use crate::threads::Threads;
use dyno_measure::monotonic_ns;
use dyno_net::{Executor, Listener, Socket};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Pause after a failure to accept a connection (out of file descriptors or memory).
pub(crate) const ACCEPT_PAUSE_NS: u64 = 10_000_000;
/// Pause between attempts to listen while the port is in use, and the number of attempts.
const LISTEN_PAUSE: Duration = Duration::from_millis(10);
const LISTEN_TRIES: u32 = 1000;
/// Outage of a server whose fault makes it restart.
const OUTAGE: Duration = Duration::from_millis(50);

/// State and tasks of a server's threads.
pub trait Service: Sized + Send + Sync + 'static {
    type Options;

    /// Returns the listening address, the number of threads, and why the options are invalid, or None if they
    /// are valid.
    fn outline(options: &Self::Options) -> (SocketAddr, usize, Option<&'static str>);

    /// Creates the state before the first thread starts.
    ///
    /// # Errors
    /// A file can't be created, or a system call fails.
    fn new(options: &Self::Options) -> io::Result<Self>;

    /// Starts threads that serve this address. Returns the actual address, which differs for port 0.
    ///
    /// # Errors
    /// The address is unavailable, a CPU does not exist or is not allowed, or no thread can be created.
    fn start(self: &Arc<Self>, address: SocketAddr, threads: &mut Threads) -> io::Result<SocketAddr>;

    /// Discards the data that a restart loses. No thread may be running. Returns the number of files that
    /// lost data.
    fn lose(&self) -> u64 {
        0
    }

    /// Returns the time between two restarts, if a fault makes the server restart.
    fn restarts_after(&self) -> Option<Duration> {
        None
    }
}

/// A running server. Dropping it stops it.
pub struct Server<S: Service>(Arc<Running<S>>);

struct Running<S> {
    service: Arc<S>,
    address: SocketAddr,
    /// The running threads. None after a permanent stop.
    threads: Mutex<Option<Threads>>,
    stopped: Condvar,
    one_restart_at_a_time: Mutex<()>,
}

impl<S: Service> std::fmt::Debug for Server<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Server({})", self.address())
    }
}

impl<S: Service> Server<S> {
    /// Starts the threads. Once this returns, connections are accepted.
    ///
    /// # Errors
    /// The options are contradictory, the address is unavailable, or a CPU does not exist or is not
    /// allowed.
    pub fn start(options: &S::Options) -> io::Result<Self> {
        let service = Arc::new(new::<S>(options)?);
        let mut threads = Threads::default();
        let address = match service.start(S::outline(options).0, &mut threads) {
            Ok(address) => address,
            Err(error) => {
                threads.stop();
                return Err(error);
            }
        };
        let server = Self(Arc::new(Running {
            service,
            address,
            threads: Mutex::new(Some(threads)),
            stopped: Condvar::new(),
            one_restart_at_a_time: Mutex::default(),
        }));
        if let Some(length) = server.service().restarts_after() {
            let running = server.0.clone();
            let restart = move || running.restart_for_ever(length);
            Builder::new().name("reference-restarts".into()).spawn(restart)?;
        }
        Ok(server)
    }

    pub(crate) fn service(&self) -> &S {
        &self.0.service
    }

    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Returns the port on which the server listens.
    pub fn port(&self) -> u16 {
        self.0.address.port()
    }

    /// Restarts the server as after `kill -9`: closes every connection, loses unstable data, and stays down
    /// for `outage`. Stable files remain. Returns the number of files that lost data, once the server is up
    /// again.
    ///
    /// # Errors
    /// Another process has taken the port, or no thread can be created.
    pub fn restart(&self, outage: Duration) -> io::Result<u64> {
        self.0.restart(outage)
    }

    /// Returns whether threads are running. During an outage and after a stop, none are.
    pub(crate) fn runs(&self) -> bool {
        lock(&self.0.threads)
            .as_ref()
            .is_some_and(|threads| !threads.is_empty())
    }

    /// Ends every thread and closes every connection. Takes about 20 ms. A second call does nothing.
    pub fn stop(&self) {
        let threads = lock(&self.0.threads).take();
        self.0.stopped.notify_all();
        if let Some(mut threads) = threads {
            threads.stop();
        }
    }
}

impl<S: Service> Drop for Server<S> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<S: Service> Running<S> {
    fn restart(&self, outage: Duration) -> io::Result<u64> {
        let _only = lock(&self.one_restart_at_a_time);
        let mut running = lock(&self.threads);
        let Some(threads) = running.as_mut() else {
            return Ok(0);
        };
        threads.stop();
        let lost = self.service.lose();
        running = self.pause(running, outage);
        for _ in 0..LISTEN_TRIES {
            let Some(threads) = running.as_mut() else {
                return Ok(lost);
            };
            match self.service.start(self.address, threads) {
                Ok(_) => return Ok(lost),
                Err(_) => threads.stop(),
            }
            running = self.pause(running, LISTEN_PAUSE);
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    fn restart_for_ever(&self, length: Duration) {
        while self.pause(lock(&self.threads), length).is_some() {
            // If another process has taken the port, the next restart tries again.
            let _ = self.restart(OUTAGE);
        }
    }

    /// Waits for `length`, or until the server stops.
    fn pause<'a>(
        &self,
        threads: MutexGuard<'a, Option<Threads>>,
        length: Duration,
    ) -> MutexGuard<'a, Option<Threads>> {
        let waited = self
            .stopped
            .wait_timeout_while(threads, length, |threads| threads.is_some());
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Creates a service if the options are valid.
pub(crate) fn new<S: Service>(options: &S::Options) -> io::Result<S> {
    let problem = match S::outline(options) {
        (_, 0, _) => Some("a server needs at least one thread"),
        (_, _, problem) => problem,
    };
    match problem {
        Some(problem) => Err(io::Error::new(io::ErrorKind::InvalidInput, problem)),
        None => S::new(options),
    }
}

/// Starts threads, each with its own listener on the port that the first one gets. `serving` returns the
/// function that serves the connections of one thread.
pub(crate) fn start_each<S, T>(
    threads: &mut Threads,
    (name, count): (&str, usize),
    mut address: SocketAddr,
    serving: impl Fn(Executor, usize) -> S + Clone + Send + 'static,
) -> io::Result<SocketAddr>
where
    S: Fn(Socket) -> T + 'static,
    T: Future<Output = ()> + 'static,
{
    for number in 0..count {
        let serving = serving.clone();
        let set_up = move || {
            let executor = Executor::new()?;
            let listener = Listener::bind(&executor, address, count > 1)?;
            let address = listener.address()?;
            Ok(((executor, listener), address))
        };
        let work = move |(executor, listener): (Executor, _), stopping: &_| {
            let serve = serving(executor.clone(), number);
            executor.spawn(accept(listener, executor.clone(), serve));
            run(&executor, stopping);
        };
        address = threads.start((name, number), &[], set_up, work)?;
    }
    Ok(address)
}

/// Serves every new connection in its own task, forever.
pub(crate) async fn accept<T: Future<Output = ()> + 'static>(
    listener: Listener,
    executor: Executor,
    serve: impl Fn(Socket) -> T,
) {
    loop {
        match listener.accept().await {
            Ok(socket) => executor.spawn(serve(socket)),
            Err(_) => executor.sleep_until(monotonic_ns() + ACCEPT_PAUSE_NS).await,
        }
    }
}

/// Runs a thread's tasks until `stopping` is set.
pub(crate) fn run(executor: &Executor, stopping: &AtomicBool) {
    let ended = executor.run(|| stopping.load(Ordering::Relaxed));
    ended.expect("waiting on a valid epoll instance does not fail");
}
