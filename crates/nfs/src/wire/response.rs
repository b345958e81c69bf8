//! The results of NFSv3's procedures (RFC 1813, 3.3), behind a status that says success.

use super::{Attributes3, FileHandle, Malformed, Reader, Wcc};
use dyno_files::{SpaceInfo, Stability, Verifier};
use std::ops::Range;

/// To LOOKUP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The file.
    pub file: FileHandle,
    /// What it is, where the server says it.
    pub attributes: Option<Attributes3>,
}

/// To CREATE and MKDIR: each part where the server says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// The file.
    pub file: Option<FileHandle>,
    /// What it is.
    pub attributes: Option<Attributes3>,
}

/// To READ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// What the file is, where the server says it.
    pub attributes: Option<Attributes3>,
    /// Whether the file ends here.
    pub is_end: bool,
    /// Where the data lie in the results.
    pub data: Range<usize>,
}

/// To WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The file before and after.
    pub wcc: Wcc,
    /// So many bytes were taken.
    pub bytes: u32,
    /// How durable they are.
    pub stability: Stability,
    /// Of which run of the server.
    pub verifier: Verifier,
}

/// To COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The file before and after.
    pub wcc: Wcc,
    /// Of which run of the server.
    pub verifier: Verifier,
}

/// To FSINFO: sizes in bytes.
#[allow(missing_docs)] // Fields: the RFC's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsInfo {
    pub max_read_bytes: u32,
    pub preferred_read_bytes: u32,
    pub max_write_bytes: u32,
    pub preferred_write_bytes: u32,
    pub preferred_listing_bytes: u32,
}

/// To FSSTAT.
pub type Space = SpaceInfo;

/// Reads the results of GETATTR.
///
/// # Errors
/// Where they break the format; as all below.
pub fn parse_get_attributes(results: &[u8]) -> Result<Attributes3, Malformed> {
    Attributes3::parse(&mut Reader::new(results))
}

/// Reads those of LOOKUP.
///
/// # Errors
/// See `parse_get_attributes`.
pub fn parse_lookup(results: &[u8]) -> Result<Found, Malformed> {
    let mut reader = Reader::new(results);
    Ok(Found {
        file: FileHandle::parse(&mut reader)?,
        attributes: Attributes3::parse_optional(&mut reader)?,
    })
}

/// Reads those of CREATE and MKDIR.
///
/// # Errors
/// See `parse_get_attributes`.
pub fn parse_create(results: &[u8]) -> Result<Created, Malformed> {
    let mut reader = Reader::new(results);
    Ok(Created {
        file: FileHandle::parse_optional(&mut reader)?,
        attributes: Attributes3::parse_optional(&mut reader)?,
    })
}

/// Reads those of SETATTR.
///
/// # Errors
/// See `parse_get_attributes`.
pub fn parse_wcc(results: &[u8]) -> Result<Wcc, Malformed> {
    Wcc::parse(&mut Reader::new(results))
}

/// Reads those of READ of `most` bytes.
///
/// # Errors
/// Also where more came.
pub fn parse_read(results: &[u8], most: u32) -> Result<Read, Malformed> {
    let mut reader = Reader::new(results);
    let attributes = Attributes3::parse_optional(&mut reader)?;
    let (count, is_end) = (reader.u32()?, reader.bool()?);
    let begin = reader.position() + 4;
    let data = reader.opaque(most as usize)?;
    if data.len() != count as usize {
        return Err(Malformed);
    }
    Ok(Read {
        attributes,
        is_end,
        data: begin..begin + data.len(),
    })
}

/// Reads those of WRITE of `most` bytes, which shall be as durable as `least`.
///
/// # Errors
/// Also where more were taken than sent, or the server has made less of them than it was asked for (RFC 1813, 3.3.7).
pub fn parse_write(results: &[u8], most: u32, least: Stability) -> Result<Written, Malformed> {
    let mut reader = Reader::new(results);
    let wcc = Wcc::parse(&mut reader)?;
    let bytes = reader.u32()?;
    let stability = match reader.u32()? {
        0 => Stability::Unstable,
        1 => Stability::Data,
        2 => Stability::File,
        _ => return Err(Malformed),
    };
    let verifier = Verifier(reader.u64()?);
    if bytes > most || stability < least {
        return Err(Malformed);
    }
    Ok(Written {
        wcc,
        bytes,
        stability,
        verifier,
    })
}

/// Reads those of COMMIT.
///
/// # Errors
/// See `parse_get_attributes`.
pub fn parse_commit(results: &[u8]) -> Result<Committed, Malformed> {
    let mut reader = Reader::new(results);
    Ok(Committed {
        wcc: Wcc::parse(&mut reader)?,
        verifier: Verifier(reader.u64()?),
    })
}

/// Reads those of FSSTAT: all room, and what is free to this user.
///
/// # Errors
/// See `parse_get_attributes`.
pub fn parse_fs_stat(results: &[u8]) -> Result<Space, Malformed> {
    let mut reader = Reader::new(results);
    Attributes3::parse_optional(&mut reader)?;
    let total_bytes = reader.u64()?;
    reader.u64()?; // free to the superuser
    Ok(Space {
        total_bytes,
        free_bytes: reader.u64()?,
    })
}

/// Reads those of FSINFO.
///
/// # Errors
/// See `parse_get_attributes`.
pub fn parse_fs_info(results: &[u8]) -> Result<FsInfo, Malformed> {
    let mut reader = Reader::new(results);
    Attributes3::parse_optional(&mut reader)?;
    let (max_read_bytes, preferred_read_bytes) = (reader.u32()?, reader.u32()?);
    reader.u32()?; // multiple
    let (max_write_bytes, preferred_write_bytes) = (reader.u32()?, reader.u32()?);
    reader.u32()?;
    Ok(FsInfo {
        max_read_bytes,
        preferred_read_bytes,
        max_write_bytes,
        preferred_write_bytes,
        preferred_listing_bytes: reader.u32()?,
    })
}
