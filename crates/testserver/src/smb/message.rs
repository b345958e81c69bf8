//! Messages: parses the headers of requests, and writes answers one after another into a frame.

use super::bytes::{length, slice, u16_at, u32_at, u64_at, Put};
use super::status::Status;
use dyno_smb::crypto::TRANSFORM_BYTES;
pub(crate) use dyno_smb::wire::{flags as flag, FRAME_BYTES, HEADER_BYTES, PROTOCOL_ID, TRANSFORM_ID};

/// Size of an IOCTL response before its output.
const CONTROL_BYTES: usize = 48;

/// Command codes, and their names by code.
pub(crate) mod command {
    macro_rules! commands {
        ($($name:ident = $code:literal)*) => {
            $(pub(crate) const $name: u16 = $code;)*
            pub(crate) const NAMES: [&str; [$($code),*].len()] = [$(stringify!($name)),*];
        };
    }

    commands! {
        NEGOTIATE = 0
        SESSION_SETUP = 1
        LOGOFF = 2
        TREE_CONNECT = 3
        TREE_DISCONNECT = 4
        CREATE = 5
        CLOSE = 6
        FLUSH = 7
        READ = 8
        WRITE = 9
        LOCK = 10
        IOCTL = 11
        CANCEL = 12
        ECHO = 13
        QUERY_DIRECTORY = 14
        CHANGE_NOTIFY = 15
        QUERY_INFO = 16
        SET_INFO = 17
        OPLOCK_BREAK = 18
    }
}

/// The connection can't continue: the received data is not SMB2, or violates the protocol so badly that no answer is
/// possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Disconnect;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    /// The request's bytes, from its header to the start of the next header in its compound.
    pub(crate) part: &'a [u8],
    pub(crate) command: u16,
    pub(crate) charge: u16,
    pub(crate) credits: u16,
    pub(crate) flags: u32,
    pub(crate) message_id: u64,
    /// In a CANCEL: the async ID of the pending request.
    pub(crate) async_id: u64,
    pub(crate) tree_id: u32,
    pub(crate) session_id: u64,
    /// The client's current channel sequence; 0 before SMB 3.
    pub(crate) channel_sequence: u16,
}

impl<'a> Request<'a> {
    /// Parses the first request in `rest`.
    pub(crate) fn parse(rest: &'a [u8]) -> Result<Self, Disconnect> {
        let header = rest.get(..HEADER_BYTES).ok_or(Disconnect)?;
        let disconnect = |_: Status| Disconnect;
        let flags = u32_at(header, 16).map_err(disconnect)?;
        let is_request = header.starts_with(&PROTOCOL_ID) && flags & flag::RESPONSE == 0;
        if !is_request || u16_at(header, 4).map_err(disconnect)? != 64 {
            return Err(Disconnect);
        }
        let part_bytes = match u32_at(header, 20).map_err(disconnect)? as usize {
            0 => rest.len(),
            next if next % 8 == 0 && next >= HEADER_BYTES && next + HEADER_BYTES <= rest.len() => next,
            _ => return Err(Disconnect),
        };
        Ok(Self {
            part: &rest[..part_bytes],
            command: u16_at(header, 12).map_err(disconnect)?,
            charge: u16_at(header, 6).map_err(disconnect)?.max(1),
            credits: u16_at(header, 14).map_err(disconnect)?,
            flags,
            message_id: u64_at(header, 24).map_err(disconnect)?,
            async_id: u64_at(header, 32).map_err(disconnect)?,
            tree_id: u32_at(header, 36).map_err(disconnect)?,
            session_id: u64_at(header, 40).map_err(disconnect)?,
            channel_sequence: u16_at(header, 8).map_err(disconnect)?,
        })
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn check_structure(&self, size: u16) -> Result<(), Status> {
        // Bodies with a variable part may be one byte shorter than their structure size (MS-SMB2 2.2,
        // StructureSize).
        if u16_at(self.part, HEADER_BYTES)? == size
            && self.part.len() >= HEADER_BYTES + usize::from(size & !1)
        {
            Ok(())
        } else {
            Err(Status::INVALID_PARAMETER)
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AnswerHeader {
    pub(crate) command: u16,
    pub(crate) status: Status,
    pub(crate) charge: u16,
    pub(crate) credits: u16,
    pub(crate) related: bool,
    pub(crate) message_id: u64,
    /// Async ID of the request, if an interim response was sent before.
    pub(crate) async_id: Option<u64>,
    pub(crate) tree_id: u32,
    pub(crate) session_id: u64,
}

impl AnswerHeader {
    pub(crate) fn write(&self, header: &mut [u8]) {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&PROTOCOL_ID);
        bytes[4] = 64;
        bytes[6..8].copy_from_slice(&self.charge.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.status.0.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.command.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.credits.to_le_bytes());
        let mut flags = flag::RESPONSE;
        if self.related {
            flags |= flag::RELATED;
        }
        match self.async_id {
            Some(async_id) => {
                flags |= flag::ASYNC;
                bytes[32..40].copy_from_slice(&async_id.to_le_bytes());
            }
            None => {
                bytes[32..36].copy_from_slice(&0xfeff_u32.to_le_bytes());
                bytes[36..40].copy_from_slice(&self.tree_id.to_le_bytes());
            }
        }
        bytes[16..20].copy_from_slice(&flags.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.message_id.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.session_id.to_le_bytes());
        header[..HEADER_BYTES].copy_from_slice(&bytes);
    }
}

/// A frame being written, at the end of a buffer.
#[derive(Debug)]
pub(crate) struct Frame {
    start: usize,
    sealed: bool,
    parts: Vec<Part>,
    /// End of the previous part before its padding.
    unpadded: usize,
}

/// One answer in a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    start: usize,
    /// The session that signs the part.
    pub(crate) signer: Option<u64>,
}

impl Frame {
    /// Starts a frame. `spare` is reused for its parts.
    pub(crate) fn begin(out: &mut Vec<u8>, sealed: bool, mut spare: Vec<Part>) -> Self {
        spare.clear();
        let start = out.len();
        out.zeros(FRAME_BYTES + if sealed { TRANSFORM_BYTES } else { 0 });
        Self {
            start,
            sealed,
            parts: spare,
            unpadded: start,
        }
    }

    /// Starts a part. Returns the position of its header.
    pub(crate) fn part(&mut self, out: &mut Vec<u8>) -> usize {
        self.unpadded = out.len();
        if let Some(before) = self.parts.last() {
            let padded = (out.len() - before.start).next_multiple_of(8);
            out.resize(before.start + padded, 0);
            out.set_u32(before.start + 20, length(padded));
        }
        let start = out.len();
        out.zeros(HEADER_BYTES);
        self.parts.push(Part { start, signer: None });
        start
    }

    /// Sets the session that signs the current part.
    pub(crate) fn sign_part(&mut self, signer: Option<u64>) {
        if let Some(part) = self.parts.last_mut() {
            part.signer = signer;
        }
    }

    /// Removes the current part.
    pub(crate) fn take_back(&mut self, out: &mut Vec<u8>) {
        self.parts.pop();
        out.truncate(self.unpadded);
        if let Some(last) = self.parts.last() {
            out.set_u32(last.start + 20, 0);
        }
    }

    /// Finishes the frame and signs its parts. Removes a frame without parts. Returns the bytes to encrypt, if any, and
    /// the storage of the parts for reuse.
    pub(crate) fn end(
        self,
        out: &mut Vec<u8>,
        sign: impl Fn(u64, &mut [u8]),
    ) -> (Option<&mut [u8]>, Vec<Part>) {
        if self.parts.is_empty() {
            out.truncate(self.start);
            return (None, self.parts);
        }
        for (index, part) in self.parts.iter().enumerate() {
            let end = self.parts.get(index + 1).map_or(out.len(), |next| next.start);
            if let Some(session) = part.signer {
                sign(session, &mut out[part.start..end]);
            }
        }
        let body = self.start + FRAME_BYTES;
        let bytes = length(out.len() - body);
        out[self.start..body].copy_from_slice(&bytes.to_be_bytes());
        (self.sealed.then(|| &mut out[body..]), self.parts)
    }
}

/// Appends the response to the IOCTL `part`, with the output that `write` appends.
pub(crate) fn write_control(
    part: &[u8],
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<(), Status> {
    let start = out.len();
    let output_at = length(HEADER_BYTES + CONTROL_BYTES);
    out.u16(49);
    out.u16(0);
    out.extend_from_slice(slice(part, HEADER_BYTES + 4, 20)?); // Control code and file.
    out.u32(output_at);
    out.u32(0);
    out.u32(output_at);
    out.zeros(12);
    write(out);
    let bytes = length(out.len() - start - CONTROL_BYTES);
    out.set_u32(start + 36, bytes);
    Ok(())
}
