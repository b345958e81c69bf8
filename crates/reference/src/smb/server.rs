//! Starting and stopping: a thread a CPU. The first accepts, and deals connections out to all in turn.

use super::host::{Host, Letter};
use super::options::Options;
use super::worker::Worker;
use crate::threads::Threads;
use rustix::fd::OwnedFd;
use rustix::net::{bind, getsockname, listen, socket_with, sockopt, AddressFamily, SocketFlags, SocketType};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

const BACKLOG: i32 = 4096;
/// A thread carries out what it has at hand within less.
const PATIENCE: Duration = Duration::from_secs(10);

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
    /// Where the options contradict themselves or the address can't be had.
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
        server.start_threads(listener)?;
        Ok(server)
    }

    fn start_threads(&mut self, listener: OwnedFd) -> io::Result<()> {
        let mut listener = Some(listener);
        for number in 0..self.host.options.threads {
            let (host, listener) = (self.host.clone(), listener.take());
            let set_up = move || Ok((Worker::new(host, number, listener)?, ()));
            self.threads
                .start(("reference-smb", number), &[], set_up, Worker::run)?;
        }
        Ok(())
    }

    /// Starts anew as after `kill -9`: closes every connection and is away for `outage`. Files stay, and so do persistent
    /// handles, as a cluster keeps them for the node that takes over; all others are gone.
    ///
    /// # Errors
    /// Where somebody else has taken the port meanwhile, or no thread can be had.
    pub fn restart(&mut self, outage: Duration) -> io::Result<()> {
        self.stop();
        for volume in &self.host.volumes {
            volume.lock().restart(Host::moment());
        }
        self.host.forget_all();
        sleep(outage);
        let (listener, _) = listen_at(self.address)?;
        self.host.stopping.store(false, Ordering::Relaxed);
        self.start_threads(listener)
    }

    /// Closes every connection. Once this returns, nothing that was asked on one of them will be answered.
    pub fn cut_connections(&self) {
        let (done, all_done) = channel();
        for letter_box in &self.host.boxes {
            letter_box.post(Letter::HangUp(done.clone()));
        }
        drop(done);
        let threads = if self.host.stopping.load(Ordering::Relaxed) {
            0
        } else {
            self.host.boxes.len()
        };
        for _ in 0..threads {
            // A thread that has panicked says nothing any more.
            let _ = all_done.recv_timeout(PATIENCE);
        }
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
