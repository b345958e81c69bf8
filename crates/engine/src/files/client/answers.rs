//! Checks whether files exist as expected, and whether a session survives a failure.

use dyno_measure::{Failure, Fault};
use dyno_workload::Presence;

/// Fails if a file that must exist is missing, or if one exists that must not.
pub(super) fn expect(presence: Presence, found: bool) -> Result<(), Failure> {
    match (presence, found) {
        (Presence::There, false) => Err(Fault::NotFound.into()),
        (Presence::NotThere, true) => Err(Fault::AlreadyThere.into()),
        _ => Ok(()),
    }
}

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

/// Returns whether the session survives a failure.
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
