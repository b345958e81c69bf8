//! One TLS connection over a socket, using rustls's unbuffered interface: records are decrypted in the receive buffer,
//! and only an incomplete record is stored. Data is passed on record by record.
//!
//! rustls limits what a peer can make us store: 16 KiB per record and 64 KiB per handshake message.

use crate::tls::failure::{failure_of, failure_of_first, Moment};
use crate::tls::side::Side;
use crate::{Idle, Socket};
use dyno_measure::{Failure, Fault};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use rustls::ProtocolVersion;
use std::cell::RefCell;
use std::task::{Context, Poll};

/// Minimum free space in the caller's buffer after an incomplete record, so that the record can be completed
/// in place.
const LEAST_ROOM_BYTES: usize = 1024;
/// Buffer for checking an idle connection.
const IDLE_BUFFER_BYTES: usize = 2048;
/// Maximum number of receive calls per check of an idle connection, so that a peer that keeps sending cannot
/// block the loop.
const IDLE_CALLS: usize = 64;
/// Upper bound of header, nonce, tag and padding of a record, for all supported ciphers.
const RECORD_OVERHEAD_BYTES: usize = 64;
/// Maximum plaintext of a record (RFC 8446, section 5.1).
const RECORD_BYTES: usize = 16 * 1024;
/// Maximum plaintext that is encrypted at once. More data is encrypted and sent in parts of this size.
const FLUSHED_BYTES: usize = 16 * RECORD_BYTES;

/// Whether the consumer wants more data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    More,
    /// The data is complete. Further bytes stay in the channel.
    Enough,
}

/// Result of one receive call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// Nothing to receive until the socket is readable.
    Nothing,
    /// Bytes arrived, with or without application data. More may be available.
    Some(Flow),
    /// The peer closed the session.
    End,
}

/// Why rustls stopped processing the available bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pumped {
    Dry,
    Enough,
    Closed,
}

#[derive(Debug)]
pub struct Channel<S: Side> {
    socket: Socket,
    side: Box<S>,
    /// Received but unprocessed bytes: part of a record, or what follows `Flow::Enough`.
    pending: Vec<u8>,
    /// Whether `pending` may contain a whole record.
    unprocessed: bool,
    /// Decrypted data that arrived with the end of the handshake. `receive` returns it first.
    early: Vec<u8>,
    /// Encoded bytes to send.
    outgoing: Vec<u8>,
    peer_closed: bool,
    /// The peer asked for a renegotiation, which rustls refused.
    declined: bool,
}

impl<S: Side> Channel<S> {
    pub(crate) fn new(socket: Socket, side: S) -> Self {
        Self {
            socket,
            side: Box::new(side),
            pending: Vec::new(),
            unprocessed: false,
            early: Vec::new(),
            outgoing: Vec::new(),
            peer_closed: false,
            declined: false,
        }
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Returns the underlying socket and drops the session.
    pub fn into_socket(self) -> Socket {
        self.socket
    }

    pub(crate) fn side(&self) -> &S {
        &self.side
    }

    /// Returns the protocol negotiated by ALPN.
    pub fn application_protocol(&self) -> Option<&[u8]> {
        self.side.state().alpn_protocol()
    }

    /// Starts the handshake and returns the first bytes to send.
    pub(crate) fn begin(&mut self) -> Result<Vec<u8>, Failure> {
        self.pump(&mut [], &mut |_| Ok(Flow::More)).1?;
        Ok(std::mem::take(&mut self.outgoing))
    }

    /// Performs the handshake until data can be sent. `buffer` is scratch space, never borrowed across a wait.
    pub(crate) async fn shake_hands<B: AsMut<[u8]>>(&mut self, buffer: &RefCell<B>) -> Result<(), Failure> {
        // A client's first request may arrive in the same segment as the end of its handshake.
        let mut early = Vec::new();
        while self.side.state().is_handshaking() {
            self.flush(Fault::HandshakeTimeout).await?;
            self.socket.readable(Fault::HandshakeTimeout).await?;
            loop {
                let arrived = self.receive(buffer.borrow_mut().as_mut(), &mut |data| {
                    early.extend_from_slice(data);
                    Ok(Flow::More)
                })?;
                match arrived {
                    Arrived::Some(_) if self.side.state().is_handshaking() => {}
                    Arrived::End if self.side.state().is_handshaking() => {
                        return Err(Fault::HandshakeRefused.into())
                    }
                    Arrived::Nothing | Arrived::Some(_) | Arrived::End => break,
                }
            }
        }
        self.early = early;
        Ok(())
    }

    /// Sends pending bytes, then encrypts and sends `bytes`.
    pub async fn send_all(&mut self, bytes: &[u8], late: Fault) -> Result<(), Failure> {
        // Large bodies are encrypted in parts: the ciphertext takes little memory and is sent while it is still in the
        // CPU's cache.
        for part in bytes.chunks(FLUSHED_BYTES) {
            self.encrypt(part)?;
            self.flush(late).await?;
        }
        self.flush(late).await
    }

    /// Encrypts and sends `first`, then `second`.
    pub async fn send_pair(&mut self, first: &[u8], second: &[u8], late: Fault) -> Result<(), Failure> {
        if first.len() + second.len() <= RECORD_BYTES {
            // Use one record, as a server with a send buffer does.
            return self.send_all(&[first, second].concat(), late).await;
        }
        self.encrypt(first)?;
        self.send_all(second, late).await
    }

    async fn flush(&mut self, late: Fault) -> Result<(), Failure> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        let sent = self.socket.send_all(&self.outgoing, late).await;
        self.outgoing.clear();
        sent
    }

    /// Polls the sending of encrypted bytes. Ready once all is sent.
    pub fn poll_flush(&mut self, context: &mut Context<'_>, late: Fault) -> Poll<Result<(), Failure>> {
        self.socket.poll_send_all(&mut self.outgoing, context, late)
    }

    /// Polls `readable` once.
    pub fn poll_readable(&mut self, context: &mut Context<'_>, late: Fault) -> Poll<Result<(), Failure>> {
        if self.unprocessed || self.peer_closed || !self.early.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.socket.poll_readable(context, late)
    }

    /// Waits until `receive` may return data.
    ///
    /// # Errors
    /// `late` once the task's deadline has passed.
    pub async fn readable(&mut self, late: Fault) -> Result<(), Failure> {
        if self.unprocessed || self.peer_closed || !self.early.is_empty() {
            return Ok(());
        }
        self.socket.readable(late).await
    }

    /// Receives once and passes the data of each whole record to `take` until it returns `Flow::Enough`.
    ///
    /// # Errors
    /// The error of `take`; `Fault::Truncated` if the connection ended without closing the session; or the peer's
    /// violation of TLS. The next data sent includes an alert about the violation.
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<Flow, Failure>,
    ) -> Result<Arrived, Failure> {
        if !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            return take(&early).map(Arrived::Some);
        }
        if self.peer_closed {
            return Ok(Arrived::End);
        }
        if self.unprocessed {
            return self.process_pending(take);
        }
        let held = self.pending.len();
        if held + LEAST_ROOM_BYTES > buffer.len() {
            let Some(count) = self.receive_some(buffer)? else {
                return Ok(Arrived::Nothing);
            };
            self.pending.extend_from_slice(&buffer[..count]);
            return self.process_pending(take);
        }
        let Some(count) = self.receive_some(&mut buffer[held..])? else {
            return Ok(Arrived::Nothing);
        };
        buffer[..held].copy_from_slice(&self.pending);
        let whole = &mut buffer[..held + count];
        let (used, pumped) = self.pump(whole, take);
        self.pending.clear();
        self.pending.extend_from_slice(&whole[used..]);
        self.arrived(pumped)
    }

    fn receive_some(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Failure> {
        match self
            .socket
            .try_receive(buffer)
            .map_err(|failure| self.seen(failure))?
        {
            Some(0) if self.side.state().is_handshaking() => Err(Fault::HandshakeRefused.into()),
            Some(0) => Err(self.seen(Fault::Truncated.into())),
            count => Ok(count),
        }
    }

    /// Returns `failure`, or `Fault::Renegotiation` if a refused renegotiation caused it.
    fn seen(&self, failure: Failure) -> Failure {
        if self.declined
            && matches!(
                failure.fault,
                Fault::Truncated | Fault::TlsAlert | Fault::ConnectionReset
            )
        {
            return Failure {
                fault: Fault::Renegotiation,
                ..failure
            };
        }
        failure
    }

    fn process_pending(
        &mut self,
        take: &mut impl FnMut(&[u8]) -> Result<Flow, Failure>,
    ) -> Result<Arrived, Failure> {
        let mut bytes = std::mem::take(&mut self.pending);
        let (used, pumped) = self.pump(&mut bytes, take);
        bytes.drain(..used);
        self.pending = bytes;
        self.arrived(pumped)
    }

    fn arrived(&mut self, pumped: Result<Pumped, Failure>) -> Result<Arrived, Failure> {
        let pumped = pumped.map_err(|failure| self.seen(failure))?;
        self.unprocessed = pumped == Pumped::Enough && !self.pending.is_empty();
        self.peer_closed |= pumped == Pumped::Closed;
        self.send_what_fits();
        Ok(match pumped {
            Pumped::Dry => Arrived::Some(Flow::More),
            Pumped::Enough => Arrived::Some(Flow::Enough),
            Pumped::Closed => Arrived::End,
        })
    }

    /// Sends rustls's own responses after the handshake (key update, refused renegotiation) if the socket has
    /// room, otherwise with the next data.
    fn send_what_fits(&mut self) {
        if !self.outgoing.is_empty() && !self.side.state().is_handshaking() {
            if let Ok(Some(sent)) = self.socket.try_send(&self.outgoing) {
                self.outgoing.drain(..sent);
            }
        }
    }

    /// Lets rustls process `input` and passes data to `take`. Returns the number of bytes consumed, and why
    /// rustls stopped.
    fn pump(
        &mut self,
        input: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<Flow, Failure>,
    ) -> (usize, Result<Pumped, Failure>) {
        let was_handshaking = self.side.state().is_handshaking();
        // In an established TLS 1.2 session, the only message that rustls sends on its own is the refusal of
        // a renegotiation.
        let would_decline =
            !was_handshaking && self.side.state().protocol_version() == Some(ProtocolVersion::TLSv1_2);
        let mut used = 0;
        loop {
            let UnbufferedStatus { discard, state } = self.side.process(&mut input[used..]);
            used += discard;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let taken = match record {
                            Ok(record) => {
                                used += record.discard;
                                take(record.payload)
                            }
                            Err(error) => Err(failure_of(&error, Moment::of(was_handshaking))),
                        };
                        match taken {
                            Ok(Flow::More) => {}
                            Ok(Flow::Enough) => return (used, Ok(Pumped::Enough)),
                            Err(failure) => return (used, Err(failure)),
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut encoding)) => {
                    self.declined |= would_decline;
                    encode(&mut self.outgoing, 0, |room| {
                        encoding.encode(room).map_err(needed_of_encode)
                    });
                }
                Ok(ConnectionState::TransmitTlsData(transmitting)) => transmitting.done(),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    return (used, Ok(Pumped::Closed))
                }
                Ok(_) => return (used, Ok(Pumped::Dry)),
                Err(error) => {
                    self.take_alert();
                    let failure = match was_handshaking {
                        true => failure_of_first(&error, input),
                        false => failure_of(&error, Moment::Session),
                    };
                    return (used, Err(failure));
                }
            }
        }
    }

    /// Queues the alert about an error after other pending bytes.
    fn take_alert(&mut self) {
        // Stop when there is nothing left to write: rustls would go on to read records that it no longer has.
        while self.side.state().wants_write() {
            match self.side.process(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(mut encoding)) => encode(&mut self.outgoing, 0, |room| {
                    encoding.encode(room).map_err(needed_of_encode)
                }),
                Ok(ConnectionState::TransmitTlsData(transmitting)) => transmitting.done(),
                _ => break,
            }
        }
        if let Ok(Some(sent)) = self.socket.try_send(&self.outgoing) {
            self.outgoing.drain(..sent);
        }
    }

    /// Encrypts `bytes` for `poll_flush`.
    ///
    /// # Errors
    /// The session is over.
    pub fn encrypt(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for part in bytes.chunks(RECORD_BYTES) {
            let outgoing = &mut self.outgoing;
            let mut encrypted = false;
            // rustls first emits its own messages, such as a key update.
            while !encrypted {
                match self.side.process(&mut []).state {
                    Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                        encode(outgoing, part.len() + RECORD_OVERHEAD_BYTES, |room| {
                            traffic.encrypt(part, room).map_err(needed_of_encrypt)
                        });
                        encrypted = true;
                    }
                    Ok(ConnectionState::EncodeTlsData(mut encoding)) => {
                        encode(outgoing, 0, |room| {
                            encoding.encode(room).map_err(needed_of_encode)
                        });
                    }
                    Ok(ConnectionState::TransmitTlsData(transmitting)) => transmitting.done(),
                    Ok(ConnectionState::PeerClosed) => self.peer_closed = true,
                    _ => return Err(Fault::ClosedEarly.into()),
                }
            }
        }
        Ok(())
    }

    /// Returns the state of a connection without outstanding requests. Session tickets are ignored.
    pub fn after_idling(&mut self) -> Idle {
        if self.peer_closed || self.socket.end_reported() {
            return Idle::Ended;
        }
        if !self.unprocessed && !self.socket.take_report() {
            return Idle::Quiet;
        }
        let (mut spoke, mut buffer) = (false, [0; IDLE_BUFFER_BYTES]);
        for _ in 0..IDLE_CALLS {
            let arrived = self.receive(&mut buffer, &mut |data| {
                spoke |= !data.is_empty();
                Ok(Flow::More)
            });
            match arrived {
                _ if spoke => return Idle::Spoke,
                Ok(Arrived::Nothing) => return Idle::Quiet,
                Ok(Arrived::Some(_)) => {}
                Ok(Arrived::End) | Err(_) => return Idle::Ended,
            }
        }
        Idle::Spoke
    }

    /// Sends a close_notify alert if the socket has room. The TCP connection stays open.
    pub fn close_session(&mut self) {
        if let Ok(ConnectionState::WriteTraffic(mut traffic)) = self.side.process(&mut []).state {
            let outgoing = &mut self.outgoing;
            encode(outgoing, 0, |room| {
                traffic.queue_close_notify(room).map_err(needed_of_encrypt)
            });
        }
        // Nothing depends on delivery, so ignore a peer that has closed the connection or does not read.
        let _ = self.socket.try_send(&self.outgoing);
        self.outgoing.clear();
    }
}

fn needed_of_encode(error: EncodeError) -> Option<usize> {
    match error {
        EncodeError::InsufficientSize(InsufficientSizeError { required_size }) => Some(required_size),
        EncodeError::AlreadyEncoded => None,
    }
}

fn needed_of_encrypt(error: EncryptError) -> Option<usize> {
    match error {
        EncryptError::InsufficientSize(InsufficientSizeError { required_size }) => Some(required_size),
        EncryptError::EncryptExhausted => None,
    }
}

/// Appends what `write` produces to `outgoing`, given `room` bytes of space. If that is too small, `write` returns the
/// space that it needs.
fn encode(
    outgoing: &mut Vec<u8>,
    room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) {
    let start = outgoing.len();
    outgoing.resize(start + room, 0);
    let mut written = write(&mut outgoing[start..]);
    if let Err(Some(needed)) = written {
        outgoing.resize(start + needed, 0);
        written = write(&mut outgoing[start..]);
    }
    outgoing.truncate(start + written.unwrap_or(0));
}
