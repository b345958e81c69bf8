//! What the bytes of a connection go through: a socket alone, or TLS over it.

use dyno_measure::{Failure, Fault};
use dyno_net::tls::{Arrived, Channel, Flow, ServerSide};
use dyno_net::Socket;
use std::cell::Cell;

/// How any wait ends that lasts too long. Nobody sees it: the connection is closed.
pub(crate) const LATE: Fault = Fault::ResponseTimeout;

/// A connection that was accepted, after its handshake where it has one.
pub(crate) enum Wire {
    Plain(Socket),
    /// Not there while one of its calls waits; one task uses it, a call at a time.
    Tls(Cell<Option<Box<Channel<ServerSide>>>>),
}

/// What one look came to.
pub(crate) enum Received {
    Nothing,
    End,
    /// So many bytes are in the buffer.
    InBuffer(usize),
    /// Bytes were decrypted, and are behind what was not read before.
    Unread,
}

impl Wire {
    pub(crate) fn secure(channel: Channel<ServerSide>) -> Self {
        Self::Tls(Cell::new(Some(Box::new(channel))))
    }

    /// Whether both ends chose HTTP/2 by ALPN (RFC 9113, section 3.2).
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
        match self {
            Self::Plain(socket) => socket.send_pair(first, second, LATE).await,
            Self::Tls(place) => {
                let mut channel = taken(place)?;
                let sent = channel.send_pair(first, second, LATE).await;
                place.set(Some(channel));
                sent
            }
        }
    }

    pub(crate) async fn send_all(&self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Plain(socket) => socket.send_all(bytes, LATE).await,
            Self::Tls(place) => {
                let mut channel = taken(place)?;
                let sent = channel.send_all(bytes, LATE).await;
                place.set(Some(channel));
                sent
            }
        }
    }

    pub(crate) async fn readable(&self) -> Result<(), Failure> {
        match self {
            Self::Plain(socket) => socket.readable(LATE).await,
            Self::Tls(place) => {
                let mut channel = taken(place)?;
                let readable = channel.readable(LATE).await;
                place.set(Some(channel));
                readable
            }
        }
    }

    /// Receives once, into `buffer` or to the end of `unread`.
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

    /// Whether the client is known to send nothing more.
    pub(crate) fn end_reported(&self) -> bool {
        self.with_socket(Socket::end_reported).unwrap_or(true)
    }

    /// Makes the coming close a reset; over TLS it comes at once, without an end of the session.
    pub(crate) fn reset_on_close(&self) -> Result<(), Failure> {
        match self {
            Self::Plain(socket) => socket.reset_on_close(),
            Self::Tls(place) => taken(place)?.socket().reset_on_close(),
        }
    }

    /// Tells the client that nothing more will be sent.
    pub(crate) fn end_sending(&self) -> Result<(), Failure> {
        self.close_session();
        self.with_socket(Socket::end_sending)?
    }

    /// Ends the TLS session in order, where there is one.
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
