//! Starts and stops the server: one thread per CPU, each with its own listener and event loop.

use super::application::Application;
use super::connection::serve;
use super::documents::{Endpoint, Site};
use super::options::Options;
use super::worker::{keep_time, Shared, Worker};
use crate::counts::Counts;
use crate::server::{accept, run, Service};
use crate::threads::Threads;
use dyno_net::{Executor, Listener};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// A running server. Dropping it stops it.
pub type Server = crate::server::Server<Shared>;

impl Server {
    /// Returns the additional TLS port.
    pub fn secure_port(&self) -> Option<u16> {
        self.service().secure_port.get().copied()
    }

    /// Returns the number of answers so far, of any status. Answers to the tool's own requests (extra
    /// documents, this count) are excluded, so that the difference between two counts is the load in between.
    /// An answer counts when its transmission starts, and no longer counts if the transmission fails. An
    /// answer that a fault never completes does not count.
    pub fn requests(&self) -> u64 {
        self.service().requests()
    }
}

impl Service for Shared {
    type Options = Options;

    fn outline(options: &Options) -> (SocketAddr, usize, Option<&'static str>) {
        let is_problem = options.http2 && !options.behind.is_empty();
        let problem = "HTTP/2 requests are not forwarded: use either http2 or behind";
        (options.bind, options.threads, is_problem.then_some(problem))
    }

    fn new(options: &Options) -> io::Result<Self> {
        let refused = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        Ok(Self {
            site: Site::new(&options.documents, &options.extra_documents),
            application: Application::default(),
            tls: options.tls_server().map_err(refused)?,
            counts: Counts::new(options.threads),
            secure_port: OnceLock::new(),
            options: Options {
                http2: options.http2 && options.fault.is_none(),
                ..options.clone()
            },
        })
    }

    /// Starts the threads. All threads use the ports that the first one gets.
    fn start(self: &Arc<Self>, address: SocketAddr, threads: &mut Threads) -> io::Result<SocketAddr> {
        let secure_port = self.options.secure_port.filter(|_| self.tls.is_some());
        let mut places = vec![(address, self.tls.is_some() && secure_port.is_none())];
        places.extend(secure_port.map(|port| (SocketAddr::new(address.ip(), port), true)));
        for number in 0..self.options.threads {
            let (shared, wanted) = (self.clone(), places.clone());
            let set_up = move || Thread::set_up(&wanted, shared, number);
            places = threads.start(("reference", number), &self.options.cpus, set_up, Thread::run)?;
        }
        if let [_, (secure, _)] = places[..] {
            self.secure_port.get_or_init(|| secure.port());
        }
        Ok(places[0].0)
    }
}

/// A listening address, and whether it uses TLS.
type Place = (SocketAddr, bool);

/// State of a thread before its event loop starts.
struct Thread {
    worker: Worker,
    listeners: Vec<(Listener, Endpoint)>,
}

impl Thread {
    /// Starts listening. Returns the thread, and the places with their actual ports.
    fn set_up(places: &[Place], shared: Arc<Shared>, number: usize) -> io::Result<(Self, Vec<Place>)> {
        let executor = Executor::new()?;
        let (mut listeners, mut got) = (Vec::new(), Vec::new());
        for (address, secure) in places {
            let listener = Listener::bind(&executor, *address, shared.options.threads > 1)?;
            let (address, secure) = (listener.address()?, *secure);
            let port = address.port();
            listeners.push((listener, Endpoint { port, secure }));
            got.push((address, secure));
        }
        let worker = Worker::new(executor, shared, number);
        Ok((Self { worker, listeners }, got))
    }

    fn run(self, stopping: &AtomicBool) {
        let worker = Rc::new(self.worker);
        let executor = worker.executor.clone();
        executor.spawn(keep_time(worker.clone()));
        for (listener, endpoint) in self.listeners {
            let worker = worker.clone();
            let serve = move |socket| serve(socket, worker.clone(), endpoint);
            executor.spawn(accept(listener, executor.clone(), serve));
        }
        drop(worker);
        run(&executor, stopping);
    }
}
