//! Slow and failed connections. Rare on loopback, where `connect` completes at once.

use super::testbed::{Testbed, NOBODY, SERVER};
use dyno_http::{Body, Connecting, Connection, Exchange, Limits, RequestStyle, Version};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::{Dialer, Executor};
use std::cell::RefCell;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::rc::Rc;

struct Ignored;

impl Body for Ignored {
    fn part(&mut self, _data: &[u8], _last: bool) {}
}

fn get(address: SocketAddr, timeout_ms: u64) -> Result<u16, Failure> {
    let executor = Executor::new().expect("an epoll instance");
    let connecting = Connecting {
        keep_alive: true,
        reset: false,
        repeat: true,
        timeout_ns: timeout_ms * 1_000_000,
    };
    let style = RequestStyle {
        version: Version::Http11,
        keep_alive: true,
        host: address.to_string(),
    };
    let dialer = Rc::new(Dialer::new(executor.clone(), address, 0));
    let buffer = Rc::new(RefCell::new(vec![0; 4096].into_boxed_slice()));
    let mut client = Connection::new(executor.clone(), dialer, connecting, buffer, Limits::default());
    let result = Rc::new(RefCell::new(None));
    let kept = result.clone();
    executor.spawn(async move {
        let request = style.get("/");
        let mut cost = Exchange::default();
        let exchanged = client
            .exchange(&request, monotonic_ns(), &mut Ignored, &mut cost)
            .await;
        *kept.borrow_mut() = Some(exchanged.map(|head| head.status));
    });
    executor.run(|| false).expect("the loop runs");
    let result = result.take();
    result.expect("the task has ended")
}

fn check(testbed: &Testbed, address: (IpAddr, u16), timeout_ms: u64, expected: Result<u16, Fault>) {
    let got = testbed.client.run(|| get(address.into(), timeout_ms));
    assert_eq!(got.map_err(|failure| failure.fault), expected, "{address:?}");
}

/// Starts a server that sends `words` on each connection without reading, then closes its sending direction.
fn talker(testbed: &Testbed, words: &'static str) -> u16 {
    let listener = testbed
        .server
        .run(|| TcpListener::bind((SERVER, 0)).expect("a port is free"));
    let port = listener.local_addr().expect("it listens").port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody connects");
        stream.write_all(words.as_bytes()).expect("somebody listens");
        stream
            .shutdown(std::net::Shutdown::Write)
            .expect("it is connected");
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    port
}

#[test]
fn a_host_that_never_answers_is_a_connect_timeout() {
    let Some(testbed) = Testbed::new() else { return };
    check(&testbed, (NOBODY, 80), 200, Err(Fault::ConnectTimeout));
}

#[test]
fn a_network_without_a_route_is_unreachable() {
    let Some(testbed) = Testbed::new() else { return };
    check(
        &testbed,
        ([10, 99, 0, 1].into(), 80),
        30_000,
        Err(Fault::Unreachable),
    );
    testbed
        .client
        .ip("route add unreachable 10.98.0.0/24")
        .expect("a route");
    check(
        &testbed,
        ([10, 98, 0, 1].into(), 80),
        30_000,
        Err(Fault::Unreachable),
    );
}

#[test]
fn a_closed_port_of_another_host_refuses() {
    let Some(testbed) = Testbed::new() else { return };
    check(&testbed, (SERVER, 9), 30_000, Err(Fault::ConnectionRefused));
}

#[test]
fn a_response_sent_before_the_request_is_still_read() {
    let Some(testbed) = Testbed::new() else { return };
    let port = talker(&testbed, "HTTP/1.1 204 No Content\r\n\r\n");
    check(&testbed, (SERVER, port), 30_000, Ok(204));
    let port = talker(&testbed, "220 mail.example ESMTP\r\n");
    check(&testbed, (SERVER, port), 30_000, Err(Fault::MalformedHead));
    let port = talker(&testbed, "");
    check(&testbed, (SERVER, port), 30_000, Err(Fault::ClosedEarly));
}
