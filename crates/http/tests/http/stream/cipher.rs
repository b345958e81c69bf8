//! A toy cipher over TCP that imitates TLS: a handshake with a round trip, partial records and empty records.
//! It protects nothing.

use dyno_http::{Opened, Progress, Received, Stream, Transport};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::{Dialer, Idle, Socket};
use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::task::{Context, Poll};

const LATE: Fault = Fault::ResponseTimeout;
pub const NONCE: [u8; 4] = *b"hi!\n";
const LENGTH_BYTES: usize = 2;
const MAX_RECORD_BYTES: usize = 1000;
/// First byte of a record's contents.
const DATA: u8 = 1;
const TICKET: u8 = 2;

/// Cipher state of one direction. Encoding depends on the position, so that missing or extra bytes are
/// noticed.
#[derive(Debug, Default)]
struct Cipher {
    place: u64,
}

impl Cipher {
    fn apply(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte ^= (self.place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
            self.place += 1;
        }
    }

    fn record(&mut self, kind: u8, data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(1 + data.len()).expect("a short record");
        let mut record = length.to_be_bytes().to_vec();
        record.push(kind);
        record.extend(data);
        self.apply(&mut record[LENGTH_BYTES..]);
        record
    }

    fn records(&mut self, data: &[u8]) -> Vec<u8> {
        data.chunks(MAX_RECORD_BYTES)
            .flat_map(|part| self.record(DATA, part))
            .collect()
    }
}

/// Removes the first complete record from `coded` and returns its kind and data.
fn take_record(cipher: &mut Cipher, coded: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let length = usize::from(u16::from_be_bytes(coded.get(..LENGTH_BYTES)?.try_into().ok()?));
    coded.get(LENGTH_BYTES..LENGTH_BYTES + length)?;
    let mut record: Vec<u8> = coded.drain(..LENGTH_BYTES + length).skip(LENGTH_BYTES).collect();
    cipher.apply(&mut record);
    Some((record.remove(0), record))
}

/// Client side of a connection.
#[derive(Debug)]
pub struct CipherStream {
    socket: Socket,
    sending: Cipher,
    receiving: Cipher,
    coded: Vec<u8>,
    plain: Vec<u8>,
    unsent: Vec<u8>,
    ended: bool,
}

impl CipherStream {
    /// Moves the next complete data record to `plain`.
    fn decode(&mut self) -> Result<(), Failure> {
        let mut buffer = [0; 256];
        while self.plain.is_empty() && !self.ended {
            match take_record(&mut self.receiving, &mut self.coded) {
                Some((DATA, data)) => self.plain = data,
                Some(_) => {}
                None => match self.socket.try_receive(&mut buffer)? {
                    None => break,
                    Some(0) => self.ended = true,
                    Some(count) => self.coded.extend(&buffer[..count]),
                },
            }
        }
        Ok(())
    }
}

impl Stream for CipherStream {
    async fn send_all(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.socket.send_all(&self.sending.records(bytes), LATE).await
    }

    async fn send_parts(&mut self, parts: &[&[u8]]) -> Result<(), Failure> {
        self.send_all(&parts.concat()).await
    }

    async fn readable(&mut self) -> Result<(), Failure> {
        if self.plain.is_empty() && !self.ended {
            self.socket.readable(LATE).await?;
        }
        Ok(())
    }

    fn receive(
        &mut self,
        _buffer: &mut [u8],
        take: &mut impl FnMut(&[u8]) -> Result<Progress, Failure>,
    ) -> Result<Received, Failure> {
        self.decode()?;
        if self.plain.is_empty() {
            return Ok(if self.ended {
                Received::End
            } else {
                Received::Nothing
            });
        }
        take(&std::mem::take(&mut self.plain)).map(Received::Some)
    }

    fn poll_send(&mut self, outgoing: &mut Vec<u8>, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.unsent.extend(self.sending.records(outgoing));
        outgoing.clear();
        self.socket.poll_send_all(&mut self.unsent, context, LATE)
    }

    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if !self.plain.is_empty() || self.ended {
            return Poll::Ready(Ok(()));
        }
        self.socket.poll_readable(context, LATE)
    }

    fn send_at_once(&self) -> Result<(), Failure> {
        self.socket.send_at_once()
    }

    fn after_idling(&mut self) -> Idle {
        match self.decode() {
            Ok(()) if !self.plain.is_empty() => Idle::Spoke,
            Ok(()) if !self.ended => Idle::Quiet,
            _ => Idle::Ended,
        }
    }

    fn reset_on_close(&mut self) -> Result<(), Failure> {
        self.socket.reset_on_close()
    }
}

/// Opens such connections and counts those closed normally.
#[derive(Debug)]
pub struct CipherTransport {
    pub dialer: Rc<Dialer>,
    pub closed: Rc<Cell<usize>>,
}

impl Transport for CipherTransport {
    type Stream = CipherStream;

    async fn open(&mut self, first: &[u8]) -> Result<Opened<CipherStream>, Failure> {
        let socket = self.dialer.dial(None)?;
        socket.send_first(&NONCE).await?;
        let mut answer: Vec<u8> = Vec::new();
        while answer.len() < NONCE.len() {
            let mut rest = [0; NONCE.len()];
            match socket.try_receive(&mut rest[answer.len()..])? {
                None => socket.readable(Fault::ConnectTimeout).await?,
                Some(0) => return Err(Fault::ClosedEarly.into()),
                Some(count) => answer.extend(&rest[answer.len()..][..count]),
            }
        }
        let stood_ns = monotonic_ns();
        let mut stream = CipherStream {
            socket,
            sending: Cipher::default(),
            receiving: Cipher::default(),
            coded: Vec::new(),
            plain: Vec::new(),
            unsent: Vec::new(),
            ended: false,
        };
        stream.send_all(first).await?;
        Ok(Opened {
            stream,
            stood_ns,
            handshake: None,
        })
    }

    fn close(&mut self, stream: CipherStream) {
        self.closed.set(self.closed.get() + 1);
        drop(stream);
    }
}

/// Server side, blocking.
pub struct CipherPeer {
    stream: TcpStream,
    sending: Cipher,
    receiving: Cipher,
    coded: Vec<u8>,
}

impl CipherPeer {
    /// Answers the handshake.
    pub fn accept(mut stream: TcpStream) -> io::Result<Self> {
        let mut nonce = NONCE;
        stream.read_exact(&mut nonce)?;
        assert_eq!(nonce, NONCE);
        stream.set_nodelay(true)?;
        stream.write_all(&nonce)?;
        Ok(Self {
            stream,
            sending: Cipher::default(),
            receiving: Cipher::default(),
            coded: Vec::new(),
        })
    }

    /// Returns the data of the next record, or None at the end.
    pub fn receive(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some((_, data)) = take_record(&mut self.receiving, &mut self.coded) {
                return Ok(Some(data));
            }
            let mut buffer = [0; 512];
            match self.stream.read(&mut buffer)? {
                0 => return Ok(None),
                count => self.coded.extend(&buffer[..count]),
            }
        }
    }

    /// Sends `data` with at most `at_once` record bytes per segment.
    pub fn send(&mut self, data: &[u8], at_once: usize) -> io::Result<()> {
        let records = self.sending.records(data);
        records
            .chunks(at_once)
            .try_for_each(|part| self.stream.write_all(part))
    }

    /// Sends the records of all `parts` in one segment.
    pub fn send_at_once(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let records: Vec<u8> = parts.iter().flat_map(|part| self.sending.records(part)).collect();
        self.stream.write_all(&records)
    }

    /// Sends a record without data.
    pub fn send_ticket(&mut self) -> io::Result<()> {
        let record = self.sending.record(TICKET, b"for another time");
        self.stream.write_all(&record)
    }
}
