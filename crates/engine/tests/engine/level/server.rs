//! A minimal server. A function handles its connections, and the server counts requests.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
pub const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// One connection, on the server's side.
pub struct Connection {
    pub stream: TcpStream,
    requests: Arc<AtomicU64>,
}

impl Connection {
    /// Returns the path of the next request, or None once the client has closed the connection.
    pub fn request(&mut self) -> Option<String> {
        let mut head = Vec::new();
        let mut buffer = [0; 1024];
        while !head.ends_with(b"\r\n\r\n") {
            match self.stream.read(&mut buffer) {
                Ok(count) if count > 0 => head.extend_from_slice(&buffer[..count]),
                _ => return None,
            }
        }
        self.count();
        let head = String::from_utf8_lossy(&head);
        head.split(' ').nth(1).map(str::to_owned)
    }

    /// Sends bytes. Returns false if the client has disconnected, which is not an error here.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    pub fn count(&mut self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Discards received data until the client closes the connection.
    pub fn outwait(&mut self) {
        let _ = std::io::copy(&mut self.stream, &mut std::io::sink());
    }
}

/// A running server. Its threads end with its clients' connections, or with the process.
pub struct Server {
    pub address: SocketAddr,
    requests: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
}

impl Server {
    /// Starts a server on loopback; `serve` handles each connection on its own thread.
    pub fn start(serve: impl Fn(Connection) + Send + Sync + 'static) -> Self {
        Self::start_on(Ipv4Addr::LOCALHOST.into(), 0, serve)
    }

    /// Starts a server on an address in the thread's namespace.
    pub fn start_on(address: IpAddr, port: u16, serve: impl Fn(Connection) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((address, port)).expect("the port is free");
        let server = Self {
            address: listener.local_addr().expect("it listens"),
            requests: Arc::default(),
            connections: Arc::default(),
        };
        let (requests, connections) = (server.requests.clone(), server.connections.clone());
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::Relaxed);
                let requests = requests.clone();
                let serve = serve.clone();
                std::thread::spawn(move || serve(Connection { stream, requests }));
            }
        });
        server
    }

    /// Starts a server that answers every request with `answer` until the client closes the connection.
    pub fn answering(answer: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self::start(move |mut connection| while connection.request().is_some() && connection.send(&answer) {})
    }

    /// Returns the number of complete requests received.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Waits until there are `count` connections, because the kernel accepts a connection before this server does.
    /// Returns their number, after a minute at the latest.
    pub fn connections_once(&self, count: u64) -> u64 {
        let begun = Instant::now();
        while self.connections() < count && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.connections()
    }
}
