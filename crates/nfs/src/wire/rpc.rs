//! RPC messages (RFC 5531): calls with AUTH_SYS, and replies. They start with a record mark, which only TCP
//! sends.

use super::{Malformed, Reader, Writer};
use crate::status::{Denied, Unaccepted};
use dyno_files::PageRun;
use std::ops::Range;

/// Size of the record mark before each fragment. The mark has the length of the fragment and, in its highest
/// bit, whether the fragment is the last one of the record.
pub const RECORD_MARK_BYTES: usize = 4;
pub(super) const LAST_FRAGMENT: u32 = 1 << 31;
const CALL: u32 = 0;
const REPLY: u32 = 1;
const RPC_VERSION: u32 = 2;
/// Flavor of a call without credentials.
pub const AUTH_NONE: u32 = 0;
/// Flavor in which the client states its user.
pub const AUTH_SYS: u32 = 1;
const MAX_AUTH_BYTES: usize = 400;
const MAX_MACHINE_BYTES: usize = 255;
/// Range of the XID, after the record mark.
const XID: Range<usize> = RECORD_MARK_BYTES..RECORD_MARK_BYTES + 4;

/// Number and version of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program(pub u32, pub u32);

/// The portmapper, version 2.
pub const PORTMAPPER: Program = Program(100_000, 2);
/// NFS version 3.
pub const NFS: Program = Program(100_003, 3);
/// MOUNT version 3.
pub const MOUNT: Program = Program(100_005, 3);

/// User and group on the client, which the server trusts (AUTH_SYS).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// The client's name for its machine.
    pub machine: String,
    pub uid: u32,
    pub gid: u32,
}

/// A call. It is kept until it is answered, because it may have to be sent again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    bytes: Vec<u8>,
    /// Data in shared pages, and its offset in `bytes`.
    pages: Option<(PageRun, usize)>,
}

impl Message {
    /// Starts a call of a program's procedure; returns a writer for its arguments.
    pub fn begin(
        &mut self,
        xid: u32,
        program: Program,
        procedure: u32,
        credential: Option<&Credential>,
    ) -> Writer<'_> {
        self.clear();
        let mut writer = Writer(&mut self.bytes);
        writer.u32(0).u32(xid).u32(CALL).u32(RPC_VERSION);
        writer.u32(program.0).u32(program.1).u32(procedure);
        match credential {
            Some(credential) => {
                let machine = credential.machine.as_bytes();
                let body = 4 + 4 + machine.len().next_multiple_of(4) + 4 + 4 + 4;
                writer.u32(AUTH_SYS).u32(u32::try_from(body).unwrap_or(0));
                writer.u32(0).opaque(machine);
                writer.u32(credential.uid).u32(credential.gid).u32(0);
            }
            None => {
                writer.u32(AUTH_NONE).u32(0);
            }
        }
        writer.u32(AUTH_NONE).u32(0);
        writer
    }

    /// Ends the message as a record with one fragment.
    pub fn end(&mut self) {
        self.end_with(None, 0);
    }

    /// Ends the message as a record with one fragment. The data in `pages`, if any, goes before its padding and the
    /// last `behind` bytes.
    pub fn end_with(&mut self, pages: Option<&PageRun>, behind: usize) {
        self.pages = pages.map(|pages| {
            let filling = pages.len().wrapping_neg() % 4;
            (pages.clone(), self.bytes.len() - behind - filling)
        });
        let length = u32::try_from(self.len() - RECORD_MARK_BYTES).unwrap_or(u32::MAX);
        self.bytes[..RECORD_MARK_BYTES].copy_from_slice(&(LAST_FRAGMENT | length).to_be_bytes());
    }

    /// Clears the message and keeps the buffer.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pages = None;
    }

    /// Changes the XID, so that a server takes the message for another call.
    pub fn renumber(&mut self, xid: u32) {
        self.bytes[XID].copy_from_slice(&xid.to_be_bytes());
    }

    /// Overwrites bytes from offset `at` on, which must be before the data. Does nothing if the message is
    /// too short.
    pub fn overwrite(&mut self, at: usize, bytes: &[u8]) {
        if let Some(own) = self.bytes.get_mut(at..at + bytes.len()) {
            own.copy_from_slice(bytes);
        }
    }

    /// Returns the number of bytes to send.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.pages().map_or(0, PageRun::len)
    }

    /// Returns whether the message has not been started.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes to send, without data in pages.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the data of the message if it is in pages.
    pub fn pages(&self) -> Option<&PageRun> {
        self.pages.as_ref().map(|(pages, _)| pages)
    }

    /// Returns the bytes to send, in pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let at = self.pages.as_ref().map_or(self.bytes.len(), |(_, at)| *at);
        let (head, tail) = self.bytes.split_at(at);
        let pages = self.pages().into_iter().flat_map(PageRun::pieces);
        let all = std::iter::once(head).chain(pages).chain([tail]);
        all.filter(|piece| !piece.is_empty())
    }

    /// Returns the memory that the buffer uses, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// Contents of a reply before the results of its procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// The call was executed; its results begin at this offset of the record.
    Accepted(usize),
    /// The call was not executed, for this reason (RFC 5531, `accept_stat`).
    Unaccepted(u32),
    /// The server rejected the credentials, for this reason (`auth_stat`); None for an RPC version
    /// mismatch.
    Denied(Option<u32>),
}

impl Body {
    /// Parses a reply: the XID of its call, and its contents.
    ///
    /// # Errors
    /// The record is not a reply.
    pub fn parse(record: &[u8]) -> Result<(u32, Self), Malformed> {
        let mut reader = Reader::new(record);
        let xid = reader.u32()?;
        if reader.u32()? != REPLY {
            return Err(Malformed);
        }
        let body = match reader.u32()? {
            0 => {
                reader.u32()?;
                reader.opaque(MAX_AUTH_BYTES)?;
                match reader.u32()? {
                    0 => Self::Accepted(reader.position()),
                    other => Self::Unaccepted(other),
                }
            }
            1 => match reader.u32()? {
                1 => Self::Denied(Some(reader.u32()?)),
                _ => Self::Denied(None),
            },
            _ => return Err(Malformed),
        };
        Ok((xid, body))
    }
}

/// Header of a call, as a server parses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub program: Program,
    pub procedure: u32,
    /// User and group with AUTH_SYS; None with AUTH_NONE.
    pub caller: Option<(u32, u32)>,
    /// Offset of the arguments in the record.
    pub arguments: usize,
}

impl Header {
    /// Parses a call: its XID, and its header or the reason for rejecting it.
    ///
    /// # Errors
    /// The record is not a call.
    pub fn parse(record: &[u8]) -> Result<(u32, Result<Self, Rejection>), Malformed> {
        let mut reader = Reader::new(record);
        let xid = reader.u32()?;
        if reader.u32()? != CALL {
            return Err(Malformed);
        }
        if reader.u32()? != RPC_VERSION {
            return Ok((xid, Err(Rejection::RpcVersion)));
        }
        let program = Program(reader.u32()?, reader.u32()?);
        let procedure = reader.u32()?;
        let (flavor, credential) = (reader.u32()?, reader.opaque(MAX_AUTH_BYTES)?);
        reader.u32()?;
        reader.opaque(MAX_AUTH_BYTES)?; // verifier, empty with these flavors
        let caller = match flavor {
            AUTH_NONE => Ok(None),
            AUTH_SYS => parse_caller(credential)
                .map(Some)
                .map_err(|Malformed| Denied::BadCred),
            _ => Err(Denied::TooWeak),
        };
        let header = caller.map(|caller| Self {
            program,
            procedure,
            caller,
            arguments: reader.position(),
        });
        Ok((xid, header.map_err(Rejection::Denied)))
    }
}

/// Reads the user and the group of AUTH_SYS; ignores further groups.
fn parse_caller(credential: &[u8]) -> Result<(u32, u32), Malformed> {
    let mut reader = Reader::new(credential);
    reader.u32()?; // stamp
    reader.opaque(MAX_MACHINE_BYTES)?;
    Ok((reader.u32()?, reader.u32()?))
}

/// Reason why a server does not execute a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    RpcVersion,
    /// The credentials are rejected.
    Denied(Denied),
    /// The program exists only in these versions, from the lowest to the highest.
    ProgramVersions(u32, u32),
    /// Another reason (`accept_stat`).
    Unaccepted(Unaccepted),
}

/// Starts the reply to an executed call; the caller appends its results to `out`. Returns the start of the
/// reply.
pub fn begin_reply(out: &mut Vec<u8>, xid: u32) -> usize {
    let start = out.len();
    Writer(out)
        .u32(0)
        .u32(xid)
        .u32(REPLY)
        .u32(0)
        .u32(AUTH_NONE)
        .u32(0)
        .u32(0);
    start
}

/// Ends the reply that begins at `start` as a record with one fragment.
pub fn end_reply(out: &mut [u8], start: usize) {
    let length = u32::try_from(out.len() - start - RECORD_MARK_BYTES).unwrap_or(u32::MAX);
    out[start..start + RECORD_MARK_BYTES].copy_from_slice(&(LAST_FRAGMENT | length).to_be_bytes());
}

/// Appends a complete reply without results.
pub fn reject(out: &mut Vec<u8>, xid: u32, rejection: Rejection) {
    let start = out.len();
    let mut writer = Writer(out);
    writer.u32(0).u32(xid).u32(REPLY);
    match rejection {
        Rejection::RpcVersion => writer.u32(1).u32(0).u32(RPC_VERSION).u32(RPC_VERSION),
        Rejection::Denied(reason) => writer.u32(1).u32(1).u32(reason as u32),
        Rejection::ProgramVersions(lowest, highest) => {
            writer.u32(0).u32(AUTH_NONE).u32(0);
            writer
                .u32(Unaccepted::ProgMismatch as u32)
                .u32(lowest)
                .u32(highest)
        }
        Rejection::Unaccepted(reason) => writer.u32(0).u32(AUTH_NONE).u32(0).u32(reason as u32),
    };
    end_reply(out, start);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_parsed_as_written_and_answered_with_its_number() {
        let credential = Credential {
            machine: "here".to_owned(),
            uid: 7,
            gid: 8,
        };
        for (credential, caller) in [(Some(&credential), Some((7, 8))), (None, None)] {
            let mut message = Message::default();
            message.begin(9, NFS, 3, credential).u32(77);
            message.end();
            let record = &message.bytes()[RECORD_MARK_BYTES..];
            let (xid, header) = Header::parse(record).expect("a call");
            let header = header.expect("of a flavour that is known");
            let found = (header.program, header.procedure, header.caller);
            assert_eq!((xid, found), (9, (NFS, 3, caller)));
            assert_eq!(Reader::new(&record[header.arguments..]).u32(), Ok(77));
        }
        let mut out = b"before".to_vec();
        let start = begin_reply(&mut out, 9);
        Writer(&mut out).u32(5);
        end_reply(&mut out, start);
        let record = &out[start + RECORD_MARK_BYTES..];
        assert_eq!(Body::parse(record), Ok((9, Body::Accepted(record.len() - 4))));
        for (rejection, body) in [
            (Rejection::RpcVersion, Body::Denied(None)),
            (Rejection::Denied(Denied::TooWeak), Body::Denied(Some(5))),
            (Rejection::ProgramVersions(3, 4), Body::Unaccepted(2)),
            (
                Rejection::Unaccepted(Unaccepted::GarbageArgs),
                Body::Unaccepted(4),
            ),
        ] {
            let mut out = Vec::new();
            reject(&mut out, 9, rejection);
            assert_eq!(Body::parse(&out[RECORD_MARK_BYTES..]), Ok((9, body)));
        }
    }

    #[test]
    fn a_rejected_caller_gets_the_reason() {
        let call = |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_be_bytes()).collect() };
        let parsed = |numbers: &[u32]| Header::parse(&call(numbers));
        assert_eq!(parsed(&[9, 0, 3]), Ok((9, Err(Rejection::RpcVersion))));
        let gss = parsed(&[9, 0, 2, 1, 2, 3, 6, 0, 0, 0]);
        assert_eq!(gss, Ok((9, Err(Rejection::Denied(Denied::TooWeak)))));
        let short = parsed(&[9, 0, 2, 1, 2, 3, 1, 4, 0, 0, 0]);
        assert_eq!(short, Ok((9, Err(Rejection::Denied(Denied::BadCred)))));
        for wrong in [&[9, 1][..], &[9, 0, 2, 1, 2], &[9, 0, 2, 1, 2, 3, 1, 401], &[]] {
            assert_eq!(parsed(wrong), Err(Malformed), "{wrong:?}");
        }
    }

    #[test]
    fn a_reply_is_parsed_up_to_its_results() {
        let reply = |numbers: &[u32]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_be_bytes()).collect() };
        assert_eq!(
            Body::parse(&reply(&[9, 1, 0, 0, 0, 0, 5])),
            Ok((9, Body::Accepted(24)))
        );
        assert_eq!(
            Body::parse(&reply(&[9, 1, 0, 0, 0, 2])),
            Ok((9, Body::Unaccepted(2)))
        );
        assert_eq!(
            Body::parse(&reply(&[9, 1, 1, 1, 5])),
            Ok((9, Body::Denied(Some(5))))
        );
        assert_eq!(
            Body::parse(&reply(&[9, 1, 1, 0, 2, 2])),
            Ok((9, Body::Denied(None)))
        );
        for wrong in [&[9, 0, 0][..], &[9, 1, 2], &[9, 1, 0, 0, 401], &[9, 1], &[]] {
            assert_eq!(Body::parse(&reply(wrong)), Err(Malformed), "{wrong:?}");
        }
    }
}
