//! Decides whether a fault affects a request, and implements faults of messages. Nothing here is endless.
//!
//! `operations.rs` and its parts implement faults of contents. `connection.rs` implements faults of timing.

use super::answer::Answer;
use super::fault::{Fault, Kind};
use crate::common::NS_PER_MS;
use std::sync::atomic::{AtomicU64, Ordering};

/// The fault of a server, and the number of requests so far that it could affect.
#[derive(Debug)]
pub(super) struct Strikes {
    fault: Option<Fault>,
    requests: AtomicU64,
}

impl Strikes {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Self {
            fault,
            requests: AtomicU64::new(0),
        }
    }

    /// Returns whether the server has this fault, even if it does not affect this request.
    pub(super) fn is(&self, kind: Kind) -> bool {
        self.fault.is_some_and(|fault| fault.kind == kind)
    }

    /// Returns whether a fault affects this request, and counts the request if the server has the fault.
    pub(super) fn strikes(&self, kind: Kind) -> bool {
        let Some(fault) = self.fault.filter(|fault| fault.kind == kind) else {
            return false;
        };
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        number % u64::from(fault.value) == 0
    }

    /// Returns the delay of each answer.
    pub(super) fn delay_ns(&self) -> u64 {
        let delay = self.fault.filter(|fault| fault.kind == Kind::Delay);
        delay.map_or(0, |fault| u64::from(fault.value) * NS_PER_MS)
    }
}

/// How an answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    Whole,
    Never,
    /// The answer is not sent, and the connection is closed.
    Close,
    HalfHead,
    HalfBody,
    Garbage,
}

/// Returns how an answer to a request for an object is sent. Damages the XML if the server's fault requires
/// it.
pub(super) fn spoil(strikes: &Strikes, answer: &mut Answer, is_get: bool) -> Sending {
    let is_content = is_get && (answer.status == 200 || answer.status == 206) && !answer.is_xml();
    if answer.is_xml() && strikes.strikes(Kind::BadXml) {
        let half = answer.length / 2;
        answer.length = half;
        for piece in &mut answer.body {
            piece.truncate(piece.len() / 2);
        }
        return Sending::Whole;
    }
    if strikes.is(Kind::Stall) {
        Sending::Never
    } else if strikes.strikes(Kind::Close) {
        Sending::Close
    } else if strikes.strikes(Kind::EarlyClose) {
        Sending::HalfHead
    } else if is_content && answer.length > 0 && strikes.strikes(Kind::ShortBody) {
        Sending::HalfBody
    } else if strikes.strikes(Kind::Garbage) {
        Sending::Garbage
    } else {
        Sending::Whole
    }
}
