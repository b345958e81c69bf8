//! Implementation of the faults of messages. Nothing here is endless.
//!
//! Faults of file contents are in the code that reads and writes files.

use super::bytes::{length, Put};
use super::fault::{Fault, Kind};
use super::message::{flag, FRAME_BYTES, HEADER_BYTES};
use crate::fault::garbage;

const PENDINGS: usize = 100;
const SIGNATURE_AT: usize = 48;
const STATUS_PENDING: u32 = 0x103;

/// State of the connection after a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    GoOn,
    Close,
}

/// Applies a fault to the header of an answer before the answer is signed.
pub(crate) fn spoil_header(fault: Fault, header: &mut [u8]) {
    match fault.kind {
        Kind::WrongMessageId => header[30] ^= 0x40,
        Kind::WrongCommand => header[12] ^= 0x01,
        Kind::NoCredit => header[14..16].fill(0),
        _ => {}
    }
}

/// Applies a fault to the frame in `out[start..]`.
pub(crate) fn spoil_frame(fault: Fault, out: &mut Vec<u8>, start: usize) -> After {
    let frame_bytes = out.len() - start;
    let body = start + FRAME_BYTES;
    match fault.kind {
        Kind::Stall => out.truncate(start),
        Kind::Pending => say_pending(out, start, 1),
        Kind::EndlessPending => say_pending(out, start, PENDINGS),
        Kind::Close => {
            out.truncate(start);
            return After::Close;
        }
        Kind::EarlyClose => {
            out.truncate(start + frame_bytes / 2);
            return After::Close;
        }
        Kind::Truncated => {
            out.truncate(body + (frame_bytes - FRAME_BYTES).min(HEADER_BYTES + 1));
            let bytes = length(out.len() - body);
            out[start..body].copy_from_slice(&bytes.to_be_bytes());
        }
        Kind::Oversized => out[start..body].copy_from_slice(&[0, 0xff, 0xff, 0xff]),
        Kind::Garbage => {
            out.truncate(start);
            out.extend_from_slice(&garbage());
            return After::Close;
        }
        Kind::BadSignature => {
            let at = if out[body] == 0xfd {
                out.len() - 1
            } else {
                body + SIGNATURE_AT
            };
            out[at] ^= 1;
        }
        _ => {}
    }
    After::GoOn
}

/// Replaces the answer with interim responses, which are not signed (MS-SMB2 3.3.4.2).
fn say_pending(out: &mut Vec<u8>, start: usize, times: usize) {
    let mut frame = out.split_off(start);
    if frame[FRAME_BYTES] == 0xfd {
        return; // The answer is already encrypted: send nothing.
    }
    frame.truncate(FRAME_BYTES + HEADER_BYTES);
    frame.extend_from_slice(&[9, 0, 0, 0, 0, 0, 0, 0, 0]);
    let bytes = length(frame.len() - FRAME_BYTES);
    frame[..FRAME_BYTES].copy_from_slice(&bytes.to_be_bytes());
    let header = FRAME_BYTES;
    frame.set_u32(header + 8, STATUS_PENDING);
    frame.set_u32(header + 16, flag::RESPONSE | flag::ASYNC);
    frame.set_u32(header + 20, 0);
    frame[header + 32..header + 40].copy_from_slice(&1u64.to_le_bytes());
    for _ in 0..times {
        out.extend_from_slice(&frame);
    }
}
