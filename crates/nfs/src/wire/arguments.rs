//! Common arguments: the attributes to set (`sattr3`), and the ways to create a file (`createhow3`,
//! `mknoddata3`; RFC 1813, 2.6 and 3.3).

use super::attributes::{parse_time, write_time};
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

impl SetAttributes {
    pub fn mode(mode: u32) -> Self {
        Self {
            mode: Some(mode),
            ..Self::default()
        }
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        for number in [self.mode, self.uid, self.gid] {
            match number {
                Some(number) => writer.u32(1).u32(number),
                None => writer.u32(0),
            };
        }
        match self.bytes {
            Some(bytes) => writer.u32(1).u64(bytes),
            None => writer.u32(0),
        };
        for time in [self.accessed, self.modified] {
            match time {
                SetTime::Keep => writer.u32(0),
                SetTime::Server => writer.u32(1),
                SetTime::Client(_) => writer.u32(2),
            };
            if let SetTime::Client(time) = time {
                write_time(writer, time);
            }
        }
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            mode: parse_if(reader, Reader::u32)?,
            uid: parse_if(reader, Reader::u32)?,
            gid: parse_if(reader, Reader::u32)?,
            bytes: parse_if(reader, Reader::u64)?,
            accessed: parse_set_time(reader)?,
            modified: parse_set_time(reader)?,
        })
    }
}

pub(super) fn parse_if<'a, T>(
    reader: &mut Reader<'a>,
    parse: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    reader.bool()?.then(|| parse(reader)).transpose()
}

fn parse_set_time(reader: &mut Reader<'_>) -> Result<SetTime, Malformed> {
    match reader.u32()? {
        0 => Ok(SetTime::Keep),
        1 => Ok(SetTime::Server),
        2 => Ok(SetTime::Client(parse_time(reader)?)),
        _ => Err(Malformed),
    }
}

/// How CREATE creates a file (`createhow3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The file may exist; its attributes are set in any case.
    Unchecked(SetAttributes),
    /// The file must not exist.
    Guarded(SetAttributes),
    /// The file must not exist, unless it was created with this verifier: a retransmission creates no
    /// second file. Attributes are set separately.
    Exclusive(u64),
}

impl How {
    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Unchecked(set) => set.write(writer.u32(0)),
            Self::Guarded(set) => set.write(writer.u32(1)),
            Self::Exclusive(verifier) => {
                writer.u32(2).u64(*verifier);
            }
        }
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
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

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(self.kind);
        self.set.write(writer);
        if Self::is_device(self.kind) {
            writer.u32(self.device.0).u32(self.device.1);
        }
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = reader.u32()?;
        // Other types have no further data; the server refuses them.
        let set = match kind {
            BLOCK_DEVICE | CHARACTER_DEVICE | SOCKET | PIPE => SetAttributes::parse(reader)?,
            _ => SetAttributes::default(),
        };
        let device = match Self::is_device(kind) {
            true => (reader.u32()?, reader.u32()?),
            false => (0, 0),
        };
        Ok(Self { kind, set, device })
    }

    /// Returns whether MKNOD can create this type.
    pub fn can_be_made(&self) -> bool {
        Self::is_device(self.kind) || matches!(self.kind, SOCKET | PIPE)
    }
}
