//! Bodies that decode, bodies that do not, and decompression bombs.

use dyno_http::coding::{asks_coding, ContentCheck, Decoded};
use dyno_http::Body;
use dyno_measure::Fault;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use flate2::Compression;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::io::Write;

const TEXT: &[u8] = b"Each client thread begins its next request when the last one has ended. ";
/// `hello` as br (RFC 7932).
const HELLO: &[u8] = b"\x0b\x02\x80hello\x03";
/// One block that decodes to 64 KiB of zeros, and the start of such a body, encoded by H2O.
const ZEROS: &[u8] = b"\xf3\x7e\x00\x20\x00\xd8\x00\x0e\x5c\xc3\x49\x6d\x36\x80\x0b\x70\x58\xfe\xac\x07\x80";
const BEFORE_ZEROS: &[u8] = b"\x8b";

fn text() -> Vec<u8> {
    TEXT.repeat(1000)
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).expect("it is memory");
    encoder.finish().expect("it is memory")
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).expect("it is memory");
    encoder.finish().expect("it is memory")
}

fn raw_deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).expect("it is memory");
    encoder.finish().expect("it is memory")
}

/// Checks the result for a body in pieces of this size.
fn check(fields: &[(&str, &str)], body: &[u8], piece: usize) -> Result<Option<Decoded>, Fault> {
    let mut checked = ContentCheck::default();
    assert!(checked.wants_fields());
    for (name, value) in fields {
        checked.field(name.as_bytes(), value.as_bytes());
    }
    body.chunks(piece).for_each(|part| checked.part(part, false));
    checked.part(&[], true);
    checked.judge(200).map_err(|failure| failure.fault)
}

fn check_coding(coding: &str, body: &[u8]) -> Result<Option<Decoded>, Fault> {
    let whole = check(&[("content-encoding", coding)], body, body.len().max(1));
    for piece in [1, 2, 7, 1000] {
        assert_eq!(
            check(&[("content-encoding", coding)], body, piece),
            whole,
            "{coding} in pieces of {piece}"
        );
    }
    whole
}

#[test]
fn complete_bodies_of_each_coding_decode_however_they_are_divided() {
    for data in [&b""[..], b"x", &text()] {
        assert_eq!(check_coding("gzip", &gzip(data)), Ok(Some(Decoded::Gzip)));
        assert_eq!(check_coding(" X-GZip ", &gzip(data)), Ok(Some(Decoded::Gzip)));
        assert_eq!(check_coding("deflate", &zlib(data)), Ok(Some(Decoded::Deflate)));
        // Raw deflate, as lighttpd sends it.
        assert_eq!(
            check_coding("deflate", &raw_deflate(data)),
            Ok(Some(Decoded::Deflate))
        );
    }
    let members = [gzip(b"one"), gzip(b"two")].concat();
    assert_eq!(check_coding("gzip", &members), Ok(Some(Decoded::Gzip)));
    assert_eq!(check_coding("br", HELLO), Ok(Some(Decoded::Brotli)));
}

#[test]
fn bodies_that_are_truncated_anywhere_are_errors() {
    let small = &text()[..500];
    let bodies = [
        ("gzip", gzip(small)),
        ("deflate", zlib(small)),
        ("deflate", raw_deflate(small)),
        ("br", HELLO.to_vec()),
    ];
    for (coding, body) in &bodies {
        for end in 0..body.len() {
            let broken = check_coding(coding, &body[..end]);
            assert_eq!(broken, Err(Fault::BrokenCoding), "{coding}, {end} bytes");
        }
        let longer = [body, &b"and more"[..]].concat();
        assert_eq!(
            check_coding(coding, &longer),
            Err(Fault::BrokenCoding),
            "{coding}"
        );
    }
}

#[test]
fn damaged_bodies_are_errors() {
    let mut body = gzip(&text());
    let checksum = body.len() - 8;
    body[checksum] ^= 1;
    assert_eq!(check_coding("gzip", &body), Err(Fault::BrokenCoding));
    let mut body = zlib(&text());
    *body.last_mut().expect("it has some") ^= 1;
    assert_eq!(check_coding("deflate", &body), Err(Fault::BrokenCoding));
    for coding in ["gzip", "deflate", "br"] {
        let text = b"<p>not coded at all</p>".repeat(10);
        assert_eq!(check_coding(coding, &text), Err(Fault::BrokenCoding), "{coding}");
    }
}

#[test]
fn an_error_names_its_coding() {
    let mut checked = ContentCheck::default();
    checked.field(b"Content-Encoding", b"br");
    checked.part(&HELLO[..4], true);
    let failure = checked.judge(200).expect_err("it is cut short");
    assert_eq!(
        failure.to_string(),
        "the response's body can't be decoded: damaged or truncated br"
    );
}

#[test]
fn a_plain_body_that_is_labelled_gzip_is_called_so() {
    let whole = gzip(TEXT);
    let damaged = "damaged or truncated gzip";
    let plain = "it is not gzip, although Content-Encoding says so";
    for (body, piece, said) in [
        (TEXT, 7, plain),
        (TEXT, 1, plain),
        (b"x", 1, damaged),
        (&whole[..1], 1, damaged),
        (&whole[..9], 9, damaged),
    ] {
        let mut checked = ContentCheck::default();
        checked.field(b"Content-Encoding", b"gzip");
        let last = body.len().div_ceil(piece) - 1;
        for (number, part) in body.chunks(piece).enumerate() {
            checked.part(part, number == last);
        }
        let failure = checked.judge(200).expect_err("it can't be decoded");
        assert!(failure.to_string().ends_with(said), "{failure}");
    }
}

#[test]
fn a_body_in_an_unknown_coding_does_not_count_as_decoded() {
    for fields in [
        &[("Content-Encoding", "zstd")][..],
        &[("Content-Encoding", "gzip, br")],
        &[("Content-Encoding", "gzip"), ("Content-Encoding", "gzip")],
        &[("Content-Encoding", "compress")],
        &[("Content-Encoding", "")],
    ] {
        assert_eq!(
            check(fields, &gzip(b"x"), 5),
            Ok(Some(Decoded::Other)),
            "{fields:?}"
        );
    }
    for fields in [
        &[][..],
        &[("Content-Encoding", "identity")],
        &[("Content-Type", "gzip")],
    ] {
        assert_eq!(check(fields, b"anything", 5), Ok(None), "{fields:?}");
    }
}

#[test]
fn a_response_without_a_body_has_nothing_to_decode() {
    for (status, expected) in [(204, Ok(None)), (304, Ok(None)), (200, Err(Fault::BrokenCoding))] {
        let mut checked = ContentCheck::default();
        checked.field(b"content-encoding", b"gzip");
        checked.part(&[], true);
        assert_eq!(checked.judge(status).map_err(|failure| failure.fault), expected);
    }
}

#[test]
fn a_body_that_decodes_beyond_the_limit_is_not_checked_any_further() {
    let zeros = vec![0; (16 << 20) + 1];
    let codings = [
        ("gzip", gzip(&zeros), gzip(&zeros[1..]), Decoded::Gzip),
        ("deflate", zlib(&zeros), zlib(&zeros[1..]), Decoded::Deflate),
        (
            "deflate",
            raw_deflate(&zeros),
            raw_deflate(&zeros[1..]),
            Decoded::Deflate,
        ),
    ];
    for (coding, more, just, decoded) in codings {
        let field = [("content-encoding", coding)];
        assert_eq!(
            check(&field, &more, 1000),
            Ok(Some(Decoded::TooLarge)),
            "{coding}"
        );
        assert_eq!(check(&field, &just, 1000), Ok(Some(decoded)), "{coding}");
    }
    // Decodes to 64 GiB.
    let bomb = [BEFORE_ZEROS, &ZEROS.repeat(1 << 20)].concat();
    let field = [("content-encoding", "br")];
    assert_eq!(check(&field, &bomb, 1 << 16), Ok(Some(Decoded::TooLarge)));
}

#[test]
fn a_brotli_window_is_at_most_16_mib() {
    // Empty body in the large-window format; its header asks for 1 GiB (RFC 9841).
    assert_eq!(check_coding("br", b"\x11\xde"), Err(Fault::BrokenCoding));
}

#[test]
fn the_state_of_an_earlier_attempt_is_cleared() {
    let mut checked = ContentCheck::default();
    checked.field(b"content-encoding", b"br");
    checked.part(&HELLO[..4], false);
    assert!(checked.wants_fields());
    checked.field(b"content-encoding", b"br");
    checked.part(HELLO, true);
    assert_eq!(checked.judge(200), Ok(Some(Decoded::Brotli)));
}

#[test]
fn a_request_asks_for_a_coding_unless_it_names_only_identity() {
    let asks = |name: &str, value: &str| asks_coding(&[(name.to_owned(), value.to_owned())]);
    for value in ["gzip", "identity;q=0.5, br", "*", "zstd"] {
        assert!(
            asks("Accept-Encoding", value) && asks("accept-encoding", value),
            "{value}"
        );
    }
    for value in ["", "identity", " Identity ; q=1 ,"] {
        assert!(!asks("accept-encoding", value), "{value}");
    }
    assert!(!asks("accept", "gzip") && !asks_coding(&[]));
}

proptest! {
    /// Also checks that no input makes the decoder panic.
    #[test]
    fn a_body_with_replaced_bytes_gives_the_same_result_however_it_is_divided(
        which in 0..4usize,
        exchanged in vec((any::<Index>(), any::<u8>()), 0..6),
        kept in any::<Index>(),
        piece in 1..50usize,
    ) {
        let small = &text()[..300];
        let (coding, mut body) = match which {
            0 => ("gzip", gzip(small)),
            1 => ("deflate", zlib(small)),
            2 => ("deflate", raw_deflate(small)),
            _ => ("br", [BEFORE_ZEROS, ZEROS, ZEROS].concat()),
        };
        for (place, byte) in exchanged {
            let place = place.index(body.len());
            body[place] = byte;
        }
        body.truncate(kept.index(2 * body.len()));
        let field = [("content-encoding", coding)];
        let (in_pieces, whole) = (check(&field, &body, piece), check(&field, &body, body.len().max(1)));
        // The br decoder may detect damage in a divided body that it misses in an undivided one.
        prop_assert!(in_pieces == whole || coding == "br", "{in_pieces:?}, {whole:?}");
    }
}
