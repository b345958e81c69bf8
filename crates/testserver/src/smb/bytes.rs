//! Reads and appends little-endian numbers in messages. Reading never panics: missing bytes are reported as
//! an invalid parameter.

use super::status::Status;

type Read<T> = Result<T, Status>;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Read<[u8; N]> {
    let rest = bytes.get(at..).and_then(<[u8]>::first_chunk);
    rest.copied().ok_or(Status::INVALID_PARAMETER)
}

pub(crate) fn u8_at(bytes: &[u8], at: usize) -> Read<u8> {
    bytes.get(at).copied().ok_or(Status::INVALID_PARAMETER)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Read<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Read<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Read<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

pub(crate) fn u128_at(bytes: &[u8], at: usize) -> Read<u128> {
    array(bytes, at).map(u128::from_le_bytes)
}

/// Returns `length` bytes, starting at `offset`. If the length is zero, the offset may have any value.
pub(crate) fn slice(bytes: &[u8], offset: usize, length: usize) -> Read<&[u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    let end = offset.checked_add(length).ok_or(Status::INVALID_PARAMETER)?;
    bytes.get(offset..end).ok_or(Status::INVALID_PARAMETER)
}

/// Parses a name into UTF-16 units.
pub(crate) fn units(bytes: &[u8]) -> Read<Vec<u16>> {
    if bytes.len() % 2 != 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    let pairs = bytes.chunks_exact(2);
    Ok(pairs.map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect())
}

/// Appends to a message.
pub(crate) trait Put {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
    fn zeros(&mut self, count: usize);
    fn name(&mut self, units: &[u16]);
    /// Overwrites existing bytes.
    fn set_u16(&mut self, at: usize, value: u16);
    fn set_u32(&mut self, at: usize, value: u32);
}

impl Put for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn zeros(&mut self, count: usize) {
        self.resize(self.len() + count, 0);
    }

    fn name(&mut self, units: &[u16]) {
        for unit in units {
            self.u16(*unit);
        }
    }

    fn set_u16(&mut self, at: usize, value: u16) {
        self[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn set_u32(&mut self, at: usize, value: u32) {
        self[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

/// Converts a length to its wire format. Does not truncate: the server's messages are far shorter than 4 GiB.
pub(crate) fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
