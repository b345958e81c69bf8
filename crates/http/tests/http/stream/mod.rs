//! HTTP works the same over a stream other than TCP, whatever the records contain.

mod cipher;

use cipher::{CipherPeer, CipherTransport, NONCE};
use dyno_http::{Body, Connecting, Connection, Exchange, Head, Limits};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::{Dialer, Executor};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";
const TIMEOUT_NS: u64 = 20_000_000_000;
const BODY_BYTES: usize = 2500;

struct Received(Vec<u8>);

impl Body for Received {
    fn part(&mut self, data: &[u8], _last: bool) {
        self.0.extend(data);
    }
}

fn body() -> Vec<u8> {
    (0..BODY_BYTES).map(|index| (index / 3) as u8).collect()
}

fn answer() -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    [head.as_bytes(), &body()].concat()
}

/// Starts a server thread that runs `serve` per connection until the process ends.
fn server(serve: impl Fn(TcpStream) -> io::Result<()> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            // A client that leaves is not an error here. The client side checks the result.
            let _ = serve(stream);
        }
    });
    address
}

fn answering(at_once: usize) -> impl Fn(TcpStream) -> io::Result<()> + Send {
    move |stream| {
        let mut peer = CipherPeer::accept(stream)?;
        while let Some(request) = peer.receive()? {
            assert_eq!(request, REQUEST);
            peer.send(&answer(), at_once)?;
        }
        Ok(())
    }
}

/// A client of such a server.
struct Session {
    executor: Executor,
    client: Connection<CipherTransport>,
    closed: Rc<Cell<usize>>,
}

impl Session {
    async fn get(&mut self) -> (Result<Head, Failure>, Exchange, Vec<u8>) {
        let (mut cost, mut received) = (Exchange::default(), Received(Vec::new()));
        let now_ns = monotonic_ns();
        let result = self
            .client
            .exchange(REQUEST, now_ns, &mut received, &mut cost)
            .await;
        (result, cost, received.0)
    }

    async fn get_right(&mut self) -> Exchange {
        let (result, cost, received) = self.get().await;
        assert_eq!(result.expect("a response").status, 200);
        assert!(received == body(), "other bytes");
        assert_eq!(cost.body_bytes, BODY_BYTES as u64);
        cost
    }
}

fn check<Work: Future<Output = ()> + 'static>(
    address: SocketAddr,
    connecting: Connecting,
    task: impl FnOnce(Session) -> Work,
) {
    let executor = Executor::new().expect("an epoll instance");
    let closed = Rc::new(Cell::new(0));
    let transport = CipherTransport {
        dialer: Rc::new(Dialer::new(executor.clone(), address, 0)),
        closed: closed.clone(),
    };
    // Smaller than a record, so that a part of each record stays in the stream.
    let buffer = Rc::new(RefCell::new(vec![0; 300].into_boxed_slice()));
    let client = Connection::over(transport, executor.clone(), connecting, buffer, Limits::default());
    executor.spawn(task(Session {
        executor: executor.clone(),
        client,
        closed,
    }));
    executor.run(|| false).expect("the loop runs");
}

fn keeping_alive() -> Connecting {
    Connecting {
        keep_alive: true,
        reset: false,
        repeat: true,
        timeout_ns: TIMEOUT_NS,
    }
}

#[test]
fn a_kept_connection_carries_many_exchanges_however_records_are_divided() {
    for at_once in [1, 7, 999, 1_000_000] {
        check(
            server(answering(at_once)),
            keeping_alive(),
            |mut session| async move {
                let first = session.get_right().await;
                assert_eq!(first.connections, 1);
                assert!(first.connect_ns.is_some());
                for _ in 0..20 {
                    let cost = session.get_right().await;
                    assert_eq!((cost.connections, cost.reconnected), (0, false));
                    assert_eq!(cost.sent_bytes, REQUEST.len() as u64);
                }
                assert_eq!(session.closed.get(), 0);
            },
        );
    }
}

#[test]
fn without_keep_alive_each_request_has_its_own_handshake_and_normal_close() {
    for reset in [false, true] {
        let connecting = Connecting {
            keep_alive: false,
            reset,
            ..keeping_alive()
        };
        check(
            server(answering(500)),
            connecting,
            move |mut session| async move {
                for _ in 0..20 {
                    assert_eq!(session.get_right().await.connections, 1);
                }
                assert_eq!(session.closed.get(), if reset { 0 } else { 20 });
            },
        );
    }
}

#[test]
fn records_without_data_on_an_idle_connection_are_not_excess() {
    let serve = |stream: TcpStream| {
        let mut peer = CipherPeer::accept(stream)?;
        while peer.receive()?.is_some() {
            peer.send(&answer(), 500)?;
            peer.send_ticket()?;
        }
        Ok(())
    };
    check(server(serve), keeping_alive(), |mut session| async move {
        for number in 0..20 {
            let cost = session.get_right().await;
            assert_eq!(cost.connections, u32::from(number == 0));
            session.executor.sleep_until(monotonic_ns() + 1_000_000).await;
        }
    });
}

#[test]
fn data_on_an_idle_connection_is_excess() {
    let serve = |stream: TcpStream| {
        let mut peer = CipherPeer::accept(stream)?;
        peer.receive()?;
        peer.send_at_once(&[&answer(), b"more"])?;
        peer.receive().map(|_| ())
    };
    check(server(serve), keeping_alive(), |mut session| async move {
        session.get_right().await;
        let (result, ..) = session.get().await;
        assert_eq!(result.expect_err("no response").fault, Fault::ExcessData);
    });
}

#[test]
fn a_body_behind_a_response_without_one_is_told_as_such_and_on_its_connection_alone() {
    const EMPTY: &[u8] = b"HTTP/1.1 204 None\r\n\r\n";
    let connections = Cell::new(0);
    let serve = move |stream: TcpStream| {
        let mut peer = CipherPeer::accept(stream)?;
        peer.receive()?;
        connections.set(connections.get() + 1);
        if connections.get() > 1 {
            return peer.send(b"abc", 500);
        }
        peer.send(EMPTY, 500)?;
        // The body is sent after the next request.
        peer.receive()?;
        peer.send(&[&b"abc"[..], EMPTY].concat(), 500)
    };
    check(server(serve), keeping_alive(), |mut session| async move {
        assert_eq!(session.get().await.0.expect("a response").status, 204);
        let excess = session.get().await.0.expect_err("a body came");
        assert_eq!(excess.fault, Fault::ExcessData);
        assert!(excess.to_string().contains("status 204 has no body"), "{excess}");
        let other = session.get().await.0.expect_err("no response");
        assert_eq!(other.fault, Fault::MalformedHead);
    });
}

#[test]
fn a_connection_that_the_server_closed_while_it_was_idle_is_made_anew() {
    let serve = |stream: TcpStream| {
        let mut peer = CipherPeer::accept(stream)?;
        peer.receive()?;
        peer.send(&answer(), 500)
    };
    check(server(serve), keeping_alive(), |mut session| async move {
        session.get_right().await;
        for _ in 0..20 {
            let cost = session.get_right().await;
            assert!(cost.reconnected);
            assert_eq!(cost.connections, 1);
        }
    });
}

#[test]
fn an_endless_handshake_is_a_connect_timeout() {
    let serve = |mut stream: TcpStream| {
        let mut nonce = NONCE;
        io::Read::read_exact(&mut stream, &mut nonce)?;
        io::Write::write_all(&mut stream, &nonce[..1])?;
        io::copy(&mut stream, &mut io::sink()).map(|_| ())
    };
    let connecting = Connecting {
        timeout_ns: 100_000_000,
        ..keeping_alive()
    };
    check(server(serve), connecting, |mut session| async move {
        let (result, cost, _) = session.get().await;
        assert_eq!(result.expect_err("no connection").fault, Fault::ConnectTimeout);
        assert_eq!((cost.connections, cost.sent_bytes), (0, 0));
    });
}
