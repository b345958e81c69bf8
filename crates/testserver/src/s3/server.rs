//! Starts and stops the server: one thread per CPU, each with its own listener and event loop.

use super::connection::{serve, Worker};
use super::host::{Host, Operation};
use super::options::Options;
use crate::server::{start_each, Service};
use crate::threads::Threads;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A running server. Dropping it stops it.
pub type Server = crate::server::Server<Host>;

impl Server {
    /// Returns the number of requests so far by operation. A request is counted before it is answered, even
    /// if it is refused. Requests that are not S3 requests are counted as `Other` or not at all.
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

    fn start(self: &Arc<Self>, address: SocketAddr, threads: &mut Threads) -> io::Result<SocketAddr> {
        let host = self.clone();
        start_each(
            threads,
            ("reference-s3", self.options.threads),
            address,
            move |executor, number| {
                let worker = Rc::new(Worker::new(executor, host.clone(), number));
                move |socket| serve(socket, worker.clone())
            },
        )
    }

    fn lose(&self) -> u64 {
        Self::lose(self)
    }
}
