//! What an HTTP connection needs of the layer below it, and plain TCP as that layer.
//!
//! A `Transport` makes the streams of one client thread, one after the other. What can be spared between two of them is
//! its own affair: plain TCP on loopback dials a socket again (`Dialer::retire`), and nothing above knows of it.
//! `tls.rs` has the other layer.
//!
//! Not for: what the bytes mean (`connection.rs`).

use crate::response::Progress;
use dyno_measure::{Failure, Fault};
use dyno_net::tls::Agreed;
use dyno_net::{Dialer, Idle, Socket};
use std::fmt::Debug;
use std::future::Future;
use std::rc::Rc;
use std::task::{Context, Poll};

const LATE: Fault = Fault::ResponseTimeout;

/// What one look at a stream came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Nothing is there yet.
    Nothing,
    /// Something is; the taker of the bytes was as far as this after the last of them.
    Some(Progress),
    /// The stream has ended in order.
    End,
}

/// A TLS handshake that led to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// From the moment at which the TCP connection stood until a request could be sent.
    pub ns: u64,
    pub agreed: Agreed,
}

/// A connection that was made, on which the first bytes were sent.
#[derive(Debug)]
pub struct Opened<S> {
    /// To go on with.
    pub stream: S,
    /// When the TCP connection stood, in nanoseconds of the monotonic clock.
    pub stood_ns: u64,
    /// Where there was one.
    pub handshake: Option<Handshake>,
}

/// A connection that carries bytes in order, for the task that is polled. Every wait ends with the task's deadline.
pub trait Stream: Debug {
    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// What the connection came to.
    fn send_all(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), Failure>>;

    /// Waits until `receive` may have something, or the end.
    ///
    /// # Errors
    /// `Fault::ResponseTimeout` once the task's deadline has passed.
    fn readable(&mut self) -> impl Future<Output = Result<(), Failure>>;

    /// Receives once, into `buffer` where it needs one, and hands what has arrived to `take` until that has enough. Only
    /// after `Nothing` and `End` nothing is left that `readable` would not tell.
    ///
    /// # Errors
    /// What the connection came to, or what `take` says.
    fn receive(
        &mut self,
        buffer: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<Progress, Failure>,
    ) -> Result<Received, Failure>;

    /// Sends what there is room for, and takes it off `outgoing`; for futures that are written by hand. Ready once all
    /// of it is sent; what is added meanwhile goes with the next call.
    ///
    /// # Errors
    /// What the connection came to.
    fn poll_send(&mut self, outgoing: &mut Vec<u8>, context: &mut Context<'_>) -> Poll<Result<(), Failure>>;

    /// `readable`, for futures that are written by hand.
    ///
    /// # Errors
    /// As `readable`.
    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>>;

    /// Sends small messages at once, even while others are not acknowledged.
    ///
    /// # Errors
    /// Where the connection is gone.
    fn send_at_once(&self) -> Result<(), Failure>;

    /// What a connection on which nothing was outstanding has come to.
    fn after_idling(&mut self) -> Idle;

    /// Makes the coming close a reset.
    ///
    /// # Errors
    /// Where the connection is gone.
    fn reset_on_close(&mut self) -> Result<(), Failure>;
}

/// Makes the connections of one client thread.
pub trait Transport: Debug {
    type Stream: Stream;

    /// Makes a connection, with whatever belongs to that, and sends `first` on it.
    ///
    /// # Errors
    /// Why there is no connection, or what it came to.
    fn open(&mut self, first: &[u8]) -> impl Future<Output = Result<Opened<Self::Stream>, Failure>>;

    /// Ends a connection that is not needed any more.
    fn close(&mut self, stream: Self::Stream);
}

/// TCP with nothing in between.
#[derive(Debug)]
pub struct PlainTcp {
    dialer: Rc<Dialer>,
    /// One whose connection has ended, to be dialled again.
    spare: Option<Socket>,
}

impl PlainTcp {
    /// Connections of `dialer`.
    #[must_use]
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
