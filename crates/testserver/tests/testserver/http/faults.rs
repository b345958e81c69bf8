//! Each fault does what its name says and nothing else.

use super::client::{get_and_close, server_of, server_with_fault, Client, Response};
use dyno_testserver::http::{faults, Documents, Options, Server, REQUEST_COUNT_PATH};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

const BYTES: usize = 3000;
const GET: &str = "GET /x HTTP/1.1\r\nHost: test\r\n\r\n";

fn right_body() -> Vec<u8> {
    Client::of(&server_of(Documents::Fixed(BYTES))).get("/x").body
}

fn answer(fault: &str) -> (Response, Vec<u8>) {
    get_and_close(&server_with_fault(fault, BYTES))
}

/// Decodes the valid chunks. Returns the body and the rest.
fn chunks(mut coded: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut body = Vec::new();
    loop {
        let line_end = coded.windows(2).position(|two| two == b"\r\n").expect("a line");
        let size = std::str::from_utf8(&coded[..line_end]).expect("text");
        let Ok(size @ 1..) = usize::from_str_radix(size, 16) else {
            return (body, coded);
        };
        let data = &coded[line_end + 2..];
        if data.len() < size + 2 {
            return (body, &[]);
        }
        body.extend(&data[..size]);
        assert_eq!(&data[size..size + 2], b"\r\n");
        coded = &data[size + 2..];
    }
}

#[test]
fn a_delay_precedes_a_correct_answer() {
    let start = Instant::now();
    let (head, body) = answer("delay=50ms");
    assert!(start.elapsed() >= Duration::from_millis(50));
    assert_eq!((head.status, body), (200, right_body()));
}

#[test]
fn a_stalled_request_is_never_answered_or_counted() {
    let server = server_with_fault("stall", BYTES);
    let mut client = Client::of(&server);
    client.send(GET);
    client.end_sending();
    assert!(client.rest().is_empty());
    assert_eq!(server.requests(), 0);
}

#[test]
fn an_endless_head_continues_until_the_client_leaves() {
    let server = server_with_fault("endless-head", BYTES);
    let mut client = Client::of(&server);
    client.send(GET);
    let head = String::from_utf8(client.read_exactly(4 << 20)).expect("text");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(!head.contains("\r\n\r\n"));
    drop(client);
    assert_eq!(server.requests(), 0);
}

#[test]
fn endless_chunks_continue_until_the_client_leaves() {
    let server = server_with_fault("endless-chunks", BYTES);
    let mut client = Client::of(&server);
    client.send(GET);
    assert_eq!(client.head().field("Transfer-Encoding"), Some("chunked"));
    let coded = client.read_exactly(4 << 20);
    let (body, after) = chunks(&coded);
    assert!(body.len() > 3 << 20);
    assert!(after.is_empty());
    drop(client);
    assert_eq!(server.requests(), 0);
}

#[test]
fn an_endless_answer_stops_at_a_limit_for_a_client_that_keeps_reading() {
    for fault in ["endless-head", "endless-chunks"] {
        let server = server_with_fault(fault, BYTES);
        let mut client = Client::of(&server);
        client.send(GET);
        let bytes = client.rest().len();
        assert!((60 << 20..=65 << 20).contains(&bytes), "{fault}: {bytes}");
        assert_eq!(server.requests(), 0);
    }
}

#[test]
fn a_huge_head_is_long_and_correct() {
    let (head, body) = answer("huge-head");
    assert!(head.head.len() > 1_000_000);
    assert_eq!((head.length(), body), (BYTES, right_body()));
}

#[test]
fn a_short_body_lacks_a_byte() {
    let (head, body) = answer("short-body");
    assert_eq!((head.length(), body), (BYTES + 1, right_body()));
}

#[test]
fn a_long_body_has_more_than_was_declared() {
    let (head, body) = answer("long-body");
    assert_eq!(head.length(), BYTES);
    assert_eq!(body, [right_body().as_slice(), b"excess"].concat());
}

#[test]
fn a_bad_chunk_follows_correct_ones() {
    let (head, coded) = answer("bad-chunk");
    assert_eq!(head.field("Transfer-Encoding"), Some("chunked"));
    let (body, after) = chunks(&coded);
    assert_eq!(body, right_body()[..BYTES / 2]);
    assert!(after.starts_with(b"zz\r\n"));
}

#[test]
fn an_early_close_leaves_the_head_incomplete() {
    let server = server_with_fault("early-close", BYTES);
    let mut client = Client::of(&server);
    client.send(GET);
    let head = String::from_utf8(client.rest()).expect("text");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && !head.contains("\r\n\r\n"),
        "{head}"
    );
}

#[test]
fn a_close_at_once_needs_no_request() {
    let server = server_with_fault("close-at-once", BYTES);
    assert!(Client::of(&server).rest().is_empty());
    assert_eq!(server.requests(), 0);
}

#[test]
fn a_reset_comes_instead_of_an_answer() {
    let server = server_with_fault("reset", BYTES);
    let mut client = Client::of(&server);
    client.send(GET);
    let error = client.try_read().expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(server.requests(), 0);
}

#[test]
fn garbage_is_not_http() {
    let server = server_with_fault("garbage", BYTES);
    let mut client = Client::of(&server);
    client.send(GET);
    let garbage = client.rest();
    assert_eq!(garbage.len(), 1024);
    assert!(!garbage.starts_with(b"HTTP") && !garbage.windows(4).any(|four| four == b"\r\n\r\n"));
}

#[test]
fn wrong_content_differs_in_one_byte() {
    let (head, body) = answer("wrong-content");
    assert_eq!((head.length(), body.len()), (BYTES, BYTES));
    let differing = body
        .iter()
        .zip(right_body())
        .filter(|(got, right)| **got != *right)
        .count();
    assert_eq!(differing, 1);
}

#[test]
fn a_wrong_length_agrees_with_its_body() {
    let (head, body) = answer("wrong-length");
    assert_eq!((head.length(), body.len()), (BYTES + 1, BYTES + 1));
}

#[test]
fn status_500_does_not_close_the_connection() {
    let server = server_with_fault("status-500", BYTES);
    let mut client = Client::of(&server);
    assert_eq!([client.get("/").status, client.get("/").status], [500, 500]);
}

#[test]
fn a_kept_connection_is_closed_without_notice_after_the_given_number_of_answers() {
    let server = server_with_fault("close-idle=3", BYTES);
    let mut client = Client::of(&server);
    for _ in 0..3 {
        assert_eq!(client.get("/").field("Connection"), Some("keep-alive"));
    }
    assert!(client.rest().is_empty());
    assert_eq!(server.requests(), 3);
}

#[test]
fn the_chunked_coding_is_correct_and_the_connection_persists() {
    let server = server_with_fault("chunked", BYTES);
    let (head, coded) = get_and_close(&server);
    assert_eq!(head.field("Content-Length"), None);
    assert_eq!(chunks(&coded), (right_body(), b"0\r\n\r\n".as_slice()));
    let mut client = Client::of(&server);
    for _ in 0..2 {
        client.send(GET);
        assert_eq!(client.head().field("Connection"), Some("keep-alive"));
        assert_eq!(client.read_exactly(coded.len()), coded);
    }
}

#[test]
fn a_body_without_length_ends_with_the_connection() {
    for (fault, version) in [
        ("close-delimited", "1.1"),
        ("close-delimited", "1.0"),
        ("chunked", "1.0"),
    ] {
        let server = server_with_fault(fault, BYTES);
        let mut client = Client::of(&server);
        client.send(format!(
            "GET / HTTP/{version}\r\nHost: test\r\nConnection: keep-alive\r\n\r\n"
        ));
        let head = client.head();
        assert_eq!(head.field("Connection"), Some("close"));
        assert_eq!(
            (head.field("Content-Length"), head.field("Transfer-Encoding")),
            (None, None)
        );
        assert_eq!(client.rest(), right_body());
    }
}

#[test]
fn a_slow_drip_is_slow_and_correct() {
    let start = Instant::now();
    let (head, body) = answer("slow-drip=300");
    assert!(start.elapsed() >= Duration::from_millis(BYTES as u64 / 300));
    assert_eq!((head.length(), body), (BYTES, right_body()));
}

#[test]
fn an_interim_response_precedes_the_final_one_but_not_in_http_1_0() {
    let server = server_with_fault("interim", BYTES);
    let mut client = Client::of(&server);
    client.send(GET);
    assert_eq!(client.head().status, 103);
    assert_eq!(client.response().body, right_body());
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().status, 200);
    assert_eq!(server.requests(), 2);
}

#[test]
fn no_fault_affects_head_or_the_tools_own_requests() {
    for (name, _) in faults().into_iter().filter(|(name, _)| *name != "close-at-once") {
        let server = Server::start(&Options {
            fault: Some(name.parse().expect("a listed fault")),
            extra_documents: vec![("/.well-known/serverdyno/token".to_owned(), b"consent".to_vec())],
            ..Options::on_loopback(Documents::Fixed(BYTES))
        })
        .expect("a free port");
        let mut client = Client::of(&server);
        client.send("HEAD / HTTP/1.1\r\nHost: test\r\n\r\n");
        assert_eq!(client.head().length(), BYTES, "{name}");
        assert_eq!(
            client.get("/.well-known/serverdyno/token").body,
            b"consent",
            "{name}"
        );
        assert_eq!(client.get(REQUEST_COUNT_PATH).body, b"1", "{name}");
    }
}
