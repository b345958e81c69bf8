//! The HTTP/1 response reader with arbitrary input: no panic, limited memory, and the same result however the
//! input is divided.
//!
//! First byte: size of the pieces. 0 stands for one byte, two, three ...
#![no_main]

mod pieces;

use dyno_http::{Body, Head, Limits, Progress, ResponseReader};
use dyno_measure::Fault;
use libfuzzer_sys::fuzz_target;

/// Small enough for short inputs to exceed them.
const LIMITS: Limits = Limits {
    head_bytes: 200,
    fields: 1000,
    body_bytes: 100,
};
/// Maximum number of interim heads.
const MOST_INTERIM_HEADS: u64 = 8;

#[derive(Debug, Default, PartialEq, Eq)]
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

/// Result of all bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    Whole(Head, Vec<u8>),
    Failed(Fault),
}

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Ending {
    let mut reader = ResponseReader::new(LIMITS);
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
        assert!(reader.body_bytes() <= LIMITS.body_bytes);
        let most_head_bytes = (MOST_INTERIM_HEADS + 1) * LIMITS.head_bytes as u64;
        assert!(
            reader.head().is_some() || fed_bytes <= most_head_bytes,
            "a head without bound"
        );
    }
    match (reader.end(&mut body), reader.head()) {
        (Ok(()), Some(head)) => {
            assert!(body.ended, "a whole response has a last part");
            Ending::Whole(head, body.bytes)
        }
        (Ok(()), None) => panic!("a whole response without a head"),
        (Err(failure), _) => Ending::Failed(failure.fault),
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else {
        return;
    };
    let in_one_piece = read(std::iter::once(bytes));
    let in_pieces = read(pieces::cut(bytes, cut));
    assert_eq!(in_one_piece, in_pieces, "cut by {cut}");
});
