//! Listens over TCP and UDP: one thread per CPU, each with its own listener and event loop.

use super::connection::serve;
use super::datagrams::serve_datagrams;
use super::fault::Kind;
use super::host::{Host, PROCEDURES};
use super::options::Options;
use super::state4::operation::NAMES;
use crate::server::{accept, run, Service};
use crate::threads::Threads;
use dyno_net::{Datagrams, Executor, Listener};
use dyno_nfs::wire::Procedure;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Size of a receive buffer for the writes of many clients. The kernel may grant less.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Number of attempts to find a port that is free for both TCP and UDP.
const TRIES: u32 = 8;

/// A running server. Dropping it stops it.
pub type Server = crate::server::Server<Host>;

impl Server {
    /// Returns the number of requests so far by procedure, with the names in RFC 1813. A request is counted
    /// before it is answered. Calls of MOUNT and the portmapper are not counted.
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        let names = Procedure::ALL.map(Procedure::name).into_iter().chain(NAMES);
        let mut counts: Vec<(&'static str, u64)> = Vec::new();
        for (kind, name) in names.enumerate() {
            let count = self.service().counts.of_kind(kind);
            match counts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, of_both)) => *of_both += count,
                None if kind < PROCEDURES || count > 0 => counts.push((name, count)),
                None => {}
            }
        }
        counts
    }

    /// Returns the number of cached replies that were sent again, over NFSv3 and NFSv4.
    pub fn replies_given_again(&self) -> u64 {
        let exports = self.service().exports.iter();
        let of_exports: u64 = exports.map(|export| export.lock().replies.given_again()).sum();
        of_exports + self.service().given_again.load(Ordering::Relaxed)
    }

    pub fn restarts(&self) -> u64 {
        self.service().restarts.load(Ordering::Relaxed)
    }
}

impl Service for Host {
    type Options = Options;

    fn outline(options: &Options) -> (SocketAddr, usize, Option<&'static str>) {
        (options.bind, options.threads, options.problem())
    }

    fn new(options: &Options) -> io::Result<Self> {
        Self::new(options)
    }

    /// Starts the threads. All threads use the port that the first one gets.
    fn start(self: &Arc<Self>, mut address: SocketAddr, threads: &mut Threads) -> io::Result<SocketAddr> {
        for number in 0..self.options.threads {
            let host = self.clone();
            let set_up = move || {
                let thread = Thread::listen(host, number, address)?;
                let address = thread.listeners[0].address()?;
                Ok((thread, address))
            };
            address = threads.start(("reference-nfs", number), &[], set_up, Thread::run)?;
            self.port.store(address.port(), Ordering::Relaxed);
        }
        Ok(address)
    }

    fn lose(&self) -> u64 {
        Self::lose(self)
    }

    fn restarts_after(&self) -> Option<Duration> {
        let restart = self.options.fault.filter(|fault| fault.kind == Kind::Restart);
        restart.map(|fault| Duration::from_nanos(fault.value_ns()))
    }
}

/// State of a thread before its event loop starts.
struct Thread {
    host: Arc<Host>,
    number: usize,
    executor: Executor,
    listeners: Vec<Listener>,
    datagrams: Vec<Datagrams>,
}

impl Thread {
    fn listen(host: Arc<Host>, number: usize, address: SocketAddr) -> io::Result<Self> {
        let executor = Executor::new()?;
        let (listener, datagrams) = listen_at(&executor, &host, address)?;
        let (mut listeners, mut datagrams) = (vec![listener], Vec::from_iter(datagrams));
        if let Some(portmapper) = host.options.portmapper.filter(|_| number == 0) {
            listeners.push(Listener::bind(&executor, portmapper, false)?);
            if host.options.udp {
                let socket = Datagrams::bind(&executor, portmapper, false, RECEIVE_BUFFER_BYTES);
                datagrams.push(socket?);
            }
        }
        Ok(Self {
            host,
            number,
            executor,
            listeners,
            datagrams,
        })
    }

    fn run(self, stopping: &AtomicBool) {
        let (executor, number) = (self.executor, self.number);
        for listener in self.listeners {
            let (host, own) = (self.host.clone(), executor.clone());
            let serve = move |socket| serve(socket, own.clone(), host.clone(), number);
            executor.spawn(accept(listener, executor.clone(), serve));
        }
        for socket in self.datagrams {
            executor.spawn(serve_datagrams(
                socket,
                executor.clone(),
                self.host.clone(),
                number,
            ));
        }
        run(&executor, stopping);
    }
}

/// Listens on a TCP port and, if UDP is enabled, on the UDP port with the same number.
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
