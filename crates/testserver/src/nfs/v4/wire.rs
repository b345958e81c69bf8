//! Parts of messages that several operations share.

use crate::nfs::state4::status::Outcome;
use dyno_nfs::status::{Status, Status4};
use dyno_nfs::wire::{Reader, Writer, MAX_NAME_BYTES};

/// Parses a path component.
pub(super) fn parse_name<'a>(reader: &mut Reader<'a>) -> Outcome<&'a [u8]> {
    let name = reader.opaque(MAX_NAME_BYTES)?;
    match name {
        b"" => Err(Status::Inval.into()),
        b"." | b".." => Err(Status4::BadName.into()),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Status4::BadName.into()),
        _ => Ok(name),
    }
}

/// Appends `change_info4`, marked as atomic because the export was locked.
pub(super) fn write_change((before, after): (u64, u64), writer: &mut Writer<'_>) {
    writer.u32(1).u64(before).u64(after);
}
