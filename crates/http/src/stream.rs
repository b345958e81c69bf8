//! The interface between HTTP and the layer below, and plain TCP as its implementation.
//!
//! A `Transport` opens the streams of one client thread. Each implementation decides what to reuse between
//! them: plain TCP on loopback reuses sockets (`Dialer::retire`). TLS is in `tls.rs`.

use crate::response::Progress;
use dyno_measure::{Failure, Fault};
use dyno_net::tls::Agreed;
use dyno_net::{Dialer, Idle, Socket};
use std::fmt::Debug;
use std::future::Future;
use std::io::IoSlice;
use std::rc::Rc;
use std::task::{Context, Poll};

const LATE: Fault = Fault::ResponseTimeout;
/// Maximum number of parts per system call. Most requests have two.
const PARTS_AT_ONCE: usize = 8;

/// Result of one receive call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    Nothing,
    /// Data arrived. Contains the consumer's progress.
    Some(Progress),
    /// The stream ended normally.
    End,
}

/// A successful TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// Time from the TCP connection until a request could be sent, in nanoseconds.
    pub ns: u64,
    pub agreed: Agreed,
}

/// A new connection on which the first bytes have been sent.
#[derive(Debug)]
pub struct Opened<S> {
    pub stream: S,
    /// Time at which the TCP connection was established, in nanoseconds of the monotonic clock.
    pub stood_ns: u64,
    /// The TLS handshake, or None without TLS.
    pub handshake: Option<Handshake>,
}

/// A reliable byte stream for the current task. Every wait ends at the task's deadline.
pub trait Stream: Debug {
    /// Sends all of `bytes`.
    fn send_all(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), Failure>>;

    /// Sends all of `parts` in order, without joining large ones.
    fn send_parts(&mut self, parts: &[&[u8]]) -> impl Future<Output = Result<(), Failure>>;

    /// Waits until `receive` may return data or the end.
    ///
    /// # Errors
    /// `Fault::ResponseTimeout` once the task's deadline has passed.
    fn readable(&mut self) -> impl Future<Output = Result<(), Failure>>;

    /// Receives once, into `buffer` if needed, and passes the data to `take` until it is done. The caller may
    /// wait for `readable` only after `Nothing` or `End`.
    fn receive(
        &mut self,
        buffer: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<Progress, Failure>,
    ) -> Result<Received, Failure>;

    /// Polls sending: sends what fits and removes it from `outgoing`. Ready once all is sent. Data added
    /// meanwhile is sent by the next call.
    fn poll_send(&mut self, outgoing: &mut Vec<u8>, context: &mut Context<'_>) -> Poll<Result<(), Failure>>;

    /// Polls `readable` once.
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>>;

    /// Disables Nagle's algorithm.
    fn send_at_once(&self) -> Result<(), Failure>;

    /// Returns the state of a connection without outstanding requests.
    fn after_idling(&mut self) -> Idle;

    /// Makes the next close send a reset (RST).
    fn reset_on_close(&mut self) -> Result<(), Failure>;
}

/// Establishes the connections of one client thread.
pub trait Transport: Debug {
    type Stream: Stream;

    /// Establishes a connection, including any handshake, and sends `first`.
    fn open(&mut self, first: &[u8]) -> impl Future<Output = Result<Opened<Self::Stream>, Failure>>;

    /// Closes a connection.
    fn close(&mut self, stream: Self::Stream);
}

/// TCP without another layer.
#[derive(Debug)]
pub struct PlainTcp {
    dialer: Rc<Dialer>,
    /// Socket of a closed connection, to be dialled again.
    spare: Option<Socket>,
}

impl PlainTcp {
    pub fn new(dialer: Rc<Dialer>) -> Self {
        Self { dialer, spare: None }
    }
}

impl Transport for PlainTcp {
    type Stream = Socket;

    async fn open(&mut self, first: &[u8]) -> Result<Opened<Socket>, Failure> {
        let socket = self.dialer.dial(self.spare.take())?;
        let stood_ns = socket.send_first(first).await?;
        Ok(Opened {
            stream: socket,
            stood_ns,
            handshake: None,
        })
    }

    fn close(&mut self, socket: Socket) {
        self.spare = self.dialer.retire(socket);
    }
}

impl Stream for Socket {
    async fn send_all(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Socket::send_all(self, bytes, LATE).await
    }

    async fn send_parts(&mut self, parts: &[&[u8]]) -> Result<(), Failure> {
        for some in parts.chunks(PARTS_AT_ONCE) {
            let mut slices = [IoSlice::new(&[]); PARTS_AT_ONCE];
            for (slice, part) in slices.iter_mut().zip(some) {
                *slice = IoSlice::new(part);
            }
            Socket::send_parts(self, &mut slices[..some.len()], LATE).await?;
        }
        Ok(())
    }

    async fn readable(&mut self) -> Result<(), Failure> {
        Socket::readable(self, LATE).await
    }

    fn receive(
        &mut self,
        buffer: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<Progress, Failure>,
    ) -> Result<Received, Failure> {
        Ok(match self.try_receive(buffer)? {
            None => Received::Nothing,
            Some(0) => Received::End,
            Some(count) => Received::Some(take(&buffer[..count])?),
        })
    }

    fn poll_send(&mut self, outgoing: &mut Vec<u8>, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.poll_send_all(outgoing, context, LATE)
    }

    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Socket::poll_readable(self, context, LATE)
    }

    fn send_at_once(&self) -> Result<(), Failure> {
        Socket::send_at_once(self)
    }

    fn after_idling(&mut self) -> Idle {
        Socket::after_idling(self)
    }

    fn reset_on_close(&mut self) -> Result<(), Failure> {
        Socket::reset_on_close(self)
    }
}
