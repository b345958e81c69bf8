//! The decoders of content codings against any body: they never panic, what is decoded has its bound, and gzip and deflate
//! come to the same however the bytes are cut.
//!
//! The first byte of an input says how the rest is cut (0 stands for one byte, two, three ... at a time), the second which
//! coding is named.
#![no_main]

use dyno_http::coding::{ContentCheck, Decoded};
use dyno_http::Body;
use dyno_measure::Fault;
use libfuzzer_sys::fuzz_target;

const CODINGS: [&[u8]; 4] = [b"gzip", b"deflate", b"br", b"zstd"];

fn check<'a>(coding: &[u8], pieces: impl Iterator<Item = &'a [u8]>) -> Result<Option<Decoded>, Fault> {
    let mut checked = ContentCheck::default();
    checked.field(b"content-encoding", coding);
    pieces.for_each(|piece| checked.part(piece, false));
    checked.part(&[], true);
    checked.judge(200).map_err(|failure| failure.fault)
}

/// Pieces of one byte, two, three ...
fn growing(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    (1..).map_while(move |length| {
        let (piece, rest) = bytes.split_at(bytes.len().min(length));
        bytes = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

fuzz_target!(|input: &[u8]| {
    let [cut, coding, bytes @ ..] = input else {
        return;
    };
    let coding = CODINGS[usize::from(*coding) % CODINGS.len()];
    let in_one_piece = check(coding, std::iter::once(bytes));
    let in_pieces = match cut {
        0 => check(coding, growing(bytes)),
        length => check(coding, bytes.chunks(usize::from(*length))),
    };
    // Damage that the decoder of br passes in one piece it may find in several.
    assert!(
        in_one_piece == in_pieces || coding == b"br",
        "cut by {cut}: {in_one_piece:?}, {in_pieces:?}"
    );
});
