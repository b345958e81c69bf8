//! Jobs on files: programs of one or several clients, each with a session and a thread of its own, which begin each phase
//! together. A program is for what a workload can't say, because its next call depends on answers or on local files.
//!
//! Not for: mixes (`client_task.rs`), nor for what programs do (`bonnie.rs`, `scenario.rs`).

use super::alone::alone;
use super::cache::FilesOptions;
use super::client::CachedClient;
use super::measured::Measured;
use super::sessions::Sessions;
use crate::counting::SessionFacts;
use crate::job::JobEnd;
use crate::tally::SessionTally;
use dyno_files::{Call, CallId, FileClient, Files, Handle, Reply};
use dyno_measure::{monotonic_ns, Failure, Fault, Histogram, NS_PER_S};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

/// So often a client that waits for others looks for them.
const LOOK_NS: u64 = 200_000;
/// So often a client that waits for the bound on the rate looks whether the job goes on.
const LOOK_WHILE_BOUND_NS: u64 = NS_PER_S / 10;

/// What all clients of a job need.
#[derive(Debug)]
pub(super) struct Job<'a, S> {
    pub(super) sessions: &'a S,
    pub(super) options: FilesOptions,
    pub(super) identity: u64,
    /// The longest that each client may take.
    pub(super) most_ns: u64,
    /// Calls per second of all clients together, at most.
    pub(super) max_rate_per_s: Option<f64>,
    pub(super) end: &'a Arc<JobEnd>,
}

impl<S: Sessions> Job<'_, S> {
    /// Return the result of a program of one client.
    pub(super) fn by_one<T: Send + 'static, F: Future<Output = Result<T, Failure>> + 'static>(
        &self,
        program: impl Fn(JobClient<S::Client>) -> F + Sync,
    ) -> Result<T, Failure> {
        let found = self.by_several(1, 0, |_, client| program(client))?;
        found.into_iter().next().ok_or(Fault::OtherIo.into())
    }

    /// Return the results of so many clients, whose sessions are numbered from `first`. If some fail, return the first
    /// failure.
    pub(super) fn by_several<T: Send + 'static, F: Future<Output = Result<T, Failure>> + 'static>(
        &self,
        clients: u32,
        first: u32,
        program: impl Fn(u32, JobClient<S::Client>) -> F + Sync,
    ) -> Result<Vec<T>, Failure> {
        let gate = &Arc::new(Gate::new(clients));
        let interval_ns = self.max_rate_per_s.map_or(0, |rate| {
            (f64::from(clients) / rate * NS_PER_S as f64).ceil() as u64
        });
        let one = |number: u32| {
            let (sessions, client) = (self.sessions, first + number);
            let found = alone(
                sessions,
                self.identity,
                client,
                self.most_ns,
                self.end,
                |session| {
                    let client = JobClient {
                        files: self.options.client(session),
                        bytes_read: 0,
                        bytes_written: 0,
                        times: None,
                        agreed: S::agreed,
                        interval_ns,
                        // All of them one after another, as the clients of a mix.
                        due_ns: monotonic_ns()
                            .saturating_add(interval_ns / u64::from(clients) * u64::from(number)),
                        gate: gate.clone(),
                        end: self.end.clone(),
                    };
                    program(number, client)
                },
            );
            if let Err(failure) = found {
                gate.fail(failure);
            }
            found
        };
        let found: Vec<_> = std::thread::scope(|scope| {
            let one = &one;
            let threads: Vec<_> = (0..clients)
                .map(|number| scope.spawn(move || one(number)))
                .collect();
            threads.into_iter().map(ScopedJoinHandle::join).collect()
        });
        let found = found
            .into_iter()
            .map(|joined| joined.unwrap_or_else(|_| Err(Fault::OtherIo.into())));
        let found: Result<Vec<T>, Failure> = found.collect();
        found.map_err(|failure| gate.failure().unwrap_or(failure))
    }
}

/// One client of a job. It makes no call once the job is stopped, or another of its clients has failed.
pub(super) struct JobClient<C> {
    /// Without the checks, for what is removed after a failure.
    pub(super) files: CachedClient<C>,
    /// In this phase.
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    /// Of each call of this phase, if they are timed one by one.
    times: Option<Histogram>,
    agreed: fn(&C) -> Option<SessionFacts>,
    /// The least time between the begins of two calls, and when the next may begin. 0: nothing bounds the rate.
    interval_ns: u64,
    due_ns: u64,
    gate: Arc<Gate>,
    end: Arc<JobEnd>,
}

impl<C: FileClient> JobClient<C> {
    /// Return the client, which times each of its calls from now on.
    pub(super) fn timing_each_call(self) -> Self {
        Self {
            times: Some(Histogram::new()),
            ..self
        }
    }

    /// Wait until the bound on the rate allows the next call. Fail if no further call may be made.
    async fn turn(&mut self) -> Result<(), Failure> {
        if self.interval_ns > 0 {
            // In parts: whoever stops the job does not wait for a slow rate.
            while monotonic_ns() < self.due_ns {
                self.go_on()?;
                let look_ns = monotonic_ns().saturating_add(LOOK_WHILE_BOUND_NS);
                self.files.idle_until(self.due_ns.min(look_ns)).await?;
            }
            self.due_ns = monotonic_ns().saturating_add(self.interval_ns);
        }
        self.go_on()
    }

    fn begun_ns(&self) -> Option<u64> {
        self.times.is_some().then(monotonic_ns)
    }

    fn note_time(&mut self, begun_ns: Option<u64>) {
        if let (Some(times), Some(begun_ns)) = (&mut self.times, begun_ns) {
            times.record(monotonic_ns() - begun_ns);
        }
    }

    /// Fail if no further call may be made.
    pub(super) fn go_on(&self) -> Result<(), Failure> {
        match self.end.is_stopped() {
            true => Err(Fault::OtherIo.into()),
            false => self.gate.go_on(),
        }
    }

    /// Wait for all clients of the job, obeying the server meanwhile.
    pub(super) async fn wait_for_all(&mut self) -> Result<(), Failure> {
        self.gate.pass(&mut self.files).await
    }

    /// Begin one of several calls that are under way at once. Fails if there is a cache.
    pub(super) async fn begin_call(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        self.turn().await?;
        self.files.begin(call).await
    }

    /// Wait until the next of them ends. Return which, and its reply; what was read is handed to `data`.
    pub(super) async fn ended(
        &mut self,
        data: &mut impl FnMut(CallId, &[u8]),
    ) -> Result<(CallId, Result<Reply, Failure>), Failure> {
        let (id, reply) = self.files.ended(data).await?;
        self.count(&reply);
        Ok((id, reply))
    }

    fn count(&mut self, reply: &Result<Reply, Failure>) {
        match reply {
            Ok(Reply::Read { bytes }) => self.bytes_read += u64::from(*bytes),
            Ok(Reply::Written { bytes }) => self.bytes_written += u64::from(*bytes),
            _ => {}
        }
    }

    /// Begin a phase.
    pub(super) fn begin(&mut self) -> Measured {
        (self.bytes_read, self.bytes_written) = (0, 0);
        self.times = self.times.take().map(|_| Histogram::new());
        Measured::begin(self.files.requests())
    }

    /// End a phase, with the bytes that were read and written in it.
    pub(super) fn end(&self, measured: Measured) -> Measured {
        let mut measured = measured.end(self.files.requests());
        (measured.bytes_read, measured.bytes_written) = (self.bytes_read, self.bytes_written);
        if let Some(times) = &self.times {
            measured.times = times.clone();
        }
        let agreed = (self.agreed)(self.files.counted().inner());
        let session = agreed.map(|agreed| SessionTally { agreed, clients: 1 });
        measured.sessions = session.into_iter().collect();
        measured
    }
}

impl<C: FileClient> Files for JobClient<C> {
    async fn connect(&mut self) -> Result<(), Failure> {
        self.files.connect().await
    }

    async fn call(&mut self, call: &Call<'_>, data: &mut impl FnMut(&[u8])) -> Result<Reply, Failure> {
        self.turn().await?;
        let begun_ns = self.begun_ns();
        let reply = self.files.call(call, data).await;
        self.note_time(begun_ns);
        self.count(&reply);
        reply
    }

    async fn read_into(&mut self, handle: Handle, offset: u64, into: &mut [u8]) -> Result<usize, Failure> {
        self.turn().await?;
        let begun_ns = self.begun_ns();
        let bytes = self.files.read_into(handle, offset, into).await?;
        self.note_time(begun_ns);
        self.bytes_read += bytes as u64;
        Ok(bytes)
    }

    async fn idle_until(&mut self, due_ns: u64) -> Result<(), Failure> {
        self.files.idle_until(due_ns).await
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        self.files.finish().await
    }
}

/// Where clients on threads of their own wait for each other, again and again.
#[derive(Debug)]
struct Gate {
    clients: u64,
    arrived: AtomicU64,
    has_failed: AtomicBool,
    /// Of the first that failed: nobody waits for it.
    failure: Mutex<Option<Failure>>,
}

impl Gate {
    fn new(clients: u32) -> Self {
        Self {
            clients: clients.into(),
            arrived: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// Returns once all have come, obeying the server meanwhile.
    async fn pass(&self, files: &mut impl Files) -> Result<(), Failure> {
        let before = self.arrived.fetch_add(1, Ordering::AcqRel);
        let all = (before / self.clients + 1) * self.clients;
        while self.arrived.load(Ordering::Acquire) < all {
            self.go_on()?;
            files.idle_until(monotonic_ns() + LOOK_NS).await?;
        }
        Ok(())
    }

    /// Fails once one of the clients has.
    fn go_on(&self) -> Result<(), Failure> {
        match self.has_failed.load(Ordering::Acquire) {
            true => self.failure().map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    fn failure(&self) -> Option<Failure> {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, failure: Failure) {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(failure);
        self.has_failed.store(true, Ordering::Release);
    }
}
