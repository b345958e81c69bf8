//! A minimal server side of an HTTP/2 connection. It reads frames and sends the bytes that a test provides.

use crate::level::server::Connection;
use std::io::{Read, Write};
use std::time::Duration;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const PADDED: u8 = 8;
pub const WITH_PRIORITY: u8 = 0x20;

/// `:status: 200`.
pub const STATUS_200: &[u8] = &[0x88];

#[derive(Debug, Clone)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Returns a literal header field without indexing.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0, name.len() as u8];
    bytes.extend(name.as_bytes());
    // RFC 7541, section 5.1.
    let mut rest = value.len();
    if rest < 127 {
        bytes.push(rest as u8);
    } else {
        bytes.push(127);
        rest -= 127;
        while rest >= 128 {
            bytes.push(rest as u8 | 128);
            rest /= 128;
        }
        bytes.push(rest as u8);
    }
    bytes.extend(value.as_bytes());
    bytes
}

pub fn setting(name: u16, value: u32) -> Vec<u8> {
    [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

/// Returns `200 OK` with `hello`.
pub fn hello(stream: u32) -> Vec<u8> {
    let mut bytes = frame(HEADERS, END_HEADERS, stream, STATUS_200);
    bytes.extend(frame(DATA, END_STREAM, stream, b"hello"));
    bytes
}

pub struct Peer {
    pub connection: Connection,
}

impl Peer {
    /// Reads the preface and sends `settings`. Returns None if the client has disconnected.
    pub fn begin(mut connection: Connection, settings: &[u8]) -> Option<Self> {
        let mut preface = [0; 24];
        connection.stream.read_exact(&mut preface).ok()?;
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut peer = Self { connection };
        peer.send(&frame(SETTINGS, 0, 0, settings));
        Some(peer)
    }

    /// Returns the next frame, or None once the client has closed the connection.
    pub fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.connection.stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.connection.stream.read_exact(&mut payload).ok()?;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        })
    }

    /// Returns true if nothing arrives within 5 ms.
    pub fn is_quiet(&mut self) -> bool {
        let stream = &self.connection.stream;
        stream
            .set_read_timeout(Some(Duration::from_millis(5)))
            .expect("a socket option");
        let quiet = stream.peek(&mut [0]).is_err();
        stream.set_read_timeout(None).expect("a socket option");
        quiet
    }

    /// Counts the next request and returns its stream. Skips other frames.
    pub fn request(&mut self) -> Option<u32> {
        loop {
            let frame = self.read()?;
            if frame.kind == HEADERS {
                self.connection.count();
                return Some(frame.stream);
            }
        }
    }

    /// Counts the next request of a session and returns its stream and path. The path is the first literal.
    pub fn path(&mut self) -> Option<(u32, String)> {
        loop {
            let frame = self.read()?;
            if frame.kind != HEADERS {
                continue;
            }
            self.connection.count();
            let path = match frame.payload.iter().position(|byte| [0x04, 0x84].contains(byte)) {
                Some(at) if frame.payload[at] == 0x04 => {
                    let length = usize::from(frame.payload[at + 1]);
                    frame.payload[at + 2..][..length].to_vec()
                }
                _ => b"/".to_vec(),
            };
            return Some((frame.stream, String::from_utf8(path).expect("a path is ASCII")));
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.connection.stream.write_all(bytes);
    }

    /// Returns the code of the client's GOAWAY or RST_STREAM, or None if it just disconnects.
    pub fn refusal(&mut self) -> Option<u32> {
        loop {
            let frame = self.read()?;
            let code = match frame.kind {
                GOAWAY => &frame.payload[4..8],
                RST_STREAM => &frame.payload[..4],
                _ => continue,
            };
            return Some(u32::from_be_bytes(code.try_into().expect("four bytes")));
        }
    }
}
