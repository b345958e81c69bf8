//! Handwritten calls, one at a time.

use dyno_nfs::wire::{
    mount, parse, parse_mount, Attributes3, Body, Created, Credential, FileHandle, Found, How, Message,
    Program, Reader, Records, Request, SetAttributes,
};
use dyno_testserver::nfs::{Options, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const MOST_RECORD_BYTES: usize = 2 << 20;
pub const EXPORT: &str = "/export";
pub const OK: u32 = 0;

/// Versions of this project's client.
pub const VERSIONS: [&str; 2] = ["3", "4.1"];

/// NFSv3 over UDP.
pub const UDP: &str = "3 over UDP";

/// Returns the URL of the export for this project's client.
pub fn url(port: u16, version: &str) -> String {
    let query = match version {
        "3" => format!("mountport={port}"),
        UDP => format!("mountport={port}&proto=udp"),
        _ => format!("vers={version}"),
    };
    format!("nfs://127.0.0.1:{port}{EXPORT}?{query}")
}

pub fn server() -> Server {
    Server::start(&Options::on_loopback(EXPORT)).expect("it starts")
}

/// One connection.
pub struct Raw {
    socket: TcpStream,
    records: Records,
    pub xid: u32,
    pub credential: Credential,
}

/// A reply: its status and the results after it.
pub struct Reply {
    pub status: u32,
    pub results: Vec<u8>,
}

impl Reply {
    pub fn results(&self) -> &[u8] {
        assert_eq!(self.status, OK);
        &self.results
    }
}

impl Raw {
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("it accepts");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Self {
            socket,
            records: Records::new(MOST_RECORD_BYTES),
            xid: 0,
            credential: Credential {
                machine: "test".to_owned(),
                uid: 1000,
                gid: 100,
            },
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("it is taken");
    }

    /// Returns the next record, or None at the end of the connection.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(range) = self.records.next_record().expect("well formed") {
                return Some(self.records.bytes()[range].to_vec());
            }
            match self.socket.read(self.records.room()) {
                Ok(0) => return None,
                Ok(count) => self.records.filled(count),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Calls a procedure of any program. Returns the contents of the reply and its results.
    pub fn call(&mut self, program: Program, procedure: u32, arguments: &[u8]) -> (Body, Vec<u8>) {
        self.xid += 1;
        let mut message = Message::default();
        message
            .begin(self.xid, program, procedure, Some(&self.credential))
            .bytes(arguments);
        message.end();
        self.send(message.bytes());
        self.answer()
    }

    fn answer(&mut self) -> (Body, Vec<u8>) {
        let record = self.receive().expect("an answer");
        let (xid, body) = Body::parse(&record).expect("a reply");
        assert_eq!(xid, self.xid);
        let results = match body {
            Body::Accepted(at) => record[at..].to_vec(),
            _ => Vec::new(),
        };
        (body, results)
    }

    /// Sends a request as a new call.
    pub fn ask(&mut self, request: &Request<'_>) -> Reply {
        self.xid += 1;
        self.ask_again(request)
    }

    /// Sends a request with the XID of the last call.
    pub fn ask_again(&mut self, request: &Request<'_>) -> Reply {
        let mut message = Message::default();
        request.write(&mut message, self.xid, &self.credential);
        self.send(message.bytes());
        let (body, results) = self.answer();
        assert!(matches!(body, Body::Accepted(_)), "{body:?}");
        match results.as_slice() {
            [] => Reply { status: OK, results },
            _ => Reply {
                status: Reader::new(&results).u32().expect("a status"),
                results: results[4..].to_vec(),
            },
        }
    }

    pub fn mount(&mut self, path: &str) -> Result<FileHandle, u32> {
        self.xid += 1;
        let mut message = Message::default();
        mount(&mut message, self.xid, path, &self.credential);
        self.send(message.bytes());
        let (_, results) = self.answer();
        parse_mount(&results)
            .expect("well formed")
            .map(|mounted| mounted.root)
    }

    pub fn root(&mut self) -> FileHandle {
        self.mount(EXPORT).expect("it is exported")
    }

    pub fn create(&mut self, at: FileHandle, name: &str) -> FileHandle {
        let (name, how) = (name.as_bytes(), How::Guarded(SetAttributes::mode(0o600)));
        let made = self.ask(&Request::Create { at, name, how });
        parse::<Created>(made.results())
            .expect("well formed")
            .file
            .expect("is told")
    }

    pub fn make_directory(&mut self, at: FileHandle, name: &str) -> FileHandle {
        let (name, set) = (name.as_bytes(), SetAttributes::mode(0o750));
        let made = self.ask(&Request::MakeDirectory { at, name, set });
        parse::<Created>(made.results())
            .expect("well formed")
            .file
            .expect("is told")
    }

    pub fn look_up(&mut self, at: FileHandle, name: &str) -> Result<FileHandle, u32> {
        let name = name.as_bytes();
        let reply = self.ask(&Request::Lookup { at, name });
        match reply.status {
            OK => Ok(parse::<Found>(&reply.results).expect("well formed").file),
            status => Err(status),
        }
    }

    pub fn attributes(&mut self, file: FileHandle) -> Attributes3 {
        let reply = self.ask(&Request::GetAttributes { file });
        parse(reply.results()).expect("well formed")
    }
}
