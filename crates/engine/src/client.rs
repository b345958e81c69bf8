//! The one loop: a client thread performs operation after operation until the mix ends or its client leaves.

use crate::load::Bench;
use crate::protocol::Protocol;
use crate::tally::Tally;
use dyno_measure::{monotonic_ns, Failure, Fault, Window};
use dyno_reactor::Executor;
use dyno_workload::{Outcome, Workload};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// After a failure that costs no time, so that a server that is gone is not asked a million times a second.
const PAUSE_NS: u64 = 10_000_000;
const MAX_PAUSES: u64 = 100;

/// When client threads start, how they pace themselves, and when they stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    /// Start of the mix on the monotonic clock.
    pub start_ns: u64,
    pub window: Window,
    pub think_ns: u64,
    /// The least time between two starts of one thread.
    pub pace_ns: u64,
    /// Errors after which a client leaves the mix; None: never.
    pub leave_after_errors: Option<u32>,
}

impl Schedule {
    fn end_ns(&self) -> u64 {
        self.start_ns + self.window.length_ns
    }
}

/// What the threads of one client share.
#[derive(Debug, Default)]
pub(crate) struct ClientState {
    errors: Cell<u32>,
    left: Cell<bool>,
}

/// One client thread's place in the mix.
#[derive(Debug)]
pub(crate) struct Seat {
    executor: Executor,
    schedule: Schedule,
    client: usize,
    state: Rc<ClientState>,
    tally: Rc<RefCell<Tally>>,
}

impl Seat {
    pub(crate) fn new(bench: &Bench, start_ns: u64, client: usize, state: Rc<ClientState>) -> Self {
        Self {
            executor: bench.executor.clone(),
            schedule: bench.schedule(start_ns),
            client,
            state,
            tally: bench.tally.clone(),
        }
    }

    /// Performs operations from `due_ns` on, until the mix is over or the client leaves. In a closed loop an operation is
    /// due when the one before it has ended and the think time is over; response time counts from then, whenever the
    /// loop got round to it.
    pub(crate) async fn occupy<W: Workload>(
        self,
        workload: &mut W,
        protocol: &mut impl Protocol<Op = W::Op>,
        mut due_ns: u64,
    ) {
        let mut instant_failures = 0;
        let mut op = workload.next(&Outcome::START);
        while due_ns < self.schedule.end_ns() && !self.state.left.get() {
            if due_ns > monotonic_ns() {
                protocol.idle_until(&self.executor, due_ns).await;
                // The client may have left meanwhile, or the loop may have been late and the mix be over.
                if self.state.left.get() || monotonic_ns() >= self.schedule.end_ns() {
                    break;
                }
            }
            let performed = protocol.perform(&op, due_ns).await;
            let done_ns = monotonic_ns();
            let elapsed_ns = done_ns - self.schedule.start_ns;
            let response_ns = done_ns.saturating_sub(due_ns);
            self.tally
                .borrow_mut()
                .count(self.client, &performed, elapsed_ns, response_ns);
            op = workload.next(&Outcome {
                ok: performed.result.is_ok(),
                bytes_read: performed.bytes_read,
                session_lost: performed.session_lost,
            });
            let mut pause_ns = if workload.begins_piece() {
                self.schedule.think_ns
            } else {
                0
            };
            if let Err(failure) = performed.result {
                self.consider_leaving(elapsed_ns);
                instant_failures = if costs_no_time(failure.fault) {
                    instant_failures + 1
                } else {
                    0
                };
                pause_ns += PAUSE_NS * instant_failures.min(MAX_PAUSES);
            } else {
                instant_failures = 0;
            }
            due_ns = (done_ns + pause_ns).max(due_ns.saturating_add(self.schedule.pace_ns));
        }
    }

    /// Of a client that could not be made ready: its failure, and that it takes no part.
    pub(crate) fn absent(&self, failure: Failure) {
        let mut tally = self.tally.borrow_mut();
        tally.count_absence(self.client, failure);
        tally.client_left(self.client, 0);
    }

    fn consider_leaving(&self, elapsed_ns: u64) {
        let errors = self.state.errors.get() + 1;
        self.state.errors.set(errors);
        // Who fails in what was begun before the end and ended after it was in the mix to its end.
        let in_mix = elapsed_ns < self.schedule.window.length_ns;
        let leaves = in_mix
            && self
                .schedule
                .leave_after_errors
                .is_some_and(|limit| errors >= limit);
        if leaves && !self.state.left.replace(true) {
            self.tally.borrow_mut().client_left(self.client, elapsed_ns);
        }
    }
}

/// Failures that need no answer from a server, and so could be repeated without end.
fn costs_no_time(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::ConnectionRefused
            | Fault::ConnectionReset
            | Fault::ClosedEarly
            | Fault::Unreachable
            | Fault::NoPorts
            | Fault::NoFiles
            | Fault::NoMemory
            | Fault::OtherIo
    )
}
