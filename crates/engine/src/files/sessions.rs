//! The interface through which a file protocol provides sessions for work on files.

use crate::counting::SessionFacts;
use dyno_files::{FileClient, Postponed};
use dyno_measure::Failure;
use dyno_net::{Dialer, Executor, Pace};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Number of the first client that checks a server before load. Further clients have lower numbers.
pub(crate) const FIRST_ASKING_CLIENT: u32 = u32::MAX - 1;

/// Requests so far, by the protocol's own names.
pub(crate) type Requests = BTreeMap<&'static str, u64>;

/// What permits a client to cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeptBy {
    /// Grants by the server: oplocks, leases.
    Grants,
    /// Close-to-open rules. Delegations may be requested in addition.
    Rules { delegations: bool },
    /// Nothing: the kernel has its own cache.
    Kernel,
}

/// Creates the sessions of one file protocol.
pub(crate) trait Sessions: Debug + Send + Sync + 'static {
    type Client: FileClient + 'static;

    /// Whether a client blocks in system calls, so that each needs a thread.
    const CLIENTS_BLOCK: bool = false;

    fn address(&self) -> SocketAddr;

    /// Returns the location of the files: the address, or the directory without a server.
    fn location(&self) -> String {
        self.address().to_string()
    }

    /// Returns whether the files are on this machine.
    fn is_local(&self) -> bool;

    /// Moves the calling thread to the namespace from which the server is reachable.
    fn enter(&self) -> Result<(), Errno>;

    fn shares(&self) -> &[String];

    /// Returns the directory of a share in which clients work; empty: the share's root.
    fn base_path(&self) -> &str;

    /// Returns the sessions for the roots of the shares. Returns None if clients work in the roots anyway, or
    /// if the roots are unknown.
    fn at_roots(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Returns the same sessions with `pace` as the rate limit of their requests; None: no limit.
    fn paced(&self, pace: Option<Pace>) -> Self
    where
        Self: Sized;

    fn pace(&self) -> Option<&Pace>;

    /// Creates an unconnected session of a client on a share. To the server, clients with the same identity and number
    /// are the same machine.
    fn session(&self, place: Place<'_>, identity: u64, client: u32, share: &str) -> Self::Client;

    fn agreed(client: &Self::Client) -> Option<SessionFacts>;

    /// Returns whether a listing returned attributes, given the number of requests before and after it.
    fn brought_attributes(before: &Requests, after: &Requests) -> bool;

    /// Returns what permits a client to cache.
    fn kept_by(&self) -> KeptBy;

    /// Returns the number of connections per session.
    fn channels(&self) -> usize {
        1
    }

    /// Returns whether a lock of one client excludes the others.
    fn locks_exclude(&self) -> bool {
        true
    }

    /// Returns the count of answers that ask clients to wait. It increases while clients wait.
    fn postponed(&self) -> Arc<Postponed> {
        Arc::default()
    }

    /// Returns whether the server refused the user. It would do so again, and servers lock an account after a few
    /// refused log-ons.
    fn refuses_user(_failure: &Failure) -> bool {
        false
    }

    /// Returns a hint for a failure, if there is one.
    fn advice(&self, failure: &Failure) -> Option<&'static str>;

    fn share_of(&self, client: usize) -> &str {
        let shares = self.shares();
        &shares[client % shares.len()]
    }
}

/// Executor and dialer of a client's task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub executor: &'a Executor,
    pub dialer: &'a Rc<Dialer>,
}
