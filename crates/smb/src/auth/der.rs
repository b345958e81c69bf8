//! The subset of DER (X.690) that SPNEGO and Kerberos use.
//!
//! Elements are parsed in place. Lengths are checked against the available bytes, and no function here
//! recurses.

use super::AuthError;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BITS: u8 = 0x03;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const TIME: u8 = 0x18;
pub(super) const TEXT: u8 = 0x1b;
pub(super) const SEQUENCE: u8 = 0x30;

/// Returns the context-specific tag of a sequence field.
pub(super) const fn field(number: u8) -> u8 {
    0xa0 | number
}

/// Returns the tag of an application-class type, whose number must be below 31.
pub(super) const fn application(number: u8) -> u8 {
    0x60 | number
}

/// Returns the octet string inside a field, if the field is present.
pub(super) fn octets(content: Option<&[u8]>) -> Result<Option<&[u8]>, AuthError> {
    content.map(|mut content| take(&mut content, OCTETS)).transpose()
}

/// Like `take`, but returns None and leaves `rest` unchanged if the first element has another tag or there is none.
pub(super) fn optional<'a>(rest: &mut &'a [u8], tag: u8) -> Result<Option<&'a [u8]>, AuthError> {
    if rest.first() == Some(&tag) {
        take(rest, tag).map(Some)
    } else {
        Ok(None)
    }
}

/// Returns the content of the first element of `rest`, whose tag must be `tag`, and advances `rest` past
/// it.
pub(super) fn take<'a>(rest: &mut &'a [u8], tag: u8) -> Result<&'a [u8], AuthError> {
    let (&found, after_tag) = rest.split_first().ok_or(AuthError::Malformed)?;
    let (&first, mut after) = after_tag.split_first().ok_or(AuthError::Malformed)?;
    if found != tag {
        return Err(AuthError::Malformed);
    }
    let mut length = usize::from(first);
    if first >= 0x80 {
        // The low bits give the number of length bytes. Tokens are too short for more than two.
        let (digits, behind) = after
            .split_at_checked(usize::from(first & 0x7f))
            .filter(|(digits, _)| matches!(digits.len(), 1 | 2))
            .ok_or(AuthError::Malformed)?;
        length = digits
            .iter()
            .fold(0, |length, &digit| length << 8 | usize::from(digit));
        after = behind;
    }
    let (content, behind) = after.split_at_checked(length).ok_or(AuthError::Malformed)?;
    *rest = behind;
    Ok(content)
}

/// Returns a DER element whose content is the concatenation of `parts`.
pub(super) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len();
    let mut element = vec![tag];
    match length {
        0..0x80 => element.push(length as u8),
        0x80..0x100 => element.extend([0x81, length as u8]),
        _ => element.extend([0x82, (length >> 8) as u8, length as u8]),
    }
    element.extend(content);
    element
}

/// Returns an INTEGER element in the minimal number of bytes, as DER requires.
pub(super) fn integer(number: u32) -> Vec<u8> {
    let bytes = [&[0], &number.to_be_bytes()[..]].concat();
    // A leading zero byte is needed only if the next byte would make the number negative.
    let first = (0..4)
        .find(|&place| bytes[place] != 0 || bytes[place + 1] >= 0x80)
        .unwrap_or(4);
    element(INTEGER, &[&bytes[first..]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_minimal_length() {
        for (number, expected) in [
            (0, &[2, 1, 0][..]),
            (127, &[2, 1, 127]),
            (128, &[2, 2, 0, 128]),
            (32_771, &[2, 3, 0, 0x80, 3]),
            (u32::MAX, &[2, 5, 0, 255, 255, 255, 255]),
        ] {
            assert_eq!(integer(number), expected);
        }
    }
}
