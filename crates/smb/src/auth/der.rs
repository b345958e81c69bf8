//! The part of DER (X.690) that SPNEGO and Kerberos are written in.
//!
//! What comes is read in place; lengths are held against what is there, and no reading nests deeper than its caller does.

use super::AuthError;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BITS: u8 = 0x03;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const ENUMERATED: u8 = 0x0a;
pub(super) const TIME: u8 = 0x18;
pub(super) const TEXT: u8 = 0x1b;
pub(super) const SEQUENCE: u8 = 0x30;

/// The tag of a field of a sequence, by its number.
pub(super) const fn field(number: u8) -> u8 {
    0xa0 | number
}

/// The tag of a type of its own, by its number, which is below 31.
pub(super) const fn application(number: u8) -> u8 {
    0x60 | number
}

/// The octet string inside a field, where the field is there.
pub(super) fn octets(content: Option<&[u8]>) -> Result<Option<&[u8]>, AuthError> {
    content.map(|mut content| take(&mut content, OCTETS)).transpose()
}

/// The content of the element that `rest` begins with, where it has `tag`.
pub(super) fn optional<'a>(rest: &mut &'a [u8], tag: u8) -> Result<Option<&'a [u8]>, AuthError> {
    if rest.first() == Some(&tag) {
        take(rest, tag).map(Some)
    } else {
        Ok(None)
    }
}

/// The content of the element that `rest` begins with, which must have `tag`; `rest` goes on behind it.
pub(super) fn take<'a>(rest: &mut &'a [u8], tag: u8) -> Result<&'a [u8], AuthError> {
    let (&found, after_tag) = rest.split_first().ok_or(AuthError::Malformed)?;
    let (&first, mut after) = after_tag.split_first().ok_or(AuthError::Malformed)?;
    if found != tag {
        return Err(AuthError::Malformed);
    }
    let mut length = usize::from(first);
    if first >= 0x80 {
        // So many bytes of length follow; tokens are too short for more than two.
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

/// An element of DER with the parts as its content.
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

/// A number, in as few bytes as DER demands.
pub(super) fn integer(number: u32) -> Vec<u8> {
    let bytes = [&[0], &number.to_be_bytes()[..]].concat();
    // A byte of zeros is needed only before one that would make it negative.
    let first = (0..4)
        .find(|&place| bytes[place] != 0 || bytes[place + 1] >= 0x80)
        .unwrap_or(4);
    element(INTEGER, &[&bytes[first..]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
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
