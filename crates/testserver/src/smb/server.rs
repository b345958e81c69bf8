//! Starts and stops the server: one thread per CPU, each with its own listener and event loop.

use super::connection::serve;
use super::host::Host;
use super::message::command;
use super::options::Options;
use crate::server::{start_each, Service};
use crate::threads::Threads;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::Duration;

/// Time limit for connections to end. Their current requests take less time.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server. Dropping it stops it.
pub type Server = crate::server::Server<Host>;

impl Server {
    /// Closes every connection. Once this returns, no outstanding request will be answered.
    pub fn cut_connections(&self) {
        if self.runs() {
            let (told, all_ended) = channel();
            self.service().connections.end(&told);
            drop(told);
            // Nothing is sent: the wait ends when all connections have dropped their senders, or at the time
            // limit if a thread has panicked.
            let _ = all_ended.recv_timeout(PATIENCE);
        }
    }

    /// Returns the number of requests so far by command, with the names in MS-SMB2. Each part of a compound
    /// is counted once, unless it was refused because an earlier part failed. A request is counted before it
    /// is answered.
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        let commands = command::NAMES.iter().enumerate();
        let count = |code| self.service().counts.of_kind(code);
        commands.map(|(code, name)| (*name, count(code))).collect()
    }

    /// Returns the number of files that clients have open, in all shares.
    pub fn open_files(&self) -> usize {
        let volumes = self.service().volumes.iter();
        volumes.map(|volume| volume.lock().open_count()).sum()
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
            ("reference-smb", self.options.threads),
            address,
            move |executor, number| {
                let host = host.clone();
                move |socket| serve(socket, executor.clone(), host.clone(), number)
            },
        )
    }

    /// Closes all handles except persistent ones. Files and persistent handles stay, as in a cluster after a failover.
    fn lose(&self) -> u64 {
        for volume in &self.volumes {
            volume.lock().restart(Self::moment());
        }
        self.sessions().clear();
        self.connections.clear();
        0
    }
}
