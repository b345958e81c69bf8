//! An HTTP/2 session fed by hand: what no real server of a test can bring about at the right moment.

use dyno_http::h2::{Request, RequestMaker, Session};
use dyno_http::{Body, Conversation, Limits, Shape};
use dyno_measure::{Failure, Fault};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_BYTES: usize = 1 << 22;
const ALL_WINDOW_BYTES: usize = 1 << 24;
const FRAME_BYTES: usize = 16_384;

#[derive(Debug, Default)]
struct Counted {
    bytes: usize,
    ended: bool,
}

impl Body for Counted {
    fn part(&mut self, data: &[u8], last: bool) {
        assert!(!self.ended, "a part came after the last one");
        self.bytes += data.len();
        self.ended = last;
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

fn request() -> Request {
    RequestMaker::new("h", false, &Shape::default()).request("/")
}

/// With so many streams, whose heads have come.
fn session(streams: u32) -> Session<Counted> {
    let mut session = Session::new(Limits::default());
    session.feed(&frame(SETTINGS, 0, 0, &[])).expect("it is right");
    for number in 0..streams {
        session.open(&request(), Counted::default());
        let head = frame(HEADERS, 4, 2 * number + 1, &[0x88]);
        session.feed(&head).expect("it is right");
    }
    session
}

fn fault(result: Result<(), Failure>) -> Option<Fault> {
    result.err().map(|failure| failure.fault)
}

#[test]
fn data_beyond_what_was_sent_of_the_windows_is_refused() {
    let data = |stream| frame(DATA, 0, stream, &[0; FRAME_BYTES]);
    // Nothing is sent, so no window grows: that of the stream ends the stream, that of the connection the connection.
    let mut one = session(1);
    for _ in 0..WINDOW_BYTES / FRAME_BYTES {
        one.feed(&data(1)).expect("it fits");
    }
    assert!(!one.has_ended(0));
    assert_eq!(fault(one.feed(&data(1))), None);
    let ended = one.take(0).expect("it has ended");
    assert_eq!(
        ended.result.expect_err("it was reset").fault,
        Fault::WindowExceeded
    );
    assert_eq!(ended.body.bytes, WINDOW_BYTES);
    let mut many = session(4);
    for round in 0..ALL_WINDOW_BYTES / FRAME_BYTES {
        let stream = 2 * (round % 4) as u32 + 1;
        many.feed(&data(stream)).expect("it fits");
    }
    assert_eq!(fault(many.feed(&data(1))), Some(Fault::WindowExceeded));
}

#[test]
fn windows_grow_with_what_was_sent_and_only_then() {
    let mut session = session(1);
    for _ in 0..4 * ALL_WINDOW_BYTES / FRAME_BYTES {
        session.outgoing().clear();
        session
            .feed(&frame(DATA, 0, 1, &[0; FRAME_BYTES]))
            .expect("it fits");
    }
    session.feed(&frame(DATA, 1, 1, &[])).expect("it is right");
    assert_eq!(
        session.take(0).expect("it has ended").body.bytes,
        4 * ALL_WINDOW_BYTES
    );
}

#[test]
fn late_data_of_a_cancelled_stream_is_nobodys_and_bounded() {
    let mut session = session(1);
    // The frame is cut where the stream is cancelled, and its place is given to another stream.
    let late = frame(DATA, 0, 1, &[7; 100]);
    session.feed(&late[..50]).expect("it is right");
    session.cancel(0, Fault::ResponseTimeout.into());
    assert!(session.take(0).expect("it has ended").result.is_err());
    assert_eq!(session.open(&request(), Counted::default()), 0);
    session.feed(&late[50..]).expect("it was under way");
    session.feed(&frame(HEADERS, 4, 3, &[0x88])).expect("it is right");
    session.feed(&frame(DATA, 1, 3, b"hello")).expect("it is right");
    assert_eq!(session.take(0).expect("it has ended").body.bytes, 5);
    let mut fed = 0;
    let refused = loop {
        session.outgoing().clear();
        match session.feed(&frame(DATA, 0, 1, &[7; 1000])) {
            Ok(()) => fed += 1000,
            Err(failure) => break failure,
        }
        assert!(fed <= WINDOW_BYTES, "it never ends");
    };
    assert_eq!(refused.fault, Fault::WindowExceeded);
}

#[test]
fn answers_to_a_server_that_does_not_read_are_bounded() {
    let mut session = session(1);
    let pings = [frame(PING, 0, 0, &[0; 8]).repeat(500), frame(DATA, 0, 1, b"x")].concat();
    let refused = loop {
        if let Err(failure) = session.feed(&pings) {
            break failure;
        }
        assert!(session.outgoing().len() < 1 << 20, "it grows without end");
    };
    assert_eq!(refused.fault, Fault::FrameFlood);
}
