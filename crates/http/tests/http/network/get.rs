//! A single request ends at its deadline and keeps no more bytes than asked for.

use dyno_http::{Answer, Opening, Target};
use dyno_measure::{monotonic_ns, Failure, Fault};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const MS: u64 = 1_000_000;
/// Far beyond the deadline. Only a request that ignores the clock would take this long.
const PATIENCE_NS: u64 = 20_000 * MS;

/// Requests `/a` from a server that runs `serve`.
fn asked(timeout_ns: u64, serve: impl FnOnce(TcpStream) + Send + 'static) -> Result<Answer, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it is asked");
        let mut request = [0; 4096];
        let count = stream.read(&mut request).expect("a request comes");
        assert!(request[..count].starts_with(b"GET /a HTTP/1.1\r\nHost: "));
        serve(stream);
    });
    let target = Target::open(&format!("http://{address}/b"), None, &Opening::default()).expect("loopback");
    target.get("/a", monotonic_ns() + timeout_ns, 1000)
}

fn check(answer: &'static str, expected: Result<(u16, Option<&str>, &str, bool), Fault>) {
    let got = asked(PATIENCE_NS, move |mut stream| {
        stream.write_all(answer.as_bytes()).expect("it reads");
    });
    let got = got.map_err(|failure| failure.fault);
    let got = got.as_ref().map(|answer| {
        let body = std::str::from_utf8(&answer.body).expect("text");
        (answer.status, answer.server.as_deref(), body, answer.whole)
    });
    assert_eq!(got.map_err(|fault| *fault), expected, "{answer:?}");
}

/// Checks the fault if a server repeats `part` endlessly, at full speed or byte by byte.
fn check_without_end(start: &'static str, part: &'static str, fault: Fault) {
    let flooded = asked(500 * MS, move |mut stream| {
        let _ = stream.write_all(start.as_bytes());
        while stream.write_all(part.as_bytes()).is_ok() {}
    });
    assert_eq!(
        flooded.map_err(|failure| failure.fault),
        Err(fault),
        "{start:?} {part:?}"
    );
    let dripped = asked(200 * MS, move |mut stream| {
        let _ = stream.write_all(start.as_bytes());
        for byte in part.as_bytes().iter().cycle() {
            std::thread::sleep(std::time::Duration::from_millis(5));
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
        }
    });
    assert_eq!(
        dripped.map_err(|failure| failure.fault),
        Err(Fault::ResponseTimeout),
        "{start:?} {part:?}"
    );
}

#[test]
fn an_answer_has_its_status_server_and_body() {
    check(
        "HTTP/1.1 404 No\r\nserver: nginx/1.2 (x)\r\nContent-Length: 3\r\n\r\nabc",
        Ok((404, Some("nginx/1.2 (x)"), "abc", true)),
    );
    check(
        "HTTP/1.0 200 OK\r\n\r\nuntil the end",
        Ok((200, None, "until the end", true)),
    );
    check(
        "HTTP/1.1 100 Continue\r\nServer: a\r\n\r\nHTTP/1.1 200 OK\r\nServer: b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Ok((200, Some("b"), "", true)),
    );
}

#[test]
fn a_malformed_answer_is_reported_as_such() {
    check("", Err(Fault::ClosedEarly));
    check("SSH-2.0-OpenSSH_9.2\r\n", Err(Fault::MalformedHead));
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        Err(Fault::ClosedEarly),
    );
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc",
        Err(Fault::ExcessData),
    );
    for size in ["-1", "-5", "", "0x5", "fffffffffffffffff"] {
        let answer =
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\nabcde\r\n0\r\n\r\n");
        check(answer.leak(), Err(Fault::MalformedChunk));
    }
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\n",
        Err(Fault::BodyTooLarge),
    );
}

#[test]
fn the_beginning_of_a_long_body_is_kept_without_waiting_for_the_rest() {
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
    ] {
        let answer = asked(PATIENCE_NS, move |mut stream| {
            let _ = stream.write_all(head.as_bytes());
            while stream.write_all(&[b'a'; 100]).is_ok() {}
        });
        let answer = answer.expect(head);
        assert_eq!((answer.body.len(), answer.whole), (1000, false), "{head:?}");
    }
}

#[test]
fn no_endless_response_outlasts_the_deadline() {
    check_without_end("", "HTTP/1.1 100 Continue\r\n\r\n", Fault::HeadTooLarge);
    check_without_end("HTTP/1.1 200 OK\r\n", "A: b\r\n", Fault::HeadTooLarge);
    check_without_end(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        "A: b\r\n",
        Fault::MalformedChunk,
    );
    check_without_end(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "0",
        Fault::MalformedChunk,
    );
}

#[test]
fn a_silent_or_absent_server_is_reported() {
    let silent = asked(100 * MS, |mut stream| {
        let _ = stream.read(&mut [0]);
    });
    assert_eq!(
        silent.map_err(|failure| failure.fault),
        Err(Fault::ResponseTimeout)
    );
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}/", listener.local_addr().expect("it listens"));
    drop(listener);
    let target = Target::open(&url, None, &Opening::default()).expect("loopback");
    let gone = target.get("/", monotonic_ns() + PATIENCE_NS, 1000);
    assert_eq!(
        gone.map_err(|failure| failure.fault),
        Err(Fault::ConnectionRefused)
    );
}
