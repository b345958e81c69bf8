//! What an NFS status (RFC 1813, 2.6), a refusal of MOUNT, or one of RPC means to the client of a file server.

use dyno_measure::{named_enum, Detail, Failure, Fault, ProtocolStatus, StatusTable};

named_enum! {
    /// `nfsstat3`.
    pub enum Status: u32 {
        Ok = 0 "NFS3_OK"
        Perm = 1 "NFS3ERR_PERM"
        NoEnt = 2 "NFS3ERR_NOENT"
        Io = 5 "NFS3ERR_IO"
        NxIo = 6 "NFS3ERR_NXIO"
        Access = 13 "NFS3ERR_ACCES"
        Exist = 17 "NFS3ERR_EXIST"
        XDev = 18 "NFS3ERR_XDEV"
        NoDev = 19 "NFS3ERR_NODEV"
        NotDir = 20 "NFS3ERR_NOTDIR"
        IsDir = 21 "NFS3ERR_ISDIR"
        Inval = 22 "NFS3ERR_INVAL"
        FBig = 27 "NFS3ERR_FBIG"
        NoSpc = 28 "NFS3ERR_NOSPC"
        RoFs = 30 "NFS3ERR_ROFS"
        MLink = 31 "NFS3ERR_MLINK"
        NameTooLong = 63 "NFS3ERR_NAMETOOLONG"
        NotEmpty = 66 "NFS3ERR_NOTEMPTY"
        DQuot = 69 "NFS3ERR_DQUOT"
        Stale = 70 "NFS3ERR_STALE"
        Remote = 71 "NFS3ERR_REMOTE"
        BadHandle = 10001 "NFS3ERR_BADHANDLE"
        NotSync = 10002 "NFS3ERR_NOT_SYNC"
        BadCookie = 10003 "NFS3ERR_BAD_COOKIE"
        NotSupp = 10004 "NFS3ERR_NOTSUPP"
        TooSmall = 10005 "NFS3ERR_TOOSMALL"
        ServerFault = 10006 "NFS3ERR_SERVERFAULT"
        BadType = 10007 "NFS3ERR_BADTYPE"
        JukeBox = 10008 "NFS3ERR_JUKEBOX"
    }
}

static NFS_STATUSES: StatusTable = StatusTable {
    name: "nfsstat3",
    write: |code, formatter| match Status::of_code(code) {
        Some(status) => write!(formatter, "{} ({code})", status.name()),
        None => write!(formatter, "NFS status {code}"),
    },
};

/// Statuses of MOUNT are those of NFS by number, under names of their own (RFC 1813, Appendix I).
static MOUNT_STATUSES: StatusTable = StatusTable {
    name: "mountstat3",
    write: |code, formatter| match Status::of_code(code) {
        Some(status) => write!(
            formatter,
            "{} ({code})",
            status.name().replace("NFS3ERR", "MNT3ERR")
        ),
        None => write!(formatter, "MOUNT status {code}"),
    },
};

named_enum! {
    /// Why RPC did not carry a call out (RFC 5531, `accept_stat`).
    pub enum Unaccepted: u32 {
        ProgUnavail = 1 "PROG_UNAVAIL"
        ProgMismatch = 2 "PROG_MISMATCH"
        ProcUnavail = 3 "PROC_UNAVAIL"
        GarbageArgs = 4 "GARBAGE_ARGS"
        SystemErr = 5 "SYSTEM_ERR"
    }
}

named_enum! {
    /// Why RPC did not believe who asked (RFC 5531, `auth_stat`).
    pub enum Denied: u32 {
        BadCred = 1 "AUTH_BADCRED"
        RejectedCred = 2 "AUTH_REJECTEDCRED"
        BadVerf = 3 "AUTH_BADVERF"
        RejectedVerf = 4 "AUTH_REJECTEDVERF"
        TooWeak = 5 "AUTH_TOOWEAK"
    }
}

static RPC_STATUSES: StatusTable = StatusTable {
    name: "accept_stat",
    write: |code, formatter| match Unaccepted::of_code(code) {
        Some(status) => write!(formatter, "RPC {} ({code})", status.name()),
        None => write!(formatter, "RPC accept_stat {code}"),
    },
};

static AUTH_STATUSES: StatusTable = StatusTable {
    name: "auth_stat",
    write: |code, formatter| match Denied::of_code(code) {
        Some(status) => write!(formatter, "RPC {} ({code})", status.name()),
        None => write!(formatter, "RPC auth_stat {code}"),
    },
};

/// `accept_stat` of a procedure that the server does not have.
pub const PROCEDURE_UNAVAILABLE: u32 = Unaccepted::ProcUnavail as u32;

/// Returns the failure that an NFS status is to a call. The number goes along.
#[must_use]
pub fn failure(status: u32) -> Failure {
    let fault = match Status::of_code(status) {
        Some(Status::NoEnt | Status::NotDir) => Fault::NotFound,
        Some(Status::Exist) => Fault::AlreadyThere,
        Some(Status::Perm | Status::Access | Status::RoFs) => Fault::AccessDenied,
        Some(Status::NoSpc | Status::DQuot) => Fault::NoSpace,
        Some(Status::Stale | Status::BadHandle) => Fault::SessionLost,
        _ => Fault::ErrorStatus,
    };
    with(fault, status)
}

/// Returns `fault`, because of an NFS status.
#[must_use]
pub fn with(fault: Fault, status: u32) -> Failure {
    Failure {
        fault,
        detail: Detail::Status(of(status)),
    }
}

/// Returns an NFS status as failures carry it.
#[must_use]
pub fn of(status: u32) -> ProtocolStatus {
    ProtocolStatus {
        code: status,
        table: &NFS_STATUSES,
    }
}

/// Returns a status of MOUNT.
#[must_use]
pub fn of_mount(status: u32) -> ProtocolStatus {
    ProtocolStatus {
        code: status,
        table: &MOUNT_STATUSES,
    }
}

/// Returns `accept_stat`.
#[must_use]
pub fn of_rpc(status: u32) -> ProtocolStatus {
    ProtocolStatus {
        code: status,
        table: &RPC_STATUSES,
    }
}

/// Returns `auth_stat`.
#[must_use]
pub fn of_authentication(status: u32) -> ProtocolStatus {
    ProtocolStatus {
        code: status,
        table: &AUTH_STATUSES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_a_failure_of_its_kind_and_keeps_its_number() {
        for (status, fault) in [
            (2, Fault::NotFound),
            (13, Fault::AccessDenied),
            (17, Fault::AlreadyThere),
            (28, Fault::NoSpace),
            (70, Fault::SessionLost),
            (10_006, Fault::ErrorStatus),
            (77_777, Fault::ErrorStatus),
        ] {
            assert_eq!(failure(status), with(fault, status));
        }
        assert_eq!(of(70).to_string(), "NFS3ERR_STALE (70)");
        assert_eq!(of_mount(13).to_string(), "MNT3ERR_ACCES (13)");
        assert_eq!(of_rpc(3).to_string(), "RPC PROC_UNAVAIL (3)");
    }
}
