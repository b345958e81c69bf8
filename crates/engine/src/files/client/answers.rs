//! How an answer is judged: what must be there, and which failures leave the session as it is.

use dyno_measure::{Failure, Fault};
use dyno_workload::Presence;

/// Whether what was found is what must be there.
pub(super) fn expect(presence: Presence, found: bool) -> Result<(), Failure> {
    match (presence, found) {
        (Presence::There, false) => Err(Fault::NotFound.into()),
        (Presence::NotThere, true) => Err(Fault::AlreadyThere.into()),
        _ => Ok(()),
    }
}

/// Whether it is the way to the server that failed: it may be away, and come back.
pub(super) fn costs_connection(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::ConnectionRefused
            | Fault::ConnectionReset
            | Fault::ClosedEarly
            | Fault::ConnectTimeout
            | Fault::Unreachable
            | Fault::SessionLost
    )
}

/// Whether the session goes on after a failure: those that one call alone was refused with.
pub(super) fn leaves_session(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::ErrorStatus
            | Fault::AccessDenied
            | Fault::SharingViolation
            | Fault::LockConflict
            | Fault::NoSpace
            | Fault::WrongStatus
            | Fault::WrongLength
            | Fault::WrongContent
            | Fault::StaleContent
            | Fault::LostUpdate
            | Fault::NotFound
            | Fault::AlreadyThere
    )
}
