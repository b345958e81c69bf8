//! Decides whether a fault affects a request, and implements faults of messages. Nothing here is endless.
//!
//! Faults of file contents are in `procedures.rs`, faults of timing in `connection.rs` and `server.rs`.

use super::fault::{Fault, Kind};
use crate::fault::garbage;
use dyno_nfs::wire::{end_reply, Procedure, RECORD_MARK_BYTES};

/// Size of a reply before its results: record mark, XID and accepted status.
pub(super) const REPLY_HEAD_BYTES: usize = RECORD_MARK_BYTES + 24;

/// State of the connection after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    GoOn,
    /// The connection is closed after everything is sent.
    Close,
    /// There is no reply yet, because a delegation must be returned first. The call must be answered again.
    Wait,
}

/// The fault of one connection, and the number of requests so far that it could affect.
#[derive(Debug, Clone, Copy)]
pub(super) struct FaultCounter {
    fault: Option<Fault>,
    requests: u32,
}

impl FaultCounter {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Self { fault, requests: 0 }
    }

    /// Returns the fault of the next request, if any.
    pub(super) fn next(&mut self, procedure: Procedure) -> Option<Kind> {
        let fault = self.fault?;
        let may_strike = match procedure {
            Procedure::Null | Procedure::FsInfo => false,
            Procedure::Write | Procedure::Commit => true,
            _ => fault.kind != Kind::OtherVerifier,
        };
        if !may_strike {
            return None;
        }
        self.requests = self.requests.wrapping_add(1);
        let every = match fault.kind {
            Kind::DroppedReply
            | Kind::DroppedCall
            | Kind::DoubleReply
            | Kind::LostReply
            | Kind::OtherVerifier
            | Kind::JukeBox => fault.value,
            _ => 1,
        };
        (self.requests % every == 0).then_some(fault.kind)
    }
}

/// Damages, duplicates or removes the reply in `out[start..]`.
pub(super) fn spoil(kind: Kind, out: &mut Vec<u8>, start: usize) -> After {
    let reply_bytes = out.len() - start;
    match kind {
        Kind::Stall | Kind::DroppedReply | Kind::DroppedCall => out.truncate(start),
        Kind::DoubleReply => out.extend_from_within(start..),
        Kind::LostReply | Kind::Close => {
            out.truncate(start);
            return After::Close;
        }
        Kind::EarlyClose => {
            out.truncate(start + reply_bytes / 2);
            return After::Close;
        }
        Kind::Truncated => {
            let results_bytes = reply_bytes.saturating_sub(REPLY_HEAD_BYTES);
            out.truncate(start + REPLY_HEAD_BYTES + results_bytes / 8 * 4);
            end_reply(out, start);
        }
        Kind::Oversized => out[start..start + RECORD_MARK_BYTES].fill(0xff),
        Kind::Garbage => {
            out.truncate(start);
            out.extend_from_slice(&garbage());
            return After::Close;
        }
        Kind::WrongNumber => out[start + RECORD_MARK_BYTES] ^= 0x40,
        _ => {}
    }
    After::GoOn
}
