//! Limits the waits of a job's client: if an answer is late, the session ends with a timeout. A level limits
//! whole operations instead (`client.rs`). A call of a job, such as a close that writes back, may take long.

use dyno_files::{
    Break, Caching, Call, CallId, Event, FileClient, Grant, Handle, PageRun, Postponed, Reply, Stability,
};
use dyno_measure::{monotonic_ns, Failure};
use dyno_net::Executor;
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::sync::Arc;

/// Additional time for a flush, per byte written since the last one: the server may still hold all of them in
/// memory, and a slow disk writes 10 MB/s.
const FLUSH_NS_PER_BYTE: u64 = 100;

/// Limits of a job's client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Maximum run time of the client.
    pub(super) most_ns: u64,
    /// Time without an answer after which a call fails.
    pub(super) timeout_ns: u64,
}

/// A client whose waits for the server are limited.
#[derive(Debug)]
pub(super) struct Bounded<C> {
    client: C,
    bound: Bound,
    /// A flush that is not answered yet.
    flush: Option<CallId>,
    /// Bytes written since the last answered flush.
    unflushed_bytes: u64,
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
            unflushed_bytes: 0,
        }
    }

    pub(super) fn inner(&self) -> &C {
        &self.client
    }

    /// Returns the monotonic clock minus the delays by the rate limit.
    pub(super) fn clock_ns(&self) -> u64 {
        self.bound.executor.task_clock_ns()
    }
}

/// Limits of each wait.
#[derive(Debug)]
struct Bound {
    executor: Executor,
    timeout_ns: u64,
    until_ns: u64,
    /// Number of answers that asked a client to wait. Each restarts the timeout.
    postponed: Arc<Postponed>,
}

impl Bound {
    /// Sets the task's deadline: a timeout plus `more_ns` after `from_ns`.
    fn begin(&self, more_ns: u64, from_ns: u64) {
        let due_ns = from_ns.saturating_add(self.timeout_ns).saturating_add(more_ns);
        self.executor.set_deadline(due_ns.min(self.until_ns));
    }

    /// Waits for `work`, for at most a timeout plus `more_ns`.
    async fn keep<T>(&self, more_ns: u64, work: impl Future<Output = T>) -> T {
        self.begin(more_ns, monotonic_ns());
        let mut seen = self.postponed.all();
        let mut work = pin!(work);
        poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            if polled.is_pending() && self.postponed.all() != seen {
                seen = self.postponed.all();
                self.begin(more_ns, monotonic_ns());
            }
            polled
        })
        .await
    }
}

impl<C: FileClient> FileClient for Bounded<C> {
    async fn connect(&mut self) -> Result<(), Failure> {
        (self.flush, self.unflushed_bytes) = (None, 0);
        // Twice the timeout, as for the clients of a level.
        let more_ns = self.bound.timeout_ns;
        self.bound.keep(more_ns, self.client.connect()).await
    }

    async fn begin(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        let id = self.bound.keep(0, self.client.begin(call)).await?;
        match call {
            Call::Flush { .. } => self.flush = Some(id),
            Call::Write { data, .. } => self.unflushed_bytes += data.len() as u64,
            _ => {}
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
        self.unflushed_bytes += data.len() as u64;
        self.bound.keep(0, begun).await
    }

    async fn call_at_once(
        &mut self,
        call: &Call<'_>,
        data: &mut impl FnMut(&[u8]),
    ) -> Option<Result<Reply, Failure>> {
        self.client.call_at_once(call, data).await
    }

    async fn next(&mut self) -> Result<Event<'_>, Failure> {
        let more_ns = match self.flush {
            Some(_) => self.unflushed_bytes.saturating_mul(FLUSH_NS_PER_BYTE),
            None => 0,
        };
        let event = self.bound.keep(more_ns, self.client.next()).await?;
        if matches!(&event, Event::Ended { id, .. } if Some(*id) == self.flush) {
            (self.flush, self.unflushed_bytes) = (None, 0);
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
        // This is not a wait for the server, but the session may renew its lease during it.
        self.bound.begin(0, due_ns.max(monotonic_ns()));
        self.client.break_until(due_ns).await
    }

    async fn acknowledge(&mut self, grant: Grant, left: Caching) -> Result<(), Failure> {
        self.bound.keep(0, self.client.acknowledge(grant, left)).await
    }

    dyno_files::forward_to_client!();

    async fn disconnect(&mut self) {
        self.client.disconnect().await;
    }
}
