//! The contract of a file protocol's client, and of what an application uses above it.

use crate::call::{Caching, Call, Handle, LeaseKey, Reply};
use dyno_measure::Failure;
use std::future::Future;

/// Names a call that was begun, until its end has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId(pub u64);

/// Whom a break concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// The oplock of one handle.
    Handle(Handle),
    /// A lease, and so all handles under its key.
    Lease(LeaseKey),
}

/// The server takes caching back, because somebody else wants the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Break {
    /// Of what.
    pub whom: Whom,
    /// What is left of it.
    pub to: Caching,
    /// The server waits for `acknowledge` (up to 35 s, during which the other client stands still).
    pub acknowledge: bool,
}

/// What a client that has calls outstanding is told next.
#[derive(Debug)]
pub enum Event<'a> {
    /// A call ended. `data` is that of a read, else empty; it is valid until the client is used again.
    Ended {
        /// The call.
        id: CallId,
        /// What it came to. A failure of this kind is the call's alone: the session goes on.
        result: Result<Reply, Failure>,
        /// What was read.
        data: &'a [u8],
    },
    /// A break arrived. Calls go on.
    Break(Break),
}

/// Figures from the beginning of a session on, or rather of all sessions that a client has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes sent, framing included.
    pub bytes_out: u64,
    /// Bytes that came.
    pub bytes_in: u64,
    /// Requests of the protocol (each part of a compound is one).
    pub requests: u64,
    /// Requests among them that the server answered without carrying them out, as parts of a compound that had failed.
    pub refused: u64,
    /// Breaks that came.
    pub breaks: u64,
    /// Connections made.
    pub connections: u64,
}

/// One connection to a file server, used by one task: calls are begun, and their ends and breaks come in whatever
/// order the server sends them.
///
/// A failure of a method itself (not of a call) means that the connection is gone, with every handle, lock and call;
/// `connect` may make another. The task's deadline (`Executor::set_deadline`) bounds every wait.
pub trait FileClient {
    /// Connects and logs on. Does nothing where that has been done.
    fn connect(&mut self) -> impl Future<Output = Result<(), Failure>>;

    /// Sends a call, or keeps it until the server's flow control lets it go.
    fn begin(&mut self, call: &Call<'_>) -> impl Future<Output = Result<CallId, Failure>>;

    /// Waits for the next event. Only to be used while a call is outstanding or a break may come.
    fn next(&mut self) -> impl Future<Output = Result<Event<'_>, Failure>>;

    /// Waits until `due_ns` for a break; None once it is due. Who asks again and again for a moment that has passed, and
    /// so never waits, is told of a break all the same, soon after it has come.
    fn break_until(&mut self, due_ns: u64) -> impl Future<Output = Result<Option<Break>, Failure>>;

    /// Tells the server that a break was obeyed. Its own answer is waited for only as far as flow control needs.
    fn acknowledge(&mut self, whom: Whom, left: Caching) -> impl Future<Output = Result<(), Failure>>;

    /// Ends the session in order, as far as it still stands. Never fails: what can't be ended is dropped.
    fn disconnect(&mut self) -> impl Future<Output = ()>;

    /// Figures so far.
    fn traffic(&self) -> Traffic;

    /// Protocol requests so far by the protocol's own names ("CREATE"), for the record.
    fn requests_by_name(&self) -> Vec<(&'static str, u64)>;

    /// The most that one `Read` may ask for, in bytes; known after `connect`.
    fn max_read_bytes(&self) -> u32;

    /// The most that one `Write` may carry.
    fn max_write_bytes(&self) -> u32;
}

/// Files as an application sees them: one call at a time, from its beginning to its end.
pub trait Files {
    /// Connects and logs on, where that has not been done.
    fn connect(&mut self) -> impl Future<Output = Result<(), Failure>>;

    /// Carries out one call; what was read is handed to `data`, in order, in one or more pieces.
    fn call(
        &mut self,
        call: &Call<'_>,
        data: &mut impl FnMut(&[u8]),
    ) -> impl Future<Output = Result<Reply, Failure>>;

    /// Waits until `due_ns`, obeying breaks that come meanwhile and doing what a cache does by the clock.
    fn idle_until(&mut self, due_ns: u64) -> impl Future<Output = Result<(), Failure>>;

    /// Sends and closes everything that is kept back, then ends the session. Failures are returned, and the session is
    /// over all the same.
    fn finish(&mut self) -> impl Future<Output = Result<(), Failure>>;
}
