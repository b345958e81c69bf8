//! How the clients of a mix come by their sessions with a file server: what a file protocol gives to the work on files.

use crate::counting::SessionFacts;
use dyno_files::FileClient;
use dyno_measure::Failure;
use dyno_net::{Dialer, Executor};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::rc::Rc;

/// The last of all numbers of clients, counted down: those that ask a server before its load.
pub(crate) const FIRST_ASKING_CLIENT: u32 = u32::MAX - 1;

/// Requests so far, by the protocol's own names.
pub(crate) type Requests = BTreeMap<&'static str, u64>;

/// By what leave a client keeps what it has read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptBy {
    /// What the server grants: oplocks, leases.
    Grants,
    /// Close-to-open rules of the protocol. What it grants besides may be asked for: delegations.
    Rules { delegations: bool },
    /// None: the kernel keeps a cache already.
    Kernel,
}

/// Makes the sessions of one file protocol.
pub(crate) trait Sessions: Debug + Send + Sync + 'static {
    type Client: FileClient + 'static;

    /// Whether a client waits in system calls, so that each needs a thread of its own.
    const CLIENTS_BLOCK: bool = false;

    /// The address of the server.
    fn address(&self) -> SocketAddr;

    /// Where the files are, in words: the address, or the directory where there is no server.
    fn location(&self) -> String {
        self.address().to_string()
    }

    /// Whether they are on this machine.
    fn is_local(&self) -> bool;

    /// Brings the calling thread to where the server can be reached.
    fn enter(&self) -> Result<(), Errno>;

    /// All shares. Clients are dealt out to them in turn.
    fn shares(&self) -> &[String];

    /// The directory of a share below which clients work; empty: the share's root.
    fn base_path(&self) -> &str;

    /// The same at the roots of the shares; None: clients work there, or nothing above them is known.
    fn at_roots(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// A session of the client of that number on a share, yet to be made. Those with the same `identity` are the same
    /// client machines to the server, those with another are machines that it has not met.
    fn session(&self, place: Place<'_>, identity: u64, client: u32, share: &str) -> Self::Client;

    /// What a session that stands came to.
    fn agreed(client: &Self::Client) -> Option<SessionFacts>;

    /// Whether a listing brought the attributes of what it found, by the requests before and after it.
    fn brought_attributes(before: &Requests, after: &Requests) -> bool;

    /// By what leave a client keeps what it has read and written.
    fn kept_by(&self) -> KeptBy;

    /// Connections of one session.
    fn channels(&self) -> usize {
        1
    }

    /// Whether a lock that one client has keeps the others out.
    fn locks_exclude(&self) -> bool {
        true
    }

    /// What to try against a failure.
    fn advice(&self, failure: &Failure) -> Option<&'static str>;

    /// The share of a client.
    fn share_of(&self, client: usize) -> &str {
        let shares = self.shares();
        &shares[client % shares.len()]
    }
}

/// Where a client's task runs, and what it connects by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub executor: &'a Executor,
    pub dialer: &'a Rc<Dialer>,
}
