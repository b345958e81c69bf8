//! What an HTTP connection needs of the layer below it, and plain TCP as that layer.
//!
//! A `Transport` makes the streams of one client thread, one after the other. What can be spared between two of them is
//! its own affair: plain TCP on loopback dials a socket again (`Dialer::retire`), and nothing above knows of it.
//!
//! Not for: what the bytes mean (`connection.rs`).

use dyno_measure::{Failure, Fault};
use dyno_reactor::{Dialer, Idle, Socket};
use std::fmt::Debug;
use std::future::Future;
use std::rc::Rc;

const LATE: Fault = Fault::ResponseTimeout;

/// A connection that carries bytes in order, for the task that is polled. Every wait ends with the task's deadline.
pub trait Stream: Debug {
    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// What the connection came to.
    fn send_all(&mut self, bytes: &[u8]) -> impl Future<Output = Result<(), Failure>>;

    /// Waits until `try_receive` may have something, or the end.
    ///
    /// # Errors
    /// `Fault::ResponseTimeout` once the task's deadline has passed.
    fn readable(&mut self) -> impl Future<Output = Result<(), Failure>>;

    /// What has arrived: `Some(0)` at the end of the stream, `None` where nothing is there yet. Only after `None` and
    /// `Some(0)` nothing is left that `readable` would not tell.
    ///
    /// # Errors
    /// What the connection came to.
    fn try_receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Failure>;

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
    /// What it makes.
    type Stream: Stream;

    /// Makes a connection, with whatever belongs to that, and sends `first` on it. Gives the connection, and when it
    /// stood, in nanoseconds of the monotonic clock.
    ///
    /// # Errors
    /// Why there is no connection, or what it came to.
    fn open(&mut self, first: &[u8]) -> impl Future<Output = Result<(Self::Stream, u64), Failure>>;

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

    async fn open(&mut self, first: &[u8]) -> Result<(Socket, u64), Failure> {
        let socket = self.dialer.dial(self.spare.take())?;
        let stood_ns = socket.send_first(first).await?;
        Ok((socket, stood_ns))
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

    fn try_receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Failure> {
        Socket::try_receive(self, buffer)
    }

    fn after_idling(&mut self) -> Idle {
        Socket::after_idling(self)
    }

    fn reset_on_close(&mut self) -> Result<(), Failure> {
        Socket::reset_on_close(self)
    }
}
