//! Common arguments: the attributes to set (`sattr3`), and the ways to create a file (`createhow3`,
//! `mknoddata3`; RFC 1813, 2.6 and 3.3).

use super::xdr::{xdr, Xdr};
use super::{Malformed, Reader, Time, Writer};

// `ftype3` of the files that MKNOD creates.
pub(super) const BLOCK_DEVICE: u32 = 3;
const CHARACTER_DEVICE: u32 = 4;
const SOCKET: u32 = 6;
pub(super) const PIPE: u32 = 7;

/// How to set a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SetTime {
    #[default]
    Keep,
    /// The server's current time.
    Server,
    Client(Time),
}

/// Attributes that `sattr3` sets; None leaves the attribute unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAttributes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub bytes: Option<u64>,
    /// Last access.
    pub accessed: SetTime,
    /// Last write.
    pub modified: SetTime,
}

xdr!(SetAttributes {
    mode,
    uid,
    gid,
    bytes,
    accessed,
    modified
});

impl SetAttributes {
    pub fn mode(mode: u32) -> Self {
        Self {
            mode: Some(mode),
            ..Self::default()
        }
    }
}

impl Xdr<'_> for SetTime {
    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Keep => 0_u32.write(writer),
            Self::Server => 1_u32.write(writer),
            Self::Client(time) => time.write(writer.u32(2)),
        }
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.u32()? {
            0 => Ok(Self::Keep),
            1 => Ok(Self::Server),
            2 => Time::parse(reader).map(Self::Client),
            _ => Err(Malformed),
        }
    }
}

/// How CREATE creates a file (`createhow3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The file may exist.
    Unchecked(SetAttributes),
    /// The file must not exist.
    Guarded(SetAttributes),
    /// The file must not exist, unless it was created with this verifier: a retransmission creates no
    /// second file. Attributes are set separately.
    Exclusive(u64),
}

impl Xdr<'_> for How {
    fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Unchecked(set) => set.write(writer.u32(0)),
            Self::Guarded(set) => set.write(writer.u32(1)),
            Self::Exclusive(verifier) => verifier.write(writer.u32(2)),
        }
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.u32()? {
            0 => SetAttributes::parse(reader).map(Self::Unchecked),
            1 => SetAttributes::parse(reader).map(Self::Guarded),
            2 => reader.u64().map(Self::Exclusive),
            _ => Err(Malformed),
        }
    }
}

/// The file that MKNOD creates (`mknoddata3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// `ftype3`.
    pub kind: u32,
    pub set: SetAttributes,
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

impl Node {
    fn is_device(kind: u32) -> bool {
        matches!(kind, BLOCK_DEVICE | CHARACTER_DEVICE)
    }

    /// Returns whether MKNOD can create this type.
    pub fn can_be_made(&self) -> bool {
        Self::is_device(self.kind) || matches!(self.kind, SOCKET | PIPE)
    }
}

impl Xdr<'_> for Node {
    fn write(&self, writer: &mut Writer<'_>) {
        self.set.write(writer.u32(self.kind));
        if Self::is_device(self.kind) {
            self.device.write(writer);
        }
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = reader.u32()?;
        // Other types have no further data; the server refuses them.
        let set = match kind {
            BLOCK_DEVICE | CHARACTER_DEVICE | SOCKET | PIPE => SetAttributes::parse(reader)?,
            _ => SetAttributes::default(),
        };
        let device = match Self::is_device(kind) {
            true => Xdr::parse(reader)?,
            false => (0, 0),
        };
        Ok(Self { kind, set, device })
    }
}
