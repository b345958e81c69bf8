//! Starting, starting anew and stopping: one thread a CPU, each with a listener and an event loop of its own.

use super::connection::serve;
use super::datagrams::serve_datagrams;
use super::fault::Kind;
use super::host::Host;
use super::options::Options;
use crate::threads::Threads;
use dyno_measure::monotonic_ns;
use dyno_reactor::{Datagrams, Executor, Listener};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// Where accepting fails (out of file descriptors or memory) it is tried again after this; so is listening anew.
const PAUSE: Duration = Duration::from_millis(10);
/// For many clients' writes; the kernel may give less.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Somebody else may have the port of UDP that belongs to a free one of TCP: so often another is taken.
const TRIES: u32 = 8;
/// How long the server is away where a fault makes it start anew.
const OUTAGE: Duration = Duration::from_millis(50);

/// A running server; it stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    host: Arc<Host>,
    threads: Threads,
}

impl Server {
    /// Starts the threads. Once this returns, connections are accepted.
    ///
    /// # Errors
    /// Where the options contradict themselves or an address can't be had.
    pub fn start(options: &Options) -> io::Result<Self> {
        if let Some(problem) = options.problem() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let mut server = Self {
            address: options.bind,
            host: Host::new(options)?,
            threads: Threads::default(),
        };
        for number in 0..options.threads {
            server.start_thread(number)?;
        }
        if let Some(fault) = options.fault.filter(|fault| fault.kind == Kind::Restart) {
            let (host, length) = (server.host.clone(), Duration::from_millis(fault.value.into()));
            let run = move |()| {
                while !host.is_stopping() {
                    host.pause(length);
                    host.restart(OUTAGE);
                }
            };
            server
                .threads
                .start(("reference-nfs-restarts", 0), &[], || Ok(((), ())), run)?;
        }
        Ok(server)
    }

    /// From the first on, all listen on the port that it got.
    fn start_thread(&mut self, number: usize) -> io::Result<()> {
        let (host, address) = (self.host.clone(), self.address);
        let set_up = move || {
            let thread = Thread::listen(host, number, address)?;
            let address = thread.address;
            Ok((thread, address))
        };
        let name = ("reference-nfs", number);
        self.address = self.threads.start(name, &[], set_up, Thread::run)?;
        self.host.port.store(self.address.port(), Ordering::Relaxed);
        Ok(())
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of its address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Requests so far by procedure, as RFC 1813 writes their names. A request counts before it is answered; MOUNT and the
    /// portmapper don't count.
    #[must_use]
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        self.host.requests()
    }

    /// How many calls were given a reply that was given before, because they came once more.
    #[must_use]
    pub fn replies_given_again(&self) -> u64 {
        let exports = self.host.exports.iter();
        let of_exports: u64 = exports.map(|export| export.lock().replies.given_again()).sum();
        of_exports + self.host.given_again.load(Ordering::Relaxed)
    }

    /// How often it has started anew.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.host.restarts()
    }

    /// Starts anew as after `kill -9`: closes every connection, is away for `outage`, has lost all unstable writes and has
    /// another write verifier. Files and handles stay. How many files lost something, once it is
    /// up again.
    #[must_use]
    pub fn restart(&self, outage: Duration) -> u64 {
        self.host.restart(outage)
    }

    /// Ends every thread and closes every connection. Takes about 20 ms; does nothing the second time.
    pub fn stop(&mut self) {
        self.host.stop();
        self.threads.join();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Thread {
    host: Arc<Host>,
    number: usize,
    address: SocketAddr,
    executor: Executor,
    listeners: Vec<Listener>,
    datagrams: Vec<Datagrams>,
}

impl Thread {
    fn listen(host: Arc<Host>, number: usize, address: SocketAddr) -> io::Result<Self> {
        let executor = Executor::new()?;
        let (listener, datagrams) = listen_at(&executor, &host, address)?;
        let address = listener.address()?;
        let (mut listeners, mut datagrams) = (vec![listener], Vec::from_iter(datagrams));
        if let Some(portmapper) = host.options.portmapper.filter(|_| number == 0) {
            listeners.push(Listener::bind(&executor, portmapper, false)?);
            if host.options.udp {
                datagrams.push(Datagrams::bind(
                    &executor,
                    portmapper,
                    false,
                    RECEIVE_BUFFER_BYTES,
                )?);
            }
        }
        Ok(Self {
            host,
            number,
            address,
            executor,
            listeners,
            datagrams,
        })
    }

    /// Until the server stops: from one start to the next, all connections of which end with it.
    fn run(mut self) {
        let mut restarts = 0;
        loop {
            let host = self.host.clone();
            for listener in self.listeners.drain(..) {
                let accepting =
                    accept_connections(listener, self.executor.clone(), host.clone(), self.number);
                self.executor.spawn(accepting);
            }
            for socket in self.datagrams.drain(..) {
                let serving = serve_datagrams(socket, self.executor.clone(), host.clone(), self.number);
                self.executor.spawn(serving);
            }
            let ended = self
                .executor
                .run(|| host.is_stopping() || host.restarts() != restarts);
            ended.expect("waiting on a valid epoll instance does not fail");
            match host.wait_until_up() {
                Some(number) => restarts = number,
                None => return,
            }
            self = match self.listen_anew() {
                Some(thread) => thread,
                None => return,
            };
        }
    }

    /// Listens where it did. Somebody else may have the port for a moment: until it can be had again, it is tried again.
    fn listen_anew(self) -> Option<Self> {
        let (host, number, address) = (self.host, self.number, self.address);
        drop((self.executor, self.listeners, self.datagrams));
        while !host.is_stopping() {
            if let Ok(thread) = Self::listen(host.clone(), number, address) {
                host.is_back();
                return Some(thread);
            }
            host.pause(PAUSE);
        }
        None
    }
}

/// Listens at a port, and over UDP at the same one.
fn listen_at(
    executor: &Executor,
    host: &Host,
    address: SocketAddr,
) -> io::Result<(Listener, Option<Datagrams>)> {
    let shared = host.options.threads > 1;
    let mut tries = 0;
    loop {
        let listener = Listener::bind(executor, address, shared)?;
        if !host.options.udp {
            return Ok((listener, None));
        }
        tries += 1;
        match Datagrams::bind(executor, listener.address()?, shared, RECEIVE_BUFFER_BYTES) {
            Ok(datagrams) => return Ok((listener, Some(datagrams))),
            Err(_) if address.port() == 0 && tries < TRIES => {}
            Err(error) => return Err(error.into()),
        }
    }
}

async fn accept_connections(listener: Listener, executor: Executor, host: Arc<Host>, thread: usize) {
    let pause_ns = u64::try_from(PAUSE.as_nanos()).unwrap_or(u64::MAX);
    loop {
        match listener.accept().await {
            Ok(socket) => executor.spawn(serve(socket, executor.clone(), host.clone(), thread)),
            Err(_) => executor.sleep_until(monotonic_ns() + pause_ns).await,
        }
    }
}
