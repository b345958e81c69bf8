//! CREATE (MS-SMB2 2.2.13, 2.2.14, 3.3.5.9) and its contexts: leases, durable handles, maximal access and
//! file ID.

use super::{Asking, BODY};
use crate::smb::bytes::{length, slice, u128_at, u16_at, u32_at, u64_at, u8_at, units, Put};
use crate::smb::message::HEADER_BYTES;
use crate::smb::notices::{level, state_of};
use crate::smb::status::{Status, Stop};
use crate::smb::volume::{right, Asked, ComesBack, Facts, FileId, Granted, KeptName, Opened, Volume, Want};
use dyno_smb::wire::Dialect;

const LEASE_LEVEL: u8 = 0xff;
const MOST_CONTEXTS: usize = 32;
/// Size of a version 2 lease context, which ends with the epoch.
const LEASE_BYTES: usize = 52;
const LAST_IMPERSONATION: u32 = 3;
const LEASE_BREAKING: u32 = 2;
/// Flag of a durable handle that survives a restart of the server.
const PERSISTENT: u32 = 2;
/// Flag of a lease in version 2: the key of the parent directory's lease is present.
const PARENT_KEY_SET: u32 = 4;
const LEASE_STATES: u32 = 7;

#[derive(Default)]
struct Contexts {
    /// Key, state, and the epoch of a lease in version 2.
    lease: Option<(u128, u8, Option<u16>)>,
    /// Key of the parent directory's lease.
    parent: Option<u128>,
    maximal_access: bool,
    number: bool,
    /// Whether an earlier version of the file is requested, which the server never has.
    from_the_past: bool,
    durable: Option<Durable>,
}

/// Durability that an open requests, or the durable open to which it reconnects.
#[derive(Debug, Clone, Copy)]
enum Durable {
    /// Makes the open durable. `persistent`: the open also survives a restart of the server. Only version 2 of the
    /// context has a GUID.
    Keep {
        create_guid: Option<u128>,
        persistent: bool,
        /// Requested timeout in ms; 0: the server chooses.
        wanted_ms: u32,
    },
    ComeBack {
        file: FileId,
        create_guid: Option<u128>,
    },
}

impl Durable {
    fn is_second_form(self) -> bool {
        let (Self::Keep { create_guid, .. } | Self::ComeBack { create_guid, .. }) = self;
        create_guid.is_some()
    }
}

impl Contexts {
    /// Adds a durability context. A context in version 2 must be the only one. Among those in version 1, a reconnect
    /// takes precedence (MS-SMB2 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12).
    fn add_durable(&mut self, durable: Durable) -> Result<(), Status> {
        match self.durable {
            Some(before) if before.is_second_form() || durable.is_second_form() => {
                return Err(Status::INVALID_PARAMETER);
            }
            Some(Durable::ComeBack { .. }) => {}
            _ => self.durable = Some(durable),
        }
        Ok(())
    }
}

pub(super) fn create(asking: &Asking<'_>, volume: &mut Volume, out: &mut Vec<u8>) -> Result<Status, Stop> {
    let part = asking.part;
    let name_bytes = usize::from(u16_at(part, BODY + 46)?);
    let path = units(slice(part, usize::from(u16_at(part, BODY + 44)?), name_bytes)?)?;
    let contexts = read_contexts(part)?;
    // Ignore the other parameters of a reconnect.
    if let Some(Durable::ComeBack { file, create_guid }) = contexts.durable {
        let name = KeptName {
            client_guid: asking.client_guid,
            create_guid,
        };
        let lease = contexts.lease.map(|(key, ..)| (asking.client_guid, key));
        let comes = ComesBack {
            file,
            name,
            lease,
            path: &path,
        };
        let opened = volume.come_back(&asking.opener, &comes, asking.moment)?;
        asking.used.set(Some(opened.file));
        write(&opened, &contexts, None, out);
        return Ok(Status::SUCCESS);
    }
    if path.first() == Some(&u16::from(b'\\')) {
        return Err(Status::INVALID_PARAMETER.into());
    }
    if u32_at(part, BODY + 4)? > LAST_IMPERSONATION {
        return Err(Status::BAD_IMPERSONATION_LEVEL.into());
    }
    if contexts.from_the_past {
        return Err(Status::OBJECT_NAME_NOT_FOUND.into());
    }
    let options = &asking.host.options;
    let oplock_level = u8_at(part, BODY + 3)?;
    let asked = match (oplock_level, contexts.lease) {
        _ if !options.oplocks => Asked::Nothing,
        (LEASE_LEVEL, Some((key, state, epoch))) if leases(asking, epoch.is_some()) => Asked::Lease {
            name: (asking.client_guid, key),
            state,
            epoch,
            of_directories: asking.leases_directories && epoch.is_some(),
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
        parent: contexts.parent.map(|key| (asking.client_guid, key)),
    };
    let opened = volume.open(&asking.opener, &want, asking.moment, asking.waiter)?;
    asking.used.set(Some(opened.file));
    volume.check_channel_sequence(opened.file.0, asking.channel_sequence, false)?;
    let kept = keep(asking, volume, &opened, &contexts);
    write(&opened, &contexts, kept, out);
    Ok(Status::SUCCESS)
}

/// Makes an open durable if durability is requested and allowed. Returns the timeout in milliseconds and
/// whether the handle is persistent.
fn keep(
    asking: &Asking<'_>,
    volume: &mut Volume,
    opened: &Opened,
    contexts: &Contexts,
) -> Option<(u32, bool)> {
    let options = &asking.host.options;
    let Some(Durable::Keep {
        create_guid,
        persistent,
        wanted_ms,
    }) = contexts.durable.filter(|_| options.durable_handles)
    else {
        return None;
    };
    if create_guid.is_some() && asking.dialect < Dialect::Smb300 {
        return None;
    }
    let name = KeptName {
        client_guid: asking.client_guid,
        create_guid,
    };
    let persistent = persistent && options.continuously_available;
    let kept_ms = volume.keep(opened.file, name, persistent, wanted_ms)?;
    Some((kept_ms, persistent))
}

/// Returns whether leases are granted: from SMB 2.1 on in version 1, from SMB 3.0 on in version 2 (`second_form`).
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
                let epoch = (data.len() >= LEASE_BYTES)
                    .then(|| u16_at(data, 48))
                    .transpose()?;
                if epoch.is_some() && u32_at(data, 20)? & PARENT_KEY_SET != 0 {
                    found.parent = Some(u128_at(data, 32)?);
                }
                found.lease = Some((u128_at(data, 0)?, state, epoch));
            }
            b"DHnQ" => {
                found.add_durable(Durable::Keep {
                    create_guid: None,
                    persistent: false,
                    wanted_ms: 0,
                })?;
            }
            b"DH2Q" => {
                found.add_durable(Durable::Keep {
                    create_guid: Some(u128_at(data, 16)?),
                    persistent: u32_at(data, 4)? & PERSISTENT != 0,
                    wanted_ms: u32_at(data, 0)?,
                })?;
            }
            b"DHnC" => {
                found.add_durable(Durable::ComeBack {
                    file: file_id(data)?,
                    create_guid: None,
                })?;
            }
            b"DH2C" => {
                found.add_durable(Durable::ComeBack {
                    file: file_id(data)?,
                    create_guid: Some(u128_at(data, 16)?),
                })?;
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

fn file_id(data: &[u8]) -> Result<FileId, Status> {
    let place = usize::try_from(u64_at(data, 0)?).unwrap_or(usize::MAX);
    Ok((place, u64_at(data, 8)?))
}

/// Appends times, sizes and attributes for CREATE and CLOSE.
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

fn write(opened: &Opened, contexts: &Contexts, kept: Option<(u32, bool)>, out: &mut Vec<u8>) {
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
        write_context(b"RqLs", &lease_data(lease, contexts.parent), &mut last, out);
    }
    if let (Some((kept_ms, persistent)), Some(Durable::Keep { create_guid, .. })) = (kept, contexts.durable) {
        let mut data = Vec::new();
        if create_guid.is_some() {
            data.u32(kept_ms);
            data.u32(if persistent { PERSISTENT } else { 0 });
            write_context(b"DH2Q", &data, &mut last, out);
        } else {
            data.zeros(8);
            write_context(b"DHnQ", &data, &mut last, out);
        }
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

/// Returns the data of a lease context. `parent`: the lease key of the parent directory in the request.
fn lease_data(lease: &Granted, parent: Option<u128>) -> Vec<u8> {
    let mut data = lease.key.to_le_bytes().to_vec();
    data.u32(u32::from(lease.state));
    let breaking = if lease.breaking { LEASE_BREAKING } else { 0 };
    data.u32(breaking | if parent.is_some() { PARENT_KEY_SET } else { 0 });
    data.u64(0);
    if lease.second_form {
        data.extend_from_slice(&parent.unwrap_or(0).to_le_bytes());
        data.u16(lease.epoch);
        data.u16(0);
    }
    data
}

/// Appends a context, aligned to 8 bytes, and links the previous one to it.
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
