//! The header of every message (MS-SMB2 2.2.1).

use super::bytes::{array, u16_at, u32_at, u64_at, Malformed, Parsed};
use dyno_measure::named_enum;

/// Its length.
pub const HEADER_BYTES: usize = 64;
/// What a plain message begins with.
pub const PROTOCOL_ID: [u8; 4] = *b"\xfeSMB";
/// What an encrypted one begins with.
pub const TRANSFORM_ID: [u8; 4] = *b"\xfdSMB";

/// Flags of a header.
pub mod flags {
    /// It is a response.
    pub const RESPONSE: u32 = 0x0000_0001;
    /// It has an asynchronous id in the place of the tree's.
    pub const ASYNC: u32 = 0x0000_0002;
    /// It goes on with the file of the message before it in a compound.
    pub const RELATED: u32 = 0x0000_0004;
    /// It is signed.
    pub const SIGNED: u32 = 0x0000_0008;
}

named_enum! {
    /// What a request asks for, as MS-SMB2 writes it: all that this client sends or is sent.
    pub enum Command: u16 {
        Negotiate = 0 "NEGOTIATE"
        SessionSetup = 1 "SESSION_SETUP"
        Logoff = 2 "LOGOFF"
        TreeConnect = 3 "TREE_CONNECT"
        TreeDisconnect = 4 "TREE_DISCONNECT"
        Create = 5 "CREATE"
        Close = 6 "CLOSE"
        Flush = 7 "FLUSH"
        Read = 8 "READ"
        Write = 9 "WRITE"
        Lock = 10 "LOCK"
        Ioctl = 11 "IOCTL"
        QueryDirectory = 14 "QUERY_DIRECTORY"
        QueryInfo = 16 "QUERY_INFO"
        SetInfo = 17 "SET_INFO"
        OplockBreak = 18 "OPLOCK_BREAK"
    }
}

impl Command {
    /// One more than the highest code.
    pub const CODES: usize = 19;
}

/// The header of a message that came, as far as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// NTSTATUS.
    pub status: u32,
    /// The code of the command.
    pub command: u16,
    /// Credits that it brings.
    pub credits: u16,
    /// See `flags`.
    pub flags: u32,
    /// Where the next message of a compound begins, from the beginning of this one; 0 for the last.
    pub next: u32,
    /// Of the request.
    pub message_id: u64,
    /// Where `flags::ASYNC` is set; the tree's id is not known then.
    pub async_id: u64,
    /// Where it is not.
    pub tree_id: u32,
    /// Of the session.
    pub session_id: u64,
}

impl Header {
    /// Reads the header at the beginning of `message`.
    ///
    /// # Errors
    /// Where it is none of a response.
    pub fn parse(message: &[u8]) -> Parsed<Self> {
        let header: [u8; HEADER_BYTES] = array(message, 0)?;
        if header[..4] != PROTOCOL_ID || u16_at(&header, 4)? != 64 {
            return Err(Malformed);
        }
        let flags = u32_at(&header, 16)?;
        if flags & flags::RESPONSE == 0 {
            return Err(Malformed);
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

    /// The length of this message within `rest`, which begins with it and ends with the last of its compound.
    ///
    /// # Errors
    /// Where the next one would begin outside `rest`, or out of step.
    pub fn length(&self, rest: &[u8]) -> Parsed<usize> {
        match self.next as usize {
            0 => Ok(rest.len()),
            next if next % 8 == 0 && next >= HEADER_BYTES && next + HEADER_BYTES <= rest.len() => Ok(next),
            _ => Err(Malformed),
        }
    }

    /// Whether it is the server's own announcement, and no response to a request (MS-SMB2 2.2.23).
    #[must_use]
    pub fn answers_nothing(&self) -> bool {
        self.message_id == u64::MAX
    }

    /// Whether `flag` is set.
    #[must_use]
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

    fn check_refused(change: impl Fn(&mut Vec<u8>)) {
        let mut bytes = response();
        assert!(Header::parse(&bytes).is_ok());
        change(&mut bytes);
        assert_eq!(Header::parse(&bytes), Err(Malformed), "{bytes:?}");
    }

    #[test]
    fn a_header_is_read_only_if_it_is_one_of_a_response() {
        let header = Header::parse(&response()).expect("a header");
        assert_eq!((header.command, header.message_id), (5, 7));
        check_refused(|bytes| bytes.truncate(HEADER_BYTES - 1));
        check_refused(|bytes| bytes[0] = 0xfd);
        check_refused(|bytes| bytes[4] = 65);
        check_refused(|bytes| bytes[16] = 0);
    }

    #[test]
    fn the_next_message_of_a_compound_lies_inside_and_in_step() {
        let rest = [0; 3 * HEADER_BYTES];
        for (next, expected) in [
            (0, Ok(rest.len())),
            (64, Ok(64)),
            (128, Ok(128)),
            (8, Err(Malformed)),
            (68, Err(Malformed)),
            (136, Err(Malformed)),
            (u32::MAX - 7, Err(Malformed)),
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
