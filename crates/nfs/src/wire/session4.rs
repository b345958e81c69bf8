//! State IDs and channels of NFSv4.1 sessions (RFC 8881, 3.3.12 and 18.36).

use super::{Malformed, Reader, Writer};

/// The server's identifier of a state: a version and 12 opaque bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stateid {
    pub version: u32,
    pub other: [u8; 12],
}

impl Stateid {
    /// The anonymous state ID: for a SETATTR of a file that is not open.
    pub const ANONYMOUS: Self = Self {
        version: 0,
        other: [0; 12],
    };
    /// Bypasses locks when reading.
    pub const BYPASS: Self = Self {
        version: u32::MAX,
        other: [u8::MAX; 12],
    };
    /// Stands for the last state ID that an earlier operation of the compound returned.
    pub const CURRENT: Self = Self {
        version: 1,
        other: [0; 12],
    };
    /// The invalid state ID that CLOSE returns.
    pub const INVALID: Self = Self {
        version: u32::MAX,
        other: [0; 12],
    };

    pub fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let version = reader.u32()?;
        let other = reader.bytes(12)?.try_into().map_err(|_| Malformed)?;
        Ok(Self { version, other })
    }

    pub fn write(self, writer: &mut Writer<'_>) {
        writer.u32(self.version).bytes(&self.other);
    }

    /// Reads the state ID at the end of a message.
    pub fn last_of(message: &[u8]) -> Option<Self> {
        let begin = message.len().checked_sub(16)?;
        Self::parse(&mut Reader::new(&message[begin..])).ok()
    }

    /// Returns the encoded state ID with this version. Version 0 means the newest one (RFC 8881, 8.2.2).
    pub fn bytes(&self, version: u32) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&version.to_be_bytes());
        bytes[4..].copy_from_slice(&self.other);
        bytes
    }
}

/// Message sizes and number of concurrent requests of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel {
    pub request_bytes: u32,
    pub reply_bytes: u32,
    pub kept_reply_bytes: u32,
    pub operations: u32,
    pub slots: u32,
}

impl Channel {
    pub fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(0).u32(self.request_bytes).u32(self.reply_bytes);
        writer.u32(self.kept_reply_bytes).u32(self.operations);
        writer.u32(self.slots).u32(0);
    }

    pub fn parse(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        reader.u32()?; // padding
        let channel = Self {
            request_bytes: reader.u32()?,
            reply_bytes: reader.u32()?,
            kept_reply_bytes: reader.u32()?,
            operations: reader.u32()?,
            slots: reader.u32()?,
        };
        match reader.u32()? {
            0 => {}
            1 => {
                reader.u32()?;
            }
            _ => return Err(Malformed),
        }
        Ok(channel)
    }
}
