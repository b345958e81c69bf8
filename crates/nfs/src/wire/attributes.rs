//! File handles and attributes (RFC 1813, 2.5 and 2.6).

use super::{Malformed, Reader, Writer};
use dyno_files::{Attributes, Info};

/// `NFS3_FHSIZE`.
pub const MAX_HANDLE_BYTES: usize = 64;
/// `NFS4_FHSIZE`.
pub const MAX_HANDLE4_BYTES: usize = 128;
/// `ftype3` of a regular file.
pub const REGULAR: u32 = 1;
/// `ftype3` of a directory.
pub const DIRECTORY: u32 = 2;
/// `ftype3` of a symbolic link.
pub const SYMBOLIC_LINK: u32 = 5;
const WRITABLE: u32 = 0o222;

/// The server's identifier of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FileHandle {
    length: u8,
    bytes: [u8; MAX_HANDLE4_BYTES],
}

/// Hashes only the used bytes.
impl std::hash::Hash for FileHandle {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        self.as_bytes().hash(hasher);
    }
}

impl std::fmt::Debug for FileHandle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("FileHandle")
            .field(&self.as_bytes())
            .finish()
    }
}

impl FileHandle {
    /// Creates a handle from its bytes; returns None if there are more than `NFS4_FHSIZE`.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let mut own = [0; MAX_HANDLE4_BYTES];
        own.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self {
            length: u8::try_from(bytes.len()).ok()?,
            bytes: own,
        })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::of(reader.opaque(MAX_HANDLE_BYTES)?).ok_or(Malformed)
    }

    pub(super) fn parse_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        reader.bool()?.then(|| Self::parse(reader)).transpose()
    }

    /// Appends the handle to a message.
    pub fn write(&self, writer: &mut Writer<'_>) {
        writer.opaque(self.as_bytes());
    }

    pub(super) fn write_optional(file: Option<&Self>, writer: &mut Writer<'_>) {
        writer.u32(u32::from(file.is_some()));
        if let Some(file) = file {
            file.write(writer);
        }
    }
}

/// Seconds since 1970, and nanoseconds.
pub type Time = (u32, u32);

/// Attributes of a file (`fattr3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes3 {
    /// `ftype3`.
    pub kind: u32,
    pub mode: u32,
    /// Number of hard links.
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub bytes: u64,
    /// Space used on disk.
    pub used_bytes: u64,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// ID of the file system.
    pub file_system: u64,
    pub file_id: u64,
    /// Last access to the data.
    pub accessed: Time,
    /// Last change of the data.
    pub modified: Time,
    /// Last change of the data or attributes.
    pub changed: Time,
}

impl Attributes3 {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            kind: reader.u32()?,
            mode: reader.u32()?,
            links: reader.u32()?,
            uid: reader.u32()?,
            gid: reader.u32()?,
            bytes: reader.u64()?,
            used_bytes: reader.u64()?,
            device: (reader.u32()?, reader.u32()?),
            file_system: reader.u64()?,
            file_id: reader.u64()?,
            accessed: parse_time(reader)?,
            modified: parse_time(reader)?,
            changed: parse_time(reader)?,
        })
    }

    /// Appends the attributes to a message.
    pub fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(self.kind).u32(self.mode).u32(self.links);
        writer.u32(self.uid).u32(self.gid);
        writer.u64(self.bytes).u64(self.used_bytes);
        writer.u32(self.device.0).u32(self.device.1);
        writer.u64(self.file_system).u64(self.file_id);
        for time in [self.accessed, self.modified, self.changed] {
            write_time(writer, time);
        }
    }

    /// Appends `post_op_attr`.
    pub fn write_optional(attributes: Option<&Self>, writer: &mut Writer<'_>) {
        writer.u32(u32::from(attributes.is_some()));
        if let Some(attributes) = attributes {
            attributes.write(writer);
        }
    }

    /// Returns these attributes as `wcc_attr`, for a reply that reports the state before a call.
    pub fn before(&self) -> WccBefore {
        WccBefore {
            bytes: self.bytes,
            modified: self.modified,
            changed: self.changed,
        }
    }

    /// Reads `post_op_attr`.
    pub(super) fn parse_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
        reader.bool()?.then(|| Self::parse(reader)).transpose()
    }

    /// Returns whether the file is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == DIRECTORY
    }

    /// Returns the file's `Info`.
    pub fn info(&self) -> Info {
        Info {
            file_id: self.file_id,
            change: change(self.bytes, self.modified, self.changed),
            bytes: self.bytes,
            allocated_bytes: self.used_bytes,
            directory: self.is_directory(),
            read_only: self.mode & WRITABLE == 0,
        }
    }
}

/// Attributes just before the call (`wcc_attr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WccBefore {
    bytes: u64,
    modified: Time,
    changed: Time,
}

/// Attributes before and after a call (`wcc_data`); None if the server does not send them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wcc {
    pub before: Option<WccBefore>,
    pub after: Option<Attributes3>,
}

impl Wcc {
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let before = match reader.bool()? {
            true => Some(WccBefore {
                bytes: reader.u64()?,
                modified: parse_time(reader)?,
                changed: parse_time(reader)?,
            }),
            false => None,
        };
        let after = Attributes3::parse_optional(reader)?;
        Ok(Self { before, after })
    }

    /// Appends `wcc_data` to a message.
    pub fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(u32::from(self.before.is_some()));
        if let Some(before) = self.before {
            writer.u64(before.bytes);
            write_time(writer, before.modified);
            write_time(writer, before.changed);
        }
        Attributes3::write_optional(self.after.as_ref(), writer);
    }

    /// Returns the attributes after the call; None if the server did not send them.
    pub fn attributes(&self) -> Option<Attributes> {
        Some(Attributes {
            info: self.after?.info(),
            change_before: self
                .before
                .map(|before| change(before.bytes, before.modified, before.changed)),
        })
    }
}

pub(super) fn parse_time(reader: &mut Reader<'_>) -> Result<Time, Malformed> {
    Ok((reader.u32()?, reader.u32()?))
}

pub(super) fn write_time(writer: &mut Writer<'_>, (seconds, nanoseconds): Time) {
    writer.u32(seconds).u32(nanoseconds);
}

/// Returns a substitute for the change attribute, which NFSv3 lacks: a hash of size and times, as in Linux's
/// client. The hash is never 0, which would mean unknown. If the server's clock does not advance between two
/// writes, the second one is not detected unless it changes the size.
fn change(bytes: u64, modified: Time, changed: Time) -> u64 {
    let both = |(seconds, nanoseconds): Time| u64::from(seconds) << 32 | u64::from(nanoseconds);
    let mut mixed = 0_u64;
    for part in [bytes, both(modified), both(changed)] {
        // Finalizer of SplitMix64 (Steele, Lea and Flood, 2014): every input bit affects all output bits.
        mixed = mixed.wrapping_add(part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
    }
    mixed.max(1)
}
