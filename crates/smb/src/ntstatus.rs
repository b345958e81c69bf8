//! Names of the NTSTATUS values (MS-ERREF 2.3.1) that file servers return.
//!
//! `status.rs` interprets them.

use dyno_measure::StatusTable;

/// Table of NTSTATUS values for failures: shows the name, if known, and the number.
pub static NTSTATUS: StatusTable = StatusTable {
    name: "NTSTATUS",
    write: |status, formatter| match ntstatus_name(status) {
        Some(name) => write!(formatter, "{name} ({status:#010x})"),
        None => write!(formatter, "NTSTATUS {status:#010x}"),
    },
};

/// An NTSTATUS value that a server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NtStatus(pub u32);

macro_rules! statuses {
    ($($status:ident $code:literal)*) => {
        $(pub(crate) const $status: u32 = $code;)*

        impl NtStatus {
            $(pub const $status: Self = Self($code);)*
        }

        /// Returns the name of `status`, if it is in the list.
        fn ntstatus_name(status: u32) -> Option<&'static str> {
            match status {
                $($status => Some(concat!("STATUS_", stringify!($status))),)*
                _ => None,
            }
        }
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
    NOT_IMPLEMENTED 0xC000_0002
    INVALID_INFO_CLASS 0xC000_0003
    INFO_LENGTH_MISMATCH 0xC000_0004
    INVALID_HANDLE 0xC000_0008
    INVALID_PARAMETER 0xC000_000D
    NO_SUCH_FILE 0xC000_000F
    INVALID_DEVICE_REQUEST 0xC000_0010
    END_OF_FILE 0xC000_0011
    MORE_PROCESSING_REQUIRED 0xC000_0016
    NO_MEMORY 0xC000_0017
    INVALID_VIEW_SIZE 0xC000_001F
    ACCESS_DENIED 0xC000_0022
    BUFFER_TOO_SMALL 0xC000_0023
    OBJECT_NAME_INVALID 0xC000_0033
    OBJECT_NAME_NOT_FOUND 0xC000_0034
    OBJECT_NAME_COLLISION 0xC000_0035
    OBJECT_PATH_INVALID 0xC000_0039
    OBJECT_PATH_NOT_FOUND 0xC000_003A
    SHARING_VIOLATION 0xC000_0043
    QUOTA_EXCEEDED 0xC000_0044
    FILE_LOCK_CONFLICT 0xC000_0054
    LOCK_NOT_GRANTED 0xC000_0055
    DELETE_PENDING 0xC000_0056
    NO_LOGON_SERVERS 0xC000_005E
    PRIVILEGE_NOT_HELD 0xC000_0061
    NO_SUCH_USER 0xC000_0064
    WRONG_PASSWORD 0xC000_006A
    LOGON_FAILURE 0xC000_006D
    ACCOUNT_RESTRICTION 0xC000_006E
    INVALID_LOGON_HOURS 0xC000_006F
    INVALID_WORKSTATION 0xC000_0070
    PASSWORD_EXPIRED 0xC000_0071
    ACCOUNT_DISABLED 0xC000_0072
    RANGE_NOT_LOCKED 0xC000_007E
    DISK_FULL 0xC000_007F
    INSUFFICIENT_RESOURCES 0xC000_009A
    MEDIA_WRITE_PROTECTED 0xC000_00A2
    BAD_IMPERSONATION_LEVEL 0xC000_00A5
    IO_TIMEOUT 0xC000_00B5
    FILE_IS_A_DIRECTORY 0xC000_00BA
    NOT_SUPPORTED 0xC000_00BB
    NETWORK_NAME_DELETED 0xC000_00C9
    NETWORK_ACCESS_DENIED 0xC000_00CA
    BAD_NETWORK_NAME 0xC000_00CC
    REQUEST_NOT_ACCEPTED 0xC000_00D0
    PIPE_EMPTY 0xC000_00D9
    INVALID_OPLOCK_PROTOCOL 0xC000_00E3
    DIRECTORY_NOT_EMPTY 0xC000_0101
    NOT_A_DIRECTORY 0xC000_0103
    TOO_MANY_OPENED_FILES 0xC000_011F
    CANCELLED 0xC000_0120
    CANNOT_DELETE 0xC000_0121
    FILE_DELETED 0xC000_0123
    FILE_CLOSED 0xC000_0128
    TIME_DIFFERENCE_AT_DC 0xC000_0133
    LOGON_TYPE_NOT_GRANTED 0xC000_015B
    ACCOUNT_EXPIRED 0xC000_0193
    INVALID_LOCK_RANGE 0xC000_01A1
    USER_SESSION_DELETED 0xC000_0203
    INSUFF_SERVER_RESOURCES 0xC000_0205
    CONNECTION_DISCONNECTED 0xC000_020C
    CONNECTION_RESET 0xC000_020D
    PASSWORD_MUST_CHANGE 0xC000_0224
    NOT_FOUND 0xC000_0225
    ACCOUNT_LOCKED_OUT 0xC000_0234
    PATH_NOT_COVERED 0xC000_0257
    NETWORK_SESSION_EXPIRED 0xC000_035C
    NTLM_BLOCKED 0xC000_0418
    REQUEST_OUT_OF_SEQUENCE 0xC000_042A
    INVALID_TOKEN 0xC000_0465
    FILE_NOT_AVAILABLE 0xC000_0467
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_measure::ProtocolStatus;

    #[test]
    fn a_status_is_shown_by_its_name_and_number() {
        let check = |code, text: &str| {
            let table = &NTSTATUS;
            assert_eq!(ProtocolStatus { code, table }.to_string(), text);
        };
        check(0xC000_006D, "STATUS_LOGON_FAILURE (0xc000006d)");
        check(0xC000_0BAD, "NTSTATUS 0xc0000bad");
    }
}
