//! System calls, as they are counted.

use dyno_measure::named_enum;

/// Numbers of system calls, by their kinds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts(pub [u64; Kind::ALL.len()]);

named_enum! {
    /// A system call, as it is counted.
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
