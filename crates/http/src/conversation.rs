//! The interface of a connection with several exchanges, for shared connections: HTTP/2 (`h2/session.rs`) and
//! pipelining (`pipeline.rs`).

use crate::response::Limits;
use dyno_measure::Failure;

/// A connection with several concurrent exchanges: bytes in, finished exchanges and bytes out. Uses no
/// sockets and no clock.
pub trait Conversation {
    /// Request that opens an exchange.
    type Request: ?Sized;
    /// Receives the bytes of a body.
    type Body;
    /// Whether exchanges are streams, which are counted.
    const HAS_STREAMS: bool;

    /// Creates the state of a new connection. The first bytes to send are in `outgoing`.
    fn new(limits: Limits) -> Self;

    /// Returns whether the connection accepts new exchanges at all.
    fn is_open(&self) -> bool;

    /// Returns whether an exchange may be opened now.
    fn has_room(&self) -> bool;

    /// Returns the maximum number of concurrent exchanges that the server has announced, or None.
    fn announced_room(&self) -> Option<u32> {
        None
    }

    /// Sets the maximum number of concurrent exchanges, as on the previous connection, until the server
    /// announces it.
    fn expect_room(&mut self, _room: u32) {}

    /// Returns whether the server has accepted a request on this connection, although it left later ones
    /// unprocessed.
    fn has_taken_some(&self) -> bool {
        true
    }

    /// Returns whether an exchange that the server left unprocessed has ended and its result was not taken.
    fn has_unprocessed(&self) -> bool;

    /// Number of unfinished exchanges.
    fn active(&self) -> u32;

    /// Number of exchanges opened so far.
    fn opened(&self) -> u32;

    /// Opens an exchange and returns its slot. Call it only if `has_room` returns true. After the exchange
    /// has ended, free the slot with `take`.
    fn open(&mut self, request: &Self::Request, body: Self::Body) -> usize;

    /// Processes bytes from the server.
    ///
    /// # Errors
    /// The rule that the server violated. The connection is then unusable; `outgoing` contains the error message for
    /// the server.
    fn feed(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// Handles the normal end of the connection by the server.
    fn end(&mut self) {}

    /// Clears `into`, then moves the slots of newly finished exchanges to it.
    fn take_finished(&mut self, into: &mut Vec<usize>);

    /// Returns whether the exchange in slot `place` has ended.
    fn has_ended(&self, place: usize) -> bool;

    /// Returns the result of the exchange in slot `place` if it has ended, and frees the slot.
    fn take(&mut self, place: usize) -> Option<Ended<Self::Body>>;

    /// Ends the exchange in slot `place` with `failure`.
    fn cancel(&mut self, place: usize, failure: Failure);

    /// Ends all exchanges with `failure`, because the connection is lost.
    fn fail_all(&mut self, failure: Failure);

    /// Announces that the connection will be closed.
    fn say_goodbye(&mut self) {}

    /// Notes that all of `outgoing` was sent.
    fn all_sent(&mut self) {}

    /// Returns the bytes to send. The caller removes what it sent.
    fn outgoing(&mut self) -> &mut Vec<u8>;
}

/// Result of an exchange.
#[derive(Debug)]
pub struct Ended<B> {
    /// Status of a complete response, or why there is none.
    pub result: Result<u16, Failure>,
    /// Whether the server certainly did not process the request.
    pub unprocessed: bool,
    /// The receiver of the response's body.
    pub body: B,
    /// Bytes of the response, framing included.
    pub received_bytes: u64,
    /// Bytes of the request, framing included.
    pub sent_bytes: u64,
    /// Bytes of the response's body.
    pub body_bytes: u64,
}
