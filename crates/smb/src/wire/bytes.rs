//! Little-endian numbers in buffers. Reading returns errors and never panics.

use super::malformed::{Field, Malformed};
use std::ops::Range;

pub type Parsed<T> = Result<T, Malformed>;

pub(super) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Parsed<[u8; N]> {
    let found = bytes.get(offset..).and_then(|rest| rest.first_chunk());
    found
        .copied()
        .ok_or(Malformed::at(Field::End, offset.saturating_add(N)))
}

pub(super) fn u8_at(bytes: &[u8], offset: usize) -> Parsed<u8> {
    array(bytes, offset).map(|[byte]| byte)
}

pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Parsed<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

pub(super) fn u32_at(bytes: &[u8], offset: usize) -> Parsed<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

pub(super) fn u64_at(bytes: &[u8], offset: usize) -> Parsed<u64> {
    array(bytes, offset).map(u64::from_le_bytes)
}

/// Reads a 32-bit length or offset.
pub(super) fn size_at(bytes: &[u8], offset: usize) -> Parsed<usize> {
    u32_at(bytes, offset).map(|size| size as usize)
}

/// Returns the range of `length` bytes from `offset` if it lies within `bytes` and not before `first`;
/// otherwise the error `wrong`.
pub(super) fn range(
    bytes: &[u8],
    offset: usize,
    length: usize,
    first: usize,
    wrong: Malformed,
) -> Parsed<Range<usize>> {
    if length == 0 {
        return Ok(0..0);
    }
    let end = offset.checked_add(length).ok_or(wrong)?;
    if offset < first || end > bytes.len() {
        return Err(wrong);
    }
    Ok(offset..end)
}

/// Writes `value` at `offset` of an outgoing buffer. Does nothing if the value would lie outside the buffer: that would
/// be a bug in this crate.
pub(super) fn put<const N: usize>(bytes: &mut [u8], offset: usize, value: [u8; N]) {
    if let Some(place) = bytes.get_mut(offset..offset + N) {
        place.copy_from_slice(&value);
    }
}

/// Appends zeros until the length since `start` is a multiple of 8.
pub(super) fn pad_to_8(bytes: &mut Vec<u8>, start: usize) {
    let length = (bytes.len() - start).next_multiple_of(8);
    bytes.resize(start + length, 0);
}
