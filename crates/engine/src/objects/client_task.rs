//! Life cycle of an object client: its threads put their objects, wait for the other clients, work, and clean
//! up.

use super::client::{ObjectsClient, SharedObjects};
use super::ObjectsWork;
use crate::client::{ClientState, ClientThread};
use crate::engine_thread::EngineThread;
use crate::sampling::{Sampling, SAMPLING_STREAM};
use dyno_http::Transport;
use dyno_measure::{monotonic_ns, Failure};
use dyno_s3::Client;
use dyno_workload::{ObjectLedger, Objects};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of clients that put their objects at the same time, in all engine threads.
const PREPARING: usize = 32;
/// Interval at which a thread that has ended checks whether all have.
const LOOK_NS: u64 = 10_000_000;
/// Limit of the removal of a thread's objects, as a multiple of an operation's timeout.
const LEAVING_TIMEOUTS: u64 = 20;

/// The clients of one engine thread that still have to prepare, and those that are ready.
pub(crate) struct Queue<T: Transport, C> {
    engine: Rc<EngineThread>,
    work: Arc<ObjectsWork>,
    connect: C,
    shared: Rc<SharedObjects>,
    /// The client's index among those of its engine thread, and its number.
    waiting: RefCell<VecDeque<(usize, usize)>>,
    ready: RefCell<Vec<Prepared<T>>>,
}

/// A client whose preparation has ended.
struct Prepared<T: Transport> {
    row: usize,
    number: usize,
    threads: Vec<ObjectsClient<T>>,
    result: Result<(), Failure>,
}

impl<T: Transport + 'static, C: Fn() -> Client<T> + 'static> Queue<T, C> {
    /// Starts to prepare the clients of an engine thread, and lets them work once all are ready. `connect`
    /// creates the S3 client of a client thread.
    pub(crate) fn start(engine: &Rc<EngineThread>, work: &Arc<ObjectsWork>, connect: C) {
        let queue = Rc::new(Self {
            engine: engine.clone(),
            work: work.clone(),
            connect,
            shared: Rc::new(SharedObjects {
                names: work.shared_names(),
                ledger: RefCell::new(work.shared_ledger()),
            }),
            waiting: RefCell::new(engine.clients().enumerate().collect()),
            ready: RefCell::default(),
        });
        for _ in 0..(PREPARING / engine.level.threads_here()).max(1) {
            engine.executor.spawn(queue.clone().prepare_waiting());
        }
        engine.executor.spawn(queue.work_when_all_are_ready());
    }

    async fn prepare_waiting(self: Rc<Self>) {
        loop {
            let next = self.waiting.borrow_mut().pop_front();
            let Some((row, number)) = next else { return };
            let stood = self.work.workspaces.stands(number);
            self.work.workspaces.begin(number);
            let mut threads: Vec<_> = (0..self.engine.level.threads)
                .map(|thread| self.client(number, thread))
                .collect();
            let result = self.prepare(number, &mut threads).await;
            if !stood && result.is_err() && !threads.iter().any(|client| client.may_have_stored) {
                // Nothing was stored, so nothing has to be removed.
                self.work.workspaces.gone(number);
                for client in threads.drain(..) {
                    self.engine.tally.borrow_mut().add_objects(client.counts);
                }
            }
            self.ready.borrow_mut().push(Prepared {
                row,
                number,
                threads,
                result,
            });
            if let Some(pace) = &self.work.pace {
                // The first operation of the level is a request, too.
                pace.wait(&self.engine.executor).await;
            }
            self.engine.start.arrive(1);
        }
    }

    fn client(&self, number: usize, thread: usize) -> ObjectsClient<T> {
        let level = &self.engine.level;
        let objects = self.work.workload.objects;
        let known = self.work.workspaces.take_objects(number, thread);
        let known = known.filter(|ledger| ledger.objects() == objects);
        let owner = u32::try_from(number * level.threads + thread).unwrap_or(u32::MAX - 1);
        let mut ledger = known.unwrap_or_else(|| ObjectLedger::new(owner, objects));
        ledger.begin_level(self.work.mark());
        let sampling = Sampling::new(level.verify_share, level.random(SAMPLING_STREAM, number, thread));
        let clients = (0..self.work.options.connections())
            .map(|_| (self.connect)())
            .collect();
        let shared = self.shared.clone();
        ObjectsClient::new(&self.work, clients, (number, thread), ledger, shared, sampling)
    }

    async fn prepare(&self, number: usize, threads: &mut [ObjectsClient<T>]) -> Result<(), Failure> {
        let (workload, executor) = (&self.work.workload, &self.engine.executor);
        for (thread, client) in threads.iter_mut().enumerate() {
            if workload.shared && (number, thread) == (0, 0) && self.work.workspaces.begin_shared() {
                client.prepare_shared(executor).await?;
            }
            let (number, thread) = (as_u32(number), as_u32(thread));
            let sizes = workload.sizes(self.engine.level.seed, number, thread);
            client.prepare(executor, &sizes).await?;
        }
        Ok(())
    }

    async fn work_when_all_are_ready(self: Rc<Self>) {
        let start_ns = self.engine.start.wait(&self.engine.executor).await;
        for prepared in self.ready.take() {
            let Prepared {
                row,
                number,
                threads,
                result,
            } = prepared;
            let state = ClientState::new(row);
            if let Err(failure) = result {
                // The client was planned, but failed before the level began.
                ClientThread::new(&self.engine, start_ns, (number, 0), state.clone()).absent(failure);
                let working = self.engine.working.get();
                self.engine.working.set(working - self.engine.level.threads);
            }
            let leaving = Rc::new(Cell::new(threads.len()));
            for (thread, client) in threads.into_iter().enumerate() {
                let task = ClientTask {
                    engine: self.engine.clone(),
                    work: self.work.clone(),
                    place: (number, thread),
                    state: state.clone(),
                    leaving: leaving.clone(),
                    whole: result.is_ok(),
                    client,
                    start_ns,
                };
                self.engine.executor.spawn(task.run());
            }
        }
    }
}

fn as_u32(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// A client thread from the start of the level.
struct ClientTask<T: Transport> {
    engine: Rc<EngineThread>,
    work: Arc<ObjectsWork>,
    /// Numbers of the client and of the thread.
    place: (usize, usize),
    state: Rc<ClientState>,
    /// Number of the client's threads whose objects may still exist.
    leaving: Rc<Cell<usize>>,
    /// Whether the client was prepared completely.
    whole: bool,
    client: ObjectsClient<T>,
    start_ns: u64,
}

impl<T: Transport> ClientTask<T> {
    async fn run(mut self) {
        let (number, thread) = self.place;
        let level = self.engine.level.clone();
        if self.whole {
            let options = self.work.workload.clone();
            let mut workload = Objects::new(options, level.seed, as_u32(number), as_u32(thread));
            ClientThread::new(&self.engine, self.start_ns, self.place, self.state.clone())
                .run(&mut workload, &mut self.client)
                .await;
        }
        // A thread that leaves early delays its clean-up, so that it does not disturb the measurement.
        let end_ns = self.start_ns.saturating_add(level.window.length_ns);
        // With a number of operations, the level may end early.
        let ends_early = || level.operations.is_some() && self.engine.working.get() == 0;
        while monotonic_ns() < end_ns && !ends_early() {
            let wake_ns = level.operations.map_or(end_ns, |_| monotonic_ns() + LOOK_NS);
            self.engine.executor.sleep_until(end_ns.min(wake_ns)).await;
        }
        let left = self.leave().await;
        if self.work.options.keep {
            if self.whole {
                let ledger = self.client.take_ledger();
                self.work.workspaces.keep_objects(number, thread, ledger);
            }
        } else if left.is_ok() {
            let mut ledger = self.client.take_ledger();
            ledger.clear();
            self.work.workspaces.keep_objects(number, thread, ledger);
            self.leaving.set(self.leaving.get() - 1);
            if self.leaving.get() == 0 {
                self.work.workspaces.gone(number);
            }
        }
    }

    /// Removes the thread's objects unless they are kept.
    async fn leave(&mut self) -> Result<(), Failure> {
        if self.work.options.keep {
            return self.client.end_uploads().await;
        }
        let timeouts_ns = self.work.timeout_ns.saturating_mul(LEAVING_TIMEOUTS);
        // All threads of this process leave at the same time.
        let level = &self.engine.level;
        let most_ns = timeouts_ns.saturating_add(self.work.removal_ns(level.part.clients * level.threads));
        self.client.remove(monotonic_ns().saturating_add(most_ns)).await
    }
}

/// Adds a thread's counts even if its level was stopped.
impl<T: Transport> Drop for ClientTask<T> {
    fn drop(&mut self) {
        // The tally can only be borrowed here if this thread is panicking.
        if let Ok(mut tally) = self.engine.tally.try_borrow_mut() {
            tally.add_objects(self.client.counts);
        }
    }
}
