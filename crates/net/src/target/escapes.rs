//! Percent-decoding of URL paths (RFC 3986, section 2.1).

/// Decodes the `%XX` escapes in a path. Returns None if an escape is malformed, or encodes a slash or a zero
/// byte.
pub fn unescaped(path: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut left = path.bytes();
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'%' => match hex(left.next()?)? << 4 | hex(left.next()?)? {
                0 | b'/' => return None,
                escaped => escaped,
            },
            plain => plain,
        });
    }
    Some(bytes)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::unescaped;

    #[test]
    fn escapes_are_decoded_but_never_to_a_separator() {
        assert_eq!(
            unescaped("/a%20b/%C5%BD").as_deref(),
            Some("/a b/\u{17d}".as_bytes())
        );
        assert_eq!(unescaped("100%25").as_deref(), Some(&b"100%"[..]));
        for wrong in ["%", "%2", "%zz", "a%2Fb", "a%00"] {
            assert_eq!(unescaped(wrong), None, "{wrong}");
        }
    }
}
