//! Why a request is not executed: its NTSTATUS (MS-ERREF 2.3.1), or another client.

use crate::pages::Full;
pub(crate) use dyno_smb::status::NtStatus as Status;

impl From<Full> for Status {
    fn from(_: Full) -> Self {
        Self::DISK_FULL
    }
}

/// The reason why a request was not executed.
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
