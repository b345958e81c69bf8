//! Results of compounds (RFC 8881, 18) after SEQUENCE and a successful status: one result per operation, in
//! order, with its number and status. Anything else is malformed.

use super::attributes::{is_furnished, Attributes4, ALL, OF_ENTRIES, OF_NAMES, SOME, SPACE};
use crate::wire::operation4::*;
use crate::wire::{Bitmap, FileHandle, Malformed, Reader, Stateid, Xdr, MAX_HANDLE4_BYTES, MAX_NAME_BYTES};
use dyno_files::{Info, SpaceInfo, Stability, Verifier};
use std::ops::Range;

// Types of delegations.
const NO_DELEGATION: u32 = 0;
const FOR_READING: u32 = 1;
const NO_DELEGATION_BECAUSE: u32 = 3;
const MOST_WHO_BYTES: usize = 1024;
/// Reasons for granting no delegation that are followed by a flag: whether the server will announce when one is
/// available.
const CONTENTION_AND_RESOURCE: [u32; 2] = [1, 2];

/// Reads the number and status of a result. Fails unless they are `operation` and 0 (success).
pub(super) fn expect(reader: &mut Reader<'_>, operation: u32) -> Result<(), Malformed> {
    match (reader.u32()? == operation, reader.u32()?) {
        (true, 0) => Ok(()),
        _ => Err(Malformed),
    }
}

fn behind_file(results: &[u8]) -> Result<Reader<'_>, Malformed> {
    let mut reader = Reader::new(results);
    expect(&mut reader, PUTFH)?;
    Ok(reader)
}

pub(super) fn parse_file(reader: &mut Reader<'_>) -> Result<FileHandle, Malformed> {
    expect(reader, GETFH)?;
    FileHandle::of(reader.opaque(MAX_HANDLE4_BYTES)?).ok_or(Malformed)
}

pub(super) fn parse_attributes(reader: &mut Reader<'_>, asked: Bitmap) -> Result<Attributes4, Malformed> {
    expect(reader, GETATTR)?;
    Attributes4::parse(reader, asked)
}

/// Reads `change_info4` of a directory; returns whether the directory changed.
fn parse_change(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    reader.bool()?; // atomic
    Ok(reader.u64()? != reader.u64()?)
}

pub(crate) fn parse_get_attributes(results: &[u8]) -> Result<Info, Malformed> {
    parse_attributes(&mut behind_file(results)?, ALL)?.info()
}

pub(crate) fn parse_space(results: &[u8]) -> Result<SpaceInfo, Malformed> {
    parse_attributes(&mut behind_file(results)?, SPACE)?.space()
}

pub(crate) fn parse_lookup(results: &[u8]) -> Result<(FileHandle, Info), Malformed> {
    let mut reader = behind_file(results)?;
    expect(&mut reader, LOOKUP)?;
    file_and_info(&mut reader)
}

fn file_and_info(reader: &mut Reader<'_>) -> Result<(FileHandle, Info), Malformed> {
    Ok((parse_file(reader)?, parse_attributes(reader, ALL)?.info()?))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opened4 {
    pub(crate) file: FileHandle,
    pub(crate) info: Info,
    pub(crate) stateid: Stateid,
    pub(crate) changed_directory: bool,
    /// Whether an exclusive creation has set the mode and has not stored its verifier in the times.
    pub(crate) is_furnished: bool,
    /// A read delegation, and whether it is already recalled.
    pub(crate) delegation: Option<(Stateid, bool)>,
}

/// Parses the results of an open. `wants`: a read delegation was requested. A write delegation, or an
/// unrequested one, violates the protocol.
pub(crate) fn parse_open(results: &[u8], wants: bool) -> Result<Opened4, Malformed> {
    let mut reader = behind_file(results)?;
    expect(&mut reader, OPEN)?;
    let stateid = Stateid::parse(&mut reader)?;
    let changed_directory = parse_change(&mut reader)?;
    reader.u32()?; // rflags
    let set = Bitmap::parse(&mut reader)?;
    let mut delegation = None;
    match reader.u32()? {
        NO_DELEGATION => {}
        FOR_READING if wants => {
            delegation = Some((Stateid::parse(&mut reader)?, reader.bool()?));
            // Skip the users who need no ACCESS check (`nfsace4`): the server checks each READ itself.
            reader.bytes(12)?;
            reader.opaque(MOST_WHO_BYTES)?;
        }
        NO_DELEGATION_BECAUSE => {
            if CONTENTION_AND_RESOURCE.contains(&reader.u32()?) {
                reader.bool()?;
            }
        }
        _ => return Err(Malformed),
    }
    let (file, info) = file_and_info(&mut reader)?;
    Ok(Opened4 {
        file,
        info,
        stateid,
        changed_directory,
        is_furnished: is_furnished(set),
        delegation,
    })
}

/// Parses the results of creating a directory.
pub(crate) fn parse_made(results: &[u8]) -> Result<(FileHandle, Info), Malformed> {
    let mut reader = behind_file(results)?;
    expect(&mut reader, CREATE)?;
    parse_change(&mut reader)?;
    Bitmap::parse(&mut reader)?;
    file_and_info(&mut reader)
}

/// Parses the results of CLOSE, and if `unlocks`, of the LOCKU before it.
pub(crate) fn parse_close(results: &[u8], unlocks: bool) -> Result<(), Malformed> {
    let mut reader = behind_file(results)?;
    if unlocks {
        expect(&mut reader, LOCKU)?;
        Stateid::parse(&mut reader)?;
    }
    expect(&mut reader, CLOSE)?;
    Stateid::parse(&mut reader).map(|_| ())
}

/// Parses the results of setting attributes.
pub(crate) fn parse_set(results: &[u8]) -> Result<Info, Malformed> {
    let mut reader = behind_file(results)?;
    expect(&mut reader, SETATTR)?;
    Bitmap::parse(&mut reader)?;
    parse_attributes(&mut reader, SOME)?.info()
}

/// Parses the results of a read of `most` bytes: whether it reached the end of the file, and the range of the data.
pub(crate) fn parse_read(results: &[u8], most: u32) -> Result<(bool, Range<usize>), Malformed> {
    let mut reader = behind_file(results)?;
    expect(&mut reader, READ)?;
    let is_end = reader.bool()?;
    let begin = reader.position() + 4;
    let data = reader.opaque(most as usize)?;
    Ok((is_end, begin..begin + data.len()))
}

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written4 {
    pub(crate) bytes: u32,
    pub(crate) stability: Stability,
    pub(crate) verifier: Verifier,
    pub(crate) info: Info,
}

/// Parses the results of a write of `most` bytes, which must be at least as durable as `least`.
pub(crate) fn parse_write(results: &[u8], most: u32, least: Stability) -> Result<Written4, Malformed> {
    let mut reader = behind_file(results)?;
    expect(&mut reader, WRITE)?;
    let bytes = reader.u32()?;
    let stability = Stability::parse(&mut reader)?;
    let verifier = Verifier(reader.u64()?);
    if bytes > most || stability < least {
        return Err(Malformed);
    }
    Ok(Written4 {
        bytes,
        stability,
        verifier,
        info: parse_attributes(&mut reader, SOME)?.info()?,
    })
}

pub(crate) fn parse_commit(results: &[u8]) -> Result<Verifier, Malformed> {
    let mut reader = behind_file(results)?;
    expect(&mut reader, COMMIT)?;
    Ok(Verifier(reader.u64()?))
}

/// Parses the results of LOCK, or of LOCKU if `is_end`.
pub(crate) fn parse_lock(results: &[u8], is_end: bool) -> Result<Stateid, Malformed> {
    let mut reader = behind_file(results)?;
    expect(&mut reader, if is_end { LOCKU } else { LOCK })?;
    Stateid::parse(&mut reader)
}

/// A part of a listing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entries4<'a> {
    reader: Reader<'a>,
    asked: Bitmap,
    pub(crate) verifier: u64,
}

impl<'a> Entries4<'a> {
    /// Parses the results up to the first entry. `with_attributes`: whether attributes were requested.
    pub(crate) fn parse(results: &'a [u8], with_attributes: bool) -> Result<Self, Malformed> {
        let mut reader = behind_file(results)?;
        expect(&mut reader, READDIR)?;
        let verifier = reader.u64()?;
        Ok(Self {
            reader,
            asked: if with_attributes { OF_ENTRIES } else { OF_NAMES },
            verifier,
        })
    }

    /// Reads the next entry; returns its cookie and name, or None after the last entry.
    pub(crate) fn next_entry(&mut self) -> Result<Option<(u64, &'a [u8])>, Malformed> {
        if !self.reader.bool()? {
            return Ok(None);
        }
        let cookie = self.reader.u64()?;
        let name = self.reader.opaque(MAX_NAME_BYTES)?;
        Attributes4::parse(&mut self.reader, self.asked)?;
        Ok(Some((cookie, name)))
    }

    /// Reads whether the listing ends. Call it after the last entry of this part.
    pub(crate) fn is_last_part(&mut self) -> Result<bool, Malformed> {
        self.reader.bool()
    }
}
