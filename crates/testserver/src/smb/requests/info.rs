//! QUERY_INFO (MS-SMB2 2.2.37, 3.3.5.20) for files (MS-FSCC 2.4) and the file system (2.5).

use super::create::write_facts;
use super::{Asking, BODY};
use crate::smb::bytes::{length, u32_at, u8_at, Put};
use crate::smb::message::HEADER_BYTES;
use crate::smb::status::Status;
use crate::smb::volume::{Facts, Volume, CLUSTER_BYTES};

const OF_FILE: u8 = 1;
const OF_FILE_SYSTEM: u8 = 2;
const SECTOR_BYTES: u64 = 512;
/// File system attributes: names keep their case and are in Unicode (MS-FSCC 2.5.1).
const FILE_SYSTEM_ATTRIBUTES: u32 = 0x0000_0006;
const DEVICE_DISK: u32 = 7;
const LONGEST_NAME_UNITS: u32 = 255;

pub(super) fn query(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Status> {
    let part = asking.part;
    let open = asking.file(volume, 24)?;
    let (kind, class) = (u8_at(part, BODY + 2)?, u8_at(part, BODY + 3)?);
    let room = u32_at(part, BODY + 4)?;
    asking.check_charge(room)?;
    let start = out.len();
    out.u16(9);
    out.u16(HEADER_BYTES as u16 + 8);
    out.u32(0);
    let value_at = out.len();
    // Only a name at the end may be truncated. Everything before it must fit, rounded up to a multiple of
    // eight bytes (MS-FSA 2.1.5.12).
    let fixed_bytes = match kind {
        OF_FILE => of_file(class, volume, open, out)?,
        OF_FILE_SYSTEM => of_file_system(class, volume, out)?,
        _ => return Err(Status::NOT_SUPPORTED),
    };
    let mut status = Status::SUCCESS;
    if out.len() - value_at > room as usize {
        if room < fixed_bytes {
            return Err(Status::INFO_LENGTH_MISMATCH);
        }
        out.truncate(value_at + room as usize);
        status = Status::BUFFER_OVERFLOW;
    }
    let bytes = length(out.len() - value_at);
    out.set_u32(start + 4, bytes);
    Ok(status)
}

/// Appends the information. Returns the number of bytes that must fit.
fn of_file(class: u8, volume: &Volume, open: usize, out: &mut Vec<u8>) -> Result<u32, Status> {
    let facts = volume.facts(open);
    let start = out.len();
    match class {
        4 => basic(&facts, out),
        5 => standard(&facts, out),
        6 => out.u64(facts.number),
        7 => out.u32(0),
        8 => out.u32(volume.rights(open)),
        14 => out.u64(volume.position(open)),
        16 | 17 => out.u32(0),
        18 => {
            basic(&facts, out);
            standard(&facts, out);
            out.u64(facts.number);
            out.u32(0);
            out.u32(volume.rights(open));
            out.u64(volume.position(open));
            out.u32(0);
            out.u32(0);
            return Ok(path(volume, open, out, 104));
        }
        9 | 48 => return Ok(path(volume, open, out, 8)),
        21 => short_name(volume.name(open), out)?,
        22 => streams(&facts, out),
        34 => {
            write_facts(&facts, out);
            out.u32(0);
        }
        35 => {
            out.u32(facts.attributes);
            out.u32(0);
        }
        _ => return Err(Status::INVALID_INFO_CLASS),
    }
    Ok(length(out.len() - start))
}

fn basic(facts: &Facts, out: &mut Vec<u8>) {
    let times = facts.times;
    for value in [times.created, times.accessed, times.written, times.changed] {
        out.u64(value);
    }
    out.u32(facts.attributes);
    out.u32(0);
}

fn standard(facts: &Facts, out: &mut Vec<u8>) {
    out.u64(facts.allocated);
    out.u64(facts.end);
    out.u32(1); // names in directories
    out.u8(u8::from(facts.delete_pending));
    out.u8(u8::from(facts.is_directory()));
    out.u16(0);
}

/// Appends the path, preceded by its length. Returns the number of bytes that must fit, `fixed_bytes`.
fn path(volume: &Volume, open: usize, out: &mut Vec<u8>, fixed_bytes: u32) -> u32 {
    let path = volume.path(open);
    out.u32(length(2 * path.len()));
    out.name(&path);
    fixed_bytes
}

/// Appends the short name. A name that is short enough is its own short name. Other names have none.
fn short_name(name: &[u16], out: &mut Vec<u8>) -> Result<(), Status> {
    let mut parts = name.splitn(2, |unit| *unit == u16::from(b'.'));
    let units = |part: Option<&[u16]>| part.map_or(0, <[u16]>::len);
    if !(1..=8).contains(&units(parts.next())) || units(parts.next()) > 3 {
        return Err(Status::OBJECT_NAME_NOT_FOUND);
    }
    out.u32(length(2 * name.len()));
    out.name(name);
    Ok(())
}

/// Appends the streams: a file has one unnamed stream, a directory has none.
fn streams(facts: &Facts, out: &mut Vec<u8>) {
    if facts.is_directory() {
        return;
    }
    let name: Vec<u16> = "::$DATA".encode_utf16().collect();
    out.u32(0);
    out.u32(length(2 * name.len()));
    out.u64(facts.end);
    out.u64(facts.allocated);
    out.name(&name);
}

fn of_file_system(class: u8, volume: &Volume, out: &mut Vec<u8>) -> Result<u32, Status> {
    let start = out.len();
    let space = volume.space();
    let (all, free) = (space.capacity() / CLUSTER_BYTES, space.free() / CLUSTER_BYTES);
    let cluster_sectors = (CLUSTER_BYTES / SECTOR_BYTES) as u32;
    match class {
        1 => {
            let label: Vec<u16> = "serverdyno".encode_utf16().collect();
            out.u64(0);
            out.u32(0x5364_796e);
            out.u32(length(2 * label.len()));
            out.u16(0);
            out.name(&label);
            return Ok(24);
        }
        3 => {
            out.u64(all);
            out.u64(free);
            out.u32(cluster_sectors);
            out.u32(SECTOR_BYTES as u32);
        }
        4 => {
            out.u32(DEVICE_DISK);
            out.u32(0);
        }
        5 => {
            let name: Vec<u16> = "NTFS".encode_utf16().collect();
            out.u32(FILE_SYSTEM_ATTRIBUTES);
            out.u32(LONGEST_NAME_UNITS);
            out.u32(length(2 * name.len()));
            out.name(&name);
            return Ok(16);
        }
        7 => {
            out.u64(all);
            out.u64(free);
            out.u64(free);
            out.u32(cluster_sectors);
            out.u32(SECTOR_BYTES as u32);
        }
        11 => {
            for _ in 0..4 {
                out.u32(SECTOR_BYTES as u32);
            }
            out.zeros(12);
        }
        _ => return Err(Status::INVALID_INFO_CLASS),
    }
    Ok(length(out.len() - start))
}
