//! CREATE (MS-SMB2 2.2.13, 2.2.14, 3.3.5.9) and its contexts: leases, maximal access, the file's number.

use super::{Asking, BODY};
use crate::smb::bytes::{length, slice, u128_at, u16_at, u32_at, u8_at, units, Put};
use crate::smb::message::HEADER_BYTES;
use crate::smb::notices::{level, state_of};
use crate::smb::status::{Status, Stop};
use crate::smb::volume::{right, Asked, Facts, Granted, Opened, Volume, Want};
use dyno_smb::wire::Dialect;

const LEASE_LEVEL: u8 = 0xff;
const MOST_CONTEXTS: usize = 32;
const LEASE_BREAKING: u32 = 2;
/// In the second form: another lease, that of the directory, is named.
const LEASE_STATES: u32 = 7;

/// What contexts ask for.
#[derive(Default)]
struct Contexts {
    lease: Option<(u128, u8, bool)>,
    maximal_access: bool,
    number: bool,
    /// A file as it was at some time before: there is none.
    from_the_past: bool,
}

pub(super) fn create(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Stop> {
    let part = asking.part;
    let name_bytes = usize::from(u16_at(part, BODY + 46)?);
    let path = units(slice(part, usize::from(u16_at(part, BODY + 44)?), name_bytes)?)?;
    let contexts = read_contexts(part)?;
    if contexts.from_the_past {
        return Err(Status::OBJECT_NAME_NOT_FOUND.into());
    }
    let options = &asking.host.options;
    let oplock_level = u8_at(part, BODY + 3)?;
    let asked = match (oplock_level, contexts.lease) {
        _ if !options.oplocks => Asked::Nothing,
        (LEASE_LEVEL, Some((key, state, second_form))) if leases(asking, second_form) => Asked::Lease {
            name: (asking.client_guid, key),
            state,
            second_form,
        },
        (LEASE_LEVEL, _) => Asked::Nothing,
        (oplock_level, _) => Asked::Oplock(state_of(oplock_level)),
    };
    let want = Want {
        path: &path,
        access: u32_at(part, BODY + 24)?,
        attributes: u32_at(part, BODY + 28)?,
        share: u32_at(part, BODY + 32)?,
        disposition: u32_at(part, BODY + 36)?,
        options: u32_at(part, BODY + 40)?,
        asked,
    };
    let opened = volume.open(&asking.opener, &want, asking.moment, asking.waiter)?;
    asking.used.set(Some(opened.file));
    write(&opened, &contexts, out);
    Ok(Status::SUCCESS)
}

/// Leases are there from SMB 2.1 on, the second form from 3.0 on.
fn leases(asking: &Asking<'_>, second_form: bool) -> bool {
    let least = if second_form {
        Dialect::Smb300
    } else {
        Dialect::Smb210
    };
    asking.host.options.leases && asking.dialect >= least
}

fn read_contexts(part: &[u8]) -> Result<Contexts, Status> {
    let mut found = Contexts::default();
    let offset = u32_at(part, BODY + 48)? as usize;
    let mut rest = slice(part, offset, u32_at(part, BODY + 52)? as usize)?;
    for _ in 0..MOST_CONTEXTS {
        if rest.is_empty() {
            return Ok(found);
        }
        let next = u32_at(rest, 0)? as usize;
        let name = slice(rest, usize::from(u16_at(rest, 4)?), usize::from(u16_at(rest, 6)?))?;
        let data = slice(rest, usize::from(u16_at(rest, 10)?), u32_at(rest, 12)? as usize)?;
        match name {
            b"RqLs" => {
                let state = (u32_at(data, 16)? & LEASE_STATES) as u8;
                found.lease = Some((u128_at(data, 0)?, state, data.len() >= 52));
            }
            b"MxAc" => found.maximal_access = true,
            b"QFid" => found.number = true,
            b"TWrp" => found.from_the_past = true,
            _ => {}
        }
        if next == 0 {
            return Ok(found);
        }
        rest = rest.get(next..).ok_or(Status::INVALID_PARAMETER)?;
    }
    Err(Status::INVALID_PARAMETER)
}

/// Times, sizes and attributes, as CREATE and CLOSE tell them.
pub(super) fn write_facts(facts: &Facts, out: &mut Vec<u8>) {
    let times = facts.times;
    for value in [
        times.created,
        times.accessed,
        times.written,
        times.changed,
        facts.allocated,
        facts.end,
    ] {
        out.u64(value);
    }
    out.u32(facts.attributes);
}

fn write(opened: &Opened, contexts: &Contexts, out: &mut Vec<u8>) {
    let start = out.len();
    out.u16(89);
    out.u8(match opened.lease {
        Some(_) => LEASE_LEVEL,
        None => level(opened.state),
    });
    out.u8(0);
    out.u32(opened.action);
    write_facts(&opened.facts, out);
    out.u32(0);
    out.u64(opened.file.0 as u64);
    out.u64(opened.file.1);
    out.u32(0);
    out.u32(0);
    let contexts_at = out.len();
    let mut last = None;
    if let Some(lease) = &opened.lease {
        write_context(b"RqLs", &lease_data(lease), &mut last, out);
    }
    if contexts.maximal_access {
        let mut data = Vec::new();
        data.u32(Status::SUCCESS.0);
        data.u32(right::ALL);
        write_context(b"MxAc", &data, &mut last, out);
    }
    if contexts.number {
        let mut data = Vec::new();
        data.u64(opened.facts.number);
        data.zeros(24);
        write_context(b"QFid", &data, &mut last, out);
    }
    if last.is_some() {
        out.set_u32(start + 80, length(HEADER_BYTES + contexts_at - start));
        let bytes = length(out.len() - contexts_at);
        out.set_u32(start + 84, bytes);
    }
}

fn lease_data(lease: &Granted) -> Vec<u8> {
    let mut data = lease.key.to_le_bytes().to_vec();
    data.u32(u32::from(lease.state));
    data.u32(if lease.breaking { LEASE_BREAKING } else { 0 });
    data.u64(0);
    if lease.second_form {
        data.zeros(16);
        data.u16(lease.epoch);
        data.u16(0);
    }
    data
}

/// Appends one; the one before is told where it is. Each begins in step with the one before.
fn write_context(name: &[u8; 4], data: &[u8], last: &mut Option<usize>, out: &mut Vec<u8>) {
    if let Some(before) = *last {
        let padded = (out.len() - before).next_multiple_of(8);
        out.resize(before + padded, 0);
        out.set_u32(before, length(padded));
    }
    *last = Some(out.len());
    out.u32(0);
    out.u16(16);
    out.u16(4);
    out.u16(0);
    out.u16(24);
    out.u32(length(data.len()));
    out.extend_from_slice(name);
    out.zeros(4);
    out.extend_from_slice(data);
}
