//! Reasons why a request is not executed: an NTSTATUS (MS-ERREF 2.3.1), or a wait for another client.

use crate::pages::Full;
pub(crate) use dyno_smb::status::NtStatus as Status;

impl From<Full> for Status {
    fn from(_: Full) -> Self {
        Self::DISK_FULL
    }
}

/// Why a request was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Fail(Status),
    /// Another client must act before the request can be retried.
    Wait,
}

impl From<Status> for Stop {
    fn from(status: Status) -> Self {
        Self::Fail(status)
    }
}

impl From<Full> for Stop {
    fn from(full: Full) -> Self {
        Self::Fail(full.into())
    }
}
