//! Tables of hints: what to try against an error, by the error and by what the client itself knows of its circumstances.
//!
//! Not for: the hints, which each protocol has in a table of its own (`advice.rs` there), a row each.

use dyno_measure::{Detail, Failure, Fault, ProtocolStatus};

/// What an error is told by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause<R> {
    /// A session was refused at this step, or over this.
    Refused(R),
    /// A call failed, or a session for another reason than a refusal.
    Failed(Fault),
}

/// One row of a table: it is for a cause with one of the statuses (any where none is named), if its circumstance holds.
#[derive(Debug)]
pub struct Hint<R, C> {
    pub cause: Cause<R>,
    pub statuses: &'static [u32],
    pub circumstance: fn(&C) -> bool,
    pub text: &'static str,
}

/// Against files that contain something else than was written.
pub const WRONG_CONTENT: &str =
    "What was read is not what was written: look at the server's log, at its disk, and at \
                                 who else writes there. Bonnie leaves the comparison out with --no-check.";

impl<R: Copy + PartialEq, C> Hint<R, C> {
    /// Returns a row for a refusal.
    pub const fn refused(refusal: R, statuses: &'static [u32], text: &'static str) -> Self {
        Self::row(Cause::Refused(refusal), statuses, text)
    }

    /// Returns a row for a failure.
    pub const fn failed(fault: Fault, statuses: &'static [u32], text: &'static str) -> Self {
        Self::row(Cause::Failed(fault), statuses, text)
    }

    const fn row(cause: Cause<R>, statuses: &'static [u32], text: &'static str) -> Self {
        Self {
            cause,
            statuses,
            circumstance: always,
            text,
        }
    }

    /// Returns the row, for this circumstance alone.
    #[must_use]
    pub const fn when(self, circumstance: fn(&C) -> bool) -> Self {
        Self { circumstance, ..self }
    }

    /// Returns the text of the first row that is for a failure.
    pub fn first(
        table: &'static [Self],
        failure: &Failure,
        refusal: fn(ProtocolStatus) -> Option<R>,
        circumstances: &C,
    ) -> Option<&'static str> {
        let (cause, status) = match failure.detail {
            Detail::Refused { step, status } => (
                Cause::Refused(refusal(step)?),
                status.map_or(0, |status| status.code),
            ),
            Detail::Status(status) => (Cause::Failed(failure.fault), status.code),
            Detail::Errno(number) => (Cause::Failed(failure.fault), number.unsigned_abs()),
            _ => (Cause::Failed(failure.fault), 0),
        };
        let found = table.iter().find(|row| {
            row.cause == cause
                && (row.statuses.is_empty() || row.statuses.contains(&status))
                && (row.circumstance)(circumstances)
        });
        found.map(|row| row.text)
    }
}

fn always<C>(_: &C) -> bool {
    true
}
