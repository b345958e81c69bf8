//! One client thread's connection: dialled when needed, kept where both sides want it, dialled again when it was lost.

use crate::coding::Decoded;
use crate::head::Head;
use crate::response::{Body, Limits, Progress, ResponseReader};
use crate::stream::{Handshake, PlainTcp, Received, Stream, Transport};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::{Dialer, Executor, Idle};
use std::cell::RefCell;
use std::rc::Rc;

/// Calls in a row after which a task that always finds more bytes lets the others have their turn: without it a body
/// that comes as fast as it is read would hold up every other client of the loop, and all deadlines with them.
const RECEIVES_IN_A_TURN: u32 = 16;

/// How the client of a mix uses connections.
#[derive(Debug, Clone, Copy)]
pub struct Connecting {
    /// Use a connection again.
    pub keep_alive: bool,
    /// Close with a reset instead of an ordinary close.
    pub reset: bool,
    /// Send a request again that a connection took which the server was just closing.
    pub repeat: bool,
    /// From the intended start to the last byte.
    pub timeout_ns: u64,
}

/// Numbers of HTTP/2 streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streams {
    /// All opened streams.
    pub opened: u32,
    /// Streams that the server refused unprocessed (REFUSED_STREAM).
    pub refused: u32,
    /// Streams above the last one that a GOAWAY of the server accepted.
    pub above_goaway: u32,
}

impl Streams {
    pub(crate) fn count_unprocessed(&mut self, fault: Fault) {
        match fault {
            Fault::StreamRefused | Fault::StreamsOverLimit => self.refused += 1,
            Fault::GoingAway => self.above_goaway += 1,
            _ => {}
        }
    }
}

/// What one exchange cost, whether it succeeded or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Heads, framing and body.
    pub received_bytes: u64,
    pub body_bytes: u64,
    /// Requests, those sent again included.
    pub sent_bytes: u64,
    /// How long the last connection took to make; None where none was made.
    pub connect_ns: Option<u64>,
    pub connections: u32,
    /// HTTP/2's streams.
    pub streams: Streams,
    /// The handshake of the last connection; None where none was made, or without TLS.
    pub handshake: Option<Handshake>,
    /// Whether a new connection was made because the server had closed the idle one.
    pub reconnected: bool,
    /// Result of decoding the body; None if it was not in the sample.
    pub decoded: Option<Decoded>,
}

#[derive(Debug)]
pub struct Connection<T: Transport = PlainTcp> {
    executor: Executor,
    transport: T,
    connecting: Connecting,
    /// Shared by all clients of the loop: it is filled and emptied without waiting in between.
    buffer: Rc<RefCell<Box<[u8]>>>,
    stream: Option<T::Stream>,
    reader: ResponseReader,
}

impl Connection {
    /// A client over plain TCP, without a connection. `buffer` bounds what one receive call takes.
    #[must_use]
    pub fn new(
        executor: Executor,
        dialer: Rc<Dialer>,
        connecting: Connecting,
        buffer: Rc<RefCell<Box<[u8]>>>,
        limits: Limits,
    ) -> Self {
        Self::over(PlainTcp::new(dialer), executor, connecting, buffer, limits)
    }
}

impl<T: Transport> Connection<T> {
    /// A client without a connection, whose connections `transport` makes.
    #[must_use]
    pub fn over(
        transport: T,
        executor: Executor,
        connecting: Connecting,
        buffer: Rc<RefCell<Box<[u8]>>>,
        limits: Limits,
    ) -> Self {
        Self {
            executor,
            transport,
            connecting,
            buffer,
            stream: None,
            reader: ResponseReader::new(limits),
        }
    }

    /// Says of the next requests whether they may be sent again on a new connection (`Connecting::repeat`).
    pub fn may_repeat(&mut self, repeat: bool) {
        self.connecting.repeat = repeat;
    }

    /// Sends `request` and reads the response whole. The bytes of its body go to `body`.
    ///
    /// # Errors
    /// Why there is no whole response. The connection is closed then.
    pub async fn exchange(
        &mut self,
        request: &[u8],
        start_ns: u64,
        body: &mut impl Body,
        cost: &mut Exchange,
    ) -> Result<Head, Failure> {
        self.executor
            .set_deadline(start_ns.saturating_add(self.connecting.timeout_ns));
        cost.reconnected = self.drop_ended_connection()?;
        let reused = self.stream.is_some();
        let mut result = self.attempt(request, start_ns, body, cost).await;
        if reused
            && self.connecting.repeat
            && result.as_ref().is_err_and(|failure| self.was_idle_close(failure))
        {
            // A server may close a connection that waits; a request that got no byte of answer is sent again
            // on a new one (RFC 9112, section 9.3.1).
            cost.reconnected = true;
            result = self.attempt(request, monotonic_ns(), body, cost).await;
        }
        cost.received_bytes += self.reader.received_bytes();
        cost.body_bytes = self.reader.body_bytes();
        result
    }

    /// Whether the connection that was kept has ended since. A server may close its direction only and go on reading
    /// for a while: a request would then vanish without an answer, and look like a server that stalls.
    fn drop_ended_connection(&mut self) -> Result<bool, Failure> {
        let idle = self.stream.as_mut().map_or(Idle::Quiet, Stream::after_idling);
        if idle != Idle::Quiet {
            self.stream = None;
        }
        match idle {
            Idle::Quiet => Ok(false),
            Idle::Ended => Ok(true),
            // RFC 9112, section 6.3: what comes while no request is outstanding is not a response.
            Idle::Spoke => Err(Fault::ExcessData.into()),
        }
    }

    fn was_idle_close(&self, failure: &Failure) -> bool {
        self.reader.received_bytes() == 0
            && matches!(
                failure.fault,
                Fault::ClosedEarly | Fault::ConnectionReset | Fault::Truncated
            )
    }

    async fn attempt(
        &mut self,
        request: &[u8],
        start_ns: u64,
        body: &mut impl Body,
        cost: &mut Exchange,
    ) -> Result<Head, Failure> {
        self.reader.reset();
        let mut stream = match self.stream.take() {
            Some(mut stream) => {
                stream.send_all(request).await?;
                stream
            }
            None => {
                let opened = self.transport.open(request).await?;
                cost.connect_ns = Some(opened.stood_ns.saturating_sub(start_ns));
                cost.connections += 1;
                cost.handshake = opened.handshake;
                opened.stream
            }
        };
        cost.sent_bytes += request.len() as u64;
        let head = self.receive(&mut stream, body).await?;
        if self.connecting.keep_alive && head.leaves_connection_open() {
            self.stream = Some(stream);
        } else if self.connecting.reset {
            stream.reset_on_close()?;
        } else {
            self.transport.close(stream);
        }
        Ok(head)
    }

    async fn receive(&mut self, stream: &mut T::Stream, body: &mut impl Body) -> Result<Head, Failure> {
        // The answer can't be there yet: wait first, and spare a call that would find nothing.
        stream.readable().await?;
        let mut receives = 0;
        loop {
            receives += 1;
            if receives % RECEIVES_IN_A_TURN == 0 {
                self.executor.give_way().await;
            }
            let reader = &mut self.reader;
            let arrival =
                stream.receive(&mut self.buffer.borrow_mut(), &mut |data| reader.feed(data, body))?;
            match arrival {
                Received::End => {
                    reader.end(body)?;
                    return reader.head().ok_or(Fault::ClosedEarly.into());
                }
                Received::Some(Progress::Done) => return reader.head().ok_or(Fault::ClosedEarly.into()),
                Received::Some(Progress::More) => {
                    if self.executor.deadline_passed() {
                        return Err(Fault::ResponseTimeout.into());
                    }
                }
                Received::Nothing => stream.readable().await?,
            }
        }
    }
}
