//! A client's outages, each from its last success before it lost a connection to its first success on another
//! one. Also the behaviour of clients that survive outages.

use super::answers::costs_connection;
use super::shared::{ReadBack, SharedBlocks};
use super::FilesClient;
use crate::files::sessions::Sessions;
use dyno_measure::{monotonic_ns, Failure};

/// Maximum number of outages recorded per client.
const MOST_OUTAGES: usize = 64;
/// Interval between attempts to reconnect.
const RECONNECT_NS: u64 = 50_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outage {
    /// End of the last successful operation before the outage.
    pub last_ns: u64,
    /// End of the first successful operation after the outage.
    pub back_ns: u64,
    /// Whether the client lost its open files.
    pub session_lost: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Outages {
    found: Vec<Outage>,
    /// Number of connections that had been established or abandoned at the last success. None before the
    /// first success.
    connections: Option<u64>,
    last_ns: u64,
    session_lost: bool,
}

impl Outages {
    pub(crate) fn found(&self) -> &[Outage] {
        &self.found
    }

    pub(super) fn lose_session(&mut self) {
        self.session_lost = true;
    }

    /// Records a success. `connections`: number of connections established or abandoned so far.
    pub(super) fn succeed(&mut self, connections: u64) {
        let now_ns = monotonic_ns();
        let before = self.connections.replace(connections);
        if before.is_some_and(|before| before != connections) && self.found.len() < MOST_OUTAGES {
            self.found.push(Outage {
                last_ns: self.last_ns,
                back_ns: now_ns,
                session_lost: self.session_lost,
            });
        }
        self.session_lost = false;
        self.last_ns = now_ns;
    }
}

impl<S: Sessions> FilesClient<S> {
    /// Makes the client survive outages: it waits for an absent server and checks the data of its blocks.
    pub(crate) fn go_on_over_outages(&mut self) {
        self.waits_for_server = true;
        self.shared = SharedBlocks::of_one_that_flushes();
    }

    /// Makes the client cut its connection before its first operation after `cut_ns`.
    pub(crate) fn cut_at(&mut self, cut_ns: Option<u64>) {
        self.cut_ns = cut_ns;
    }

    /// Reconnects after an outage once the server is back, within the timeout of an operation.
    pub(super) async fn connect_again(&mut self) -> Result<(), Failure> {
        loop {
            let failure = match self.connect().await {
                Err(failure) if self.waits_for_server && costs_connection(failure.fault) => failure,
                result => return result,
            };
            self.executor.sleep_until(monotonic_ns() + RECONNECT_NS).await;
            if self.executor.deadline_passed() {
                return Err(failure);
            }
        }
    }

    pub(crate) fn outages(&self) -> &[Outage] {
        self.outages.found()
    }

    /// Returns the results of checking the client's blocks after the level, or None if it does not check.
    pub(crate) fn read_back(&self) -> Option<ReadBack> {
        self.waits_for_server.then(|| self.shared.read_back())
    }
}
