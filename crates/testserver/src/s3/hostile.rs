//! Entry point of the fuzz target: parses everything in a request that the server parses before it verifies
//! the signature.

use super::payload::{decoded, Dechunker};
use super::request::{parse, Parsed};
use super::xml::records;

const MOST_BYTES: u64 = 1 << 20;

/// Parses the first request in `bytes`, and its body in each form that a body can have.
pub fn parse_all(bytes: &[u8]) {
    if let Parsed::Whole { request, length } = parse(bytes) {
        let _ = request.place(|name| name == "bucket");
        let body = &bytes[length..];
        let _ = records(body, "Delete", "Object");
        let _ = decoded(body, None, false);
        let _ = decoded(body, None, true);
        let _ = Dechunker::default().take(body, &mut Vec::new(), MOST_BYTES);
    }
}
