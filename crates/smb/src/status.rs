//! Interpretation of NTSTATUS values (MS-ERREF 2.3.1) for a client of a file server.

pub use crate::ntstatus::NtStatus;
pub(crate) use crate::ntstatus::*;
use dyno_measure::{Failure, Fault, ProtocolStatus};

/// Returns whether `status` means that a path does not exist.
pub fn is_not_there(status: u32) -> bool {
    matches!(
        status,
        OBJECT_NAME_NOT_FOUND | OBJECT_PATH_NOT_FOUND | NO_SUCH_FILE
    )
}

/// Returns whether `status` is an error: both bits of the severity, the two highest ones, are set.
pub fn is_error(status: u32) -> bool {
    status >> 30 == 3
}

/// Returns whether `status` ends the session or the connection to the share, so that all open files are lost.
pub fn ends_session(status: u32) -> bool {
    matches!(
        status,
        USER_SESSION_DELETED
            | NETWORK_SESSION_EXPIRED
            | NETWORK_NAME_DELETED
            | CONNECTION_DISCONNECTED
            | CONNECTION_RESET
    )
}

/// Returns the failure of a call that ended with `status`, which becomes the detail of the failure.
pub fn failure(status: u32) -> Failure {
    let fault = match status {
        OBJECT_NAME_NOT_FOUND | OBJECT_PATH_NOT_FOUND | NO_SUCH_FILE => Fault::NotFound,
        OBJECT_NAME_COLLISION => Fault::AlreadyThere,
        ACCESS_DENIED
        | PRIVILEGE_NOT_HELD
        | MEDIA_WRITE_PROTECTED
        | NETWORK_ACCESS_DENIED
        | CANNOT_DELETE => Fault::AccessDenied,
        // A file with a pending deletion still exists only because it is open.
        SHARING_VIOLATION | DELETE_PENDING => Fault::SharingViolation,
        FILE_LOCK_CONFLICT | LOCK_NOT_GRANTED => Fault::LockConflict,
        DISK_FULL | QUOTA_EXCEEDED => Fault::NoSpace,
        INVALID_HANDLE | FILE_CLOSED | FILE_DELETED => Fault::SessionLost,
        status if ends_session(status) => Fault::SessionLost,
        _ => Fault::ErrorStatus,
    };
    with(fault, status)
}

pub fn with(fault: Fault, status: u32) -> Failure {
    NTSTATUS.failure(fault, status)
}

/// Returns `status` in the form that failures carry.
pub fn of(status: u32) -> ProtocolStatus {
    NTSTATUS.status(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u32, fault: Fault) {
        assert_eq!(failure(status), with(fault, status), "{status:#010x}");
    }

    #[test]
    fn a_status_maps_to_its_fault_and_keeps_its_number() {
        check(0xC000_0034, Fault::NotFound);
        check(0xC000_003A, Fault::NotFound);
        check(0xC000_0035, Fault::AlreadyThere);
        check(0xC000_0022, Fault::AccessDenied);
        check(0xC000_0043, Fault::SharingViolation);
        check(0xC000_0055, Fault::LockConflict);
        check(0xC000_007F, Fault::NoSpace);
        check(0xC000_0128, Fault::SessionLost);
        check(0xC000_0203, Fault::SessionLost);
    }

    #[test]
    fn an_unknown_status_is_still_a_failure() {
        check(0xC000_0BAD, Fault::ErrorStatus);
        check(0xFFFF_FFFF, Fault::ErrorStatus);
    }

    #[test]
    fn warnings_and_information_are_not_errors() {
        for status in [SUCCESS, PENDING, NO_MORE_FILES, BUFFER_OVERFLOW] {
            assert!(!is_error(status), "{status:#010x}");
        }
        assert!(is_error(END_OF_FILE));
    }
}
