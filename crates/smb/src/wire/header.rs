//! Header of every message (MS-SMB2 2.2.1).

use super::bytes::{array, u16_at, u32_at, u64_at, Parsed};
use super::malformed::{Field, Malformed};

pub const HEADER_BYTES: usize = 64;
/// Start of an unencrypted message.
pub const PROTOCOL_ID: [u8; 4] = *b"\xfeSMB";
/// Start of an encrypted message.
pub const TRANSFORM_ID: [u8; 4] = *b"\xfdSMB";

pub mod flags {
    /// The message is a response.
    pub const RESPONSE: u32 = 0x0000_0001;
    /// The header has an asynchronous ID instead of the tree ID.
    pub const ASYNC: u32 = 0x0000_0002;
    /// The message uses the file of the previous message in the compound.
    pub const RELATED: u32 = 0x0000_0004;
    pub const SIGNED: u32 = 0x0000_0008;
    /// The message was already sent on a connection that was lost.
    pub const REPLAY: u32 = 0x2000_0000;
}

/// Parsed fields of the header of a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub status: u32,
    pub command: u16,
    /// Granted credits.
    pub credits: u16,
    /// Bits of `flags`.
    pub flags: u32,
    /// Offset of the next message of a compound from the start of this one; 0 for the last.
    pub next: u32,
    pub message_id: u64,
    /// Valid only if `flags::ASYNC` is set.
    pub async_id: u64,
    /// Valid only if `flags::ASYNC` is not set.
    pub tree_id: u32,
    pub session_id: u64,
}

impl Header {
    /// Parses the header at the start of `message`.
    ///
    /// # Errors
    /// `message` does not begin with the header of a response.
    pub fn parse(message: &[u8]) -> Parsed<Self> {
        let header: [u8; HEADER_BYTES] = array(message, 0)?;
        if header[..4] != PROTOCOL_ID {
            return Err(Malformed::at(Field::ProtocolId, 0));
        }
        if u16_at(&header, 4)? != 64 {
            return Err(Malformed::at(Field::StructureSize, 4));
        }
        let flags = u32_at(&header, 16)?;
        if flags & flags::RESPONSE == 0 {
            return Err(Malformed::at(Field::Flags, 16));
        }
        Ok(Self {
            status: u32_at(&header, 8)?,
            command: u16_at(&header, 12)?,
            credits: u16_at(&header, 14)?,
            flags,
            next: u32_at(&header, 20)?,
            message_id: u64_at(&header, 24)?,
            async_id: u64_at(&header, 32)?,
            tree_id: u32_at(&header, 36)?,
            session_id: u64_at(&header, 40)?,
        })
    }

    /// Returns the length of this message. `rest` extends from its header to the end of the compound.
    ///
    /// # Errors
    /// The next message would begin outside `rest`, or is not aligned.
    pub fn length(&self, rest: &[u8]) -> Parsed<usize> {
        match self.next as usize {
            0 => Ok(rest.len()),
            next if next % 8 == 0 && next >= HEADER_BYTES && next + HEADER_BYTES <= rest.len() => Ok(next),
            _ => Err(Malformed::at(Field::NextCommand, 20)),
        }
    }

    /// Returns whether this is a notification by the server, not a response (MS-SMB2 2.2.23).
    pub fn answers_nothing(&self) -> bool {
        self.message_id == u64::MAX
    }

    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response() -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&PROTOCOL_ID);
        bytes[4] = 64;
        bytes[12] = 5;
        bytes[16] = 1;
        bytes[24] = 7;
        bytes
    }

    fn check_refused(wrong: Malformed, change: impl Fn(&mut Vec<u8>)) {
        let mut bytes = response();
        assert!(Header::parse(&bytes).is_ok());
        change(&mut bytes);
        assert_eq!(Header::parse(&bytes), Err(wrong), "{bytes:?}");
    }

    #[test]
    fn only_the_header_of_a_response_is_parsed() {
        let header = Header::parse(&response()).expect("a header");
        assert_eq!((header.command, header.message_id), (5, 7));
        check_refused(Malformed::at(Field::End, HEADER_BYTES), |bytes| {
            bytes.truncate(HEADER_BYTES - 1);
        });
        check_refused(Malformed::at(Field::ProtocolId, 0), |bytes| bytes[0] = 0xfd);
        check_refused(Malformed::at(Field::StructureSize, 4), |bytes| bytes[4] = 65);
        check_refused(Malformed::at(Field::Flags, 16), |bytes| bytes[16] = 0);
    }

    #[test]
    fn the_next_message_of_a_compound_must_lie_inside_and_be_aligned() {
        let rest = [0; 3 * HEADER_BYTES];
        let wrong = Malformed::at(Field::NextCommand, 20);
        for (next, expected) in [
            (0, Ok(rest.len())),
            (64, Ok(64)),
            (128, Ok(128)),
            (8, Err(wrong)),
            (68, Err(wrong)),
            (136, Err(wrong)),
            (u32::MAX - 7, Err(wrong)),
        ] {
            let mut bytes = response();
            bytes[20..24].copy_from_slice(&u32::to_le_bytes(next));
            assert_eq!(
                Header::parse(&bytes).and_then(|header| header.length(&rest)),
                expected,
                "{next}"
            );
        }
    }
}
