//! OPLOCK_BREAK notifications by the server (MS-SMB2 2.2.23): unencrypted, unsigned and without a session.

use super::bytes::{length, Put};
use super::message::{command, AnswerHeader, FRAME_BYTES, HEADER_BYTES};
use super::volume::{caching, Notice};

const LEASE_ANSWER_NEEDED: u32 = 1;

/// Returns the oplock level for a caching state.
pub(crate) fn level(state: u8) -> u8 {
    match state {
        state if state & caching::HANDLE != 0 && state & caching::WRITE != 0 => 0x09,
        state if state & caching::WRITE != 0 => 0x08,
        state if state & caching::READ != 0 => 0x01,
        _ => 0x00,
    }
}

/// Returns the caching state for an oplock level.
pub(crate) fn state_of(level: u8) -> u8 {
    match level {
        0x01 => caching::READ,
        0x08 => caching::READ | caching::WRITE,
        0x09 => caching::READ | caching::WRITE | caching::HANDLE,
        _ => caching::NONE,
    }
}

/// Appends a notification in its own frame.
pub(crate) fn write(notice: Notice, out: &mut Vec<u8>) {
    let start = out.len();
    out.zeros(FRAME_BYTES + HEADER_BYTES);
    match notice {
        Notice::OplockBreak { file, to } => {
            out.u16(24);
            out.u8(level(to));
            out.zeros(5);
            out.u64(file.0 as u64);
            out.u64(file.1);
        }
        Notice::LeaseBreak {
            key,
            from,
            to,
            acknowledge,
            epoch,
        } => {
            out.u16(44);
            out.u16(epoch);
            out.u32(if acknowledge { LEASE_ANSWER_NEEDED } else { 0 });
            out.extend_from_slice(&key.to_le_bytes());
            out.u32(u32::from(from));
            out.u32(u32::from(to));
            out.zeros(12);
        }
        Notice::TryAgain { .. } => {}
    }
    let header = AnswerHeader {
        command: command::OPLOCK_BREAK,
        message_id: u64::MAX,
        ..AnswerHeader::default()
    };
    header.write(&mut out[start + FRAME_BYTES..]);
    let bytes = length(out.len() - start - FRAME_BYTES);
    out[start..start + FRAME_BYTES].copy_from_slice(&bytes.to_be_bytes());
}
