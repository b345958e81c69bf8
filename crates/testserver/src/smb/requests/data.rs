//! CLOSE, FLUSH, READ, WRITE, LOCK and break acknowledgements (MS-SMB2 3.3.5.10 to 3.3.5.14, 3.3.5.22).

use super::create::write_facts;
use super::{Asking, BODY};
use crate::smb::bytes::{length, slice, u128_at, u16_at, u32_at, u64_at, u8_at, Put};
use crate::smb::fault::Kind;
use crate::smb::message::HEADER_BYTES;
use crate::smb::notices::{level, state_of};
use crate::smb::status::{Status, Stop};
use crate::smb::volume::{caching, Lock, LockSequence, Volume};

/// CLOSE flag: return the final times, sizes and attributes.
const TELL_FACTS: u16 = 1;
const MOST_LOCKS: usize = 64;

mod lock_flag {
    pub(super) const SHARED: u32 = 0x01;
    pub(super) const EXCLUSIVE: u32 = 0x02;
    pub(super) const UNLOCK: u32 = 0x04;
    pub(super) const AT_ONCE: u32 = 0x10;
}

pub(super) fn close(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Status> {
    let open = asking.file(volume, 8)?;
    let flags = u16_at(asking.part, BODY + 2)? & TELL_FACTS;
    let facts = volume.facts(open);
    volume.close(open, asking.moment);
    out.u16(60);
    out.u16(flags);
    out.u32(0);
    if flags == 0 {
        out.zeros(52);
    } else {
        write_facts(&facts, out);
    }
    Ok(Status::SUCCESS)
}

pub(super) fn flush(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Status> {
    let open = asking.file(volume, 8)?;
    volume.flush(open)?;
    out.extend_from_slice(&[4, 0, 0, 0]);
    Ok(Status::SUCCESS)
}

pub(super) fn read(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Status> {
    let part = asking.part;
    let open = asking.file(volume, 16)?;
    let wanted = u32_at(part, BODY + 4)?;
    asking.check_charge(wanted)?;
    let least = u32_at(part, BODY + 32)? as usize;
    let start = out.len();
    out.u16(17);
    out.u8(HEADER_BYTES as u8 + 16);
    out.zeros(13);
    let count = volume.read(open, u64_at(part, BODY + 8)?, wanted as usize, out)?;
    if count < least {
        return Err(Status::END_OF_FILE);
    }
    let count = match asking.host.options.fault.map(|fault| fault.kind) {
        Some(Kind::ShortRead) => {
            out.truncate(start + 16 + count / 2);
            count / 2
        }
        Some(Kind::WrongContent) if count > 0 => {
            out[start + 16 + count / 2] ^= 1;
            count
        }
        _ => count,
    };
    out.set_u32(start + 4, length(count));
    Ok(Status::SUCCESS)
}

pub(super) fn write(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Status> {
    let part = asking.part;
    let open = asking.file_to_change(volume, 16)?;
    let bytes = u32_at(part, BODY + 4)?;
    asking.check_charge(bytes)?;
    let data = slice(part, usize::from(u16_at(part, BODY + 2)?), bytes as usize)?;
    let offset = u64_at(part, BODY + 8)?;
    match asking.host.options.fault.map(|fault| fault.kind) {
        Some(Kind::DiskFull) => return Err(Status::DISK_FULL),
        Some(Kind::LostWrites) => {
            let end = offset.saturating_add(u64::from(bytes));
            volume.set_end(open, end.max(volume.facts(open).end), asking.moment)?;
        }
        _ => volume.write(open, offset, data, asking.moment)?,
    }
    out.u16(17);
    out.u16(0);
    out.u32(bytes);
    out.zeros(8);
    Ok(Status::SUCCESS)
}

struct Element {
    offset: u64,
    bytes: u64,
    flags: u32,
}

/// Locks all ranges or none, or releases ranges up to the first failure, depending on the first element.
pub(super) fn lock(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Stop> {
    let part = asking.part;
    let open = asking.file(volume, 8)?;
    let count = usize::from(u16_at(part, BODY + 2)?);
    if count == 0 || count > MOST_LOCKS {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let element = |index: usize| -> Result<Element, Status> {
        let at = BODY + 24 + 24 * index;
        Ok(Element {
            offset: u64_at(part, at)?,
            bytes: u64_at(part, at + 8)?,
            flags: u32_at(part, at + 16)?,
        })
    };
    let elements = (0..count).map(element).collect::<Result<Vec<_>, _>>()?;
    let sequence = LockSequence::of(u32_at(part, BODY + 4)?).filter(|_| asking.may_repeat(volume, open));
    if sequence.is_some_and(|sequence| volume.is_repeated(open, sequence)) {
        out.extend_from_slice(&[4, 0, 0, 0]);
        return Ok(Status::SUCCESS);
    }
    if elements[0].flags == lock_flag::UNLOCK {
        release(volume, open, &elements)?;
    } else {
        take(asking, volume, open, &elements)?;
    }
    if let Some(sequence) = sequence {
        volume.note_locked(open, sequence);
    }
    out.extend_from_slice(&[4, 0, 0, 0]);
    Ok(Status::SUCCESS)
}

/// Releases ranges (MS-SMB2 3.3.5.14.1).
fn release(volume: &mut Volume, open: usize, elements: &[Element]) -> Result<(), Status> {
    for element in elements {
        if element.flags != lock_flag::UNLOCK {
            return Err(Status::INVALID_PARAMETER);
        }
        volume.unlock(open, element.offset, element.bytes)?;
    }
    Ok(())
}

/// Locks ranges (MS-SMB2 3.3.5.14.2).
fn take(asking: &Asking<'_>, volume: &mut Volume, open: usize, elements: &[Element]) -> Result<(), Stop> {
    let mut ranges = Vec::new();
    for element in elements {
        let exclusive = match element.flags & !lock_flag::AT_ONCE {
            lock_flag::SHARED => false,
            lock_flag::EXCLUSIVE => true,
            _ => return Err(Status::INVALID_PARAMETER.into()),
        };
        let at_once = element.flags & lock_flag::AT_ONCE != 0;
        // Only a request for a single range may wait.
        if !at_once && elements.len() > 1 {
            return Err(Status::INVALID_PARAMETER.into());
        }
        let range = Lock {
            open,
            offset: element.offset,
            bytes: element.bytes,
            exclusive,
        };
        ranges.push((range, (!at_once).then_some(asking.waiter)));
    }
    for (index, (range, waits)) in ranges.iter().enumerate() {
        if let Err(stop) = volume.lock(*range, *waits, asking.moment) {
            for (taken, _) in &ranges[..index] {
                volume.unlock(open, taken.offset, taken.bytes)?;
            }
            return Err(stop);
        }
    }
    Ok(())
}

/// Handles the acknowledgement of an oplock or lease break (2.2.24, 2.2.25).
pub(super) fn acknowledge(
    asking: &Asking<'_>,
    volume: &mut Volume,
    out: &mut Vec<u8>,
) -> Result<Status, Status> {
    let part = asking.part;
    match u16_at(part, BODY)? {
        24 => {
            let open = asking.file(volume, 8)?;
            let left = volume.acknowledge_oplock(open, state_of(u8_at(part, BODY + 2)?))?;
            out.u16(24);
            out.u8(level(left));
            out.zeros(5);
            out.extend_from_slice(slice(part, BODY + 8, 16)?);
        }
        36 => {
            let key = u128_at(part, BODY + 8)?;
            let every = caching::READ | caching::WRITE | caching::HANDLE;
            let state = (u32_at(part, BODY + 24)? & u32::from(every)) as u8;
            volume.acknowledge_lease((asking.client_guid, key), state)?;
            out.u16(36);
            out.u16(0);
            out.u32(0);
            out.extend_from_slice(&key.to_le_bytes());
            out.u32(u32::from(state));
            out.u64(0);
        }
        _ => return Err(Status::INVALID_PARAMETER),
    }
    Ok(Status::SUCCESS)
}
