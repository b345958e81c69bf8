//! What one thread of the server keeps for all its connections, and the task that keeps time.

use super::application::Application;
use super::behind::Behind;
use super::documents::Site;
use super::fault::Fault;
use super::opening::{Openings, Persistence, Status};
use super::request::MAX_HEAD_BYTES;
use dyno_measure::{monotonic_ns, NS_PER_S};
use dyno_reactor::Executor;
use dyno_tls::TlsServer;
use http::HeaderValue;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// From the last request on a connection: for sending its answer, and for the next request to come.
const PATIENCE_NS: u64 = 60 * NS_PER_S;

/// The answers of one thread. In a cache line of its own, so that the threads don't slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Only the thread that owns it may call this.
    fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}

/// What the threads of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) site: Site,
    pub(crate) application: Application,
    pub(crate) fault: Option<Fault>,
    pub(crate) http2: bool,
    pub(crate) tls: Option<TlsServer>,
    pub(crate) counters: Box<[Counter]>,
    /// Servers behind this one.
    pub(crate) behind: Vec<SocketAddr>,
    pub(crate) stopping: AtomicBool,
}

impl Shared {
    pub(crate) fn requests(&self) -> u64 {
        self.counters.iter().map(Counter::get).sum()
    }
}

pub(crate) struct Worker {
    pub(crate) executor: Executor,
    pub(crate) shared: Arc<Shared>,
    /// Filled and emptied without waiting in between, so one does for all connections.
    pub(crate) buffer: RefCell<[u8; MAX_HEAD_BYTES]>,
    pub(crate) behind: Behind,
    number: usize,
    openings: RefCell<Openings>,
    /// At most a second old; exact enough for `PATIENCE_NS`.
    recent_ns: Cell<u64>,
}

impl Worker {
    pub(crate) fn new(executor: Executor, shared: Arc<Shared>, number: usize) -> Self {
        Self {
            behind: Behind::new(&executor, &shared.behind, number),
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

    /// The connection of the current task has so long from now on.
    pub(crate) fn renew_patience(&self) {
        self.executor.set_deadline(self.recent_ns.get() + PATIENCE_NS);
    }

    /// Counts an answer before it is sent: who has received it must find it counted.
    pub(crate) fn count_answer(&self) {
        let counter = &self.shared.counters[self.number];
        counter.set(counter.get() + 1);
    }

    /// An answer that was counted could not be sent.
    pub(crate) fn uncount_answer(&self) {
        let counter = &self.shared.counters[self.number];
        counter.set(counter.get() - 1);
    }
}

/// Makes the openings anew at the beginning of each second, for ever.
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
