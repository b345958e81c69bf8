//! Starting and stopping: one thread a CPU, each with a listener and an event loop of its own.

use super::application::Application;
use super::connection::serve;
use super::documents::{Door, Site};
use super::options::Options;
use super::worker::{keep_time, Shared, Worker};
use crate::threads::Threads;
use dyno_measure::monotonic_ns;
use dyno_reactor::{Executor, Listener};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Where accepting fails (out of file descriptors or memory) it is tried again after this.
const ACCEPT_PAUSE_NS: u64 = 10_000_000;

/// A running server; it stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    secure_address: Option<SocketAddr>,
    shared: Arc<Shared>,
    threads: Threads,
}

impl Server {
    /// Starts the threads. Once this returns, connections are accepted.
    ///
    /// # Errors
    /// Where there is no thread, the address can't be had, a CPU does not exist or is not ours, or a server behind this
    /// one is elsewhere or to be asked by HTTP/2.
    pub fn start(options: &Options) -> io::Result<Self> {
        let refused = |why| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        if options.threads == 0 {
            return refused("a server needs at least one thread");
        }
        if options.behind.iter().any(|address| !address.ip().is_loopback()) {
            return refused("requests are handed on to servers on loopback alone");
        }
        if options.http2 && !options.behind.is_empty() {
            return refused("requests of HTTP/2 are not handed on: leave out one of the two");
        }
        let mut server = Self {
            address: options.bind,
            secure_address: options.secure_bind.filter(|_| options.tls.is_some()),
            shared: Arc::new(Shared {
                site: Site::new(&options.documents, &options.extra_documents),
                application: Application::default(),
                fault: options.fault,
                http2: options.http2 && options.fault.is_none(),
                tls: options.tls.clone(),
                counters: (0..options.threads).map(|_| Default::default()).collect(),
                behind: options.behind.clone(),
                stopping: AtomicBool::new(false),
            }),
            threads: Threads::default(),
        };
        for number in 0..options.threads {
            server.start_thread(number, &options.cpus, options.threads > 1)?;
        }
        Ok(server)
    }

    /// From the first on, all listen on the ports that it got.
    fn start_thread(&mut self, number: usize, cpus: &[usize], share_port: bool) -> io::Result<()> {
        let (addresses, shared) = ((self.address, self.secure_address), self.shared.clone());
        let set_up = move || {
            let thread = Thread::set_up(addresses, share_port, shared, number)?;
            let addresses = thread.addresses()?;
            Ok((thread, addresses))
        };
        (self.address, self.secure_address) =
            self.threads
                .start(("reference", number), cpus, set_up, Thread::run)?;
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

    /// The port where it speaks TLS besides.
    #[must_use]
    pub fn secure_port(&self) -> Option<u16> {
        self.secure_address.map(|address| address.port())
    }

    /// Answers so far, of every status, but those to the tool's own questions (extra documents, this count), so that
    /// the difference between two counts is the load between them. An answer counts from the moment its sending
    /// begins, and no longer does once that has failed; a fault that never ends its answer never counts.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.shared.requests()
    }

    /// Ends every thread and closes every connection. Takes about 20 ms; does nothing the second time.
    pub fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.threads.join();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What one thread has in hand before its loop begins.
struct Thread {
    worker: Worker,
    listener: Listener,
    /// For TLS, beside the other.
    secure: Option<Listener>,
}

impl Thread {
    fn set_up(
        (address, secure): (SocketAddr, Option<SocketAddr>),
        share_port: bool,
        shared: Arc<Shared>,
        number: usize,
    ) -> io::Result<Self> {
        let executor = Executor::new()?;
        let listener = Listener::bind(&executor, address, share_port)?;
        let secure = secure.map(|address| Listener::bind(&executor, address, share_port));
        Ok(Self {
            secure: secure.transpose()?,
            worker: Worker::new(executor, shared, number),
            listener,
        })
    }

    fn addresses(&self) -> io::Result<(SocketAddr, Option<SocketAddr>)> {
        let secure = self.secure.as_ref().map(Listener::address).transpose()?;
        Ok((self.listener.address()?, secure))
    }

    fn run(self) {
        let worker = Rc::new(self.worker);
        let (executor, shared) = (worker.executor.clone(), worker.shared.clone());
        executor.spawn(keep_time(worker.clone()));
        let tls_alone = shared.tls.is_some() && self.secure.is_none();
        executor.spawn(accept_connections(self.listener, worker.clone(), tls_alone));
        if let Some(listener) = self.secure {
            executor.spawn(accept_connections(listener, worker, true));
        }
        let ended = executor.run(|| shared.stopping.load(Ordering::Relaxed));
        ended.expect("waiting on a valid epoll instance does not fail");
    }
}

async fn accept_connections(listener: Listener, worker: Rc<Worker>, secure: bool) {
    let port = listener.address().map_or(0, |address| address.port());
    let door = Door { port, secure };
    loop {
        match listener.accept().await {
            Ok(socket) => worker.executor.spawn(serve(socket, worker.clone(), door)),
            Err(_) => {
                worker
                    .executor
                    .sleep_until(monotonic_ns() + ACCEPT_PAUSE_NS)
                    .await
            }
        }
    }
}
