//! Starting, restarting and stopping a server, whatever it speaks: a thread a CPU.
//!
//! Not for: what the threads do (`Service` of each protocol).

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

/// If accepting fails (out of file descriptors or memory), it is tried again after this.
pub(crate) const ACCEPT_PAUSE_NS: u64 = 10_000_000;
/// If the port is taken when a server listens again, it is tried again after this, and so often.
const LISTEN_PAUSE: Duration = Duration::from_millis(10);
const LISTEN_TRIES: u32 = 1000;
/// How long a server is away whose fault makes it restart.
const OUTAGE: Duration = Duration::from_millis(50);

/// What the threads of a server share, and what they do.
pub trait Service: Sized + Send + Sync + 'static {
    type Options;

    /// Return where it is to listen, how many threads it is to have, and what in the options can't be, in words.
    fn outline(options: &Self::Options) -> (SocketAddr, usize, Option<&'static str>);

    /// Make all that is there before the first thread.
    ///
    /// # Errors
    /// If a file can't be made, or the kernel refuses something.
    fn new(options: &Self::Options) -> io::Result<Self>;

    /// Start threads that serve at this address. Return where they listen, which differs for port 0.
    ///
    /// # Errors
    /// If the address can't be had, a CPU does not exist or is not ours, or there is no thread.
    fn start(self: &Arc<Self>, address: SocketAddr, threads: &mut Threads) -> io::Result<SocketAddr>;

    /// Lose what a restart loses, while no thread runs. Return the number of files that lost something.
    fn lose(&self) -> u64 {
        0
    }

    /// Return how long the server runs between restarts, if a fault restarts it.
    fn restarts_after(&self) -> Option<Duration> {
        None
    }
}

/// A running server; it stops when it is dropped.
pub struct Server<S: Service>(Arc<Running<S>>);

struct Running<S> {
    service: Arc<S>,
    address: SocketAddr,
    /// None: stopped for good.
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
    /// Start the threads. Once this returns, connections are accepted.
    ///
    /// # Errors
    /// If the options contradict themselves, the address can't be had, or a CPU does not exist or is not ours.
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

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// The port of its address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.address.port()
    }

    /// Restart as after `kill -9`: close every connection, lose what is not kept, and be away for `outage`. Files stay.
    /// Return the number of files that lost something, once it is up again.
    ///
    /// # Errors
    /// If somebody else keeps the port, or no thread can be had.
    pub fn restart(&self, outage: Duration) -> io::Result<u64> {
        self.0.restart(outage)
    }

    /// Whether threads run now: not while it is away, nor once it has stopped.
    pub(crate) fn runs(&self) -> bool {
        lock(&self.0.threads)
            .as_ref()
            .is_some_and(|threads| !threads.is_empty())
    }

    /// End every thread and close every connection. Takes about 20 ms; does nothing the second time.
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
            // If somebody else keeps the port, it is tried again the next time.
            let _ = self.restart(OUTAGE);
        }
    }

    /// Waits; shorter if the server stops.
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

/// Make a service, if its options can be.
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

/// Serves every connection that comes in a task of its own, for ever.
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

/// Run a thread's tasks until it is to stop.
pub(crate) fn run(executor: &Executor, stopping: &AtomicBool) {
    let ended = executor.run(|| stopping.load(Ordering::Relaxed));
    ended.expect("waiting on a valid epoll instance does not fail");
}
