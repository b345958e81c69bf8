//! Servers that break a rule of HTTP/2: each failed operation is counted once, with its kind, and nothing
//! hangs or grows without limit. Each abuse is a function of the request's stream; the names are in
//! `dyno_http::h2::Violation`.

use super::clean::http2;
use super::peer::{
    field, frame, hello, setting, Peer, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS,
    PADDED, PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, STATUS_200, WINDOW_UPDATE, WITH_PRIORITY,
};
use crate::level::running::{fault, faults, run, until_all_have_left};
use crate::level::server::Server;
use dyno_engine::LevelSpec;
use dyno_measure::{Fault, Side};
use std::io::Write;
use std::net::Shutdown;
use std::sync::mpsc;
use std::sync::Mutex;
use std::time::Duration;

/// Error codes of RFC 9113, section 7.
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const COMPRESSION_ERROR: u32 = 9;
const ENHANCE_YOUR_CALM: u32 = 11;

/// A server's answer to a request on this stream.
type Abuse = fn(u32) -> Vec<u8>;

struct Case {
    name: &'static str,
    fault: Fault,
    /// Part of the error's example.
    words: &'static str,
    /// Error code that the client sends; None: none is required.
    code: Option<u32>,
    abuse: Abuse,
}

/// Checks that a client leaves with its first and only error, and sends the error code.
fn check(case: &Case) {
    let (report, told) = mpsc::channel();
    let (report, abuse) = (Mutex::new(report), case.abuse);
    let server = Server::start(move |connection| {
        let Some(mut peer) = Peer::begin(connection, &[]) else {
            return;
        };
        let Some(stream) = peer.request() else { return };
        peer.send(&abuse(stream));
        let refusal = peer.refusal();
        let _ = report.lock().expect("no test panics here").send(refusal);
    });
    let mut level = until_all_have_left(LevelSpec {
        clients: 1,
        ..http2(&server, 1)
    });
    level.client["max_head_bytes"] = 32_768.into();
    let tally = run(level);
    assert_eq!(faults(&tally), [(case.fault, 1)], "{}", case.name);
    assert_eq!(fault(case.fault.name()).side(), Side::Server);
    let example = &tally.errors[0].example;
    assert!(example.contains(case.words), "{}: {example}", case.name);
    let told = told
        .recv_timeout(Duration::from_secs(30))
        .expect("the client leaves");
    if let Some(code) = case.code {
        assert_eq!(told, Some(code), "{}", case.name);
    }
}

fn head(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, block)
}

fn with(more: &[u8]) -> Vec<u8> {
    [STATUS_200, more].concat()
}

macro_rules! cases {
    ($test:ident: $($fault:ident $code:ident $words:literal $name:literal $abuse:expr;)*) => {
        #[test]
        fn $test() {
            $(check(&Case {
                name: $name, fault: Fault::$fault, words: $words, code: Some($code), abuse: $abuse,
            });)*
        }
    };
}

cases! { frames_of_a_wrong_form_or_place:
    MalformedFrame FRAME_SIZE_ERROR "larger than 16,384" "oversized" |s| frame(DATA, 0, s, &[0; 16_385]);
    MalformedFrame FRAME_SIZE_ERROR "larger than 16,384" "oversized and unknown" |_| frame(0x99, 0, 0, &[0; 70_000]);
    MalformedFrame FRAME_SIZE_ERROR "the wrong size" "long ping" |_| frame(PING, 0, 0, &[0; 9]);
    MalformedFrame FRAME_SIZE_ERROR "the wrong size" "short reset" |s| frame(RST_STREAM, 0, s, &[0; 3]);
    MalformedFrame FRAME_SIZE_ERROR "the wrong size" "short window" |_| frame(WINDOW_UPDATE, 0, 0, &[0; 3]);
    MalformedFrame FRAME_SIZE_ERROR "the wrong size" "half a setting" |_| frame(SETTINGS, 0, 0, &[0; 7]);
    MalformedFrame FRAME_SIZE_ERROR "the wrong size" "acknowledgement with settings"
        |_| frame(SETTINGS, ACK, 0, &setting(1, 1));
    MalformedFrame FRAME_SIZE_ERROR "the wrong size" "short farewell" |_| frame(GOAWAY, 0, 0, &[0; 7]);
    MalformedFrame FRAME_SIZE_ERROR "the wrong size" "long priority" |s| frame(PRIORITY, 0, s, &[0; 6]);
    MalformedFrame FRAME_SIZE_ERROR "the wrong size" "padding without its length"
        |s| [head(s, STATUS_200), frame(DATA, PADDED, s, b"")].concat();
    MalformedFrame FRAME_SIZE_ERROR "the wrong size" "cut-off priority" |s| frame(
        HEADERS, END_HEADERS | WITH_PRIORITY, s, &[0; 4]);
    MalformedFrame PROTOCOL_ERROR "padding is longer" "padding beyond data"
        |s| [head(s, STATUS_200), frame(DATA, PADDED, s, &[5, 0, 0])].concat();
    MalformedFrame PROTOCOL_ERROR "padding is longer" "padding beyond a head"
        |s| frame(HEADERS, END_HEADERS | PADDED, s, &[9, 0x88]);
    MalformedFrame PROTOCOL_ERROR "on stream 0" "data on stream 0" |_| frame(DATA, 0, 0, b"x");
    MalformedFrame PROTOCOL_ERROR "on stream 0" "head on stream 0" |_| head(0, STATUS_200);
    MalformedFrame PROTOCOL_ERROR "on stream 0" "reset of stream 0" |_| frame(RST_STREAM, 0, 0, &[0; 4]);
    MalformedFrame PROTOCOL_ERROR "of the connection is on a stream" "settings on a stream"
        |s| frame(SETTINGS, 0, s, &[]);
    MalformedFrame PROTOCOL_ERROR "of the connection is on a stream" "ping on a stream" |s| frame(PING, 0, s, &[0; 8]);
    MalformedFrame PROTOCOL_ERROR "of the connection is on a stream" "farewell on a stream"
        |s| frame(GOAWAY, 0, s, &[0; 8]);
    MalformedFrame PROTOCOL_ERROR "never opened" "data on an idle stream" |s| frame(DATA, 0, s + 2, b"x");
    MalformedFrame PROTOCOL_ERROR "never opened" "head on a stream of the server's" |s| head(s + 1, STATUS_200);
    MalformedFrame PROTOCOL_ERROR "never opened" "reset of an idle stream" |s| frame(RST_STREAM, 0, s + 2, &[0; 4]);
    MalformedFrame PROTOCOL_ERROR "never opened" "window of an idle stream"
        |s| frame(WINDOW_UPDATE, 0, s + 2, &[0, 0, 0, 1]);
    MalformedFrame PROTOCOL_ERROR "pushes a stream" "push" |s| frame(
        PUSH_PROMISE, END_HEADERS, s, &[&2u32.to_be_bytes()[..], STATUS_200].concat());
    MalformedFrame PROTOCOL_ERROR "follows an open header block" "interrupted head"
        |s| [frame(HEADERS, 0, s, STATUS_200), frame(PING, 0, 0, &[0; 8])].concat();
    MalformedFrame PROTOCOL_ERROR "follows an open header block" "head interrupted by data"
        |s| [frame(HEADERS, 0, s, STATUS_200), frame(DATA, 0, s, b"x")].concat();
    MalformedFrame PROTOCOL_ERROR "follows an open header block" "head continued on another stream"
        |s| [frame(HEADERS, 0, s, STATUS_200), frame(CONTINUATION, END_HEADERS, s + 2, &[])].concat();
    MalformedFrame PROTOCOL_ERROR "without an open header block" "continuation of nothing"
        |s| frame(CONTINUATION, END_HEADERS, s, STATUS_200);
    MalformedFrame PROTOCOL_ERROR "depends on itself" "a stream on itself" |s| frame(
        HEADERS, END_HEADERS | WITH_PRIORITY, s, &[&s.to_be_bytes()[..], &[0, 0x88]].concat());
}

cases! { settings_and_windows_that_can_not_be:
    MalformedFrame PROTOCOL_ERROR "invalid value" "push switched on" |_| frame(SETTINGS, 0, 0, &setting(2, 1));
    MalformedFrame PROTOCOL_ERROR "invalid value" "small frames" |_| frame(SETTINGS, 0, 0, &setting(5, 16_383));
    MalformedFrame PROTOCOL_ERROR "invalid value" "huge frames" |_| frame(SETTINGS, 0, 0, &setting(5, 1 << 24));
    MalformedFrame PROTOCOL_ERROR "that the client did not send" "acknowledged twice"
        |_| [frame(SETTINGS, ACK, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat();
    MalformedFrame PROTOCOL_ERROR "increment of 0" "window by nothing" |_| frame(WINDOW_UPDATE, 0, 0, &[0; 4]);
    MalformedFrame PROTOCOL_ERROR "increment of 0" "stream's window by nothing"
        |s| frame(WINDOW_UPDATE, 0, s, &[0; 4]);
    WindowExceeded FLOW_CONTROL_ERROR "initial window" "initial window" |_| frame(SETTINGS, 0, 0, &setting(4, 1 << 31));
    WindowExceeded FLOW_CONTROL_ERROR "grows beyond" "connection's window" |_| frame(
        WINDOW_UPDATE, 0, 0, &0x7fff_ffffu32.to_be_bytes());
    WindowExceeded FLOW_CONTROL_ERROR "grows beyond" "stream's window" |s| frame(
        WINDOW_UPDATE, 0, s, &0x7fff_ffffu32.to_be_bytes());
    WindowExceeded FLOW_CONTROL_ERROR "grows beyond" "stream's window by settings" |s| [
        frame(WINDOW_UPDATE, 0, s, &0x7000_0000u32.to_be_bytes()),
        frame(SETTINGS, 0, 0, &setting(4, 0x7000_0000)),
    ].concat();
    MalformedFrame PROTOCOL_ERROR "higher stream" "a farewell that is taken back"
        |s| [farewell(s, 0), farewell(s + 2, 0)].concat();
}

cases! { header_blocks_that_can_not_be_decoded:
    BrokenCompression COMPRESSION_ERROR "index 0" "index 0" |s| head(s, &[0x80]);
    BrokenCompression COMPRESSION_ERROR "beyond both tables" "index beyond" |s| head(s, &[0x88, 0xbe]);
    BrokenCompression COMPRESSION_ERROR "too large" "endless integer" |s| head(s, &[0xff; 40]);
    BrokenCompression COMPRESSION_ERROR "ends within" "cut-off name" |s| head(s, &[0x88, 0, 9, b'a']);
    BrokenCompression COMPRESSION_ERROR "the wrong padding" "padding of zeros" |s| head(s, &[0x88, 0, 0x81, 0x00]);
    BrokenCompression COMPRESSION_ERROR "end symbol" "end symbol" |s| head(s, &[0x88, 0, 0x84, 0xff, 0xff, 0xff, 0xff]);
    BrokenCompression COMPRESSION_ERROR "exceeds the limit" "huge table" |s| head(s, &[0x3f, 0xe2, 0x1f, 0x88]);
    BrokenCompression COMPRESSION_ERROR "within a header block" "late table" |s| head(s, &[0x88, 0x20]);
    HeadTooLarge ENHANCE_YOUR_CALM "SETTINGS_MAX_HEADER_LIST_SIZE" "a bomb: one large field, again and again" |s| {
        let mut block = with(&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e]);
        block.extend([b'x'; 4000]);
        block.extend([0xbe; 12_000]);
        head(s, &block)
    };
    HeadTooLarge ENHANCE_YOUR_CALM "SETTINGS_MAX_HEADER_LIST_SIZE" "many small fields" |s| head(s, &with(&field("a", "b").repeat(1100)));
    HeadTooLarge ENHANCE_YOUR_CALM "CONTINUATION" "endless continuation"
        |s| [frame(HEADERS, 0, s, STATUS_200), frame(CONTINUATION, 0, s, &[]).repeat(200)].concat();
    HeadTooLarge ENHANCE_YOUR_CALM "CONTINUATION" "large continuations"
        |s| [frame(HEADERS, 0, s, STATUS_200), frame(CONTINUATION, 0, s, &[0; 16_000]).repeat(3)].concat();
}

cases! { heads_that_are_not_http:
    MalformedHead PROTOCOL_ERROR "three digits" "no status" |s| head(s, &field("a", "b"));
    MalformedHead PROTOCOL_ERROR "three digits" "a status of two digits" |s| head(s, &field(":status", "20"));
    MalformedHead PROTOCOL_ERROR "three digits" "a status of letters" |s| head(s, &field(":status", "2xx"));
    MalformedHead PROTOCOL_ERROR "pseudo-header" "two statuses" |s| head(s, &with(STATUS_200));
    MalformedHead PROTOCOL_ERROR "pseudo-header" "a late status" |s| head(s, &[field("a", "b"), STATUS_200.to_vec()].concat());
    MalformedHead PROTOCOL_ERROR "pseudo-header" "a pseudo-field of requests" |s| head(s, &with(&field(":path", "/")));
    MalformedHead PROTOCOL_ERROR "name" "a name in upper case" |s| head(s, &with(&field("Date", "x")));
    MalformedHead PROTOCOL_ERROR "name" "no name" |s| head(s, &with(&field("", "x")));
    MalformedHead PROTOCOL_ERROR "value" "a line end in a value" |s| head(s, &with(&field("a", "b\r\nc: d")));
    MalformedHead PROTOCOL_ERROR "value" "a zero byte in a value" |s| head(s, &with(&field("a", "b\0")));
    MalformedHead PROTOCOL_ERROR "value" "a blank before a value" |s| head(s, &with(&field("a", " b")));
    MalformedHead PROTOCOL_ERROR "connection" "chunked" |s| head(s, &with(&field("transfer-encoding", "chunked")));
    MalformedHead PROTOCOL_ERROR "connection" "keep-alive" |s| head(s, &with(&field("connection", "keep-alive")));
    MalformedHead PROTOCOL_ERROR "content-length" "two lengths"
        |s| head(s, &with(&[field("content-length", "5"), field("content-length", "6")].concat()));
    MalformedHead PROTOCOL_ERROR "content-length" "a negative length" |s| head(s, &with(&field("content-length", "-5")));
    MalformedHead PROTOCOL_ERROR "ends the stream" "an interim response that ends"
        |s| frame(HEADERS, END_HEADERS | END_STREAM, s, &field(":status", "103"));
    MalformedHead PROTOCOL_ERROR "switches" "switching protocols" |s| head(s, &field(":status", "101"));
    HeadTooLarge ENHANCE_YOUR_CALM "interim" "endless interim responses"
        |s| head(s, &[field(":status", "103"), field("link", &"x".repeat(4000))].concat()).repeat(100);
    MalformedHead PROTOCOL_ERROR "pseudo-header" "a status in the trailer" |s| [
        head(s, STATUS_200), frame(HEADERS, END_HEADERS | END_STREAM, s, STATUS_200)].concat();
    MalformedFrame PROTOCOL_ERROR "does not end the stream" "a second head" |s| [head(s, STATUS_200), head(s, &field("a", "b"))].concat();
}

cases! { data_that_does_not_fit:
    MalformedFrame PROTOCOL_ERROR "before the response headers" "data first" |s| frame(DATA, END_STREAM, s, b"hello");
    MalformedFrame PROTOCOL_ERROR "differs from content-length" "less than declared"
        |s| [head(s, &with(&field("content-length", "6"))), frame(DATA, END_STREAM, s, b"hello")].concat();
    MalformedFrame PROTOCOL_ERROR "differs from content-length" "more than declared"
        |s| [head(s, &with(&field("content-length", "4"))), frame(DATA, END_STREAM, s, b"hello")].concat();
    MalformedFrame PROTOCOL_ERROR "differs from content-length" "nothing where something was declared"
        |s| frame(HEADERS, END_HEADERS | END_STREAM, s, &with(&field("content-length", "4")));
    FrameFlood ENHANCE_YOUR_CALM "no part of a response" "empty data without end"
        |s| [head(s, STATUS_200), frame(DATA, 0, s, b"").repeat(2000)].concat();
    FrameFlood ENHANCE_YOUR_CALM "no part of a response" "a flood of pings" |_| frame(PING, 0, 0, &[0; 8]).repeat(2000);
    FrameFlood ENHANCE_YOUR_CALM "no part of a response" "a flood of settings"
        |_| frame(SETTINGS, 0, 0, &setting(3, 100)).repeat(2000);
    FrameFlood ENHANCE_YOUR_CALM "no part of a response" "a flood of priorities"
        |s| frame(PRIORITY, 0, s, &[0; 5]).repeat(2000);
    FrameFlood ENHANCE_YOUR_CALM "no part of a response" "a flood of windows"
        |s| frame(WINDOW_UPDATE, 0, s, &[0, 0, 0, 1]).repeat(2000);
    FrameFlood ENHANCE_YOUR_CALM "no part of a response" "a flood of unknown frames" |_| frame(0xee, 0, 0, &[]).repeat(2000);
    StreamReset PROTOCOL_ERROR "PROTOCOL_ERROR" "a reset, then nonsense"
        |s| [frame(RST_STREAM, 0, s, &1u32.to_be_bytes()), frame(PING, 0, 1, &[0; 8])].concat();
}

fn farewell(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// Like `check`, for clients that need not send a particular code.
fn check_end(name: &'static str, fault: Fault, words: &'static str, abuse: Abuse) {
    let server = Server::start(move |connection| {
        let Some(mut peer) = Peer::begin(connection, &[]) else {
            return;
        };
        let Some(stream) = peer.request() else { return };
        peer.send(&abuse(stream));
        // Closing a socket with unread data causes a reset, which can overtake the sent data.
        let _ = peer.connection.stream.shutdown(Shutdown::Write);
        peer.connection.outwait();
    });
    let tally = run(until_all_have_left(LevelSpec {
        clients: 1,
        ..http2(&server, 1)
    }));
    assert_eq!(faults(&tally), [(fault, 1)], "{name}");
    assert!(
        tally.errors[0].example.contains(words),
        "{}",
        tally.errors[0].example
    );
}

#[test]
fn a_server_may_end_with_or_without_a_reason() {
    check_end("reset", Fault::StreamReset, "INTERNAL_ERROR", |s| {
        [frame(RST_STREAM, 0, s, &2u32.to_be_bytes()), farewell(s, 0)].concat()
    });
    check_end("unknown code", Fault::StreamReset, "error code 77", |s| {
        [frame(RST_STREAM, 0, s, &77u32.to_be_bytes()), farewell(s, 0)].concat()
    });
    check_end("closed within a response", Fault::ClosedEarly, "closed", |s| {
        head(s, STATUS_200)
    });
    check_end("closed within a frame", Fault::ClosedEarly, "closed", |s| {
        hello(s)[..12].to_vec()
    });
}

#[test]
fn a_server_that_always_leaves_without_processing_fails_the_request() {
    let server = Server::start(move |connection| {
        let Some(mut peer) = Peer::begin(connection, &[]) else {
            return;
        };
        if peer.request().is_some() {
            peer.send(&farewell(0, 0));
            peer.connection.outwait();
        }
    });
    let tally = run(until_all_have_left(LevelSpec {
        clients: 1,
        ..http2(&server, 1)
    }));
    assert_eq!(faults(&tally), [(Fault::GoingAway, 1)]);
    assert_eq!((server.connections(), server.requests()), ATTEMPTS);
}

/// Number of connections and of requests for one operation that is repeated as often as allowed.
const ATTEMPTS: (u64, u64) = (11, 11);

/// Checks servers that refuse each stream: after a number of attempts, the refusal counts as an error of the
/// server or of the generator.
fn check_refusals(name: &str, settings: &'static [u8], raised: &'static [u8], (fault, side): (Fault, Side)) {
    let server = Server::start(move |connection| {
        let Some(mut peer) = Peer::begin(connection, settings) else {
            return;
        };
        while let Some(stream) = peer.request() {
            let refused = frame(RST_STREAM, 0, stream, &7u32.to_be_bytes());
            // A new connection starts with the final limit.
            peer.send(&[refused, frame(SETTINGS, 0, 0, raised), farewell(stream, 0)].concat());
        }
    });
    let tally = run(until_all_have_left(LevelSpec {
        clients: 1,
        ..http2(&server, 1)
    }));
    assert_eq!(faults(&tally), [(fault, 1)], "{name}");
    assert_eq!(tally.errors[0].side, side.name(), "{name}");
    assert!(tally.errors[0].example.contains("REFUSED_STREAM"), "{name}");
    assert_eq!((server.connections(), server.requests()), ATTEMPTS, "{name}");
    let counts: Vec<u64> = tally.requests.iter().map(|row| row.count).collect();
    assert_eq!(counts, [11, 11], "{name}: all of them were refused");
}

#[test]
fn a_repeatedly_refused_request_is_an_error_of_the_side_that_broke_the_limit() {
    const NONE: &[u8] = &[0, 3, 0, 0, 0, 0];
    const ONE: &[u8] = &[0, 3, 0, 0, 0, 1];
    let (theirs, ours) = (
        (Fault::StreamRefused, Side::Server),
        (Fault::StreamsOverLimit, Side::Client),
    );
    check_refusals("no limit", &[], &[], theirs);
    check_refusals("a limit that is kept", ONE, ONE, theirs);
    check_refusals("a limit that is told too late", NONE, ONE, ours);
}

#[test]
fn a_server_of_another_protocol_is_named_as_such() {
    for said in [
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        "SSH-2.0-x\r\n",
        "\0\0\0\x08\0\0\0\0\0",
    ] {
        let server = Server::start(move |mut connection| {
            let _ = connection.stream.write_all(said.as_bytes());
            connection.outwait();
        });
        let tally = run(until_all_have_left(LevelSpec {
            clients: 1,
            ..http2(&server, 1)
        }));
        assert_eq!(faults(&tally), [(Fault::NotHttp2, 1)], "{said:?}");
    }
}

#[test]
fn a_frame_on_an_ended_stream_is_an_error_of_the_next_request() {
    let server = Server::start(move |connection| {
        let Some(mut peer) = Peer::begin(connection, &[]) else {
            return;
        };
        let Some(stream) = peer.request() else { return };
        peer.send(&[hello(stream), frame(DATA, END_STREAM, stream, b"again")].concat());
        assert_eq!(peer.refusal(), Some(STREAM_CLOSED));
    });
    let tally = run(until_all_have_left(LevelSpec {
        clients: 1,
        ..http2(&server, 1)
    }));
    assert_eq!(faults(&tally), [(Fault::MalformedFrame, 1)]);
    assert_eq!((tally.operations_total, server.connections()), (1, 1));
}

#[test]
fn more_data_than_a_window_allows_is_refused() {
    // The window of a stream that the client has given up is not extended: it stays 4 MiB.
    let server = Server::start(|connection| {
        let Some(mut peer) = Peer::begin(connection, &[]) else {
            return;
        };
        let Some(stream) = peer.request() else { return };
        peer.send(&head(stream, STATUS_200));
        while peer.read().is_some_and(|frame| frame.kind != RST_STREAM) {}
        let data = frame(DATA, 0, stream, &[0; 16_384]);
        for _ in 0..=4096 {
            peer.send(&data);
        }
        assert_eq!(peer.refusal(), Some(FLOW_CONTROL_ERROR));
    });
    let mut level = until_all_have_left(LevelSpec {
        clients: 1,
        timeout_s: 0.2,
        ..http2(&server, 1)
    });
    level.leave_after_errors = Some(2);
    let found = faults(&run(level));
    assert_eq!(found, [(Fault::ResponseTimeout, 1), (Fault::WindowExceeded, 1)]);
}
