//! Reads a response in given pieces, as a client does.

use dyno_http::{Body, Limits, Progress, ResponseReader};
use dyno_measure::Fault;

/// Result of all bytes of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// A complete response.
    Whole {
        status: u16,
        body: Vec<u8>,
        stays_open: bool,
    },
    Failed(Fault),
}

/// Collects a body and checks that exactly the last part is marked as last.
#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    ended: bool,
}

impl Body for Collected {
    fn part(&mut self, data: &[u8], last: bool) {
        assert!(!self.ended, "a part came after the last one");
        self.bytes.extend_from_slice(data);
        self.ended = last;
    }
}

pub fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> Ending {
    let mut reader = ResponseReader::new(limits);
    read_with(&mut reader, pieces)
}

/// Like `read`, with a reader that may have been used before.
pub fn read_with<'a>(reader: &mut ResponseReader, pieces: impl IntoIterator<Item = &'a [u8]>) -> Ending {
    reader.reset();
    let mut body = Collected::default();
    let mut fed_bytes = 0;
    for piece in pieces {
        fed_bytes += piece.len() as u64;
        let progress = match reader.feed(piece, &mut body) {
            Ok(progress) => progress,
            Err(failure) => return Ending::Failed(failure.fault),
        };
        assert_eq!(reader.received_bytes(), fed_bytes);
        assert_eq!(reader.body_bytes(), body.bytes.len() as u64);
        assert_eq!(body.ended, progress == Progress::Done);
    }
    match reader.end(&mut body) {
        Err(failure) => return Ending::Failed(failure.fault),
        Ok(()) => assert!(body.ended, "a whole response has a last part"),
    }
    let head = reader.head().expect("a whole response has a head");
    Ending::Whole {
        status: head.status,
        body: body.bytes,
        stays_open: head.leaves_connection_open(),
    }
}

/// Reads `response` at once, byte by byte, and divided at every position. Each result must be as expected.
pub fn check(response: &[u8], expected: &Ending) {
    let shown = String::from_utf8_lossy(&response[..response.len().min(300)]);
    let limits = Limits::default();
    assert_eq!(read([response], limits), *expected, "in one piece: {shown:?}");
    assert_eq!(
        read(response.chunks(1), limits),
        *expected,
        "byte by byte: {shown:?}"
    );
    if response.len() > 1_000 {
        return;
    }
    for place in 0..=response.len() {
        let (left, right) = response.split_at(place);
        assert_eq!(
            read([left, right], limits),
            *expected,
            "cut at {place}: {shown:?}"
        );
    }
}
