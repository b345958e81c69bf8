//! Percent-encoding of paths and queries, as Signature Version 4 requires.

use std::io::Write;

const HEX: &[u8; 16] = b"0123456789ABCDEF";
const LOWER_HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `text`, with every byte escaped except letters, digits and `-._~`. `keep_slashes`: also leave `/` unescaped.
pub(crate) fn escape(text: &str, keep_slashes: bool, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (keep_slashes && byte == b'/');
        if plain {
            out.push(byte);
        } else {
            out.extend([b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
}

/// Appends `bytes` in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.extend([
            LOWER_HEX[usize::from(byte >> 4)],
            LOWER_HEX[usize::from(byte & 15)],
        ]);
    }
}

/// Appends a number in decimal.
pub(crate) fn decimal(number: u64, out: &mut Vec<u8>) {
    let written = write!(out, "{number}");
    debug_assert!(written.is_ok(), "writing to a vector can't fail");
}

pub(crate) fn escape_xml(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'&' => out.extend(b"&amp;"),
            b'<' => out.extend(b"&lt;"),
            b'>' => out.extend(b"&gt;"),
            _ => out.push(byte),
        }
    }
}
