//! The contract of a protocol: one operation at a time for one client thread. One protocol, one file beside this one.

use dyno_http::coding::Decoded;
use dyno_http::{Handshake, Streams};
use dyno_measure::Failure;
use dyno_net::Executor;
use dyno_workload::ClassId;
use std::future::Future;

/// How one operation ended, and what it moved.
#[derive(Debug, Clone, Copy)]
pub struct Performed {
    /// The class that the operation is counted under.
    pub class: ClassId,
    /// Success, or why not.
    pub result: Result<(), Failure>,
    /// Application bytes that came.
    pub bytes_read: u64,
    /// Application bytes that were handed over to be written.
    pub bytes_written: u64,
    /// All bytes that came, as far as the protocol sees them.
    pub bytes_in: u64,
    /// All bytes that were sent.
    pub bytes_out: u64,
    /// From the intended start until the connection stood, where one was made.
    pub connect_ns: Option<u64>,
    /// Connections made for it. None where a client keeps a session beyond its operations, and counts it whole.
    pub connections: u32,
    /// Streams of HTTP/2 opened for it; none in any other protocol.
    pub streams: Streams,
    /// The TLS handshake, where one was made.
    pub handshake: Option<Handshake>,
    /// Whether an idle connection was found closed and the operation was begun again.
    pub reconnected: bool,
    /// Result of decoding its body; None if the body was not in the sample.
    pub decoded: Option<Decoded>,
    /// Whether the session ended, and what depends on it (open files) with it.
    pub session_lost: bool,
}

/// Carries out operations. What it does beneath one (connecting, pipelining, caching) is its own affair.
#[warn(missing_docs)]
pub trait Protocol {
    /// What a workload asks of it.
    type Op;

    /// Carries out `op`, which was meant to start at `start_ns` of the monotonic clock.
    fn perform(&mut self, op: &Self::Op, start_ns: u64) -> impl Future<Output = Performed>;

    /// Waits until `due_ns` with nothing outstanding. A protocol in which the server may speak first listens meanwhile.
    fn idle_until(&mut self, executor: &Executor, due_ns: u64) -> impl Future<Output = ()> {
        executor.sleep_until(due_ns)
    }
}

/// A protocol in which one client may have several operations under way at once.
#[warn(missing_docs)]
pub trait Overlapping: Protocol {
    /// Whether `op` may be under way together with others. Else it is performed alone.
    fn overlaps(op: &Self::Op) -> bool;

    /// Begins `op` and gives the number that its end is told by. `due_ns`: as of `perform`. In the error, `op` has ended
    /// already.
    fn begin(&mut self, op: &Self::Op, due_ns: u64) -> impl Future<Output = Result<u64, Performed>>;

    /// Waits until one of the operations under way ends. Each ends once, those of a session that is lost too.
    fn ended(&mut self) -> impl Future<Output = (u64, Performed)>;
}
