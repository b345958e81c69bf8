//! Limits on memory and waiting time hold for any input.

use super::reading::{read, Ending};
use dyno_http::{Body, Limits, Progress, ResponseReader};
use dyno_measure::{Failure, Fault};

const LIMITS: Limits = Limits {
    head_bytes: 1000,
    fields: 1000,
    body_bytes: 1000,
};

struct Ignored;

impl Body for Ignored {
    fn part(&mut self, _data: &[u8], _last: bool) {}
}

/// Feeds `start`, then `more` repeatedly. Returns after how many bytes of `more` the reader refuses, and why.
fn bytes_until_refused(start: &str, more: &[u8]) -> (usize, Fault) {
    let mut reader = ResponseReader::new(LIMITS);
    let started = reader.feed(start.as_bytes(), &mut Ignored);
    assert!(
        start.is_empty() || started == Ok(Progress::More),
        "{start:?}: {started:?}"
    );
    for fed in (0..100_000).step_by(more.len()) {
        if let Err(Failure { fault, .. }) = reader.feed(more, &mut Ignored) {
            return (fed + more.len(), fault);
        }
    }
    panic!("{start:?} and {more:?} again and again was taken without end");
}

fn check(start: &str, more: &[u8], fault: Fault, at_most: usize) {
    let (bytes, found) = bytes_until_refused(start, more);
    assert_eq!(found, fault, "{start:?} {more:?}");
    assert!(bytes <= at_most, "{start:?} {more:?}: refused after {bytes}");
}

#[test]
fn a_head_may_have_exactly_its_limit() {
    let head = |bytes: usize| {
        let rest = bytes - "HTTP/1.1 204 N\r\nA: \r\n\r\n".len();
        format!("HTTP/1.1 204 N\r\nA: {}\r\n\r\n", "a".repeat(rest)).into_bytes()
    };
    let whole = Ending::Whole {
        status: 204,
        body: Vec::new(),
        stays_open: true,
    };
    for pieces in [1, 7, 1000, 2000] {
        assert_eq!(read(head(1000).chunks(pieces), LIMITS), whole);
        assert_eq!(
            read(head(1001).chunks(pieces), LIMITS),
            Ending::Failed(Fault::HeadTooLarge)
        );
    }
}

#[test]
fn bytes_beyond_the_limit_of_a_head_are_ignored() {
    let mut response = format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(1000)).into_bytes();
    response.extend_from_slice(b"\0\0 not a head\r\n\r\n");
    for pieces in [1, 7, 2000] {
        assert_eq!(
            read(response.chunks(pieces), LIMITS),
            Ending::Failed(Fault::HeadTooLarge)
        );
    }
}

#[test]
fn an_endless_head_is_refused() {
    check("HTTP/1.1 200 OK\r\n", b"A: b\r\n", Fault::HeadTooLarge, 1000);
    check("HTTP/1.1 200 OK\r\nA: ", b"a", Fault::HeadTooLarge, 1000);
    check("HTTP/1.1 200 ", b"a", Fault::HeadTooLarge, 1000);
    check("", b"\r\n", Fault::HeadTooLarge, 1002);
    check("", &[b'\n'; 5000], Fault::HeadTooLarge, 5000);
}

#[test]
fn a_head_may_have_exactly_as_many_fields_as_its_limit() {
    let whole = |fields: usize| {
        let head = format!("HTTP/1.1 204 N\r\n{}\r\n", "A: b\r\n".repeat(fields));
        let limits = |most| Limits {
            head_bytes: 100_000,
            fields: most,
            body_bytes: 1000,
        };
        [100, 150, 5000].map(|most| matches!(read([head.as_bytes()], limits(most)), Ending::Whole { .. }))
    };
    assert_eq!(whole(100), [true, true, true]);
    assert_eq!(whole(150), [false, true, true]);
    assert_eq!(whole(5000), [false, false, true]);
}

#[test]
fn endless_interim_answers_are_refused() {
    check(
        "",
        b"HTTP/1.1 100 C\r\n\r\n",
        Fault::HeadTooLarge,
        LIMITS.head_bytes + 18,
    );
}

#[test]
fn an_endless_body_is_refused_however_it_is_framed() {
    check("HTTP/1.1 200 OK\r\n\r\n", b"a", Fault::BodyTooLarge, 1001);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(chunked, b"1\r\na\r\n", Fault::BodyTooLarge, 1001 * 6);
}

#[test]
fn a_body_that_declares_more_than_its_limit_is_refused_at_once() {
    for declared in [1001, 1 << 63, u64::MAX] {
        let length = format!("HTTP/1.1 200 OK\r\nContent-Length: {declared}\r\n\r\n");
        let chunk =
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n{declared:x}\r\n");
        for start in [length, chunk] {
            assert_eq!(
                read([start.as_bytes()], LIMITS),
                Ending::Failed(Fault::BodyTooLarge),
                "{start:?}"
            );
        }
    }
}

#[test]
fn endless_lines_of_a_chunked_body_are_refused() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (start, more) in [
        ("", "0"),
        ("1;", "a"),
        ("1", " "),
        ("0\r\nA: ", "a"),
        ("0\r\nA", "a"),
        ("0\r\n", "A: b\r\n"),
    ] {
        check(
            &format!("{chunked}{start}"),
            more.as_bytes(),
            Fault::MalformedChunk,
            5000,
        );
    }
}

#[test]
fn a_body_of_exactly_its_limit_is_accepted() {
    let mut response = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_vec();
    response.resize(response.len() + 1000, b'a');
    assert!(matches!(read([&response[..]], LIMITS), Ending::Whole { body, .. } if body.len() == 1000));
}
