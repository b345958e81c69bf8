//! What a shared connection needs of a connection with several exchanges: `h2/session.rs` and `pipeline.rs` are two.

use crate::response::Limits;
use dyno_measure::Failure;

/// One connection on which several exchanges are under way: bytes in, ended exchanges and bytes out. Pure: no sockets, no
/// clock.
pub trait Conversation {
    /// What opens an exchange.
    type Request: ?Sized;
    /// Where the bytes of a body go.
    type Body;
    /// Whether an exchange is a stream of its own, to be counted as one.
    const HAS_STREAMS: bool;

    /// A connection that is about to be made; what is sent first lies in `outgoing`.
    fn new(limits: Limits) -> Self;

    /// Whether new exchanges can be opened at all.
    fn is_open(&self) -> bool;

    /// Whether another exchange may be opened now.
    fn has_room(&self) -> bool;

    /// Returns how many exchanges the server allows at a time, where it has said so.
    fn announced_room(&self) -> Option<u32> {
        None
    }

    /// Says how many the server has allowed on the connection before: until it says so anew, no more are opened.
    fn expect_room(&mut self, _room: u32) {}

    /// Exchanges without an end yet.
    fn active(&self) -> u32;

    /// Exchanges opened so far.
    fn opened(&self) -> u32;

    /// Begins an exchange where `has_room` says so; gives its place, to be taken once it has ended.
    fn open(&mut self, request: &Self::Request, body: Self::Body) -> usize;

    /// Takes what the server has sent.
    ///
    /// # Errors
    /// What it broke. The connection can't be used any more; what it is to be told lies in `outgoing`.
    fn feed(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// The server has ended the connection in order.
    fn end(&mut self) {}

    /// Moves the places of the exchanges that have ended since to `into`, which is emptied first.
    fn take_finished(&mut self, into: &mut Vec<usize>);

    /// Whether the exchange at `place` has ended.
    fn has_ended(&self, place: usize) -> bool;

    /// Gives what became of the exchange at `place`, where it has ended; the place is free then.
    fn take(&mut self, place: usize) -> Option<Ended<Self::Body>>;

    /// Ends the exchange at `place` with `failure`.
    fn cancel(&mut self, place: usize, failure: Failure);

    /// Ends every exchange with `failure`: the connection is lost.
    fn fail_all(&mut self, failure: Failure);

    /// Says that the connection will be closed.
    fn say_goodbye(&mut self) {}

    /// All of `outgoing` was sent: more may follow.
    fn all_sent(&mut self) {}

    /// What is to be sent. Who sends it takes it away.
    fn outgoing(&mut self) -> &mut Vec<u8>;
}

/// How an exchange ended.
#[derive(Debug)]
pub struct Ended<B> {
    /// The status of a whole response, or why there is none.
    pub result: Result<u16, Failure>,
    /// It is known that the server did not process the request.
    pub unprocessed: bool,
    /// Where its bytes went.
    pub body: B,
    /// Bytes of the response, framing included.
    pub received_bytes: u64,
    /// Bytes of the request, framing included.
    pub sent_bytes: u64,
    /// Bytes of its body.
    pub body_bytes: u64,
}
