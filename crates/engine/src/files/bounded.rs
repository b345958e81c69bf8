//! Bounds the waits of a job's client: each answer must come in time, or the session is lost with a timeout. A level
//! bounds whole operations instead (`client.rs`); a job's call, such as a close that writes back, may take long.

use dyno_files::{
    Break, Caching, Call, CallId, Event, FileClient, Grant, Handle, KeptHandles, PageRun, Postponed, Reply,
    Stability, Traffic,
};
use dyno_measure::{monotonic_ns, Failure};
use dyno_net::Executor;
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::Arc;

/// Limit of a log-on, as a multiple of the timeout: as for the clients of a level.
const LOG_ON_TIMEOUTS: u64 = 2;
/// Limit of a flush, as a multiple of the timeout: it may write everything that the server has in memory.
const FLUSH_TIMEOUTS: u64 = 20;

/// Limits of a job's client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Time limit of the client.
    pub(super) most_ns: u64,
    /// Time without an answer after which a call fails.
    pub(super) timeout_ns: u64,
}

/// A client whose waits for the server are bounded.
#[derive(Debug)]
pub(super) struct Bounded<C> {
    client: C,
    bound: Bound,
    /// A flush without an answer.
    flush: Option<CallId>,
}

impl<C> Bounded<C> {
    pub(super) fn new(client: C, executor: Executor, limits: Limits, postponed: Arc<Postponed>) -> Self {
        Self {
            client,
            bound: Bound {
                executor,
                timeout_ns: limits.timeout_ns,
                until_ns: monotonic_ns().saturating_add(limits.most_ns),
                postponed,
            },
            flush: None,
        }
    }

    pub(super) fn inner(&self) -> &C {
        &self.client
    }
}

/// Bound of each wait.
#[derive(Debug)]
struct Bound {
    executor: Executor,
    timeout_ns: u64,
    until_ns: u64,
    /// Answers with which the server asked the clients to wait. Each starts the timeout anew.
    postponed: Arc<Postponed>,
}

impl Bound {
    /// Sets the deadline of the task: so many timeouts after `from_ns`.
    fn begin(&self, timeouts: u64, from_ns: u64) {
        let due_ns = from_ns.saturating_add(self.timeout_ns.saturating_mul(timeouts));
        self.executor.set_deadline(due_ns.min(self.until_ns));
    }

    /// Waits for `work`, at most so many timeouts.
    async fn keep<T>(&self, timeouts: u64, work: impl Future<Output = T>) -> T {
        self.begin(timeouts, monotonic_ns());
        let mut seen = self.postponed.all();
        let mut work = pin!(work);
        poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            if polled.is_pending() && self.postponed.all() != seen {
                seen = self.postponed.all();
                self.begin(timeouts, monotonic_ns());
            }
            polled
        })
        .await
    }
}

impl<C: FileClient> FileClient for Bounded<C> {
    async fn connect(&mut self) -> Result<(), Failure> {
        self.flush = None;
        self.bound.keep(LOG_ON_TIMEOUTS, self.client.connect()).await
    }

    async fn begin(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        let id = self.bound.keep(1, self.client.begin(call)).await?;
        if matches!(call, Call::Flush { .. }) {
            self.flush = Some(id);
        }
        Ok(id)
    }

    async fn begin_write(
        &mut self,
        handle: Handle,
        offset: u64,
        data: &PageRun,
        stability: Stability,
    ) -> Option<Result<CallId, Failure>> {
        let begun = self.client.begin_write(handle, offset, data, stability);
        self.bound.keep(1, begun).await
    }

    async fn call_at_once(
        &mut self,
        call: &Call<'_>,
        data: &mut impl FnMut(&[u8]),
    ) -> Option<Result<Reply, Failure>> {
        self.client.call_at_once(call, data).await
    }

    async fn next(&mut self) -> Result<Event<'_>, Failure> {
        let timeouts = if self.flush.is_some() { FLUSH_TIMEOUTS } else { 1 };
        let event = self.bound.keep(timeouts, self.client.next()).await?;
        if matches!(&event, Event::Ended { id, .. } if Some(*id) == self.flush) {
            self.flush = None;
        }
        Ok(event)
    }

    async fn read_into(
        &mut self,
        handle: Handle,
        offset: u64,
        into: &mut [u8],
    ) -> Option<Result<u32, Failure>> {
        self.client.read_into(handle, offset, into).await
    }

    async fn break_until(&mut self, due_ns: u64) -> Result<Option<Break>, Failure> {
        // The wait itself is not for the server, but the session may renew its lease meanwhile.
        self.bound.begin(1, due_ns.max(monotonic_ns()));
        self.client.break_until(due_ns).await
    }

    async fn acknowledge(&mut self, grant: Grant, left: Caching) -> Result<(), Failure> {
        self.bound.keep(1, self.client.acknowledge(grant, left)).await
    }

    fn loses_unstable_writes(&self) -> bool {
        self.client.loses_unstable_writes()
    }

    fn leases_directories(&self) -> bool {
        self.client.leases_directories()
    }

    fn cut(&mut self) {
        self.client.cut();
    }

    async fn disconnect(&mut self) {
        self.client.disconnect().await;
    }

    fn traffic(&self) -> Traffic {
        self.client.traffic()
    }

    fn kept_handles(&self) -> KeptHandles {
        self.client.kept_handles()
    }

    fn requests_by_name(&self) -> Vec<(&'static str, u64)> {
        self.client.requests_by_name()
    }

    fn max_read_bytes(&self) -> u32 {
        self.client.max_read_bytes()
    }

    fn max_write_bytes(&self) -> u32 {
        self.client.max_write_bytes()
    }
}
