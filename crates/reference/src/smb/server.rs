//! Starting and stopping: a thread a CPU. The first accepts, and deals connections out to all in turn.

use super::host::{Host, Letter, LetterBox};
use super::message::command;
use super::options::Options;
use super::worker::Worker;
use crate::server::Service;
use crate::threads::Threads;
use rustix::fd::OwnedFd;
use rustix::net::listen;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::Duration;

const BACKLOG: i32 = 4096;
/// A thread carries out what it has at hand within less.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running server; it stops when it is dropped.
pub type Server = crate::server::Server<Host>;

impl Server {
    /// Closes every connection. Once this returns, nothing that was asked on one of them will be answered.
    pub fn cut_connections(&self) {
        let (done, all_done) = channel();
        let boxes = if self.runs() { &*self.service().boxes } else { &[] };
        for letter_box in boxes {
            letter_box.post(Letter::HangUp(done.clone()));
        }
        drop(done);
        for _ in boxes {
            // A thread that has panicked says nothing any more.
            let _ = all_done.recv_timeout(PATIENCE);
        }
    }

    /// Requests so far by command, as MS-SMB2 writes their names, each part of a compound once, but for those that were
    /// refused because the part before them had failed. A request counts before it is answered.
    #[must_use]
    pub fn requests(&self) -> Vec<(&'static str, u64)> {
        let commands = command::NAMES.iter().enumerate();
        let count = |code| self.service().counts.of_kind(code);
        commands.map(|(code, name)| (*name, count(code))).collect()
    }

    /// Files that clients have open now, all shares together.
    #[must_use]
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

    /// The first thread accepts, and deals connections out to all in turn.
    fn start(self: &Arc<Self>, address: SocketAddr, threads: &mut Threads) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address)?;
        listen(&listener, BACKLOG)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut listener = Some(OwnedFd::from(listener));
        for number in 0..self.options.threads {
            let (host, listener) = (self.clone(), listener.take());
            let set_up = move || Ok((Worker::new(host, number, listener)?, ()));
            threads.start(("reference-smb", number), &[], set_up, Worker::run)?;
        }
        Ok(address)
    }

    fn wake(&self) {
        self.boxes.iter().for_each(LetterBox::ring);
    }

    /// Files stay, and so do persistent handles, as a cluster keeps them for the node that takes over; all others are gone.
    fn lose(&self) -> u64 {
        for volume in &self.volumes {
            volume.lock().restart(Self::moment());
        }
        self.sessions().clear();
        0
    }
}
