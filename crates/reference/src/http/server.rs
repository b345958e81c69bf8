//! Starting and stopping: one thread a CPU, each with a listener and an event loop of its own.

use super::application::Application;
use super::connection::serve;
use super::documents::{Door, Site};
use super::options::Options;
use super::worker::{keep_time, Shared, Worker};
use crate::counts::Counts;
use crate::server::{accept, Service};
use crate::threads::Threads;
use dyno_reactor::{Executor, Listener};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A running server; it stops when it is dropped.
pub type Server = crate::server::Server<Shared>;

impl Server {
    /// The port where it speaks TLS besides.
    #[must_use]
    pub fn secure_port(&self) -> Option<u16> {
        self.service().secure_address.get().map(SocketAddr::port)
    }

    /// Answers so far, of every status, but those to the tool's own questions (extra documents, this count), so that
    /// the difference between two counts is the load between them. An answer counts from the moment its sending
    /// begins, and no longer does once that has failed; a fault that never ends its answer never counts.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.service().requests()
    }
}

impl Service for Shared {
    type Options = Options;

    fn outline(options: &Options) -> (SocketAddr, usize, Option<&'static str>) {
        let problem = if options.behind.iter().any(|address| !address.ip().is_loopback()) {
            Some("requests are handed on to servers on loopback alone")
        } else if options.http2 && !options.behind.is_empty() {
            Some("requests of HTTP/2 are not handed on: leave out one of the two")
        } else {
            None
        };
        (options.bind, options.threads, problem)
    }

    fn new(options: &Options) -> io::Result<Self> {
        Ok(Self {
            site: Site::new(&options.documents, &options.extra_documents),
            application: Application::default(),
            counts: Counts::new(options.threads),
            secure_address: OnceLock::new(),
            options: Options {
                http2: options.http2 && options.fault.is_none(),
                ..options.clone()
            },
        })
    }

    /// From the first on, all listen on the ports that it got.
    fn start(self: &Arc<Self>, address: SocketAddr, threads: &mut Threads) -> io::Result<SocketAddr> {
        let options = &self.options;
        let secure = options.secure_bind.filter(|_| options.tls.is_some());
        let mut addresses = (address, secure);
        for number in 0..options.threads {
            let shared = self.clone();
            let set_up = move || {
                let thread = Thread::set_up(addresses, shared, number)?;
                let addresses = thread.addresses()?;
                Ok((thread, addresses))
            };
            addresses = threads.start(("reference", number), &options.cpus, set_up, Thread::run)?;
        }
        if let Some(secure) = addresses.1 {
            self.secure_address.get_or_init(|| secure);
        }
        Ok(addresses.0)
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
        shared: Arc<Shared>,
        number: usize,
    ) -> io::Result<Self> {
        let executor = Executor::new()?;
        let share_port = shared.options.threads > 1;
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

    fn run(self, stopping: &AtomicBool) {
        let worker = Rc::new(self.worker);
        let executor = worker.executor.clone();
        executor.spawn(keep_time(worker.clone()));
        let tls_alone = worker.shared.options.tls.is_some() && self.secure.is_none();
        let plain = [(self.listener, tls_alone)].into_iter();
        for (listener, secure) in plain.chain(self.secure.map(|listener| (listener, true))) {
            let port = listener.address().map_or(0, |address| address.port());
            let (worker, door) = (worker.clone(), Door { port, secure });
            let serve = move |socket| serve(socket, worker.clone(), door);
            executor.spawn(accept(listener, executor.clone(), serve));
        }
        drop(worker);
        let ended = executor.run(|| stopping.load(Ordering::Relaxed));
        ended.expect("waiting on a valid epoll instance does not fail");
    }
}
