//! NTSTATUS values (MS-ERREF 2.3.1) that this server returns.

use crate::pages::Full;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) u32);

macro_rules! statuses {
    ($($name:ident $code:literal)*) => {
        impl Status { $(pub(crate) const $name: Self = Self($code);)* }
    };
}

statuses! {
    SUCCESS 0x0000_0000
    PENDING 0x0000_0103
    NOTIFY_CLEANUP 0x0000_010B
    NOTIFY_ENUM_DIR 0x0000_010C
    BUFFER_OVERFLOW 0x8000_0005
    NO_MORE_FILES 0x8000_0006
    UNSUCCESSFUL 0xC000_0001
    INVALID_INFO_CLASS 0xC000_0003
    INFO_LENGTH_MISMATCH 0xC000_0004
    INVALID_PARAMETER 0xC000_000D
    NO_SUCH_FILE 0xC000_000F
    INVALID_DEVICE_REQUEST 0xC000_0010
    END_OF_FILE 0xC000_0011
    MORE_PROCESSING_REQUIRED 0xC000_0016
    INVALID_VIEW_SIZE 0xC000_001F
    ACCESS_DENIED 0xC000_0022
    OBJECT_NAME_INVALID 0xC000_0033
    OBJECT_NAME_NOT_FOUND 0xC000_0034
    OBJECT_NAME_COLLISION 0xC000_0035
    OBJECT_PATH_NOT_FOUND 0xC000_003A
    SHARING_VIOLATION 0xC000_0043
    FILE_LOCK_CONFLICT 0xC000_0054
    LOCK_NOT_GRANTED 0xC000_0055
    DELETE_PENDING 0xC000_0056
    LOGON_FAILURE 0xC000_006D
    BAD_IMPERSONATION_LEVEL 0xC000_00A5
    INVALID_LOCK_RANGE 0xC000_01A1
    RANGE_NOT_LOCKED 0xC000_007E
    DISK_FULL 0xC000_007F
    INSUFFICIENT_RESOURCES 0xC000_009A
    FILE_IS_A_DIRECTORY 0xC000_00BA
    NOT_SUPPORTED 0xC000_00BB
    PIPE_EMPTY 0xC000_00D9
    NETWORK_NAME_DELETED 0xC000_00C9
    BAD_NETWORK_NAME 0xC000_00CC
    REQUEST_NOT_ACCEPTED 0xC000_00D0
    INVALID_OPLOCK_PROTOCOL 0xC000_00E3
    DIRECTORY_NOT_EMPTY 0xC000_0101
    NOT_A_DIRECTORY 0xC000_0103
    CANCELLED 0xC000_0120
    CANNOT_DELETE 0xC000_0121
    FILE_CLOSED 0xC000_0128
    NOT_FOUND 0xC000_0225
    USER_SESSION_DELETED 0xC000_0203
    REQUEST_OUT_OF_SEQUENCE 0xC000_042A
    FILE_NOT_AVAILABLE 0xC000_0467
}

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
