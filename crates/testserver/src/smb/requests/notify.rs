//! CHANGE_NOTIFY (MS-SMB2 2.2.35, 2.2.36, 3.3.5.19).

use super::{Asking, BODY};
use crate::smb::bytes::{u16_at, u32_at, Put};
use crate::smb::status::{Status, Stop};
use crate::smb::volume::Volume;

const WATCH_TREE: u16 = 1;

pub(super) fn notify(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Stop> {
    let part = asking.part;
    let open = asking.file(volume, 8)?;
    asking.check_charge(u32_at(part, BODY + 4)?)?;
    let below = u16_at(part, BODY + 2)? & WATCH_TREE != 0;
    volume.watch(open, below, u32_at(part, BODY + 24)?, asking.waiter)?;
    out.u16(9);
    out.zeros(7);
    Ok(Status::NOTIFY_ENUM_DIR)
}
