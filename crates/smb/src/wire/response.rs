//! The bodies of responses. `message` is always one message from its header to the end of its part of the compound:
//! offsets of the wire count from there.

use super::bytes::{array, range, size_at, u16_at, u32_at, u64_at, u8_at, Parsed};
use super::directory::count_entries;
use super::header::HEADER_BYTES;
use super::malformed::{Field, Malformed};
use super::{oplock, FileId};
use std::ops::Range;

const BODY: usize = HEADER_BYTES;
const ATTRIBUTE_READ_ONLY: u32 = 0x01;
const ATTRIBUTE_DIRECTORY: u32 = 0x10;

/// Checks that the body begins with `structure`, which every response declares.
///
/// # Errors
/// Where it does not.
pub fn parse_structure(message: &[u8], structure: u16) -> Parsed<()> {
    if u16_at(message, BODY)? == structure {
        Ok(())
    } else {
        Err(Malformed::at(Field::StructureSize, BODY))
    }
}

/// Checks the body of a response that says that something failed (MS-SMB2 2.2.2).
///
/// # Errors
/// Where it is none.
pub fn parse_error(message: &[u8]) -> Parsed<()> {
    parse_structure(message, 9)?;
    let data_bytes = size_at(message, BODY + 4)?;
    if data_bytes > message.len() - (BODY + 8) {
        return Err(Malformed::at(Field::ByteCount, BODY + 4));
    }
    Ok(())
}

/// A response to SESSION_SETUP (2.2.6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSetup {
    /// We are a guest.
    pub guest: bool,
    pub anonymous: bool,
    /// The server will have everything encrypted.
    pub encrypt: bool,
    /// Where its token lies in the message.
    pub token: Range<usize>,
}

/// Reads one.
///
/// # Errors
/// Where it is malformed.
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

/// A response to TREE_CONNECT (2.2.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeConnect {
    /// A share of files, not a pipe or a printer.
    pub disk: bool,
    /// It is to be used encrypted alone.
    pub encrypt: bool,
    /// Its handles may be persistent.
    pub continuously_available: bool,
}

/// Reads one.
///
/// # Errors
/// Where it is malformed.
pub fn parse_tree_connect(message: &[u8]) -> Parsed<TreeConnect> {
    parse_structure(message, 16)?;
    Ok(TreeConnect {
        disk: u8_at(message, BODY + 2)? == 1,
        encrypt: u32_at(message, BODY + 4)? & 0x8000 != 0,
        continuously_available: u32_at(message, BODY + 8)? & 0x10 != 0,
    })
}

/// A response to CREATE (2.2.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// The file's name from now on.
    pub file: FileId,
    /// Of `oplock`.
    pub oplock: u8,
    /// Bits of `oplock::LEASE_*`; 0 where no lease was granted.
    pub lease_state: u32,
    /// It was not there before.
    pub created: bool,
    pub bytes: u64,
    /// Room that is kept for it.
    pub allocated_bytes: u64,
    /// It is a directory.
    pub directory: bool,
    /// It must not be written.
    pub read_only: bool,
}

/// Reads one; `key` is that of the lease that was asked for.
///
/// # Errors
/// Where it is malformed, or grants a lease that was not asked for.
pub fn parse_create(message: &[u8], key: Option<u128>) -> Parsed<Created> {
    parse_structure(message, 89)?;
    let level = u8_at(message, BODY + 2)?;
    let attributes = u32_at(message, BODY + 56)?;
    let contexts = create_contexts(message)?;
    let lease_state = match (level, key) {
        (oplock::LEASE, Some(key)) => lease_state(message, contexts, key)?,
        (oplock::LEASE, None) => return Err(Malformed::at(Field::OplockLevel, BODY + 2)),
        _ => 0,
    };
    Ok(Created {
        file: FileId(array(message, BODY + 64)?),
        oplock: level,
        lease_state,
        // FILE_CREATED; a file that was superseded or overwritten was there.
        created: u32_at(message, BODY + 4)? == 2,
        allocated_bytes: u64_at(message, BODY + 40)?,
        bytes: u64_at(message, BODY + 48)?,
        directory: attributes & ATTRIBUTE_DIRECTORY != 0,
        read_only: attributes & ATTRIBUTE_READ_ONLY != 0,
    })
}

/// How the server keeps an open that it was asked to keep; None: not at all. `persistent`: over its own restart, too.
///
/// # Errors
/// Where the create contexts are malformed.
pub fn parse_durable(message: &[u8]) -> Parsed<Option<bool>> {
    let contexts = create_contexts(message)?;
    if let Some(data) = context(message, contexts.clone(), *b"DH2Q")? {
        let flags = u32_at(&message[data.clone()], 4).map_err(|wrong| wrong.behind(data.start))?;
        return Ok(Some(flags & 2 != 0));
    }
    Ok(context(message, contexts, *b"DHnQ")?.map(|_| false))
}

/// Where the create contexts lie in the answer to a CREATE.
fn create_contexts(message: &[u8]) -> Parsed<Range<usize>> {
    let offset = size_at(message, BODY + 80)?;
    let length = size_at(message, BODY + 84)?;
    let wrong = Malformed::at(Field::CreateContexts, BODY + 80);
    range(message, offset, length, BODY + 88, wrong)
}

/// The state of the lease `key` among the create contexts of a message.
fn lease_state(message: &[u8], contexts: Range<usize>, key: u128) -> Parsed<u32> {
    let missing = Malformed::at(Field::NextContext, contexts.start);
    let data = context(message, contexts, *b"RqLs")?.ok_or(missing)?;
    let (start, data) = (data.start, &message[data]);
    let in_data = |wrong: Malformed| wrong.behind(start);
    if u128::from_le_bytes(array(data, 0).map_err(in_data)?) == key {
        u32_at(data, 16).map_err(in_data)
    } else {
        Err(Malformed::at(Field::LeaseKey, start))
    }
}

/// Where the data of the create context of that name lie in the message; None where there is none.
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
        // Every step goes on by more than a context's fixed part, so the chain ends.
        if next < 16 {
            return Err(wrong(Field::NextContext, 0));
        }
        start += next;
    }
}

/// Where the data of a READ (2.2.20), `most` bytes of it, lies in the message.
///
/// # Errors
/// Where it is malformed or brings more than was asked for.
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

/// Bytes that a WRITE (2.2.22) took.
///
/// # Errors
/// Where it is malformed or took more than was sent.
pub fn parse_write(message: &[u8], sent: u32) -> Parsed<u32> {
    parse_structure(message, 17)?;
    let taken = u32_at(message, BODY + 4)?;
    if taken > sent {
        return Err(Malformed::at(Field::Count, BODY + 4));
    }
    Ok(taken)
}

/// Where in the message lies what a QUERY_DIRECTORY (2.2.34) or QUERY_INFO (2.2.38) brings.
fn parse_output(message: &[u8]) -> Parsed<Range<usize>> {
    parse_structure(message, 9)?;
    let offset = usize::from(u16_at(message, BODY + 2)?);
    let length = size_at(message, BODY + 4)?;
    let wrong = Malformed::at(Field::OutputBuffer, BODY + 2);
    range(message, offset, length, BODY + 8, wrong)
}

/// Sizes and attributes: FileNetworkOpenInformation (MS-FSCC 2.4.29) as end, room, directory, read only.
///
/// # Errors
/// Where it is malformed.
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

/// Space: FileFsFullSizeInformation (MS-FSCC 2.5.4) as bytes in all and bytes free for us.
///
/// # Errors
/// Where it is malformed.
pub fn parse_space_info(message: &[u8]) -> Parsed<(u64, u64)> {
    let output = parse_output(message)?;
    let (start, message) = (output.start, &message[..output.end]);
    let unit_bytes = u64::from(u32_at(message, start + 24)?) * u64::from(u32_at(message, start + 28)?);
    let bytes = |offset| u64_at(message, start + offset).map(|units| units.saturating_mul(unit_bytes));
    Ok((bytes(0)?, bytes(8)?))
}

/// The number of names that a QUERY_DIRECTORY brings in `most` bytes at most, as `count_entries` counts them.
///
/// # Errors
/// Where it is malformed or brings more than was asked for.
pub fn parse_entries(message: &[u8], most: u32) -> Parsed<u32> {
    let entries = parse_output(message)?;
    if entries.len() > most as usize {
        return Err(Malformed::at(Field::OutputBuffer, BODY + 2));
    }
    let start = entries.start;
    count_entries(&message[entries]).map_err(|wrong| wrong.behind(start))
}

/// A break, as the server announces it (2.2.23).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakNotice {
    Oplock {
        file: FileId,
        level: u8,
    },
    Lease {
        key: u128,
        state: u32,
        /// The server waits for an answer.
        acknowledge: bool,
    },
}

/// Reads one.
///
/// # Errors
/// Where it is malformed.
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
