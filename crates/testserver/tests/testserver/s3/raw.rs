//! A simple, blocking client that sends requests exactly as given, and reads answers with a declared length.

use dyno_testserver::s3::{Options, Server};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Time limit, so that a failing test ends.
const GIVE_UP: Duration = Duration::from_secs(20);

pub(super) fn server() -> Server {
    start(&Options::on_loopback("volume1"))
}

pub(super) fn start(options: &Options) -> Server {
    Server::start(options).expect("a free port")
}

pub(super) fn server_with_fault(fault: &str) -> Server {
    start(&Options {
        fault: Some(fault.parse().expect("a listed fault")),
        ..Options::on_loopback("volume1")
    })
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn field(&self, name: &str) -> &str {
        let of_name = |line: &&str| {
            line.split(':')
                .next()
                .is_some_and(|field| field.eq_ignore_ascii_case(name))
        };
        let line = self.head.lines().find(of_name).unwrap_or_default();
        line.split_once(": ").map_or("", |(_, value)| value)
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text")
    }

    /// Returns the texts of all elements of this name.
    pub(super) fn elements(&self, name: &str) -> Vec<&str> {
        let (start, end) = (format!("<{name}>"), format!("</{name}>"));
        let parts = self.text().split(start.as_str()).skip(1);
        parts.filter_map(|part| part.split(end.as_str()).next()).collect()
    }

    pub(super) fn is(&self, status: u16, code: &str) -> bool {
        self.status == status && self.elements("Code") == [code]
    }
}

pub(super) struct Client(BufReader<TcpStream>);

impl Client {
    pub(super) fn of(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).expect("the server accepts");
        stream.set_read_timeout(Some(GIVE_UP)).expect("a socket option");
        stream.set_nodelay(true).expect("a socket option");
        Self(BufReader::new(stream))
    }

    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0
            .get_mut()
            .write_all(bytes.as_ref())
            .expect("the server reads");
    }

    /// Reads an answer. Returns None if the connection ends before the head is complete.
    pub(super) fn try_answer(&mut self, has_body: bool) -> Option<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .expect("a status");
        let mut answer = Answer {
            status,
            head,
            body: Vec::new(),
        };
        if has_body {
            let length = answer.field("content-length").parse().unwrap_or(0);
            self.0.by_ref().take(length).read_to_end(&mut answer.body).ok()?;
        }
        Some(answer)
    }

    pub(super) fn ask(&mut self, method: &str, target: &str, fields: &str, body: &[u8]) -> Answer {
        self.request(method, target, fields, body);
        self.try_answer(method != "HEAD").expect("an answer")
    }

    pub(super) fn request(&mut self, method: &str, target: &str, fields: &str, body: &[u8]) {
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n{fields}\r\n",
            body.len()
        );
        self.send([head.as_bytes(), body].concat());
    }

    pub(super) fn put(&mut self, key: &str, content: &[u8]) -> Answer {
        self.ask("PUT", &format!("/volume1/{key}"), "", content)
    }

    pub(super) fn get(&mut self, target: &str) -> Answer {
        self.ask("GET", &format!("/volume1{target}"), "", b"")
    }

    /// Returns everything up to the end of the connection.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).expect("an ordinary close");
        bytes
    }
}
