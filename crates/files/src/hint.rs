//! Tables of hints: what to try after a failure, depending on the failure and the circumstances. Each protocol has its
//! own table (`advice.rs`).

use dyno_measure::{Detail, Failure, Fault, ProtocolStatus};

/// The failure to which a hint applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause<R> {
    /// The server refused the session at this step, or for this reason.
    Refused(R),
    /// A call failed, or the session failed for another reason.
    Failed(Fault),
}

/// A row of a table: a cause, the statuses (empty: any), and a circumstance that must hold.
#[derive(Debug)]
pub struct Hint<R, C> {
    pub cause: Cause<R>,
    pub statuses: &'static [u32],
    pub circumstance: fn(&C) -> bool,
    pub text: &'static str,
}

/// Hint for files whose content differs from the data written.
pub const WRONG_CONTENT: &str =
    "The data read differs from the data written: check the server's log and disk, and whether another \
     program writes there. Bonnie skips the comparison with --no-check.";

impl<R: Copy + PartialEq, C> Hint<R, C> {
    pub const fn refused(refusal: R, statuses: &'static [u32], text: &'static str) -> Self {
        Self::row(Cause::Refused(refusal), statuses, text)
    }

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

    /// Returns the row, restricted to this circumstance.
    #[must_use]
    pub const fn when(self, circumstance: fn(&C) -> bool) -> Self {
        Self { circumstance, ..self }
    }

    /// Returns the text of the first row that applies to a failure.
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
