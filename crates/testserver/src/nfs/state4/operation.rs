//! Operations of a compound by number and name (RFC 8881, 16.2).

/// Highest number of an operation, plus one.
pub(in crate::nfs) const OPERATIONS: usize = 59;
pub(in crate::nfs) const ILLEGAL: u32 = 10_044;

pub(in crate::nfs) const ACCESS: u32 = 3;
pub(in crate::nfs) const CLOSE: u32 = 4;
pub(in crate::nfs) const COMMIT: u32 = 5;
pub(in crate::nfs) const CREATE: u32 = 6;
pub(in crate::nfs) const DELEGRETURN: u32 = 8;
pub(in crate::nfs) const GETATTR: u32 = 9;
pub(in crate::nfs) const GETFH: u32 = 10;
pub(in crate::nfs) const LINK: u32 = 11;
pub(in crate::nfs) const LOCK: u32 = 12;
pub(in crate::nfs) const LOCKT: u32 = 13;
pub(in crate::nfs) const LOCKU: u32 = 14;
pub(in crate::nfs) const LOOKUP: u32 = 15;
pub(in crate::nfs) const LOOKUPP: u32 = 16;
pub(in crate::nfs) const NVERIFY: u32 = 17;
pub(in crate::nfs) const OPEN: u32 = 18;
pub(in crate::nfs) const OPEN_DOWNGRADE: u32 = 21;
pub(in crate::nfs) const PUTFH: u32 = 22;
pub(in crate::nfs) const PUTPUBFH: u32 = 23;
pub(in crate::nfs) const PUTROOTFH: u32 = 24;
pub(in crate::nfs) const READ: u32 = 25;
pub(in crate::nfs) const READDIR: u32 = 26;
pub(in crate::nfs) const READLINK: u32 = 27;
pub(in crate::nfs) const REMOVE: u32 = 28;
pub(in crate::nfs) const RENAME: u32 = 29;
pub(in crate::nfs) const RESTOREFH: u32 = 31;
pub(in crate::nfs) const SAVEFH: u32 = 32;
pub(in crate::nfs) const SECINFO: u32 = 33;
pub(in crate::nfs) const SETATTR: u32 = 34;
pub(in crate::nfs) const VERIFY: u32 = 37;
pub(in crate::nfs) const WRITE: u32 = 38;
pub(in crate::nfs) const BIND_CONN_TO_SESSION: u32 = 41;
pub(in crate::nfs) const EXCHANGE_ID: u32 = 42;
pub(in crate::nfs) const CREATE_SESSION: u32 = 43;
pub(in crate::nfs) const DESTROY_SESSION: u32 = 44;
pub(in crate::nfs) const FREE_STATEID: u32 = 45;
pub(in crate::nfs) const SECINFO_NO_NAME: u32 = 52;
pub(in crate::nfs) const SEQUENCE: u32 = 53;
pub(in crate::nfs) const TEST_STATEID: u32 = 55;
pub(in crate::nfs) const DESTROY_CLIENTID: u32 = 57;
pub(in crate::nfs) const RECLAIM_COMPLETE: u32 = 58;

/// Names of all operations, including unsupported ones.
pub(in crate::nfs) const NAMES: [&str; OPERATIONS] = [
    "",
    "",
    "",
    "ACCESS",
    "CLOSE",
    "COMMIT",
    "CREATE",
    "DELEGPURGE",
    "DELEGRETURN",
    "GETATTR",
    "GETFH",
    "LINK",
    "LOCK",
    "LOCKT",
    "LOCKU",
    "LOOKUP",
    "LOOKUPP",
    "NVERIFY",
    "OPEN",
    "OPENATTR",
    "OPEN_CONFIRM",
    "OPEN_DOWNGRADE",
    "PUTFH",
    "PUTPUBFH",
    "PUTROOTFH",
    "READ",
    "READDIR",
    "READLINK",
    "REMOVE",
    "RENAME",
    "RENEW",
    "RESTOREFH",
    "SAVEFH",
    "SECINFO",
    "SETATTR",
    "SETCLIENTID",
    "SETCLIENTID_CONFIRM",
    "VERIFY",
    "WRITE",
    "RELEASE_LOCKOWNER",
    "BACKCHANNEL_CTL",
    "BIND_CONN_TO_SESSION",
    "EXCHANGE_ID",
    "CREATE_SESSION",
    "DESTROY_SESSION",
    "FREE_STATEID",
    "GET_DIR_DELEGATION",
    "GETDEVICEINFO",
    "GETDEVICELIST",
    "LAYOUTCOMMIT",
    "LAYOUTGET",
    "LAYOUTRETURN",
    "SECINFO_NO_NAME",
    "SEQUENCE",
    "SET_SSV",
    "TEST_STATEID",
    "WANT_DELEGATION",
    "DESTROY_CLIENTID",
    "RECLAIM_COMPLETE",
];

/// Returns whether an operation can be repeated without harm, whatever operations follow.
pub(in crate::nfs) fn is_harmless(number: u32) -> bool {
    weight(number) < 4 || matches!(number, LOOKUP | LOOKUPP | ACCESS)
}

/// Returns the weight of an operation: a compound is counted by the first of its heaviest operations.
pub(in crate::nfs) fn weight(number: u32) -> u32 {
    match number {
        SEQUENCE => 1,
        PUTFH | SAVEFH | RESTOREFH | GETFH => 2,
        PUTROOTFH | PUTPUBFH | GETATTR => 3,
        _ => 4,
    }
}
