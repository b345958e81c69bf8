//! Start and stop of the server: one thread per CPU, each with its own listener and event loop.

use super::connection::{serve, Worker};
use super::host::{Host, Operation};
use super::options::Options;
use crate::server::{accept, run, Service};
use crate::threads::Threads;
use dyno_net::{Executor, Listener};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// A running server; dropping it stops it.
pub type Server = crate::server::Server<Host>;

impl Server {
    /// Returns the number of requests so far by operation. A request counts before it is answered, also if it
    /// is refused; requests that are not S3 requests count as `Other` or not at all.
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        let count = |operation: Operation| self.service().counts.of_kind(operation as usize);
        Operation::ALL
            .map(|operation| (operation.name(), count(operation)))
            .to_vec()
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
                let address = thread.listener.address()?;
                Ok((thread, address))
            };
            address = threads.start(("reference-s3", number), &[], set_up, Thread::run)?;
        }
        Ok(address)
    }

    fn lose(&self) -> u64 {
        Self::lose(self)
    }
}

/// State of a thread before its event loop starts.
struct Thread {
    worker: Worker,
    listener: Listener,
}

impl Thread {
    fn listen(host: Arc<Host>, number: usize, address: SocketAddr) -> io::Result<Self> {
        let executor = Executor::new()?;
        let listener = Listener::bind(&executor, address, host.options.threads > 1)?;
        let worker = Worker::new(executor, host, number);
        Ok(Self { worker, listener })
    }

    fn run(self, stopping: &AtomicBool) {
        let worker = Rc::new(self.worker);
        let executor = worker.executor.clone();
        let serve = move |socket| serve(socket, worker.clone());
        executor.spawn(accept(self.listener, executor.clone(), serve));
        run(&executor, stopping);
    }
}
