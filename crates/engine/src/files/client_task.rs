//! Life cycle of a file client: it logs on, creates or finds its workspace, waits for the other clients,
//! works, and cleans up. `client.rs` performs its operations.

use super::client::FilesClient;
use super::removal::remove;
use super::sessions::Sessions;
use super::workload::AnyWorkload;
use super::FilesWork;
use crate::client::{ClientState, ClientThread};
use crate::counting::FilesCount;
use crate::engine_thread::EngineThread;
use crate::failover_tally::{FailoverTally, OutageTally};
use dyno_files::{Breaks, Calls, KeptHandles};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_workload::FileAction;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

/// Limit of one step of preparation or clean-up, as a multiple of an operation's timeout. If no client completes a step
/// for that long, the server is stalled.
const STEP_TIMEOUTS: u64 = 2;
/// Limit of log-on and preparation, as a multiple of an operation's timeout.
const PREPARATION_TIMEOUTS: u64 = 20;
/// Limit of write-back, close and clean-up, as a multiple of an operation's timeout.
const LEAVING_TIMEOUTS: u64 = 4;
/// Interval at which a waiting client checks whether all are ready.
const LOOK_NS: u64 = 2_000_000;

/// Clients of one engine thread that still have to log on, by number.
pub(crate) struct Queue<S: Sessions> {
    waiting: RefCell<VecDeque<ClientTask<S>>>,
    /// Time at which a client last completed a step.
    step_ns: Cell<u64>,
}

impl<S: Sessions> Queue<S> {
    pub(crate) fn new(waiting: VecDeque<ClientTask<S>>) -> Self {
        Self {
            waiting: RefCell::new(waiting),
            step_ns: Cell::new(monotonic_ns()),
        }
    }

    fn note_step(&self) {
        self.step_ns.set(monotonic_ns());
    }

    /// Returns whether the server is stalled: no client completes a step.
    fn stands_still(&self, step_ns: u64) -> bool {
        monotonic_ns().saturating_sub(self.step_ns.get()) >= step_ns
    }

    /// Starts the next client.
    pub(crate) fn admit(self: &Rc<Self>, engine: &EngineThread) {
        let next = self.waiting.borrow_mut().pop_front();
        if let Some(task) = next {
            engine.executor.spawn(task.run(self.clone()));
        }
    }
}

pub(crate) struct ClientTask<S: Sessions> {
    engine: Rc<EngineThread>,
    work: Arc<FilesWork<S>>,
    /// Index among the clients of its engine thread.
    row: usize,
    number: usize,
    client: FilesClient<S>,
    workload: AnyWorkload,
    /// Whether the contents of an existing workspace are known from an earlier level.
    known: bool,
    /// Counts at the start of the level, and the time when the client finished.
    at_start: Option<Figures>,
    at_end: Option<Figures>,
    /// Start of the level.
    start_ns: u64,
}

impl<S: Sessions> ClientTask<S> {
    pub(crate) fn new(
        engine: Rc<EngineThread>,
        work: Arc<FilesWork<S>>,
        (row, number): (usize, usize),
        client: FilesClient<S>,
        workload: AnyWorkload,
    ) -> Self {
        Self {
            engine,
            work,
            row,
            number,
            client,
            workload,
            known: false,
            at_start: None,
            at_end: None,
            start_ns: 0,
        }
    }

    async fn run(mut self, queue: Rc<Queue<S>>) {
        if let Some(ledger) = self.work.workspaces.take(self.number) {
            self.client.set_ledger(ledger);
            self.known = true;
        }
        self.client.begin_level(self.work.mark());
        let whole = self.take_part(&queue).await;
        if whole && self.work.options.keep_workspace {
            self.work.workspaces.keep(self.number, self.client.take_ledger());
        }
    }

    /// Runs the level. Returns whether the workspace is ready for the next level.
    async fn take_part(&mut self, queue: &Rc<Queue<S>>) -> bool {
        let engine = self.engine.clone();
        let prepare_until_ns = self.clock_ns().saturating_add(self.preparation_ns());
        let connected = self.log_on(queue, prepare_until_ns).await;
        queue.admit(&engine);
        let prepared = match connected {
            Ok(()) => {
                self.work.workspaces.begin(self.number);
                self.prepare(queue, prepare_until_ns).await
            }
            Err(failure) => Err(failure),
        };
        if let Some(pace) = self.work.sessions.pace() {
            // The first operation of the level is a request, too.
            pace.wait(&engine.executor).await;
        }
        engine.start.arrive(1);
        let start_ns = self.wait_for_start(&engine).await;
        self.start_ns = start_ns;
        let cut_ns = self.work.workload.cut_ns(&engine.level.window);
        self.client.cut_at(cut_ns.map(|cut_ns| start_ns + cut_ns));
        let thread = ClientThread::new(&engine, start_ns, (self.number, 0), ClientState::new(self.row));
        let whole = prepared.is_ok();
        if let Err(failure) = prepared {
            // The client was planned, but failed before the level began.
            thread.absent(failure);
        } else {
            self.at_start = Some(self.figures());
            let (workload, client) = (&mut self.workload, &mut self.client);
            match engine.level.threads {
                1 => thread.run(workload, client).await,
                depth => thread.run_overlapped(depth, workload, client).await,
            }
            self.at_end = Some(self.figures());
        }
        // A client that leaves early delays its clean-up, so that it does not disturb the measurement.
        let end_ns = start_ns.saturating_add(engine.level.window.length_ns);
        if monotonic_ns() < end_ns {
            engine
                .executor
                .set_deadline(end_ns.saturating_add(self.leaving_ns()));
            self.client.wait_until(end_ns).await;
        }
        let left = self.leave(whole).await;
        whole && left.is_ok()
    }

    /// Logs on, unless the server has already stalled for earlier clients.
    async fn log_on(&mut self, queue: &Queue<S>, until_ns: u64) -> Result<(), Failure> {
        // Clients that wait in turn for the rate limit do not indicate a stall.
        let turns_ns = self.work.paced_ns(self.engine.level.part.clients, 0);
        if queue.stands_still(self.step_ns().saturating_add(turns_ns)) {
            return Err(Fault::ResponseTimeout.into());
        }
        self.allow_for_step(until_ns);
        self.client.connect().await?;
        if let Some(bytes) = self.work.workload.block_bytes() {
            self.client.takes_at_once(bytes)?;
        }
        queue.note_step();
        Ok(())
    }

    /// Finds the workspace of an earlier level, or creates it.
    async fn prepare(&mut self, queue: &Queue<S>, until_ns: u64) -> Result<(), Failure> {
        self.allow_for_step(until_ns);
        self.client.make_parents().await?;
        let marker = self.workload.as_files().marker();
        // If the contents of an existing workspace are unknown, create it again.
        let found = self.known && self.client.finds(marker).await?;
        if !found {
            self.client.forget_everything();
        }
        for action in &self.workload.as_files().preparation(found) {
            self.allow_for_step(until_ns);
            self.client.act_unmeasured(action).await?;
            queue.note_step();
        }
        Ok(())
    }

    async fn wait_for_start(&mut self, engine: &EngineThread) -> u64 {
        loop {
            if let Some(start_ns) = engine.start.ns() {
                return start_ns;
            }
            let look_ns = monotonic_ns() + LOOK_NS;
            engine
                .executor
                .set_deadline(look_ns.saturating_add(self.step_ns()));
            self.client.wait_until(look_ns).await;
        }
    }

    /// Removes temporary files of the level, and the workspace unless it is kept. `whole`: the workspace was prepared
    /// completely.
    async fn leave(&mut self, whole: bool) -> Result<(), Failure> {
        let until_ns = self.clock_ns().saturating_add(self.leaving_ns());
        let tidied = if whole { self.tidy(until_ns).await } else { Ok(()) };
        self.allow_until(until_ns);
        if self.work.options.keep_workspace {
            return tidied.and(self.client.finish().await);
        }
        let mut removed = tidied;
        if whole && removed.is_ok() {
            removed = self.do_all(self.workload.as_files().removal(), until_ns).await;
        }
        self.allow_until(until_ns);
        removed = removed.and(self.client.finish().await);
        if (!whole || removed.is_err()) && self.work.workspaces.stands(self.number) {
            // The clean-up failed, for example because a write failed. The server closed the open files with
            // the session, so try again in a new session.
            self.allow_until(until_ns);
            removed = remove(&mut self.client, self.workload.as_files()).await;
        }
        if removed.is_ok() {
            self.work.workspaces.gone(self.number);
        }
        removed
    }

    fn step_ns(&self) -> u64 {
        self.work.timeout_ns.saturating_mul(STEP_TIMEOUTS)
    }

    fn preparation_ns(&self) -> u64 {
        self.work.timeout_ns.saturating_mul(PREPARATION_TIMEOUTS)
    }

    fn leaving_ns(&self) -> u64 {
        self.work.timeout_ns.saturating_mul(LEAVING_TIMEOUTS)
    }

    /// Returns the clock for the time limits of steps: the monotonic clock minus the delays by the rate
    /// limit.
    fn clock_ns(&self) -> u64 {
        self.engine.executor.task_clock_ns()
    }

    /// Sets the deadline of the next step, at most `until_ns`.
    fn allow_for_step(&self, until_ns: u64) {
        let step_ns = self.clock_ns().saturating_add(self.step_ns());
        self.allow_until(step_ns.min(until_ns));
    }

    fn allow_until(&self, until_ns: u64) {
        self.engine.executor.set_deadline_by_task_clock(until_ns);
    }

    async fn tidy(&mut self, until_ns: u64) -> Result<(), Failure> {
        if self.client.lost() {
            self.allow_for_step(until_ns);
            self.client.connect().await?;
        }
        self.do_all(self.workload.as_files().leaving(), until_ns).await
    }

    async fn do_all(&mut self, actions: Vec<FileAction>, until_ns: u64) -> Result<(), Failure> {
        for action in &actions {
            self.allow_for_step(until_ns);
            self.client.act_unmeasured(action).await?;
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures {
            passes: self.workload.as_files().passes(),
            checked_bytes: self.client.checked_bytes(),
            calls: self.client.calls(),
            breaks: self.client.breaks(),
            kept_handles: self.client.kept_handles(),
            requests: self.client.requests(),
        }
    }

    /// Returns the counts of durable handles and of data after outages, or None if nothing was meant to
    /// survive an outage.
    fn failover(&self, kept: KeptHandles) -> Option<FailoverTally> {
        let read_back = self.client.read_back();
        if read_back.is_none() && kept.asked == 0 {
            return None;
        }
        let blocks = read_back.unwrap_or_default();
        let outage = |outage: &super::client::Outage| OutageTally {
            client: self.number as u64,
            last_ns: outage.last_ns.saturating_sub(self.start_ns),
            back_ns: outage.back_ns.saturating_sub(self.start_ns),
            session_lost: outage.session_lost,
        };
        Some(FailoverTally {
            outages: self.client.outages().iter().map(outage).collect(),
            blocks_read_back: blocks.blocks,
            blocks_lost: blocks.lost,
            blocks_wrong: blocks.wrong,
            unflushed_lost: blocks.lost_unflushed,
            ..FailoverTally::of_handles(kept)
        })
    }
}

/// Adds a client's counts even if its level was stopped.
impl<S: Sessions> Drop for ClientTask<S> {
    fn drop(&mut self) {
        let mut files = FilesCount::default();
        if let Some(before) = &self.at_start {
            let after = self.at_end.take().unwrap_or_else(|| self.figures());
            files = after.since(before);
            files.failover = self.failover(after.kept_handles.since(&before.kept_handles));
        }
        files.pass_operations = self.workload.as_files().pass_operations();
        files.protocol_requests = self.client.protocol_requests();
        files.sessions = self.client.sessions().to_vec();
        files.connections = self.client.connections();
        files.reconnects = self.client.reconnects();
        // The tally can only be borrowed here if this thread is panicking.
        if let Ok(mut tally) = self.engine.tally.try_borrow_mut() {
            tally.add_files(files);
        }
    }
}

struct Figures {
    passes: u64,
    checked_bytes: u64,
    calls: Calls,
    breaks: Breaks,
    kept_handles: KeptHandles,
    requests: BTreeMap<&'static str, u64>,
}

impl Figures {
    fn since(&self, before: &Self) -> FilesCount {
        let mut calls = self.calls;
        for (now, then) in calls.iter_mut().zip(&before.calls) {
            *now = now.since(then);
        }
        let requests = self.requests.iter().map(|(name, count)| {
            let then = before.requests.get(name).copied().unwrap_or_default();
            (*name, count - then)
        });
        FilesCount {
            passes: self.passes - before.passes,
            bytes_checked: self.checked_bytes - before.checked_bytes,
            calls,
            breaks: self.breaks.since(&before.breaks),
            requests: requests.collect(),
            ..FilesCount::default()
        }
    }
}
