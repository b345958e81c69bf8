//! The loop of a client thread: performs operations until the level ends or its client leaves.

use crate::arrival::DueTimes;
use crate::counting::Tally;
use crate::digest::OperationsDigest;
use crate::engine_thread::EngineThread;
use crate::protocol::Protocol;
use crate::schedule::Schedule;
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::Executor;
use dyno_workload::{Outcome, Workload};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

mod overlapped;

/// Pause after a failure that takes no time, so that a dead server does not get a million requests per
/// second.
const PAUSE_NS: u64 = 10_000_000;
const MAX_PAUSES: u64 = 100;

/// The thread's number in its client, the length of the level, and the permitted errors.
#[derive(Debug, Clone, Copy)]
struct Limits {
    thread: usize,
    start_ns: u64,
    length_ns: u64,
    leave_after_errors: Option<u32>,
    digest_operations: u32,
    added_cpu_ns: u32,
    operations: u64,
}

/// State for open arrivals, which a client thread serves together with all other client threads of its engine thread.
#[derive(Debug)]
struct OpenTurn {
    schedule: Rc<RefCell<Schedule>>,
    /// Due time of an arrival that was taken but not started.
    taken_ns: Option<u64>,
}

/// State shared by the threads of a client.
#[derive(Debug)]
pub(crate) struct ClientState {
    /// Index of the client among the clients of its engine thread.
    place: usize,
    errors: Cell<u32>,
    left: Cell<bool>,
}

impl ClientState {
    pub(crate) fn new(place: usize) -> Rc<Self> {
        Rc::new(Self {
            place,
            errors: Cell::new(0),
            left: Cell::new(false),
        })
    }
}

/// One client thread of a level.
#[derive(Debug)]
pub(crate) struct ClientThread {
    executor: Executor,
    limits: Limits,
    due: DueTimes,
    /// Open arrivals; None: the thread's own pace applies.
    open: Option<OpenTurn>,
    state: Rc<ClientState>,
    tally: Rc<RefCell<Tally>>,
    working: Rc<Cell<usize>>,
}

impl ClientThread {
    /// Creates thread `thread` of client `client` in a level that starts at `start_ns`.
    pub(crate) fn new(
        engine: &EngineThread,
        start_ns: u64,
        (client, thread): (usize, usize),
        state: Rc<ClientState>,
    ) -> Self {
        let level = &engine.level;
        Self {
            executor: engine.executor.clone(),
            limits: Limits {
                thread,
                start_ns,
                length_ns: level.window.length_ns,
                leave_after_errors: level.leave_after_errors,
                digest_operations: level.digest_operations,
                added_cpu_ns: level.added_cpu_ns,
                operations: level.operations_of(client, thread),
            },
            due: level.due_times(start_ns, client, thread),
            open: level.open.map(|open| OpenTurn {
                schedule: engine.schedule(open, start_ns),
                taken_ns: None,
            }),
            state,
            tally: engine.tally.clone(),
            working: engine.working.clone(),
        }
    }

    /// Waits until the next operation is due and permitted. Returns the due time and the current time, or
    /// None if the level is over or the client has left.
    async fn next_due(&mut self, protocol: &mut impl Protocol, end_ns: u64) -> Option<(u64, u64)> {
        let mut due_ns = self.due.next_ns();
        if self.open.is_some() {
            // Wait before taking an arrival: a connection that must pause must not delay an arrival.
            let now_ns = self.wait_until(protocol, due_ns, end_ns).await?;
            let turn = self.open.as_mut()?;
            due_ns = turn.schedule.borrow_mut().take(now_ns)?;
            turn.taken_ns = Some(due_ns);
        }
        let now_ns = self.wait_until(protocol, due_ns, end_ns).await?;
        if let Some(turn) = &mut self.open {
            turn.taken_ns = None;
        }
        Some((due_ns, now_ns))
    }

    async fn wait_until(&self, protocol: &mut impl Protocol, due_ns: u64, end_ns: u64) -> Option<u64> {
        if due_ns >= end_ns || self.state.left.get() {
            return None;
        }
        let mut now_ns = monotonic_ns();
        if due_ns > now_ns {
            protocol.idle_until(&self.executor, due_ns).await;
            now_ns = monotonic_ns();
        }
        // During the wait, the client may have left or the level may have ended.
        (!self.state.left.get() && now_ns < end_ns).then_some(now_ns)
    }

    fn begins_ns(&self, now_ns: u64) -> u64 {
        match self.open {
            Some(_) => now_ns,
            None => self.due.begins_ns(now_ns),
        }
    }

    /// Performs operations until the level is over or the client leaves. Response time counts from the due
    /// time.
    pub(crate) async fn run<W: Workload>(
        mut self,
        workload: &mut W,
        protocol: &mut impl Protocol<Op = W::Op>,
    ) {
        let end_ns = self.limits.start_ns + self.limits.length_ns;
        let mut digest = OperationsDigest::new(self.limits.digest_operations, self.limits.thread);
        let (mut instant_failures, mut free_ns) = (0, self.due.next_ns());
        let mut op = workload.next(&Outcome::START);
        let mut first = true;
        for _ in 0..self.limits.operations {
            let Some((due_ns, now_ns)) = self.next_due(protocol, end_ns).await else {
                break;
            };
            // Response times exclude waits for the limit on the request rate, which the user chose.
            let ready_ns = due_ns.max(free_ns);
            let held_ns = match &self.open {
                Some(turn) => turn.schedule.borrow_mut().held_ns(due_ns, ready_ns),
                None => 0,
            };
            if std::mem::take(&mut first) {
                let late_ns = now_ns.saturating_sub(due_ns);
                self.tally.borrow_mut().first_begins(late_ns);
            }
            digest.add(&op);
            let performed = protocol.perform(&op, self.begins_ns(now_ns)).await;
            let done_ns = monotonic_ns();
            let elapsed_ns = done_ns - self.limits.start_ns;
            let postponed_ns = protocol.postponed_ns();
            let begun_ns = (ready_ns + postponed_ns).min(done_ns) - self.limits.start_ns;
            let response_ns = done_ns.saturating_sub(due_ns + postponed_ns + held_ns);
            let mut tally = self.tally.borrow_mut();
            tally.count(self.state.place, &performed, (begun_ns, elapsed_ns), response_ns);
            if self.open.is_some() {
                let waited_ns = (ready_ns - held_ns > due_ns).then(|| now_ns - due_ns - held_ns);
                let late_ns = now_ns.saturating_sub(ready_ns);
                tally.count_arrival(elapsed_ns, waited_ns, late_ns);
            }
            drop(tally);
            if self.limits.added_cpu_ns > 0 {
                let until_ns = done_ns + u64::from(self.limits.added_cpu_ns);
                while monotonic_ns() < until_ns {
                    std::hint::spin_loop();
                }
            }
            op = workload.next(&Outcome {
                ok: performed.result.is_ok(),
                bytes_read: performed.bytes_read,
                session_lost: performed.session_lost,
            });
            let pause_ns = self.pause_after(&performed.result, elapsed_ns, &mut instant_failures);
            // Open arrivals need no pause: their rate limits the requests to a dead server.
            let pause_ns = if self.open.is_some() { 0 } else { pause_ns } + workload.pause_ns();
            self.due.ended(done_ns, workload.begins_piece(), pause_ns);
            free_ns = match &self.open {
                Some(turn) => {
                    let unheld_ns = (done_ns + pause_ns).saturating_sub(postponed_ns + held_ns);
                    turn.schedule.borrow_mut().free(unheld_ns);
                    // While the limit on the request rate delays a connection, it serves no arrival.
                    self.due.next_ns()
                }
                None => done_ns,
            };
        }
        self.close(&digest, end_ns);
    }

    /// Returns the length of the pause after an operation. After too many errors, makes the client leave.
    fn pause_after(&self, result: &Result<(), Failure>, elapsed_ns: u64, instant_failures: &mut u64) -> u64 {
        let Err(failure) = result else {
            *instant_failures = 0;
            return 0;
        };
        self.consider_leaving(elapsed_ns);
        *instant_failures = if costs_no_time(failure.fault) {
            *instant_failures + 1
        } else {
            0
        };
        PAUSE_NS * (*instant_failures).min(MAX_PAUSES)
    }

    fn close(&self, digest: &OperationsDigest, end_ns: u64) {
        self.working.set(self.working.get() - 1);
        let mut tally = self.tally.borrow_mut();
        if let Some(digest) = digest.finish() {
            tally.add_digest(self.state.place, digest);
        }
        if let Some(OpenTurn { schedule, taken_ns }) = &self.open {
            let mut schedule = schedule.borrow_mut();
            taken_ns.inspect(|due_ns| schedule.give_back(*due_ns));
            schedule.leave();
        } else if !self.state.left.get() {
            tally.add_overdue(self.due.overdue(end_ns));
        }
    }

    /// Records that a client could not be prepared and does not take part in the level.
    pub(crate) fn absent(&self, failure: Failure) {
        let mut tally = self.tally.borrow_mut();
        tally.count_absence(self.state.place, failure);
        tally.client_left(self.state.place, 0);
        if let Some(turn) = &self.open {
            turn.schedule.borrow_mut().leave();
        }
    }

    fn consider_leaving(&self, elapsed_ns: u64) {
        let errors = self.state.errors.get() + 1;
        self.state.errors.set(errors);
        // An operation that began before the end but failed after it does not make its client leave early.
        let in_level = elapsed_ns < self.limits.length_ns;
        let leaves = in_level
            && self
                .limits
                .leave_after_errors
                .is_some_and(|limit| errors >= limit);
        if leaves && !self.state.left.replace(true) {
            self.tally.borrow_mut().client_left(self.state.place, elapsed_ns);
        }
    }
}

/// Returns whether a fault can occur without waiting for the server, so that it could repeat endlessly.
fn costs_no_time(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::ConnectionRefused
            | Fault::ConnectionReset
            | Fault::ClosedEarly
            | Fault::IdleClose
            | Fault::Unreachable
            | Fault::NoPorts
            | Fault::NoFiles
            | Fault::NoMemory
            | Fault::OtherIo
    )
}
