//! State of a server thread for all its connections, and the task that keeps the time.

use super::application::Application;
use super::behind::Behind;
use super::documents::Site;
use super::opening::{Openings, Persistence, Status};
use super::options::Options;
use super::request::MAX_HEAD_BYTES;
use crate::counts::Counts;
use dyno_measure::{monotonic_ns, NS_PER_S};
use dyno_net::tls::TlsServer;
use dyno_net::Executor;
use http::HeaderValue;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

/// Time limit for sending an answer and receiving the next request, from the last request on a connection.
const PATIENCE_NS: u64 = 60 * NS_PER_S;

/// The only kind of request: all answers are counted together.
const ANY: usize = 0;

/// State shared by the threads of a server.
#[derive(Debug)]
pub struct Shared {
    pub(super) options: Options,
    pub(super) site: Site,
    pub(super) application: Application,
    pub(super) counts: Counts<1>,
    pub(super) tls: Option<TlsServer>,
    /// Additional TLS port, once it is in use.
    pub(super) secure_port: OnceLock<u16>,
}

impl Shared {
    pub(super) fn requests(&self) -> u64 {
        self.counts.of_kind(ANY)
    }
}

pub(crate) struct Worker {
    pub(crate) executor: Executor,
    pub(crate) shared: Arc<Shared>,
    /// Receive buffer of all connections: no task waits between filling it and emptying it.
    pub(crate) buffer: RefCell<[u8; MAX_HEAD_BYTES]>,
    pub(crate) behind: Behind,
    number: usize,
    openings: RefCell<Openings>,
    /// Current time, at most one second old, which is precise enough for `PATIENCE_NS`.
    recent_ns: Cell<u64>,
}

impl Worker {
    pub(crate) fn new(executor: Executor, shared: Arc<Shared>, number: usize) -> Self {
        Self {
            behind: Behind::new(&executor, &shared.options.behind, number),
            executor,
            shared,
            buffer: RefCell::new([0; MAX_HEAD_BYTES]),
            number,
            openings: RefCell::new(Openings::at(SystemTime::now())),
            recent_ns: Cell::new(monotonic_ns()),
        }
    }

    pub(crate) fn opening(&self, status: Status, persistence: Persistence) -> Rc<[u8]> {
        self.openings.borrow().get(status, persistence)
    }

    pub(crate) fn date(&self) -> HeaderValue {
        self.openings.borrow().date.clone()
    }

    /// Renews the time limit of the current task's connection.
    pub(crate) fn renew_patience(&self) {
        self.executor.set_deadline(self.recent_ns.get() + PATIENCE_NS);
    }

    /// Counts an answer. Call it before the answer is sent: when a client has the answer, it must already be
    /// counted.
    pub(crate) fn count_answer(&self) {
        self.shared.counts.add(self.number, ANY);
    }

    /// Uncounts an answer that could not be sent.
    pub(crate) fn uncount_answer(&self) {
        self.shared.counts.take_back(self.number, ANY);
    }
}

/// Updates the response starts at the beginning of each second, forever.
pub(crate) async fn keep_time(worker: Rc<Worker>) {
    loop {
        let (now, now_ns) = (SystemTime::now(), monotonic_ns());
        worker.openings.replace(Openings::at(now));
        worker.recent_ns.set(now_ns);
        let into_second_ns = now
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.subsec_nanos());
        worker
            .executor
            .sleep_until(now_ns + NS_PER_S - u64::from(into_second_ns))
            .await;
    }
}
