//! An HTTP/2 session with arbitrary input: no panic, the same result however the input is divided, no stream
//! gets more than was received, and output is limited. A failed response may have passed on more or less of
//! its body.
//!
//! First byte: size of the pieces (0: one byte, two, three ...). Second byte: number of open streams. The
//! server's SETTINGS have already arrived.
#![no_main]

mod pieces;

use dyno_http::h2::{Request, RequestMaker, Session};
use dyno_http::{Body, Conversation, Limits, Shape};
use dyno_measure::Fault;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// Small enough for short inputs to exceed them.
const LIMITS: Limits = Limits {
    head_bytes: 300,
    fields: 1000,
    body_bytes: 1000,
};
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const MOST_STREAMS: u8 = 5;
/// Limit of unsent answers to SETTINGS and PING, resets, window updates, preface and requests.
const MOST_OUTGOING_BYTES: usize = 300 * 1024;

/// Every other request has a body that waits for the server's window.
static REQUESTS: LazyLock<[Request; 2]> = LazyLock::new(|| {
    let with_body = Shape {
        method: "POST".into(),
        body: Some(vec![1; 70_000]),
        ..Shape::default()
    };
    [Shape::default(), with_body].map(|shape| RequestMaker::new("h", false, &shape).request("/"))
});

#[derive(Debug, Default, PartialEq, Eq)]
struct Collected {
    fields: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    bytes: Vec<u8>,
    ended: bool,
}

impl Body for Collected {
    fn wants_fields(&mut self) -> bool {
        assert!(self.fields.is_none(), "there is one final head");
        self.fields = Some(Vec::new());
        true
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let fields = self.fields.as_mut().expect("they are wanted");
        fields.push((name.to_vec(), value.to_vec()));
        let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes <= LIMITS.head_bytes && !name.starts_with(b":"));
    }

    fn part(&mut self, data: &[u8], last: bool) {
        assert!(!self.ended, "a part came after the last one");
        self.bytes.extend_from_slice(data);
        self.ended = last;
    }
}

/// Results of the streams in order of their end, and of the connection.
#[derive(Debug, Default)]
struct Ending {
    streams: Vec<(usize, Result<u16, Fault>, Collected)>,
    broken: Option<Fault>,
}

fn read<'a>(streams: u8, pieces: impl Iterator<Item = &'a [u8]>) -> Ending {
    let mut session = Session::new(LIMITS);
    session.feed(&SETTINGS).expect("an honest beginning");
    for number in 0..streams {
        session.open(&REQUESTS[usize::from(number % 2)], Collected::default());
    }
    let (mut ending, mut fed_bytes, mut finished) = (Ending::default(), 0, Vec::new());
    for piece in pieces {
        fed_bytes += piece.len();
        let fed = session.feed(piece);
        assert!(session.outgoing().len() <= MOST_OUTGOING_BYTES, "it grows");
        session.take_finished(&mut finished);
        for place in finished.drain(..) {
            let ended = session.take(place).expect("what is finished has ended");
            assert!(ended.body.bytes.len() <= fed_bytes && ended.body_bytes <= fed_bytes as u64);
            assert!(ended.body.bytes.len() as u64 <= LIMITS.body_bytes);
            assert!(
                ended.result.is_err() || ended.body.ended,
                "a whole response has a last part"
            );
            let result = ended.result.map_err(|failure| failure.fault);
            ending.streams.push((place, result, ended.body));
            assert!(session.take(place).is_none(), "it ends once");
        }
        if let Err(failure) = fed {
            ending.broken = Some(failure.fault);
            break;
        }
    }
    let open = ending.streams.len() + session.active() as usize;
    assert_eq!(open, usize::from(streams), "no stream is lost");
    ending
}

fuzz_target!(|input: &[u8]| {
    let [cut, streams, bytes @ ..] = input else {
        return;
    };
    let streams = 1 + streams % MOST_STREAMS;
    let in_one_piece = read(streams, std::iter::once(bytes));
    let in_pieces = read(streams, pieces::cut(bytes, *cut));
    assert_eq!(in_one_piece.broken, in_pieces.broken, "cut by {cut}");
    assert_eq!(
        in_one_piece.streams.len(),
        in_pieces.streams.len(),
        "cut by {cut}"
    );
    for (one, other) in in_one_piece.streams.iter().zip(&in_pieces.streams) {
        let ((place, result, body), (other_place, other_result, other_body)) = (one, other);
        assert_eq!((place, result), (other_place, other_result), "cut by {cut}");
        let alike = match result {
            Ok(_) => body == other_body,
            Err(_) => body.bytes.starts_with(&other_body.bytes) || other_body.bytes.starts_with(&body.bytes),
        };
        assert!(alike, "cut by {cut}: {one:?}, {other:?}");
    }
});
