//! The interface of a protocol: one operation at a time per client thread. Each protocol has its own file.

use dyno_http::Exchange;
use dyno_measure::Failure;
use dyno_net::Executor;
use dyno_workload::ClassId;
use std::future::Future;

/// Result and traffic of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Performed {
    pub class: ClassId,
    pub result: Result<(), Failure>,
    /// Application bytes received.
    pub bytes_read: u64,
    /// Application bytes passed on for writing.
    pub bytes_written: u64,
    /// All bytes that the protocol can see, and connections. The connections of a session that outlives its
    /// operations are counted with the session.
    pub cost: Exchange,
    /// Whether the session ended, and with it its state, such as open files.
    pub session_lost: bool,
}

/// Performs operations. Connections, pipelining and caching are internal to the protocol.
#[warn(missing_docs)]
pub trait Protocol {
    /// Operation of a workload.
    type Op;

    /// Performs `op`, whose intended start is `start_ns` of the monotonic clock.
    fn perform(&mut self, op: &Self::Op, start_ns: u64) -> impl Future<Output = Performed>;

    /// Returns for how much of the last operation's time the rate limit delayed requests after its first, in
    /// nanoseconds.
    fn postponed_ns(&self) -> u64 {
        0
    }

    /// Waits until `due_ns` while no operation is in progress. Protocols with server-initiated messages
    /// handle them meanwhile.
    fn idle_until(&mut self, executor: &Executor, due_ns: u64) -> impl Future<Output = ()> {
        executor.sleep_until(due_ns)
    }
}

/// A protocol in which one client may have several operations in progress.
#[warn(missing_docs)]
pub trait Overlapping: Protocol {
    /// Returns whether `op` may overlap others.
    fn overlaps(op: &Self::Op) -> bool;

    /// Starts `op` and returns the number by which `ended` reports it. `due_ns`: as for `perform`. On an error, `op`
    /// has already ended.
    fn begin(&mut self, op: &Self::Op, due_ns: u64) -> impl Future<Output = Result<u64, Performed>>;

    /// Waits until an operation in progress ends. Each operation ends exactly once, even if its session is
    /// lost.
    fn ended(&mut self) -> impl Future<Output = (u64, Performed)>;
}
