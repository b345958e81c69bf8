//! Decoders of content codings with arbitrary bodies: no panic, limited output, and for gzip and deflate a
//! result that does not depend on how the input is divided.
//!
//! First byte: size of the pieces (0: one byte, then two, three ...). Second byte: the coding.
#![no_main]

mod pieces;

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

fuzz_target!(|input: &[u8]| {
    let [cut, coding, bytes @ ..] = input else {
        return;
    };
    let coding = CODINGS[usize::from(*coding) % CODINGS.len()];
    let in_one_piece = check(coding, std::iter::once(bytes));
    let in_pieces = check(coding, pieces::cut(bytes, *cut));
    // The br decoder may detect damage in divided input that it misses in undivided input.
    assert!(
        in_one_piece == in_pieces || coding == b"br",
        "cut by {cut}: {in_one_piece:?}, {in_pieces:?}"
    );
});
