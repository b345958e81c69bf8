//! Little-endian numbers in buffers. Reading can only fail, never panic.

use dyno_measure::{Failure, Fault};
use std::ops::Range;

/// A message, or a part of one, breaks the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// What parsing gives.
pub type Parsed<T> = Result<T, Malformed>;

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Self {
        Fault::MalformedMessage.into()
    }
}

pub(super) fn array<const N: usize>(bytes: &[u8], offset: usize) -> Parsed<[u8; N]> {
    let rest = bytes.get(offset..).ok_or(Malformed)?;
    rest.first_chunk().copied().ok_or(Malformed)
}

pub(super) fn u8_at(bytes: &[u8], offset: usize) -> Parsed<u8> {
    bytes.get(offset).copied().ok_or(Malformed)
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

/// A 32-bit field of the wire as a length or offset.
pub(super) fn size_at(bytes: &[u8], offset: usize) -> Parsed<usize> {
    u32_at(bytes, offset).map(|size| size as usize)
}

/// `length` bytes from `offset`, where they lie wholly inside `bytes` and not before `first`.
pub(super) fn range(bytes: &[u8], offset: usize, length: usize, first: usize) -> Parsed<Range<usize>> {
    if length == 0 {
        return Ok(0..0);
    }
    let end = offset.checked_add(length).ok_or(Malformed)?;
    if offset < first || end > bytes.len() {
        return Err(Malformed);
    }
    Ok(offset..end)
}

/// Puts `value` at `offset` of a buffer of ours; a place outside it is a fault of this crate, and nothing happens.
pub(super) fn put<const N: usize>(bytes: &mut [u8], offset: usize, value: [u8; N]) {
    if let Some(place) = bytes.get_mut(offset..offset + N) {
        place.copy_from_slice(&value);
    }
}

/// Fills up with zeros, so that the length since `start` is a multiple of 8.
pub(super) fn pad_to_8(bytes: &mut Vec<u8>, start: usize) {
    let length = (bytes.len() - start).next_multiple_of(8);
    bytes.resize(start + length, 0);
}
