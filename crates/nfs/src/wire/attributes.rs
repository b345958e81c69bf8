//! File handles and attributes (RFC 1813, 2.5 and 2.6).

use super::xdr::{xdr, Xdr};
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
}

impl Xdr<'_> for FileHandle {
    fn write(&self, writer: &mut Writer<'_>) {
        writer.opaque(self.as_bytes());
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::of(reader.opaque(MAX_HANDLE_BYTES)?).ok_or(Malformed)
    }
}

/// Seconds since 1970, and nanoseconds.
pub type Time = (u32, u32);

/// Attributes of a file (`fattr3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

xdr! {
    Attributes3 {
        kind, mode, links, uid, gid, bytes, used_bytes, device, file_system, file_id, accessed, modified, changed,
    }
}

impl Attributes3 {
    /// Returns these attributes as `wcc_attr`, for a reply that reports the state before a call.
    pub fn before(&self) -> WccBefore {
        WccBefore {
            bytes: self.bytes,
            modified: self.modified,
            changed: self.changed,
        }
    }

    pub fn is_directory(&self) -> bool {
        self.kind == DIRECTORY
    }

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

xdr!(WccBefore {
    bytes,
    modified,
    changed
});
xdr!(Wcc { before, after });

impl Wcc {
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
