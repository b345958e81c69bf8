//! Jobs on files: programs of one or several clients, with one session and thread each. Their phases start
//! together on all nodes. They are for programs whose next call depends on answers or local files, which
//! workloads cannot express. `bonnie.rs` and `scenario.rs` are the programs.

use super::alone::alone;
use super::bounded::{Bounded, Limits};
use super::cache::FilesOptions;
use super::client::CachedClient;
use super::measured::Measured;
use super::sessions::Sessions;
use crate::counting::SessionFacts;
use crate::job::{GateKind, JobControl};
use crate::spec::PartSpec;
use crate::tally::SessionTally;
use dyno_files::{Call, CallId, FileClient, Files, Handle, Reply};
use dyno_measure::{monotonic_ns, Failure, Fault, Histogram};
use dyno_net::Pace;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

/// Interval at which a waiting client checks whether the gate is open.
const LOOK_NS: u64 = 200_000;

/// Common data of a job's clients.
#[derive(Debug)]
pub(super) struct Job<'a, S> {
    pub(super) sessions: &'a S,
    pub(super) options: FilesOptions,
    pub(super) identity: u64,
    /// Limits of each client.
    pub(super) limits: Limits,
    /// Maximum rate of the requests of all clients together.
    pub(super) max_rate_per_s: Option<f64>,
    pub(super) end: &'a Arc<JobControl>,
    /// Clients of this process. None: all.
    pub(super) part: Option<PartSpec>,
    /// Number of the first gate of the next clients.
    pub(super) first_gate: u64,
}

impl<S: Sessions> Job<'_, S> {
    pub(super) fn has(&self, client: u32) -> bool {
        self.part.is_none_or(|part| {
            let place = client as usize % part.client_step;
            (part.client_offset..part.client_offset + part.client_run).contains(&place)
        })
    }

    /// Returns this process's part of the rate, which it may use while all others use theirs.
    pub(super) fn own_rate_per_s(&self) -> Option<f64> {
        let share = |part: PartSpec| part.client_run as f64 / part.client_step as f64;
        self.max_rate_per_s
            .map(|rate| rate * self.part.map_or(1.0, share))
    }

    /// Returns the sessions of `here` of all clients, limited to their share of the rate. `first`: number of
    /// the first client.
    fn paced_sessions(&self, here: usize, all: usize, first: usize) -> S {
        let address = self.sessions.address();
        self.sessions
            .paced(Pace::of_part(address, self.max_rate_per_s, (here, all), first))
    }

    /// Runs the clients of this process and returns their results. Each client has `threads` threads, whose
    /// sessions are numbered from `first`. If any client fails, returns the first failure.
    pub(super) fn by_several<T: Send + 'static, F: Future<Output = Result<T, Failure>> + 'static>(
        &self,
        clients: u32,
        threads: u32,
        first: u32,
        program: impl Fn(u32, JobClient<S::Client>) -> F + Sync,
    ) -> Result<Vec<T>, Failure> {
        let all = clients * threads;
        let here: Vec<_> = (0..all).filter(|number| self.has(number / threads)).collect();
        let gate = &Arc::new(Gate::new(here.len(), self.end.clone()));
        let turn = here.first().map_or(0, |number| *number as usize);
        let sessions = &self.paced_sessions(here.len(), all as usize, turn);
        let one = |number: u32| {
            let client = first + number;
            let found = alone(
                sessions,
                self.identity,
                client,
                self.limits,
                self.end,
                |session| {
                    let client = JobClient {
                        files: self.options.client(session),
                        bytes_read: 0,
                        bytes_written: 0,
                        times: None,
                        agreed: S::agreed,
                        pace: sessions.pace().cloned(),
                        gate: gate.clone(),
                        next_gate: self.first_gate,
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
            let threads: Vec<_> = here
                .iter()
                .map(|&number| scope.spawn(move || one(number)))
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

/// One client of a job. It makes no calls after the job was stopped or another client failed.
pub(super) struct JobClient<C> {
    /// The client without these checks, for clean-up after a failure.
    pub(super) files: CachedClient<Bounded<C>>,
    /// Bytes read in the current phase.
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    /// Duration of each call, if measured.
    times: Option<Histogram>,
    agreed: fn(&C) -> Option<SessionFacts>,
    /// The rate limit of the session's requests.
    pace: Option<Pace>,
    gate: Arc<Gate>,
    next_gate: u64,
    end: Arc<JobControl>,
}

impl<C: FileClient> JobClient<C> {
    /// Makes the client measure the duration of each call.
    pub(super) fn timing_each_call(self) -> Self {
        Self {
            times: Some(Histogram::new()),
            ..self
        }
    }

    /// Returns the clock for response times: the monotonic clock minus the delays by the rate limit.
    pub(super) fn call_clock_ns(&self) -> u64 {
        self.files.counted().inner().clock_ns()
    }

    /// Returns whether the rate limit permits a request now.
    pub(super) fn is_due(&self) -> bool {
        let is_due = |pace: &Pace| pace.free_ns() <= monotonic_ns();
        self.pace.as_ref().is_none_or(is_due)
    }

    fn begun_ns(&self) -> Option<u64> {
        self.times.is_some().then(|| self.call_clock_ns())
    }

    fn note_time(&mut self, begun_ns: Option<u64>) {
        let took_ns = begun_ns.map(|begun_ns| self.call_clock_ns() - begun_ns);
        if let (Some(times), Some(took_ns)) = (&mut self.times, took_ns) {
            times.record(took_ns);
        }
    }

    /// Fails if the job was stopped or another client has failed.
    pub(super) fn go_on(&self) -> Result<(), Failure> {
        match self.end.is_stopped() {
            true => Err(Fault::OtherIo.into()),
            false => self.gate.go_on(),
        }
    }

    /// Waits for all clients of the job. Handles breaks meanwhile.
    pub(super) async fn wait_for_all(&mut self) -> Result<(), Failure> {
        self.pass(GateKind::Between).await
    }

    async fn pass(&mut self, kind: GateKind) -> Result<(), Failure> {
        let gate = self.next_gate;
        self.next_gate += 1;
        self.gate.pass(gate, kind, &mut self.files).await?;
        self.go_on()
    }

    /// Starts one of several concurrent calls. Fails with a cache.
    pub(super) async fn begin_call(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        self.files.begin(call).await
    }

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

    /// Begins a phase together with all clients of the job.
    pub(super) async fn begin_together(&mut self) -> Result<Measured, Failure> {
        self.pass(GateKind::Begin).await?;
        let begins_ns = self.end.begins_ns();
        self.files.idle_until(begins_ns).await?;
        let mut measured = self.begin();
        measured.started_ns = begins_ns;
        Ok(measured)
    }

    pub(super) fn begin(&mut self) -> Measured {
        (self.bytes_read, self.bytes_written) = (0, 0);
        self.times = self.times.take().map(|_| Histogram::new());
        Measured::begin(self.files.requests())
    }

    /// Ends a phase together with all clients of the job. Adds the bytes read and written.
    pub(super) async fn end_together(&mut self, measured: Measured) -> Result<Measured, Failure> {
        let mut measured = measured.end(self.files.requests());
        (measured.bytes_read, measured.bytes_written) = (self.bytes_read, self.bytes_written);
        if let Some(times) = &self.times {
            measured.times = times.clone();
        }
        let agreed = (self.agreed)(self.files.counted().inner().inner());
        let session = agreed.map(|agreed| SessionTally { agreed, clients: 1 });
        measured.sessions = session.into_iter().collect();
        self.pass(GateKind::End).await?;
        Ok(measured)
    }
}

impl<C: FileClient> Files for JobClient<C> {
    async fn connect(&mut self) -> Result<(), Failure> {
        self.files.connect().await
    }

    async fn call(&mut self, call: &Call<'_>, data: &mut impl FnMut(&[u8])) -> Result<Reply, Failure> {
        self.go_on()?;
        let begun_ns = self.begun_ns();
        let reply = self.files.call(call, data).await;
        self.note_time(begun_ns);
        self.count(&reply);
        reply
    }

    async fn read_into(&mut self, handle: Handle, offset: u64, into: &mut [u8]) -> Result<usize, Failure> {
        self.go_on()?;
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

/// Barrier for the clients on all threads. It also waits for the controller's gate.
#[derive(Debug)]
struct Gate {
    clients: u64,
    control: Arc<JobControl>,
    arrived: AtomicU64,
    has_failed: AtomicBool,
    /// First failure. It ends the wait.
    failure: Mutex<Option<Failure>>,
}

impl Gate {
    fn new(clients: usize, control: Arc<JobControl>) -> Self {
        Self {
            clients: clients as u64,
            control,
            arrived: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// Waits until the gate is open. Handles breaks meanwhile.
    async fn pass(&self, gate: u64, kind: GateKind, files: &mut impl Files) -> Result<(), Failure> {
        if (self.arrived.fetch_add(1, Ordering::AcqRel) + 1) % self.clients == 0 {
            self.control.reach(gate, kind);
        }
        while !self.control.is_open(gate) {
            if self.control.is_stopped() {
                return Err(Fault::OtherIo.into());
            }
            self.go_on()?;
            files.idle_until(monotonic_ns() + LOOK_NS).await?;
        }
        Ok(())
    }

    /// Fails if one of the clients has failed.
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
