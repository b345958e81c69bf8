//! CLOSE, FLUSH, READ, WRITE, LOCK, and the answer to a break (MS-SMB2 3.3.5.10 to 3.3.5.14, 3.3.5.22).

use super::create::write_facts;
use super::{Asking, BODY};
use crate::smb::bytes::{length, slice, u128_at, u16_at, u32_at, u64_at, u8_at, Put};
use crate::smb::fault::Kind;
use crate::smb::message::HEADER_BYTES;
use crate::smb::notices::{level, state_of};
use crate::smb::status::{Status, Stop};
use crate::smb::volume::{caching, Lock, Volume};

/// CLOSE: tell times, sizes and attributes as they are at the end.
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
    let open = asking.file(volume, 16)?;
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

/// All of the ranges are locked, or none; releases are carried out up to the first that fails.
pub(super) fn lock(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Stop> {
    let part = asking.part;
    let open = asking.file(volume, 8)?;
    let count = usize::from(u16_at(part, BODY + 2)?);
    if count == 0 || count > MOST_LOCKS {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let mut locked = Vec::new();
    let mut outcome = Ok(());
    for index in 0..count {
        let at = BODY + 24 + 24 * index;
        let (offset, bytes) = (u64_at(part, at)?, u64_at(part, at + 8)?);
        outcome = match u32_at(part, at + 16)? {
            lock_flag::UNLOCK => volume.unlock(open, offset, bytes).map_err(Stop::from),
            flags => {
                let at_once = flags & lock_flag::AT_ONCE != 0;
                let exclusive = match flags & !lock_flag::AT_ONCE {
                    lock_flag::SHARED => false,
                    lock_flag::EXCLUSIVE => true,
                    _ => return Err(Status::INVALID_PARAMETER.into()),
                };
                let range = Lock {
                    open,
                    offset,
                    bytes,
                    exclusive,
                };
                // Only a request for a single range may wait (MS-SMB2 3.3.5.14.2).
                let waits = (!at_once && count == 1).then_some(asking.waiter);
                let outcome = volume.lock(range, waits, asking.moment);
                if outcome.is_ok() {
                    locked.push((offset, bytes));
                }
                outcome
            }
        };
        if outcome.is_err() {
            break;
        }
    }
    if outcome.is_err() {
        for (offset, bytes) in locked {
            volume.unlock(open, offset, bytes)?;
        }
    }
    outcome?;
    out.extend_from_slice(&[4, 0, 0, 0]);
    Ok(Status::SUCCESS)
}

/// OPLOCK_BREAK: of an oplock, or of a lease (2.2.24, 2.2.25).
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
