//! Randomly damaged responses cause no panic, and give the same result however they are split.

use dyno_http::{Limits, ResponseReader};
use dyno_s3::{fuzz_documents, Answer};
use proptest::prelude::*;

/// The responses with which the fuzz target also begins. Their first byte is not part of the response.
const SEEDS: [&[u8]; 8] = [
    include_bytes!("../../../../fuzz/seeds/s3_answer/complete"),
    include_bytes!("../../../../fuzz/seeds/s3_answer/copy"),
    include_bytes!("../../../../fuzz/seeds/s3_answer/delete"),
    include_bytes!("../../../../fuzz/seeds/s3_answer/dtd"),
    include_bytes!("../../../../fuzz/seeds/s3_answer/error"),
    include_bytes!("../../../../fuzz/seeds/s3_answer/list"),
    include_bytes!("../../../../fuzz/seeds/s3_answer/upload"),
    include_bytes!("../../../../fuzz/seeds/s3_answer/uploads"),
];
const WORDS: [&[u8]; 12] = [
    b"<",
    b">",
    b"/>",
    b"</",
    b"&#x10ffff;",
    b"&amp",
    b"<![CDATA[",
    b"]]>",
    b"<!--",
    b"<Contents>",
    b"\xff",
    b"18446744073709551616",
];

#[derive(Debug, Clone)]
enum Damage {
    Insert(usize, usize),
    Cut(usize, usize),
    Repeat(usize, usize),
    Replace(usize, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<usize>(), 0..WORDS.len()).prop_map(|(at, word)| Damage::Insert(at, word)),
        (any::<usize>(), 1..40_usize).prop_map(|(at, bytes)| Damage::Cut(at, bytes)),
        (any::<usize>(), 1..200_usize).prop_map(|(at, bytes)| Damage::Repeat(at, bytes)),
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Damage::Replace(at, byte)),
    ]
}

fn apply(damage: &Damage, bytes: &mut Vec<u8>) {
    let within = |at: usize, bytes: &[u8]| at % (bytes.len() + 1);
    match *damage {
        Damage::Insert(at, word) => {
            let at = within(at, bytes);
            bytes.splice(at..at, WORDS[word].iter().copied());
        }
        Damage::Cut(at, count) => {
            let at = within(at, bytes);
            bytes.drain(at..(at + count).min(bytes.len()));
        }
        Damage::Repeat(at, count) => {
            let at = within(at, bytes);
            let copy = bytes[at..(at + count).min(bytes.len())].to_vec();
            bytes.splice(at..at, copy);
        }
        Damage::Replace(at, byte) => {
            let at = within(at, bytes);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
    }
}

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> String {
    let mut reader = ResponseReader::new(Limits::default());
    let mut answer = Answer::default();
    for piece in pieces {
        if let Err(failure) = reader.feed(piece, &mut answer) {
            return failure.to_string();
        }
    }
    match reader.end(&mut answer) {
        Ok(()) => format!(
            "{} {:?} {:?} {}",
            answer.status,
            answer.length,
            answer.tag(),
            fuzz_documents(answer.xml().unwrap_or_default())
        ),
        Err(failure) => failure.to_string(),
    }
}

proptest! {
    #[test]
    fn a_damaged_response_is_parsed_or_refused(
        seed in 0..SEEDS.len(),
        damages in prop::collection::vec(damage(), 0..8),
        piece in 1..60_usize,
    ) {
        let mut bytes = SEEDS[seed][1..].to_vec();
        damages.iter().for_each(|damage| apply(damage, &mut bytes));
        let _ = fuzz_documents(&bytes);
        let body = bytes.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
        let _ = fuzz_documents(&bytes[body..]);
        prop_assert_eq!(read(std::iter::once(bytes.as_slice())), read(bytes.chunks(piece)));
    }
}
