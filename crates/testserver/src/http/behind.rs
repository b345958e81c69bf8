//! Forwards requests below `/cgi-bin/` to backends on loopback, as a reverse proxy.
//!
//! Each thread has its own connections and uses the backends in turn, over HTTP/1.0, so that no answer is chunked.
//! Answers are bounded. Request bodies, HTTP/2, caching and remote backends are not supported.

use super::opening::Persistence;
use super::request::MAX_HEAD_BYTES;
use super::wire::LATE;
use dyno_measure::{Failure, Fault};
use dyno_net::{Dialer, Executor, Idle, Socket};
use httparse::{Header, Status};
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};

/// Prefix of the forwarded paths.
const PATHS: &[u8] = b"/cgi-bin/";
const MAX_BODY_BYTES: usize = 1 << 20;
const MAX_FIELDS: usize = 64;
/// Header fields that concern a single connection (RFC 9110, section 7.6.1), or that this server writes itself.
const OF_A_CONNECTION: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "content-length",
];

/// Backends of one thread.
pub(crate) struct Behind {
    servers: Vec<OneBehind>,
    next: Cell<usize>,
}

struct OneBehind {
    address: SocketAddr,
    dialer: Dialer,
    idle: RefCell<Vec<Socket>>,
}

impl Behind {
    /// Creates the backends. `number` differs between the threads of a server.
    pub(crate) fn new(executor: &Executor, ports: &[u16], number: usize) -> Self {
        let one = |port: &u16| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            OneBehind {
                address,
                dialer: Dialer::new(executor.clone(), address, number as u8),
                idle: RefCell::default(),
            }
        };
        Self {
            servers: ports.iter().map(one).collect(),
            next: Cell::new(0),
        }
    }

    /// Returns whether a path is forwarded.
    pub(crate) fn takes(&self, path: &[u8]) -> bool {
        !self.servers.is_empty() && path.starts_with(PATHS)
    }

    /// Sends a request to the next backend. If the backend has closed the kept connection, retries once on a new
    /// connection.
    pub(crate) async fn ask(
        &self,
        target: &[u8],
        buffer: &RefCell<[u8; MAX_HEAD_BYTES]>,
    ) -> Result<Relayed, Failure> {
        let turn = self.next.replace(self.next.get().wrapping_add(1));
        let server = &self.servers[turn % self.servers.len()];
        let request = request(target, server.address);
        if let Some(socket) = server.kept() {
            if let Ok(relayed) = server.exchange(socket, false, &request, buffer).await {
                return Ok(relayed);
            }
        }
        let socket = server.dialer.dial(None)?;
        server.exchange(socket, true, &request, buffer).await
    }
}

fn request(target: &[u8], address: SocketAddr) -> Vec<u8> {
    let fields = format!(" HTTP/1.0\r\nHost: {address}\r\nConnection: keep-alive\r\n\r\n");
    [b"GET ", target, fields.as_bytes()].concat()
}

impl OneBehind {
    fn kept(&self) -> Option<Socket> {
        loop {
            let socket = self.idle.borrow_mut().pop()?;
            if socket.after_idling() == Idle::Quiet {
                return Some(socket);
            }
        }
    }

    async fn exchange(
        &self,
        socket: Socket,
        first: bool,
        request: &[u8],
        buffer: &RefCell<[u8; MAX_HEAD_BYTES]>,
    ) -> Result<Relayed, Failure> {
        if first {
            socket.send_first(request).await?;
        } else {
            socket.send_all(request, LATE).await?;
        }
        let mut received = Vec::new();
        loop {
            let arrived = socket.try_receive(&mut buffer.borrow_mut()[..])?;
            match arrived {
                None => socket.readable(LATE).await?,
                Some(count) => {
                    received.extend_from_slice(&buffer.borrow()[..count]);
                    if let Some(answer) = read(&received, count == 0)? {
                        if answer.keeps_connection {
                            self.idle.borrow_mut().push(socket);
                        }
                        return Ok(answer.relayed);
                    }
                }
            }
        }
    }
}

/// Complete answer of a backend, without the fields that concern its connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Relayed {
    /// Status line and fields, without the connection fields and the length.
    head: Vec<u8>,
    body: Vec<u8>,
}

impl Relayed {
    /// Returns the complete head and the body. `after`: persistence of the client's connection; `head_only`:
    /// whether to omit the body.
    pub(crate) fn parts(&self, after: Persistence, head_only: bool) -> (Vec<u8>, &[u8]) {
        let last = format!(
            "Connection: {}\r\nContent-Length: {}\r\n\r\n",
            after.option(),
            self.body.len()
        );
        let body = if head_only { &[][..] } else { &self.body };
        ([&self.head, last.as_bytes()].concat(), body)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    relayed: Relayed,
    keeps_connection: bool,
}

/// Parses an answer. Returns None if the answer is incomplete. `ended`: whether no more data will arrive.
fn read(bytes: &[u8], ended: bool) -> Result<Option<Answer>, Failure> {
    let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_FIELDS];
    let mut head = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let head_bytes = match config.parse_response_with_uninit_headers(&mut head, bytes, &mut fields) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) if ended => return Err(Fault::ClosedEarly.into()),
        Ok(Status::Partial) if bytes.len() < MAX_HEAD_BYTES => return Ok(None),
        Ok(Status::Partial) => return Err(Fault::HeadTooLarge.into()),
        Err(_) => return Err(Fault::MalformedHead.into()),
    };
    let code = head.code.unwrap_or_default();
    if code < 200 || field(head.headers, "transfer-encoding").is_some() {
        return Err(Fault::MalformedHead.into());
    }
    let length = match field(head.headers, "content-length") {
        _ if matches!(code, 204 | 304) => Some(0),
        None => None,
        Some(text) => Some(text.parse::<usize>().map_err(|_| Fault::MalformedHead)?),
    };
    let body = &bytes[head_bytes..];
    if length.unwrap_or(body.len()) > MAX_BODY_BYTES {
        return Err(Fault::BodyTooLarge.into());
    }
    match length {
        Some(length) if body.len() < length && ended => return Err(Fault::ClosedEarly.into()),
        Some(length) if body.len() < length => return Ok(None),
        None if !ended => return Ok(None),
        _ => {}
    }
    let kept =
        field(head.headers, "connection").is_some_and(|option| option.eq_ignore_ascii_case("keep-alive"));
    Ok(Some(Answer {
        keeps_connection: kept && length == Some(body.len()) && !ended,
        relayed: Relayed {
            head: head_without_connection(&head, code),
            body: body[..length.unwrap_or(body.len())].to_vec(),
        },
    }))
}

fn head_without_connection(head: &httparse::Response<'_, '_>, code: u16) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {code} {}\r\n", head.reason.unwrap_or_default()).into_bytes();
    for Header { name, value } in head.headers.iter() {
        if !OF_A_CONNECTION.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            text.extend_from_slice(&[name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
    }
    text
}

fn field<'a>(fields: &[Header<'a>], name: &str) -> Option<&'a str> {
    let found = fields
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case(name))?;
    // A value that is not UTF-8 is neither a valid length nor a known connection option.
    Some(std::str::from_utf8(found.value).unwrap_or("?").trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str, ended: bool) -> (String, String, bool) {
        let answer = read(text.as_bytes(), ended)
            .expect("it is right")
            .expect("it is whole");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("plain text");
        (
            text(answer.relayed.head),
            text(answer.relayed.body),
            answer.keeps_connection,
        )
    }

    #[test]
    fn connection_fields_of_a_backend_are_not_forwarded() {
        let (head, body, kept) = whole(
            "HTTP/1.1 200 OK\r\nServer: back\r\nKeep-Alive: timeout=5\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi",
            false,
        );
        assert_eq!(
            (head.as_str(), body.as_str(), kept),
            ("HTTP/1.1 200 OK\r\nServer: back\r\n", "hi", true)
        );
    }

    #[test]
    fn a_body_without_a_length_ends_with_its_connection() {
        let text = "HTTP/1.0 404 Not Found\r\n\r\nnothing";
        assert_eq!(read(text.as_bytes(), false), Ok(None));
        assert_eq!(whole(text, true).1, "nothing");
        assert!(!whole(text, true).2);
    }

    #[test]
    fn a_truncated_or_unbounded_answer_is_refused() {
        for (text, ended, fault) in [
            ("HTTP/1.0 200 OK\r\nContent-Le", true, Fault::ClosedEarly),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nfour",
                true,
                Fault::ClosedEarly,
            ),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: -1\r\n\r\n",
                false,
                Fault::MalformedHead,
            ),
            (
                "HTTP/1.0 200 OK\r\nContent-Length: 99999999\r\n\r\n",
                false,
                Fault::BodyTooLarge,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                false,
                Fault::MalformedHead,
            ),
            ("HTTP/1.1 100 Continue\r\n\r\n", false, Fault::MalformedHead),
            ("SSH-2.0-OpenSSH\r\n", false, Fault::MalformedHead),
        ] {
            let failure = read(text.as_bytes(), ended).expect_err(text);
            assert_eq!(failure.fault, fault, "{text}");
        }
        let endless = format!("HTTP/1.0 200 OK\r\nA: {}", "a".repeat(MAX_HEAD_BYTES));
        assert_eq!(
            read(endless.as_bytes(), false).map_err(|failure| failure.fault),
            Err(Fault::HeadTooLarge)
        );
    }

    #[test]
    fn an_answer_in_pieces_is_complete_with_its_last_byte() {
        let text = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nfour";
        for count in 0..text.len() {
            assert_eq!(read(&text[..count], false), Ok(None), "{count}");
        }
        assert!(read(text, false).is_ok_and(|answer| answer.is_some()));
    }
}
