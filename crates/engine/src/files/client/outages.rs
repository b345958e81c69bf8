//! When a client was without its server: from the last operation that succeeded before a connection was lost to the first
//! that did on another; and what a client does that goes on over it.

use super::answers::costs_connection;
use super::shared::{ReadBack, SharedBlocks};
use super::FilesClient;
use crate::files::sessions::Sessions;
use dyno_measure::{monotonic_ns, Failure};

/// Of one client: a server that is lost more often than this is told so often.
const MOST_OUTAGES: usize = 64;
/// Between two attempts to connect of a client that goes on over an outage.
const RECONNECT_NS: u64 = 50_000_000;

/// One outage of one client, by the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outage {
    /// The end of the last operation that succeeded before it.
    pub last_ns: u64,
    /// The end of the first that succeeded after it.
    pub back_ns: u64,
    /// What the client had open was lost; else it went on with it.
    pub session_lost: bool,
}

/// All of one client.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    found: Vec<Outage>,
    /// Connections made and given up when the last operation succeeded; None before the first.
    connections: Option<u64>,
    last_ns: u64,
    session_lost: bool,
}

impl Outages {
    pub(crate) fn found(&self) -> &[Outage] {
        &self.found
    }

    /// The session was lost with all that was open.
    pub(super) fn lose_session(&mut self) {
        self.session_lost = true;
    }

    /// An operation has succeeded, when so many connections had been made and given up.
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
    /// It goes on over an outage of the server: it waits for one that is away, and knows what must outlive that.
    pub(crate) fn go_on_over_outages(&mut self) {
        self.waits_for_server = true;
        self.shared = SharedBlocks::of_one_that_flushes();
    }

    /// It cuts its connection with the first operation after that moment.
    pub(crate) fn cut_at(&mut self, cut_ns: Option<u64>) {
        self.cut_ns = cut_ns;
    }

    /// The same after an outage, once the server is back, within the time that an operation may take.
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

    /// When it was without its server.
    pub(crate) fn outages(&self) -> &[Outage] {
        self.outages.found()
    }

    /// What its blocks were after the mix; None of a client that does not look.
    pub(crate) fn read_back(&self) -> Option<ReadBack> {
        self.waits_for_server.then(|| self.shared.read_back())
    }
}
