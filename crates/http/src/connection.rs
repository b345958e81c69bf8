//! The connection of one client thread: established when needed, kept open if both sides agree, and
//! re-established if lost.

use crate::coding::Decoded;
use crate::failures::{idle_close, silent};
use crate::head::Head;
use crate::response::{Body, Limits, Progress, ResponseReader};
use crate::stream::{Handshake, PlainTcp, Received, Stream, Transport};
use dyno_measure::{monotonic_ns, Failure, Fault, NS_PER_S};
use dyno_net::{Dialer, Executor, Idle};
use std::cell::RefCell;
use std::rc::Rc;

/// Number of receive calls after which a task yields although more bytes are available. Otherwise a body that
/// arrives as fast as it is read would block all other clients of the loop and their deadlines.
const RECEIVES_IN_A_TURN: u32 = 16;

/// Maximum number of bytes of a request that are sent at once, or while the connection is established. If the server
/// refuses a larger request before it has read all of it, its answer can be read, and the number of sent bytes is known.
const PIECE_BYTES: usize = 64 * 1024;

/// Minimum idle time after which a close by the server counts as its keep-alive timeout. Servers set this
/// timeout in whole seconds.
const LEAST_IDLE_NS: u64 = NS_PER_S / 2;

/// How the clients of a level use connections.
#[derive(Debug, Clone, Copy)]
pub struct Connecting {
    /// Reuse connections.
    pub keep_alive: bool,
    /// Close with a reset instead of a FIN.
    pub reset: bool,
    /// Repeat a request if the server closed the idle connection while the request was sent.
    pub repeat: bool,
    /// Maximum time from the intended start to the last byte.
    pub timeout_ns: u64,
}

/// Numbers of HTTP/2 streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Streams {
    /// All opened streams.
    pub opened: u32,
    /// Streams that the server refused without processing (REFUSED_STREAM).
    pub refused: u32,
    /// Streams above the last stream that the server's GOAWAY accepted.
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

/// Cost of one exchange, successful or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Bytes of heads, framing and body.
    pub received_bytes: u64,
    pub body_bytes: u64,
    /// Bytes of requests, including repeated ones.
    pub sent_bytes: u64,
    /// Time to establish the last connection; None if none was established.
    pub connect_ns: Option<u64>,
    pub connections: u32,
    /// HTTP/2 streams.
    pub streams: Streams,
    /// TLS handshake of the last connection; None if none was established, or if it has no TLS.
    pub handshake: Option<Handshake>,
    /// Whether a new connection was established because the server had closed the idle one.
    pub reconnected: bool,
    pub decoded: Option<Decoded>,
}

#[derive(Debug)]
pub struct Connection<T: Transport = PlainTcp> {
    executor: Executor,
    transport: T,
    connecting: Connecting,
    /// Whether to disable Nagle's algorithm.
    at_once: bool,
    /// Receive buffer, shared by all clients of the loop. It is filled and emptied without an await in
    /// between.
    buffer: Rc<RefCell<Box<[u8]>>>,
    stream: Option<T::Stream>,
    /// Whether some requests must not be repeated, so that the end of the last exchange is recorded.
    notes_end: bool,
    /// End of the last exchange, in nanoseconds of the monotonic clock; 0 if not recorded.
    ended_ns: u64,
    reader: ResponseReader,
}

impl Connection {
    /// Creates a client over plain TCP without connecting. A receive call reads at most the size of `buffer`.
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
    /// Creates a client whose connections are made by `transport`.
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
            at_once: false,
            buffer,
            stream: None,
            notes_end: !connecting.repeat,
            ended_ns: 0,
            reader: ResponseReader::new(limits),
        }
    }

    /// Disables Nagle's algorithm on new connections. Otherwise the kernel would delay the last part of a request.
    #[must_use]
    pub fn sending_at_once(mut self) -> Self {
        self.at_once = true;
        self
    }

    /// Sets whether further requests may be repeated on a new connection (`Connecting::repeat`).
    pub fn may_repeat(&mut self, repeat: bool) {
        self.connecting.repeat = repeat;
        self.notes_end |= !repeat;
    }

    /// Sends `request`, reads the whole response and passes its body to `body`.
    pub async fn exchange(
        &mut self,
        request: &[u8],
        start_ns: u64,
        body: &mut impl Body,
        cost: &mut Exchange,
    ) -> Result<Head, Failure> {
        self.exchange_parts(&[request], start_ns, body, cost).await
    }

    /// Like `exchange`, but the request is in parts: its head, and pieces of its body. The pieces are not copied.
    pub async fn exchange_parts(
        &mut self,
        request: &[&[u8]],
        start_ns: u64,
        body: &mut impl Body,
        cost: &mut Exchange,
    ) -> Result<Head, Failure> {
        self.executor
            .set_deadline(start_ns.saturating_add(self.connecting.timeout_ns));
        cost.reconnected = self.drop_ended_connection()?;
        let reused = self.stream.is_some();
        let mut result = self.attempt(request, start_ns, body, cost).await;
        if reused && result.as_ref().is_err_and(|failure| self.was_idle_close(failure)) {
            if self.connecting.repeat {
                // A server may close an idle connection. A request without any response byte is sent again on
                // a new connection (RFC 9112, section 9.3.1).
                cost.reconnected = true;
                result = self.attempt(request, monotonic_ns(), body, cost).await;
            } else if self.ended_ns > 0 {
                let idle_ns = monotonic_ns().saturating_sub(self.ended_ns);
                result = result.map_err(|failure| match idle_ns >= LEAST_IDLE_NS {
                    true => idle_close(idle_ns),
                    false => failure,
                });
            }
        }
        cost.received_bytes += self.reader.received_bytes();
        cost.body_bytes = self.reader.body_bytes();
        result.map_err(|failure| match failure.fault {
            Fault::ResponseTimeout => self.reader.late(),
            _ => silent(failure, self.reader.received_bytes()),
        })
    }

    /// Drops the kept connection if it has ended. Returns whether it has. A server may close only its sending
    /// direction and continue to read: a request would then get no response, which would look like a stall.
    fn drop_ended_connection(&mut self) -> Result<bool, Failure> {
        let idle = self.stream.as_mut().map_or(Idle::Quiet, Stream::after_idling);
        if idle != Idle::Quiet {
            self.stream = None;
        }
        match idle {
            Idle::Quiet => Ok(false),
            Idle::Ended => Ok(true),
            // Bytes without an outstanding request are not a response (RFC 9112, section 6.3).
            Idle::Spoke => Err(self.reader.excess()),
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
        request: &[&[u8]],
        start_ns: u64,
        body: &mut impl Body,
        cost: &mut Exchange,
    ) -> Result<Head, Failure> {
        let (mut stream, unsent) = match self.stream.take() {
            Some(stream) => {
                self.reader.await_next();
                (stream, request)
            }
            None => {
                self.reader.reset();
                let (first, unsent): (&[u8], &[&[u8]]) = match request {
                    [whole] if whole.len() <= PIECE_BYTES => (whole, &[]),
                    parts => (&[], parts),
                };
                let opened = self.transport.open(first).await?;
                cost.sent_bytes += first.len() as u64;
                cost.connect_ns = Some(opened.stood_ns.saturating_sub(start_ns));
                cost.connections += 1;
                cost.handshake = opened.handshake;
                if self.at_once {
                    opened.stream.send_at_once()?;
                }
                (opened.stream, unsent)
            }
        };
        let sent = match unsent {
            [] => Ok(()),
            [whole] => send_pieces(&mut stream, whole, &mut cost.sent_bytes).await,
            parts => {
                cost.sent_bytes += parts.iter().map(|part| part.len() as u64).sum::<u64>();
                stream.send_parts(parts).await
            }
        };
        let head = match sent {
            Ok(()) => self.receive(&mut stream, body, false).await?,
            // A server may answer and close before it has read the whole request (RFC 9112, section 9.6). What it
            // sent before the reset is still in the receive buffer.
            Err(failure) => return self.receive(&mut stream, body, true).await.or(Err(failure)),
        };
        if self.connecting.keep_alive && head.leaves_connection_open() {
            self.stream = Some(stream);
            if self.notes_end {
                self.ended_ns = monotonic_ns();
            }
        } else if self.connecting.reset {
            stream.reset_on_close()?;
        } else {
            self.transport.close(stream);
        }
        Ok(head)
    }

    /// Receives the answer. `is_reset`: the connection was reset, so its end does not complete a body without length.
    async fn receive(
        &mut self,
        stream: &mut T::Stream,
        body: &mut impl Body,
        is_reset: bool,
    ) -> Result<Head, Failure> {
        // Wait first, because the answer cannot have arrived yet. This saves a receive call.
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
                Received::End if is_reset => return Err(Fault::ConnectionReset.into()),
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

/// Sends all of `bytes`, and counts the pieces that the kernel took.
async fn send_pieces(stream: &mut impl Stream, bytes: &[u8], sent_bytes: &mut u64) -> Result<(), Failure> {
    if bytes.len() > PIECE_BYTES {
        // The last piece must not wait for the acknowledgement of the one before.
        stream.send_at_once()?;
    }
    for piece in bytes.chunks(PIECE_BYTES) {
        stream.send_all(piece).await?;
        *sent_bytes += piece.len() as u64;
    }
    Ok(())
}
