//! Starting and stopping: a thread a CPU. The first accepts, and deals connections out to all in turn.

use super::host::Host;
use super::options::Options;
use super::worker::Worker;
use crate::threads::Threads;
use rustix::fd::OwnedFd;
use rustix::net::{bind, getsockname, listen, socket_with, sockopt, AddressFamily, SocketFlags, SocketType};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::Arc;

const BACKLOG: i32 = 4096;

/// A running server; it stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    host: Arc<Host>,
    threads: Threads,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Server({})", self.address)
    }
}

impl Server {
    /// Starts the threads. Once this returns, connections are accepted.
    ///
    /// # Errors
    /// Where the options contradict themselves, the address can't be had, or a CPU does not exist or is not ours.
    pub fn start(options: &Options) -> io::Result<Self> {
        if let Some(problem) = options.problem() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let (listener, address) = listen_at(options.bind)?;
        let mut server = Self {
            address,
            host: Host::new(options)?,
            threads: Threads::default(),
        };
        let mut listener = Some(listener);
        for number in 0..options.threads {
            let (host, listener) = (server.host.clone(), listener.take());
            let set_up = move || Ok((Worker::new(host, number, listener)?, ()));
            server
                .threads
                .start(("reference-smb", number), &options.cpus, set_up, Worker::run)?;
        }
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port of its address.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Requests so far by command, as MS-SMB2 writes their names, each part of a compound once, but for those that were
    /// refused because the part before them had failed. A request counts before it is answered.
    #[must_use]
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        self.host.requests()
    }

    /// Files that clients have open now, all shares together.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.host
            .volumes
            .iter()
            .map(|volume| volume.lock().open_count())
            .sum()
    }

    /// Ends every thread and closes every connection; does nothing the second time.
    pub fn stop(&mut self) {
        self.host.stopping.store(true, Ordering::Relaxed);
        for letter_box in &self.host.boxes {
            letter_box.ring();
        }
        self.threads.join();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn listen_at(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(family, SocketType::STREAM, flags, None)?;
    // A port on which connections of an earlier server are still in TIME_WAIT can be had.
    sockopt::set_socket_reuseaddr(&listener, true)?;
    bind(&listener, &address)?;
    listen(&listener, BACKLOG)?;
    let bound = getsockname(&listener)?;
    Ok((listener, SocketAddr::try_from(bound)?))
}
