//! A minimal SMB 2.1 server for tests: a log-on, a handful of requests and one connection. A script may
//! change each of its answers.

use crate::samba::{PASSWORD, USER};
use dyno_smb::auth::{last_token, Acceptor, Challenged, Identity};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

pub const SESSION_ID: u64 = 0x77;
pub const TREE_ID: u32 = 5;
pub const FILE_ID: [u8; 16] = [9; 16];
const PENDING: u32 = 0x103;
const MORE_PROCESSING_REQUIRED: u32 = 0xC000_0016;
const ASYNC_ID: u64 = 0xa;

pub const NEGOTIATE: u16 = 0;
pub const SESSION_SETUP: u16 = 1;
pub const TREE_CONNECT: u16 = 3;
pub const CREATE: u16 = 5;
pub const CLOSE: u16 = 6;
pub const FLUSH: u16 = 7;
pub const READ: u16 = 8;
pub const WRITE: u16 = 9;
pub const IOCTL: u16 = 11;
pub const QUERY_DIRECTORY: u16 = 14;
pub const QUERY_INFO: u16 = 16;
pub const SET_INFO: u16 = 17;
pub const OPLOCK_BREAK: u16 = 18;

/// The parts of a request that the server uses.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    pub command: u16,
    pub message_id: u64,
    /// Index among the requests of this command, from 0.
    pub number: usize,
}

/// What a script does with an answer.
#[allow(dead_code)] // Several tests share this file, and not every test needs every variant.
pub enum Answer {
    /// Send these messages, each in a frame.
    Messages(Vec<Vec<u8>>),
    /// Send these bytes as they are, and continue.
    Bytes(Vec<u8>),
    /// Send these bytes repeatedly until the client disconnects.
    Flood(Vec<u8>),
    /// Send these bytes, then close the connection.
    End(Vec<u8>),
    /// Send these bytes one by one.
    Drip(Vec<u8>),
    /// Send these bytes one by one repeatedly, with a pause after each.
    Trickle(Vec<u8>),
    /// Send these bytes, then reset the connection.
    Reset(Vec<u8>),
    /// Send nothing more and keep the connection open.
    Silence,
}

/// The server's address and thread.
pub struct Scripted {
    pub address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Scripted {
    /// Serves one connection. `script` gets each request and the correct answer.
    pub fn start(script: impl Fn(&Request, Vec<u8>) -> Answer + Send + 'static) -> Self {
        Self::start_with_key(move |request, honest, _| script(request, honest))
    }

    /// Like `start`, but the script also gets the session key once the test user has authenticated.
    pub fn start_with_key(
        script: impl Fn(&Request, Vec<u8>, Option<[u8; 16]>) -> Answer + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let thread = std::thread::spawn(move || {
            if let Ok((stream, _)) = listener.accept() {
                // Errors mean that the client disconnected, which it may do at any time.
                let _ = serve(stream, &script);
            }
        });
        Self {
            address,
            thread: Some(thread),
        }
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        // Ends the thread if the client never connected, by a connection that is closed immediately.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    mut stream: TcpStream,
    script: &impl Fn(&Request, Vec<u8>, Option<[u8; 16]>) -> Answer,
) -> std::io::Result<()> {
    // A failing test must not hang.
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.set_nodelay(true)?;
    let mut counts = [0; 32];
    let mut log_on = LogOn::default();
    loop {
        let message = read_frame(&mut stream)?;
        let mut start = 0;
        loop {
            let part = &message[start..];
            let command = u16::from_le_bytes([part[12], part[13]]);
            let request = Request {
                command,
                message_id: u64::from_le_bytes(part[24..32].try_into().expect("eight bytes")),
                number: counts[usize::from(command)],
            };
            counts[usize::from(command)] += 1;
            let honest = honest(&request, part, &mut log_on);
            if !answer(&mut stream, script(&request, honest, log_on.key))? {
                return Ok(());
            }
            match u32::from_le_bytes(part[20..24].try_into().expect("four bytes")) as usize {
                0 => break,
                next => start += next,
            }
        }
    }
}

fn answer(stream: &mut TcpStream, answer: Answer) -> std::io::Result<bool> {
    match answer {
        Answer::Messages(messages) => {
            let framed = messages
                .iter()
                .map(|message| frame(message))
                .collect::<Vec<_>>()
                .concat();
            stream.write_all(&framed)?;
        }
        Answer::Bytes(bytes) => stream.write_all(&bytes)?,
        Answer::Flood(bytes) => loop {
            stream.write_all(&bytes)?;
        },
        Answer::End(bytes) => {
            stream.write_all(&bytes)?;
            return Ok(false);
        }
        Answer::Drip(bytes) => {
            for byte in bytes {
                stream.write_all(&[byte])?;
            }
        }
        Answer::Trickle(bytes) => {
            for byte in bytes.into_iter().cycle() {
                stream.write_all(&[byte])?;
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Answer::Reset(bytes) => {
            stream.write_all(&bytes)?;
            // A linger time of zero turns the close into a reset.
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
            return Ok(false);
        }
        Answer::Silence => {
            // Wait until the client disconnects.
            while stream.read(&mut [0; 4096])? > 0 {}
            return Ok(false);
        }
    }
    Ok(true)
}

fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut message)?;
    if message.starts_with(b"\xfdSMB") {
        // This server can't decrypt it, but the first encrypted message after a log-on is always
        // TREE_CONNECT.
        message = response(TREE_CONNECT, 3, 0, &[9, 0]);
    }
    Ok(message)
}

/// Returns a script that is correct except for the first request of `command`.
pub fn at(
    command: u16,
    change: impl Fn(&Request, Vec<u8>) -> Answer + Send + 'static,
) -> impl Fn(&Request, Vec<u8>) -> Answer + Send + 'static {
    move |request, honest| {
        if request.command == command && request.number == 0 {
            change(request, honest)
        } else {
            Answer::Messages(vec![honest])
        }
    }
}

/// Returns `message` after its length.
pub fn frame(message: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(message.len())
        .expect("short")
        .to_be_bytes()
        .to_vec();
    bytes.extend(message);
    bytes
}

pub fn response(command: u16, message_id: u64, status: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..4].copy_from_slice(b"\xfeSMB");
    bytes[4] = 64;
    bytes[8..12].copy_from_slice(&status.to_le_bytes());
    bytes[12..14].copy_from_slice(&command.to_le_bytes());
    bytes[14] = 10;
    bytes[16] = 1;
    bytes[24..32].copy_from_slice(&message_id.to_le_bytes());
    bytes[36..40].copy_from_slice(&TREE_ID.to_le_bytes());
    bytes[40..48].copy_from_slice(&SESSION_ID.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Returns an error response to `request`.
pub fn failed(request: &Request, status: u32) -> Vec<u8> {
    response(
        request.command,
        request.message_id,
        status,
        &[9, 0, 0, 0, 0, 0, 0, 0, 0],
    )
}

/// Returns an interim response.
pub fn pending(request: &Request) -> Vec<u8> {
    asynchronous(failed(request, PENDING))
}

/// Turns `message` into the final response to a pending request.
pub fn asynchronous(mut message: Vec<u8>) -> Vec<u8> {
    message[16] |= 2;
    message[32..40].copy_from_slice(&ASYNC_ID.to_le_bytes());
    message
}

/// Returns the break of the oplock of `file`.
pub fn break_notice(file: [u8; 16], level: u8) -> Vec<u8> {
    let mut body = vec![24, 0, level, 0, 0, 0, 0, 0];
    body.extend(file);
    let mut message = response(OPLOCK_BREAK, u64::MAX, 0, &body);
    message[36..48].fill(0);
    message
}

fn honest(request: &Request, message: &[u8], log_on: &mut LogOn) -> Vec<u8> {
    let respond = |body: &[u8]| response(request.command, request.message_id, 0, body);
    match request.command {
        NEGOTIATE => {
            let mut body = zeros(64, &[(0, 65), (2, 1), (24, 6)]);
            body[4..6].copy_from_slice(&0x0210u16.to_le_bytes());
            for limit in [28, 32, 36] {
                body[limit..limit + 4].copy_from_slice(&(1u32 << 20).to_le_bytes());
            }
            respond(&body)
        }
        SESSION_SETUP => log_on.answer(request, message),
        TREE_CONNECT => respond(&[16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 1, 0x1f, 0]),
        CREATE => {
            let mut body = zeros(88, &[(0, 89), (2, message[64 + 3].min(9)), (4, 1)]);
            body[64..80].copy_from_slice(&FILE_ID);
            respond(&body)
        }
        CLOSE => respond(&zeros(60, &[(0, 60)])),
        READ => {
            let length = &message[64 + 4..64 + 8];
            let mut body = vec![17, 0, 80, 0];
            body.extend(length);
            body.extend([0; 8]);
            let bytes = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
            body.resize(16 + bytes, 0x5a);
            respond(&body)
        }
        WRITE => {
            let mut body = vec![17, 0, 0, 0];
            body.extend(&message[64 + 4..64 + 8]);
            body.extend([0; 8]);
            respond(&body)
        }
        QUERY_INFO => {
            let mut body = zeros(64, &[(0, 9), (2, 72), (4, 56)]);
            // Sectors per unit and bytes per sector, for queries of the volume's space.
            body[8 + 24] = 1;
            body[8 + 28] = 1;
            respond(&body)
        }
        SET_INFO => respond(&[2, 0]),
        QUERY_DIRECTORY => {
            let mut body = vec![9, 0, 72, 0, 106, 0, 0, 0];
            body.extend(zeros(106, &[(60, 2), (104, b'a')]));
            respond(&body)
        }
        _ => respond(&[4, 0, 0, 0]),
    }
}

fn zeros(length: usize, but: &[(usize, u8)]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (place, byte) in but {
        bytes[*place] = *byte;
    }
    bytes
}

/// Admits every client. A client that does not prove to be the test user becomes a guest.
#[derive(Default)]
struct LogOn {
    challenged: Option<Challenged>,
    key: Option<[u8; 16]>,
}

impl LogOn {
    fn answer(&mut self, request: &Request, message: &[u8]) -> Vec<u8> {
        let offset = usize::from(u16::from_le_bytes([message[64 + 12], message[64 + 13]]));
        let (status, guest, token) = match &self.challenged {
            None => {
                let name = "SCRIPTED".to_owned();
                let answered = Acceptor { name }.challenge(&message[offset..], [3; 8], 0);
                let (token, asked) = answered.expect("a token of ours");
                self.challenged = Some(asked);
                (MORE_PROCESSING_REQUIRED, 0, token)
            }
            Some(challenged) => match challenged.identify(&message[offset..], USER, PASSWORD) {
                Ok(Identity::User {
                    session_key,
                    last_token,
                }) => {
                    self.key = Some(session_key);
                    (0, 1, last_token)
                }
                _ => (0, 1, last_token()),
            },
        };
        let length = u16::try_from(token.len()).expect("short").to_le_bytes();
        let mut body = vec![9, 0, guest, 0, 72, 0, length[0], length[1]];
        body.extend(token);
        response(request.command, request.message_id, status, &body)
    }
}
