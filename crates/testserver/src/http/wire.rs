//! Transport of a connection: a plain socket, or TLS over one.

use dyno_measure::{Failure, Fault};
use dyno_net::tls::{Arrived, Channel, Flow, ServerSide};
use dyno_net::Socket;
use std::cell::Cell;

/// Failure of every wait that times out. It closes the connection and is not reported.
pub(crate) const LATE: Fault = Fault::ResponseTimeout;

/// An accepted connection, after its TLS handshake, if any.
pub(crate) enum Wire {
    Plain(Socket),
    /// None while a call uses the channel. Only one task uses the channel, with one call at a time.
    Tls(Cell<Option<Box<Channel<ServerSide>>>>),
}

/// Calls a method that both transports have.
macro_rules! call {
    ($wire:ident, $way:ident => $call:expr) => {
        match $wire {
            Wire::Plain($way) => $call,
            Wire::Tls(place) => {
                let mut $way = taken(place)?;
                let ended = $call;
                place.set(Some($way));
                ended
            }
        }
    };
}

/// Result of a receive call.
pub(crate) enum Received {
    Nothing,
    End,
    /// Number of bytes in the buffer.
    InBuffer(usize),
    /// Bytes were decrypted and appended to the unread data.
    Unread,
}

impl Wire {
    pub(crate) fn secure(channel: Channel<ServerSide>) -> Self {
        Self::Tls(Cell::new(Some(Box::new(channel))))
    }

    /// Returns whether ALPN selected HTTP/2 (RFC 9113, section 3.2).
    pub(crate) fn chose_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(place) => {
                let Some(channel) = place.take() else { return false };
                let chosen = channel.application_protocol() == Some(b"h2");
                place.set(Some(channel));
                chosen
            }
        }
    }

    pub(crate) async fn send_pair(&self, first: &[u8], second: &[u8]) -> Result<(), Failure> {
        call!(self, way => way.send_pair(first, second, LATE).await)
    }

    pub(crate) async fn send_all(&self, bytes: &[u8]) -> Result<(), Failure> {
        call!(self, way => way.send_all(bytes, LATE).await)
    }

    pub(crate) async fn readable(&self) -> Result<(), Failure> {
        call!(self, way => way.readable(LATE).await)
    }

    /// Receives once, into `buffer` or at the end of `unread`.
    pub(crate) fn receive(&self, buffer: &mut [u8], unread: &mut Vec<u8>) -> Result<Received, Failure> {
        match self {
            Self::Plain(socket) => Ok(match socket.try_receive(buffer)? {
                None => Received::Nothing,
                Some(0) => Received::End,
                Some(count) => Received::InBuffer(count),
            }),
            Self::Tls(place) => {
                let mut channel = taken(place)?;
                let arrived = channel.receive(buffer, &mut |data| {
                    unread.extend_from_slice(data);
                    Ok(Flow::More)
                });
                place.set(Some(channel));
                Ok(match arrived? {
                    Arrived::Nothing => Received::Nothing,
                    Arrived::End => Received::End,
                    Arrived::Some(_) => Received::Unread,
                })
            }
        }
    }

    /// Returns whether the kernel has reported that the client will send nothing more.
    pub(crate) fn end_reported(&self) -> bool {
        self.with_socket(Socket::end_reported).unwrap_or(true)
    }

    /// Makes the next close send a reset instead of a FIN. Does not close the TLS session.
    pub(crate) fn reset_on_close(&self) -> Result<(), Failure> {
        match self {
            Self::Plain(socket) => socket.reset_on_close(),
            Self::Tls(place) => taken(place)?.socket().reset_on_close(),
        }
    }

    /// Signals the end of transmission to the client.
    pub(crate) fn end_sending(&self) -> Result<(), Failure> {
        self.close_session();
        self.with_socket(Socket::end_sending)?
    }

    /// Closes the TLS session, if there is one.
    pub(crate) fn close_session(&self) {
        if let Self::Tls(place) = self {
            if let Some(mut channel) = place.take() {
                channel.close_session();
                place.set(Some(channel));
            }
        }
    }

    fn with_socket<T>(&self, look: impl FnOnce(&Socket) -> T) -> Result<T, Failure> {
        match self {
            Self::Plain(socket) => Ok(look(socket)),
            Self::Tls(place) => {
                let channel = taken(place)?;
                let seen = look(channel.socket());
                place.set(Some(channel));
                Ok(seen)
            }
        }
    }
}

fn taken(place: &Cell<Option<Box<Channel<ServerSide>>>>) -> Result<Box<Channel<ServerSide>>, Failure> {
    place.take().ok_or(Fault::ClosedEarly.into())
}
