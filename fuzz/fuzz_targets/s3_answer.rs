//! S3 responses with arbitrary heads and documents: no panic, limited memory, and the same result however the
//! input is divided.
//!
//! First byte: size of the pieces. 0 stands for one byte, two, three ...
#![no_main]

mod pieces;

use dyno_http::{Limits, ResponseReader};
use dyno_measure::Fault;
use dyno_s3::{fuzz_documents, Answer};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits {
    head_bytes: 400,
    fields: 100,
    body_bytes: 4096,
};

/// Returns the content of a response as text, or why it has none.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<String, Fault> {
    let mut reader = ResponseReader::new(LIMITS);
    let mut answer = Answer::default();
    for piece in pieces {
        reader.feed(piece, &mut answer).map_err(|failure| failure.fault)?;
    }
    reader.end(&mut answer).map_err(|failure| failure.fault)?;
    let found = fuzz_documents(answer.xml().unwrap_or_default());
    Ok(format!(
        "{} {:?} {:?} {found}",
        answer.status,
        answer.length,
        answer.tag()
    ))
}

fuzz_target!(|input: &[u8]| {
    let Some((&cut, bytes)) = input.split_first() else {
        return;
    };
    // Parse the documents alone, too: a fuzzer finds their beginnings sooner.
    let _ = fuzz_documents(bytes);
    let in_one_piece = read(std::iter::once(bytes));
    let in_pieces = read(pieces::cut(bytes, cut));
    assert_eq!(in_one_piece, in_pieces, "cut by {cut}");
});
