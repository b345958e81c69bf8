//! A simple, blocking HTTP client for tests, which checks everything that it receives.

use dyno_testserver::http::{Documents, Options, Server};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Time limit, so that a failing test ends.
const GIVE_UP: Duration = Duration::from_secs(20);

pub(crate) fn server_of(documents: Documents) -> Server {
    Server::start(&Options::on_loopback(documents)).expect("a free port")
}

pub(crate) fn server_with_fault(fault: &str, bytes: usize) -> Server {
    let options = Options {
        fault: Some(fault.parse().expect("a listed fault")),
        ..Options::on_loopback(Documents::Fixed(bytes))
    };
    Server::start(&options).expect("a free port")
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head.lines().find_map(|line| line.strip_prefix(&prefix))
    }

    pub(crate) fn length(&self) -> usize {
        let text = self.field("Content-Length").expect("a declared length");
        text.parse().expect("a number")
    }
}

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn of(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address()).expect("the server accepts");
        stream.set_read_timeout(Some(GIVE_UP)).expect("a socket option");
        stream.set_nodelay(true).expect("a socket option");
        Self {
            stream: BufReader::new(stream),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream
            .get_mut()
            .write_all(bytes.as_ref())
            .expect("the server reads");
    }

    pub(crate) fn end_sending(&mut self) {
        self.stream
            .get_mut()
            .shutdown(Shutdown::Write)
            .expect("a connected socket");
    }

    pub(crate) fn head(&mut self) -> Response {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = self.stream.read_line(&mut head).expect("a head as text");
            assert!(read > 0, "the connection ended after {head:?}");
        }
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Response {
            status: status.expect("a status"),
            head,
            body: Vec::new(),
        }
    }

    /// Returns a response with a declared length.
    pub(crate) fn response(&mut self) -> Response {
        let mut response = self.head();
        response.body = vec![0; response.length()];
        self.stream.read_exact(&mut response.body).expect("a whole body");
        response
    }

    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
        self.response()
    }

    /// Returns everything until the connection ends normally.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).expect("an ordinary close");
        bytes
    }

    pub(crate) fn read_exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).expect("so many bytes");
        bytes
    }

    pub(crate) fn try_read(&mut self) -> std::io::Result<usize> {
        self.stream.read(&mut [0; 4096])
    }
}

/// Sends one HTTP/1.1 GET with `Connection: close`. Returns the head and the rest.
pub(crate) fn get_and_close(server: &Server) -> (Response, Vec<u8>) {
    let mut client = Client::of(server);
    client.send("GET /x HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    let head = client.head();
    (head, client.rest())
}
