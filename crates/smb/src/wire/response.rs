//! Response bodies. `message` is always one message of a compound. It begins with the header, from which wire
//! offsets count.

use super::bytes::{array, range, size_at, u16_at, u32_at, u64_at, u8_at, Parsed};
use super::directory::count_entries;
use super::header::HEADER_BYTES;
use super::malformed::{Field, Malformed};
use super::{oplock, FileId};
use std::ops::Range;

const BODY: usize = HEADER_BYTES;
const ATTRIBUTE_READ_ONLY: u32 = 0x01;
const ATTRIBUTE_DIRECTORY: u32 = 0x10;

/// Checks that the body begins with the structure size `structure`.
///
/// # Errors
/// The body begins with another structure size.
pub fn parse_structure(message: &[u8], structure: u16) -> Parsed<()> {
    if u16_at(message, BODY)? == structure {
        Ok(())
    } else {
        Err(Malformed::at(Field::StructureSize, BODY))
    }
}

/// Checks the body of an error response (MS-SMB2 2.2.2).
///
/// # Errors
/// The message is not a valid error response.
pub fn parse_error(message: &[u8]) -> Parsed<()> {
    parse_structure(message, 9)?;
    let data_bytes = size_at(message, BODY + 4)?;
    if data_bytes > message.len() - (BODY + 8) {
        return Err(Malformed::at(Field::ByteCount, BODY + 4));
    }
    Ok(())
}

/// Response to SESSION_SETUP (2.2.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSetup {
    pub guest: bool,
    pub anonymous: bool,
    /// Whether the server requires encryption.
    pub encrypt: bool,
    /// Range of the token in the message.
    pub token: Range<usize>,
}

pub fn parse_session_setup(message: &[u8]) -> Parsed<SessionSetup> {
    parse_structure(message, 9)?;
    let flags = u16_at(message, BODY + 2)?;
    let offset = usize::from(u16_at(message, BODY + 4)?);
    let length = usize::from(u16_at(message, BODY + 6)?);
    Ok(SessionSetup {
        guest: flags & 1 != 0,
        anonymous: flags & 2 != 0,
        encrypt: flags & 4 != 0,
        token: range(
            message,
            offset,
            length,
            BODY + 8,
            Malformed::at(Field::SecurityBuffer, BODY + 4),
        )?,
    })
}

/// Response to TREE_CONNECT (2.2.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeConnect {
    /// Whether the share contains files, and is not a pipe or a printer.
    pub disk: bool,
    /// Whether the share requires encryption.
    pub encrypt: bool,
    /// Whether handles of the share may be persistent.
    pub continuously_available: bool,
    /// Whether the user's maximal access to the share allows reading, but not writing or appending.
    pub read_only: bool,
}

/// Rights in an access mask (MS-SMB2 2.2.13.1.1).
const READ_DATA: u32 = 1;
const WRITE_OR_APPEND_DATA: u32 = 2 | 4;

pub fn parse_tree_connect(message: &[u8]) -> Parsed<TreeConnect> {
    parse_structure(message, 16)?;
    let access = u32_at(message, BODY + 12)?;
    Ok(TreeConnect {
        read_only: access & READ_DATA != 0 && access & WRITE_OR_APPEND_DATA == 0,
        disk: u8_at(message, BODY + 2)? == 1,
        encrypt: u32_at(message, BODY + 4)? & 0x8000 != 0,
        continuously_available: u32_at(message, BODY + 8)? & 0x10 != 0,
    })
}

/// Response to CREATE (2.2.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    pub file: FileId,
    /// Level of `oplock`.
    pub oplock: u8,
    /// Bits of `oplock::LEASE_*`; 0 if no lease was granted.
    pub lease_state: u32,
    /// Whether the file did not exist before.
    pub created: bool,
    pub bytes: u64,
    /// Space allocated for the file.
    pub allocated_bytes: u64,
    pub directory: bool,
    pub read_only: bool,
}

/// Parses a response to CREATE; `key` is the key of the requested lease.
///
/// # Errors
/// The response is malformed, or grants a lease that was not requested.
pub fn parse_create(message: &[u8], key: Option<u128>) -> Parsed<Created> {
    parse_structure(message, 89)?;
    let attributes = u32_at(message, BODY + 56)?;
    let contexts = create_contexts(message)?;
    let (level, lease_state) = match (u8_at(message, BODY + 2)?, key) {
        // Samba's `fake oplocks` sends no context. Without its state, nothing was granted.
        (oplock::LEASE, Some(key)) => {
            lease_state(message, contexts, key)?.map_or((oplock::NONE, 0), |state| (oplock::LEASE, state))
        }
        (oplock::LEASE, None) => return Err(Malformed::at(Field::OplockLevel, BODY + 2)),
        (level, _) => (level, 0),
    };
    Ok(Created {
        file: FileId(array(message, BODY + 64)?),
        oplock: level,
        lease_state,
        // FILE_CREATED. A superseded or overwritten file existed before.
        created: u32_at(message, BODY + 4)? == 2,
        allocated_bytes: u64_at(message, BODY + 40)?,
        bytes: u64_at(message, BODY + 48)?,
        directory: attributes & ATTRIBUTE_DIRECTORY != 0,
        read_only: attributes & ATTRIBUTE_READ_ONLY != 0,
    })
}

/// Returns None if the server granted no durable handle; otherwise, whether the handle is persistent, that
/// is, also survives a restart of the server.
pub fn parse_durable(message: &[u8]) -> Parsed<Option<bool>> {
    let contexts = create_contexts(message)?;
    if let Some(data) = context(message, contexts.clone(), *b"DH2Q")? {
        let flags = u32_at(&message[data.clone()], 4).map_err(|wrong| wrong.behind(data.start))?;
        return Ok(Some(flags & 2 != 0));
    }
    Ok(context(message, contexts, *b"DHnQ")?.map(|_| false))
}

/// Returns the range of the create contexts in a response to CREATE.
fn create_contexts(message: &[u8]) -> Parsed<Range<usize>> {
    let offset = size_at(message, BODY + 80)?;
    let length = size_at(message, BODY + 84)?;
    let wrong = Malformed::at(Field::CreateContexts, BODY + 80);
    range(message, offset, length, BODY + 88, wrong)
}

/// Returns the state of the lease `key` from the create contexts of a message; None if no context has a lease.
fn lease_state(message: &[u8], contexts: Range<usize>, key: u128) -> Parsed<Option<u32>> {
    let Some(data) = context(message, contexts, *b"RqLs")? else {
        return Ok(None);
    };
    let (start, data) = (data.start, &message[data]);
    let in_data = |wrong: Malformed| wrong.behind(start);
    if u128::from_le_bytes(array(data, 0).map_err(in_data)?) == key {
        u32_at(data, 16).map_err(in_data).map(Some)
    } else {
        Err(Malformed::at(Field::LeaseKey, start))
    }
}

/// Returns the range of the data of the create context `wanted` in the message, if there is one.
fn context(message: &[u8], contexts: Range<usize>, wanted: [u8; 4]) -> Parsed<Option<Range<usize>>> {
    if contexts.is_empty() {
        return Ok(None);
    }
    let mut start = contexts.start;
    loop {
        let rest = &message[start..contexts.end];
        let here = |wrong: Malformed| wrong.behind(start);
        let wrong = |field, offset| Malformed::at(field, start + offset);
        let next = size_at(rest, 0).map_err(here)?;
        let context = if next == 0 {
            rest
        } else {
            rest.get(..next).ok_or(wrong(Field::NextContext, 0))?
        };
        let name_offset = usize::from(u16_at(context, 4).map_err(here)?);
        let name_bytes = usize::from(u16_at(context, 6).map_err(here)?);
        let name = range(context, name_offset, name_bytes, 16, wrong(Field::ContextName, 4))?;
        if context[name] == wanted {
            let data_offset = usize::from(u16_at(context, 10).map_err(here)?);
            let data_bytes = size_at(context, 12).map_err(here)?;
            let data = range(
                context,
                data_offset,
                data_bytes,
                16,
                wrong(Field::ContextData, 10),
            )?;
            return Ok(Some(start + data.start..start + data.end));
        }
        if next == 0 {
            return Ok(None);
        }
        // Every step is at least as long as a context's fixed part, so the chain ends.
        if next < 16 {
            return Err(wrong(Field::NextContext, 0));
        }
        start += next;
    }
}

/// Returns the range of the data of a READ response (2.2.20), at most `most` bytes.
///
/// # Errors
/// The response is malformed or has more data than requested.
pub fn parse_data(message: &[u8], most: u32) -> Parsed<Range<usize>> {
    parse_structure(message, 17)?;
    let offset = usize::from(u8_at(message, BODY + 2)?);
    let length = size_at(message, BODY + 4)?;
    let wrong = Malformed::at(Field::ReadData, BODY + 2);
    if length > most as usize {
        return Err(wrong);
    }
    range(message, offset, length, BODY + 16, wrong)
}

/// Returns the number of bytes written by a WRITE (2.2.22).
///
/// # Errors
/// The response is malformed, or the number exceeds the bytes sent.
pub fn parse_write(message: &[u8], sent: u32) -> Parsed<u32> {
    parse_structure(message, 17)?;
    let taken = u32_at(message, BODY + 4)?;
    if taken > sent {
        return Err(Malformed::at(Field::Count, BODY + 4));
    }
    Ok(taken)
}

/// Returns the range of the output of a QUERY_DIRECTORY (2.2.34) or QUERY_INFO (2.2.38).
fn parse_output(message: &[u8]) -> Parsed<Range<usize>> {
    parse_structure(message, 9)?;
    let offset = usize::from(u16_at(message, BODY + 2)?);
    let length = size_at(message, BODY + 4)?;
    let wrong = Malformed::at(Field::OutputBuffer, BODY + 2);
    range(message, offset, length, BODY + 8, wrong)
}

/// Returns sizes and attributes from FileNetworkOpenInformation (MS-FSCC 2.4.29): end of file, allocated
/// bytes, whether it is a directory, whether it is read-only.
pub fn parse_file_info(message: &[u8]) -> Parsed<(u64, u64, bool, bool)> {
    let output = parse_output(message)?;
    let (start, message) = (output.start, &message[..output.end]);
    let attributes = u32_at(message, start + 48)?;
    Ok((
        u64_at(message, start + 40)?,
        u64_at(message, start + 32)?,
        attributes & ATTRIBUTE_DIRECTORY != 0,
        attributes & ATTRIBUTE_READ_ONLY != 0,
    ))
}

/// Returns the space on the volume from FileFsFullSizeInformation (MS-FSCC 2.5.4): total bytes, and bytes
/// available to the client.
pub fn parse_space_info(message: &[u8]) -> Parsed<(u64, u64)> {
    let output = parse_output(message)?;
    let (start, message) = (output.start, &message[..output.end]);
    let unit_bytes = u64::from(u32_at(message, start + 24)?) * u64::from(u32_at(message, start + 28)?);
    let bytes = |offset| u64_at(message, start + offset).map(|units| units.saturating_mul(unit_bytes));
    Ok((bytes(0)?, bytes(8)?))
}

/// Returns the number of names in a QUERY_DIRECTORY response of at most `most` bytes, as `count_entries`
/// does.
///
/// # Errors
/// The response is malformed or has more data than requested.
pub fn parse_entries(message: &[u8], most: u32) -> Parsed<u32> {
    let entries = parse_output(message)?;
    if entries.len() > most as usize {
        return Err(Malformed::at(Field::OutputBuffer, BODY + 2));
    }
    let start = entries.start;
    count_entries(&message[entries]).map_err(|wrong| wrong.behind(start))
}

/// Break notification from the server (2.2.23).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakNotice {
    Oplock {
        file: FileId,
        level: u8,
    },
    Lease {
        key: u128,
        state: u32,
        /// Whether the server waits for an acknowledgement.
        acknowledge: bool,
    },
}

pub fn parse_break(message: &[u8]) -> Parsed<BreakNotice> {
    match u16_at(message, BODY)? {
        24 => Ok(BreakNotice::Oplock {
            level: u8_at(message, BODY + 2)?,
            file: FileId(array(message, BODY + 8)?),
        }),
        44 => Ok(BreakNotice::Lease {
            acknowledge: u32_at(message, BODY + 4)? & 1 != 0,
            key: u128::from_le_bytes(array(message, BODY + 8)?),
            state: u32_at(message, BODY + 28)?,
        }),
        _ => Err(Malformed::at(Field::StructureSize, BODY)),
    }
}
