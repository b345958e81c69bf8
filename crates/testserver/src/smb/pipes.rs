//! IPC$ with a single pipe, `srvsvc`, and a single operation, listing the shares (MS-SRVS 3.1.4.8 over
//! DCE/RPC, C706 12.6).
//!
//! Other interfaces, fragments, and authentication within RPC are not supported.

use super::bytes::{length, slice, u16_at, u32_at, u64_at, units, Put};
use super::message::{command, write_control, Request, HEADER_BYTES};
use super::status::Status;
use super::volume::{attribute, FileId};

/// Name of the share.
pub(crate) const NAME: &str = "IPC$";

/// IOCTL that writes to a pipe and then reads from it.
pub(crate) const PIPE_TRANSCEIVE: u32 = 0x0011_c017;

const BODY: usize = HEADER_BYTES;
const PIPE: &str = "srvsvc";
const MOST_PIPES: usize = 16;
const MOST_REQUEST_BYTES: usize = 4280;

/// Types of RPC messages, and the length of their common header.
mod pdu {
    pub(super) const REQUEST: u8 = 0;
    pub(super) const RESPONSE: u8 = 2;
    pub(super) const FAULT: u8 = 3;
    pub(super) const BIND: u8 = 11;
    pub(super) const BIND_ANSWER: u8 = 12;
    pub(super) const HEADER_BYTES: usize = 16;
    /// Flags of a message in a single fragment.
    pub(super) const WHOLE: u8 = 3;
}

/// Interface IDs of srvsvc 3.0 (MS-SRVS 1.9) and NDR 2.0 (C706 14) in their wire format.
const SRVSVC: [u8; 20] = *b"\xc8\x4f\x32\x4b\x70\x16\xd3\x01\x12\x78\x5a\x47\xbf\x6e\xe1\x88\x03\0\0\0";
const NDR: [u8; 20] = *b"\x04\x5d\x88\x8a\xeb\x1c\xc9\x11\x9f\xe8\x08\x00\x2b\x10\x48\x60\x02\0\0\0";
const CONTEXT_BYTES: usize = 24;
const SHARE_ENUM: u16 = 15;
const UNKNOWN_OPERATION: u32 = 0x1c01_0002;
const INVALID_LEVEL: u32 = 124;
const OF_FILES: u32 = 0;
const OF_PIPES_HIDDEN: u32 = 0x8000_0003;

/// Open pipes of a session.
#[derive(Default)]
pub(crate) struct Pipes {
    pipes: Vec<Pipe>,
    serial: u64,
}

struct Pipe {
    serial: u64,
    owner: u32,
    /// Answers that have not been read yet.
    answer: Vec<u8>,
}

impl Pipes {
    /// Executes a request in the tree `owner`, and appends the body of its answer. `related`: the pipe of the
    /// previous request in the compound, which this request replaces with its own pipe.
    pub(crate) fn carry_out(
        &mut self,
        request: &Request<'_>,
        owner: u32,
        shares: &[&str],
        related: &mut Option<FileId>,
        out: &mut Vec<u8>,
    ) -> Result<Status, Status> {
        let part = request.part;
        match request.command {
            command::CREATE => {
                request.check_structure(57)?;
                *related = Some(self.open(part, owner, out)?);
                Ok(Status::SUCCESS)
            }
            command::CLOSE => {
                request.check_structure(24)?;
                let place = self.find(part, 8, owner, related)?;
                self.pipes.swap_remove(place);
                out.u16(60);
                out.zeros(58);
                Ok(Status::SUCCESS)
            }
            command::WRITE => {
                request.check_structure(49)?;
                let place = self.find(part, 16, owner, related)?;
                let bytes = u32_at(part, BODY + 4)?;
                let message = slice(part, usize::from(u16_at(part, BODY + 2)?), bytes as usize)?;
                self.pipes[place].take(message, shares)?;
                out.u16(17);
                out.u16(0);
                out.u32(bytes);
                out.zeros(8);
                Ok(Status::SUCCESS)
            }
            command::READ => {
                request.check_structure(49)?;
                let place = self.find(part, 16, owner, related)?;
                let (bytes, status) = self.pipes[place].give(u32_at(part, BODY + 4)?)?;
                out.u16(17);
                out.u8(HEADER_BYTES as u8 + 16);
                out.u8(0);
                out.u32(length(bytes.len()));
                out.zeros(8);
                out.extend_from_slice(&bytes);
                Ok(status)
            }
            command::IOCTL if u32_at(part, BODY + 4)? == PIPE_TRANSCEIVE => {
                let place = self.find(part, 8, owner, related)?;
                let (at, count) = (u32_at(part, BODY + 24)?, u32_at(part, BODY + 28)?);
                self.pipes[place].take(slice(part, at as usize, count as usize)?, shares)?;
                let (bytes, status) = self.pipes[place].give(u32_at(part, BODY + 44)?)?;
                write_control(part, out, |out| out.extend_from_slice(&bytes))?;
                Ok(status)
            }
            _ => Err(Status::NOT_SUPPORTED),
        }
    }

    fn open(&mut self, part: &[u8], owner: u32, out: &mut Vec<u8>) -> Result<FileId, Status> {
        let name_bytes = usize::from(u16_at(part, BODY + 46)?);
        let name = units(slice(part, usize::from(u16_at(part, BODY + 44)?), name_bytes)?)?;
        let name = String::from_utf16_lossy(&name);
        if !name.trim_start_matches('\\').eq_ignore_ascii_case(PIPE) {
            return Err(Status::OBJECT_NAME_NOT_FOUND);
        }
        if self.pipes.len() >= MOST_PIPES {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        self.serial += 1;
        self.pipes.push(Pipe {
            serial: self.serial,
            owner,
            answer: Vec::new(),
        });
        out.u16(89);
        out.zeros(2);
        out.u32(1); // FILE_OPENED
        out.zeros(48);
        out.u32(attribute::NORMAL);
        out.u32(0);
        out.u64(0);
        out.u64(self.serial);
        out.zeros(8);
        Ok((0, self.serial))
    }

    fn find(
        &self,
        part: &[u8],
        at: usize,
        owner: u32,
        related: &mut Option<FileId>,
    ) -> Result<usize, Status> {
        let named = (u64_at(part, BODY + at)?, u64_at(part, BODY + at + 8)?);
        let serial = match named {
            (u64::MAX, u64::MAX) => related.ok_or(Status::INVALID_PARAMETER)?.1,
            (_, serial) => serial,
        };
        let is_it = |pipe: &Pipe| pipe.serial == serial && pipe.owner == owner;
        let place = self.pipes.iter().position(is_it).ok_or(Status::FILE_CLOSED)?;
        *related = Some((0, serial));
        Ok(place)
    }

    /// Closes the pipes of the trees for which `theirs` is true.
    pub(crate) fn close_all(&mut self, theirs: impl Fn(u32) -> bool) {
        self.pipes.retain(|pipe| !theirs(pipe.owner));
    }
}

impl Pipe {
    fn take(&mut self, message: &[u8], shares: &[&str]) -> Result<(), Status> {
        if message.len() > MOST_REQUEST_BYTES {
            return Err(Status::INVALID_PARAMETER);
        }
        self.answer = answer(message, shares)?;
        Ok(())
    }

    /// Returns the next bytes of the answer, and a status that tells whether there are more.
    fn give(&mut self, most: u32) -> Result<(Vec<u8>, Status), Status> {
        if self.answer.is_empty() {
            return Err(Status::PIPE_EMPTY);
        }
        let rest = self.answer.split_off(self.answer.len().min(most as usize));
        let bytes = std::mem::replace(&mut self.answer, rest);
        let status = if self.answer.is_empty() {
            Status::SUCCESS
        } else {
            Status::BUFFER_OVERFLOW
        };
        Ok((bytes, status))
    }
}

/// Returns the answer to an RPC message.
fn answer(message: &[u8], shares: &[&str]) -> Result<Vec<u8>, Status> {
    let kind = u16_at(message, 2)? as u8;
    // Require version 5 and little-endian numbers.
    if u16_at(message, 0)? != 5 || u32_at(message, 4)? & 0xff != 0x10 {
        return Err(Status::INVALID_PARAMETER);
    }
    let mut body = Vec::new();
    let kind = match kind {
        pdu::BIND => {
            bind(message, &mut body)?;
            pdu::BIND_ANSWER
        }
        pdu::REQUEST => {
            let (context, operation) = (u16_at(message, 20)?, u16_at(message, 22)?);
            let mut data = Vec::new();
            let kind = if operation == SHARE_ENUM {
                share_enum(slice(message, 24, message.len() - 24)?, shares, &mut data)?;
                pdu::RESPONSE
            } else {
                data.u32(UNKNOWN_OPERATION);
                data.u32(0);
                pdu::FAULT
            };
            body.u32(length(data.len()));
            body.u16(context);
            body.u16(0);
            body.extend_from_slice(&data);
            kind
        }
        _ => return Err(Status::INVALID_PARAMETER),
    };
    let mut out = vec![5, 0, kind, pdu::WHOLE, 0x10, 0, 0, 0];
    out.u16((pdu::HEADER_BYTES + body.len()) as u16);
    out.u16(0);
    out.u32(u32_at(message, 12)?);
    out.extend_from_slice(&body);
    Ok(out)
}

/// Accepts each context with srvsvc and NDR.
fn bind(message: &[u8], out: &mut Vec<u8>) -> Result<(), Status> {
    out.u16(MOST_REQUEST_BYTES as u16);
    out.u16(MOST_REQUEST_BYTES as u16);
    out.u32(1);
    let address = b"\\PIPE\\srvsvc\0";
    out.u16(address.len() as u16);
    out.extend_from_slice(address);
    out.resize(out.len().next_multiple_of(4), 0);
    let count = u32_at(message, 24)? as u8;
    out.u32(u32::from(count));
    let mut at = 28;
    for _ in 0..count {
        let syntaxes = usize::from(u16_at(message, at + 2)? as u8);
        let wanted = slice(message, at + 4, SRVSVC.len())?;
        let offered = slice(message, at + CONTEXT_BYTES, syntaxes * NDR.len())?;
        let taken = wanted == SRVSVC && offered.chunks(NDR.len()).any(|syntax| syntax == NDR);
        if taken {
            out.u32(0);
            out.extend_from_slice(&NDR);
        } else {
            out.u16(2); // refused by the provider:
            out.u16(if wanted == SRVSVC { 2 } else { 1 }); // the transfer syntax, or the interface
            out.zeros(NDR.len());
        }
        at += CONTEXT_BYTES + syntaxes * NDR.len();
    }
    Ok(())
}

/// Handles NetrShareEnum at level 1: names, types and remarks.
fn share_enum(stub: &[u8], shares: &[&str], out: &mut Vec<u8>) -> Result<(), Status> {
    // The optional server name precedes the level.
    let mut at = 4;
    if u32_at(stub, 0)? != 0 {
        let name_units = u32_at(stub, 12)? as usize;
        at = (16 + name_units.saturating_mul(2)).next_multiple_of(4);
    }
    let level = u32_at(stub, at)?;
    let mut referent = 0;
    let mut pointer = || {
        referent += 4;
        0x0002_0000 + referent
    };
    out.u32(level);
    out.u32(level);
    if level != 1 {
        for value in [0, 0, 0, INVALID_LEVEL] {
            out.u32(value);
        }
        return Ok(());
    }
    let hidden = (NAME, OF_PIPES_HIDDEN);
    let all: Vec<_> = shares
        .iter()
        .map(|name| (*name, OF_FILES))
        .chain([hidden])
        .collect();
    out.u32(pointer());
    out.u32(length(all.len()));
    out.u32(pointer());
    out.u32(length(all.len()));
    for (_, kind) in &all {
        out.u32(pointer());
        out.u32(*kind);
        out.u32(pointer());
    }
    for (name, _) in &all {
        string(name, out);
        string("", out);
    }
    out.u32(length(all.len()));
    out.u32(0); // No resume handle.
    out.u32(0); // Success.
    Ok(())
}

fn string(text: &str, out: &mut Vec<u8>) {
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    out.u32(length(units.len()));
    out.u32(0);
    out.u32(length(units.len()));
    out.name(&units);
    out.resize(out.len().next_multiple_of(4), 0);
}
