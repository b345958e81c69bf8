//! Percent-encoding of paths and queries, as Signature Version 4 requires.

const HEX: &[u8; 16] = b"0123456789ABCDEF";
const LOWER_HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends `text`, with every byte escaped except letters, digits and `-._~`. `keep_slashes`: leaves `/` as
/// it is.
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
    let mut digits = [0; 20];
    let mut place = digits.len();
    let mut rest = number;
    loop {
        place -= 1;
        digits[place] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend(&digits[place..]);
}

/// Escapes `text` for XML.
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
