//! Results of the NFSv3 procedures (RFC 1813, 3.3), after a successful status.

use super::xdr::{parse, xdr, Xdr};
use super::{Attributes3, FileHandle, Malformed, Reader, Wcc, Writer};
use dyno_files::{SpaceInfo, Stability, Verifier};
use std::ops::Range;

/// Results of LOOKUP, which continue with the directory's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub file: FileHandle,
    /// Attributes of the file, if the server sends them.
    pub attributes: Option<Attributes3>,
}

xdr!(Found { file, attributes });

/// Results of CREATE, MKDIR, SYMLINK and MKNOD, which continue with the directory's attributes before and after.
/// None: the server did not send the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    pub file: Option<FileHandle>,
    pub attributes: Option<Attributes3>,
}

xdr!(Created { file, attributes });

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Attributes of the file, if the server sends them.
    pub attributes: Option<Attributes3>,
    /// Whether the data reaches the end of the file.
    pub is_end: bool,
    /// Range of the data in the results.
    pub data: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    pub wcc: Wcc,
    pub bytes: u32,
    /// Durability of the bytes.
    pub stability: Stability,
    /// Write verifier, which changes if the server restarts.
    pub verifier: Verifier,
}

xdr!(Written {
    wcc,
    bytes,
    stability,
    verifier
});

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    pub wcc: Wcc,
    /// Write verifier, which changes if the server restarts.
    pub verifier: Verifier,
}

xdr!(Committed { wcc, verifier });

impl Xdr<'_> for Verifier {
    fn write(&self, writer: &mut Writer<'_>) {
        self.0.write(writer);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.u64().map(Self)
    }
}

/// Results of FSINFO; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsInfo {
    pub max_read_bytes: u32,
    pub preferred_read_bytes: u32,
    pub max_write_bytes: u32,
    pub preferred_write_bytes: u32,
    pub preferred_listing_bytes: u32,
}

impl FsInfo {
    /// Appends the results after the root's attributes, with the maximum file size, for a server with hard links,
    /// symbolic links, and times with a resolution of 1 ns that can be set.
    pub fn write(&self, max_file_bytes: u64, writer: &mut Writer<'_>) {
        const MULTIPLE_BYTES: u32 = 4096;
        const LINKS_SYMBOLIC_LINKS_SAME_EVERYWHERE_SETS_TIMES: u32 = 0x1 | 0x2 | 0x8 | 0x10;
        writer.u32(self.max_read_bytes).u32(self.preferred_read_bytes);
        writer.u32(MULTIPLE_BYTES);
        writer.u32(self.max_write_bytes).u32(self.preferred_write_bytes);
        writer.u32(MULTIPLE_BYTES).u32(self.preferred_listing_bytes);
        writer.u64(max_file_bytes).u32(0).u32(1);
        writer.u32(LINKS_SYMBOLIC_LINKS_SAME_EVERYWHERE_SETS_TIMES);
    }
}

pub type Space = SpaceInfo;

/// Appends the results of FSSTAT after the root's attributes, with the number of free file slots.
pub fn write_fs_stat(space: Space, free_files: u64, writer: &mut Writer<'_>) {
    writer.u64(space.total_bytes);
    writer.u64(space.free_bytes).u64(space.free_bytes);
    writer.u64(free_files).u64(free_files).u64(free_files);
    writer.u32(0); // invarsec: may change at any time
}

/// Appends the results of PATHCONF after the file's attributes: names are case-sensitive and never truncated, and
/// users may give their files to others.
pub fn write_path_conf(most_links: u32, most_name_bytes: u32, writer: &mut Writer<'_>) {
    writer.u32(most_links).u32(most_name_bytes);
    writer.u32(1).u32(0).u32(0).u32(1);
}

/// Appends the results of READ after the file's attributes. `read` appends the data, returns whether it reaches the
/// end of the file, and must not fail.
pub fn write_read(writer: &mut Writer<'_>, read: impl FnOnce(&mut Vec<u8>) -> bool) {
    let head = writer.0.len();
    writer.u32(0).u32(0).u32(0);
    let data = writer.0.len();
    let is_end = read(writer.0);
    let count = writer.0.len() - data;
    writer.0.resize(data + count.next_multiple_of(4), 0);
    let count = u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes();
    writer.0[head..head + 4].copy_from_slice(&count);
    writer.0[head + 7] = u8::from(is_end);
    writer.0[head + 8..head + 12].copy_from_slice(&count);
}

/// Parses the results of a READ of `most` bytes.
///
/// # Errors
/// The results are malformed, or contain more data.
pub fn parse_read(results: &[u8], most: u32) -> Result<Read, Malformed> {
    let mut reader = Reader::new(results);
    let attributes = Xdr::parse(&mut reader)?;
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

/// Parses the results of a WRITE of `most` bytes, which must be at least as durable as `least`.
///
/// # Errors
/// The results are malformed, the server wrote more than was sent, or the data is less durable than requested (RFC
/// 1813, 3.3.7).
pub fn parse_write(results: &[u8], most: u32, least: Stability) -> Result<Written, Malformed> {
    let written: Written = parse(results)?;
    if written.bytes > most || written.stability < least {
        return Err(Malformed);
    }
    Ok(written)
}

/// Parses the results of FSSTAT: the total space, and the space available to this user.
pub fn parse_fs_stat(results: &[u8]) -> Result<Space, Malformed> {
    let mut reader = Reader::new(results);
    Option::<Attributes3>::parse(&mut reader)?;
    let total_bytes = reader.u64()?;
    reader.u64()?; // free for the superuser
    Ok(Space {
        total_bytes,
        free_bytes: reader.u64()?,
    })
}

pub fn parse_fs_info(results: &[u8]) -> Result<FsInfo, Malformed> {
    let mut reader = Reader::new(results);
    Option::<Attributes3>::parse(&mut reader)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Attributes3 = Attributes3 {
        kind: 1,
        mode: 0o644,
        links: 2,
        uid: 3,
        gid: 4,
        bytes: 5,
        used_bytes: 6,
        device: (7, 8),
        file_system: 9,
        file_id: 10,
        accessed: (11, 12),
        modified: (13, 14),
        changed: (15, 16),
    };

    fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut Writer(&mut bytes));
        bytes
    }

    #[test]
    fn results_are_parsed_as_they_were_written() {
        let file = FileHandle::of(b"file").expect("short");
        let wcc = Wcc {
            before: Some(FILE.before()),
            after: Some(FILE),
        };
        let attributes = Some(FILE);
        let found = Found { file, attributes };
        assert_eq!(parse(&written(|writer| found.write(writer))), Ok(found));
        for file in [Some(file), None] {
            let made = Created { file, attributes };
            assert_eq!(parse(&written(|writer| made.write(writer))), Ok(made));
        }
        let taken = Written {
            wcc,
            bytes: 77,
            stability: Stability::Data,
            verifier: Verifier(99),
        };
        let bytes = written(|writer| taken.write(writer));
        assert_eq!(parse_write(&bytes, 77, Stability::Unstable), Ok(taken));
        let verifier = Verifier(98);
        let committed = Committed { wcc, verifier };
        assert_eq!(parse(&written(|writer| committed.write(writer))), Ok(committed));
        let info = FsInfo {
            max_read_bytes: 1,
            preferred_read_bytes: 2,
            max_write_bytes: 3,
            preferred_write_bytes: 4,
            preferred_listing_bytes: 5,
        };
        let bytes = written(|writer| {
            Some(FILE).write(writer);
            info.write(1 << 40, writer);
        });
        assert_eq!(parse_fs_info(&bytes), Ok(info));
        let space = Space {
            total_bytes: 100,
            free_bytes: 60,
        };
        let bytes = written(|writer| write_fs_stat(space, 1000, writer.u32(0)));
        assert_eq!(parse_fs_stat(&bytes), Ok(space));
        assert_eq!(parse(&written(|writer| FILE.write(writer))), Ok(FILE));
    }

    #[test]
    fn data_of_any_length_are_parsed_as_they_were_written() {
        for length in 0..9_usize {
            let bytes = written(|writer| {
                Some(FILE).write(writer);
                write_read(writer, |out| {
                    out.extend_from_slice(&b"12345678"[..length]);
                    length % 2 == 0
                });
            });
            assert_eq!(bytes.len() % 4, 0);
            let read = parse_read(&bytes, 8).expect("well formed");
            assert_eq!(read.is_end, length % 2 == 0);
            assert_eq!(bytes[read.data], b"12345678"[..length]);
        }
    }
}
