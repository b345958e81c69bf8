//! Counts of system calls.

use dyno_measure::named_enum;

/// Counts by kind of system call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts(pub [u64; Kind::ALL.len()]);

named_enum! {
    /// Kind of system call.
    pub(crate) enum Kind {
        Open "open"
        Close "close"
        Read "read"
        Write "write"
        Sync "fsync"
        Lock "lock"
        Stat "stat"
        StatFs "statfs"
        List "getdents"
        Rename "rename"
        Unlink "unlink"
        MakeDirectory "mkdir"
        Set "set"
    }
}
