//! SET_INFO (MS-SMB2 2.2.39, 3.3.5.21) for files: times and attributes, name, deletion and size.

use super::{Asking, BODY};
use crate::smb::bytes::{slice, u16_at, u32_at, u64_at, u8_at, units, Put};
use crate::smb::status::{Status, Stop};
use crate::smb::volume::{Times, Volume};

const OF_FILE: u8 = 1;

pub(super) fn set(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Stop> {
    let part = asking.part;
    let open = asking.file_to_change(volume, 16)?;
    if u8_at(part, BODY + 2)? != OF_FILE {
        return Err(Status::NOT_SUPPORTED.into());
    }
    let bytes = u32_at(part, BODY + 4)?;
    asking.check_charge(bytes)?;
    let value = slice(part, usize::from(u16_at(part, BODY + 8)?), bytes as usize)?;
    let moment = asking.moment;
    match u8_at(part, BODY + 3)? {
        4 => {
            let times = Times {
                created: u64_at(value, 0)?,
                accessed: u64_at(value, 8)?,
                written: u64_at(value, 16)?,
                changed: u64_at(value, 24)?,
            };
            volume.set_basics(open, times, u32_at(value, 32)?, moment)?;
        }
        10 => {
            let name = units(slice(value, 20, u32_at(value, 16)? as usize)?)?;
            // Some clients send a leading backslash for the root.
            let name = name.strip_prefix(&[u16::from(b'\\')]).unwrap_or(&name);
            volume.rename(open, name, u8_at(value, 0)? != 0, moment, asking.waiter)?;
        }
        13 => volume.set_delete(open, u8_at(value, 0)? != 0, moment, asking.waiter)?,
        19 => volume.set_allocation(open, u64_at(value, 0)?, moment)?,
        20 => volume.set_end(open, u64_at(value, 0)?, moment)?,
        14 => volume.set_position(open, u64_at(value, 0)?),
        // FileModeInformation, which only affects the client.
        16 => {}
        _ => return Err(Status::INVALID_INFO_CLASS.into()),
    }
    out.u16(2);
    Ok(Status::SUCCESS)
}
