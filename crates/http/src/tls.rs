//! TLS as the layer below HTTP. A given share of the connections resumes a session.

use crate::h2;
use crate::response::Progress;
use crate::stream::{Handshake, Opened, Received, Stream, Transport};
use dyno_measure::{Failure, Fault};
use dyno_net::tls::{Arrived, Channel, ClientSide, Connector, Flow};
use dyno_net::{Dialer, Idle, Socket};
use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

const LATE: Fault = Fault::ResponseTimeout;
/// Maximum number of bytes that are encrypted at once if a request consists of several parts.
const ENCRYPTED_AT_ONCE: usize = 64 * 1024;

/// Sequence of booleans. An exact, evenly spaced share of them is true.
#[derive(Debug, Clone, Copy)]
pub struct EvenShare {
    share: f64,
    owed: f64,
}

impl EvenShare {
    /// Creates a sequence. `share`: 0 (never) to 1 (always).
    pub fn new(share: f64) -> Self {
        Self { share, owed: 0.0 }
    }

    fn next(&mut self) -> bool {
        self.owed += self.share;
        let yes = self.owed >= 1.0;
        self.owed -= f64::from(u8::from(yes));
        yes
    }
}

/// TLS over TCP for one client thread.
#[derive(Debug)]
pub struct TlsOverTcp {
    dialer: Rc<Dialer>,
    connector: Connector,
    /// Share of connections that offer an earlier session.
    resumption: EvenShare,
    buffer: Rc<RefCell<Box<[u8]>>>,
    /// Socket of a closed connection, to be dialled again.
    spare: Option<Socket>,
}

impl TlsOverTcp {
    pub fn new(
        dialer: Rc<Dialer>,
        connector: Connector,
        resumption: EvenShare,
        buffer: Rc<RefCell<Box<[u8]>>>,
    ) -> Self {
        Self {
            dialer,
            connector,
            resumption,
            buffer,
            spare: None,
        }
    }
}

impl Transport for TlsOverTcp {
    type Stream = Channel<ClientSide>;

    async fn open(&mut self, first: &[u8]) -> Result<Opened<Self::Stream>, Failure> {
        let socket = self.dialer.dial(self.spare.take())?;
        let resume = self.resumption.next();
        let session = self.connector.connect(socket, resume, &self.buffer).await?;
        let mut channel = session.channel;
        // A client that offers only one protocol must not continue with another (RFC 9113, section 3.3).
        if self.connector.wants(h2::BY_ALPN) && channel.application_protocol() != Some(h2::BY_ALPN) {
            return Err(Fault::NotHttp2.into());
        }
        channel.send_all(first, LATE).await?;
        Ok(Opened {
            stream: channel,
            stood_ns: session.stood_ns,
            handshake: Some(Handshake {
                ns: session.handshake_ns,
                agreed: session.agreed,
            }),
        })
    }

    fn close(&mut self, mut channel: Self::Stream) {
        channel.close_session();
        self.spare = self.dialer.retire(channel.into_socket());
    }
}

impl Stream for Channel<ClientSide> {
    async fn send_all(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Channel::send_all(self, bytes, LATE).await
    }

    async fn send_parts(&mut self, parts: &[&[u8]]) -> Result<(), Failure> {
        if let [first, second] = parts {
            if first.len() + second.len() <= ENCRYPTED_AT_ONCE {
                return Channel::send_pair(self, first, second, LATE).await;
            }
        }
        // Limit the encrypted bytes that have not been sent yet.
        for piece in parts.iter().flat_map(|part| part.chunks(ENCRYPTED_AT_ONCE)) {
            Channel::send_all(self, piece, LATE).await?;
        }
        Ok(())
    }

    async fn readable(&mut self) -> Result<(), Failure> {
        Channel::readable(self, LATE).await
    }

    fn receive(
        &mut self,
        buffer: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<Progress, Failure>,
    ) -> Result<Received, Failure> {
        let arrived = Channel::receive(self, buffer, &mut |data| {
            // Ignore empty records, which peers use as padding.
            if data.is_empty() {
                return Ok(Flow::More);
            }
            Ok(match take(data)? {
                Progress::More => Flow::More,
                Progress::Done => Flow::Enough,
            })
        })?;
        Ok(match arrived {
            Arrived::Nothing => Received::Nothing,
            Arrived::Some(Flow::More) => Received::Some(Progress::More),
            Arrived::Some(Flow::Enough) => Received::Some(Progress::Done),
            Arrived::End => Received::End,
        })
    }

    fn poll_send(&mut self, outgoing: &mut Vec<u8>, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.encrypt(outgoing)?;
        outgoing.clear();
        self.poll_flush(context, LATE)
    }

    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Channel::poll_readable(self, context, LATE)
    }

    fn send_at_once(&self) -> Result<(), Failure> {
        self.socket().send_at_once()
    }

    fn after_idling(&mut self) -> Idle {
        Channel::after_idling(self)
    }

    fn reset_on_close(&mut self) -> Result<(), Failure> {
        self.socket().reset_on_close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_exact_and_even() {
        for (share, expected) in [(0.0, 0), (0.25, 250), (0.5, 500), (1.0, 1000)] {
            let mut even = EvenShare::new(share);
            let answers: Vec<bool> = (0..1000).map(|_| even.next()).collect();
            assert_eq!(answers.iter().filter(|yes| **yes).count(), expected, "{share}");
        }
        let mut half = EvenShare::new(0.5);
        let answers: Vec<bool> = (0..4).map(|_| half.next()).collect();
        assert_eq!(answers, [false, true, false, true]);
    }
}
