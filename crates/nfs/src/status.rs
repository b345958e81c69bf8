//! Interpretation of NFS statuses (RFC 1813, 2.6) and of refusals by MOUNT or RPC, for a client of a file
//! server.

use dyno_measure::{named_enum, Detail, Failure, Fault, ProtocolStatus, StatusTable};

named_enum! {
    /// `nfsstat3` (RFC 1813, section 2.6).
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

named_enum! {
    /// Statuses of `nfsstat4` whose numbers are not in `nfsstat3` (RFC 8881, 15.1).
    pub enum Status4: u32 {
        Denied = 10010 "NFS4ERR_DENIED"
        Expired = 10011 "NFS4ERR_EXPIRED"
        Locked = 10012 "NFS4ERR_LOCKED"
        Grace = 10013 "NFS4ERR_GRACE"
        ShareDenied = 10015 "NFS4ERR_SHARE_DENIED"
        WrongSecurity = 10016 "NFS4ERR_WRONGSEC"
        ClientIdInUse = 10017 "NFS4ERR_CLID_INUSE"
        Resource = 10018 "NFS4ERR_RESOURCE"
        NoFileHandle = 10020 "NFS4ERR_NOFILEHANDLE"
        MinorVersionMismatch = 10021 "NFS4ERR_MINOR_VERS_MISMATCH"
        StaleClientId = 10022 "NFS4ERR_STALE_CLIENTID"
        StaleStateid = 10023 "NFS4ERR_STALE_STATEID"
        OldStateid = 10024 "NFS4ERR_OLD_STATEID"
        BadStateid = 10025 "NFS4ERR_BAD_STATEID"
        AttributesNotSupported = 10032 "NFS4ERR_ATTRNOTSUPP"
        NoGrace = 10033 "NFS4ERR_NO_GRACE"
        ReclaimBad = 10034 "NFS4ERR_RECLAIM_BAD"
        ReclaimConflict = 10035 "NFS4ERR_RECLAIM_CONFLICT"
        BadXdr = 10036 "NFS4ERR_BADXDR"
        LocksHeld = 10037 "NFS4ERR_LOCKS_HELD"
        OpenMode = 10038 "NFS4ERR_OPENMODE"
        BadOwner = 10039 "NFS4ERR_BADOWNER"
        BadName = 10041 "NFS4ERR_BADNAME"
        BadRange = 10042 "NFS4ERR_BAD_RANGE"
        LockNotSupported = 10043 "NFS4ERR_LOCK_NOTSUPP"
        OperationIllegal = 10044 "NFS4ERR_OP_ILLEGAL"
        Deadlock = 10045 "NFS4ERR_DEADLOCK"
        FileOpen = 10046 "NFS4ERR_FILE_OPEN"
        AdminRevoked = 10047 "NFS4ERR_ADMIN_REVOKED"
        BadSession = 10052 "NFS4ERR_BADSESSION"
        BadSlot = 10053 "NFS4ERR_BADSLOT"
        ConnectionNotBound = 10055 "NFS4ERR_CONN_NOT_BOUND_TO_SESSION"
        SequenceMisordered = 10063 "NFS4ERR_SEQ_MISORDERED"
        RequestTooBig = 10065 "NFS4ERR_REQ_TOO_BIG"
        ReplyTooBig = 10066 "NFS4ERR_REP_TOO_BIG"
        ReplyTooBigToCache = 10067 "NFS4ERR_REP_TOO_BIG_TO_CACHE"
        TooManyOperations = 10070 "NFS4ERR_TOO_MANY_OPS"
        OperationNotInSession = 10071 "NFS4ERR_OP_NOT_IN_SESSION"
        DeadSession = 10078 "NFS4ERR_DEADSESSION"
        WrongType = 10083 "NFS4ERR_WRONG_TYPE"
        DelegationRevoked = 10087 "NFS4ERR_DELEG_REVOKED"
    }
}

static NFS4_STATUSES: StatusTable = StatusTable {
    name: "nfsstat4",
    write: |code, formatter| match (Status4::of_code(code), Status::of_code(code)) {
        (Some(status), _) => write!(formatter, "{} ({code})", status.name()),
        (_, Some(Status::JukeBox)) => write!(formatter, "NFS4ERR_DELAY ({code})"),
        (_, Some(status)) => {
            let name = status.name().replace("NFS3", "NFS4");
            write!(formatter, "{name} ({code})")
        }
        _ => write!(formatter, "NFSv4 status {code}"),
    },
};

/// MOUNT statuses have the numbers of NFS statuses, but their own names (RFC 1813, Appendix I).
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
    /// Why RPC did not execute a call (RFC 5531, `accept_stat`).
    pub enum Unaccepted: u32 {
        ProgUnavail = 1 "PROG_UNAVAIL"
        ProgMismatch = 2 "PROG_MISMATCH"
        ProcUnavail = 3 "PROC_UNAVAIL"
        GarbageArgs = 4 "GARBAGE_ARGS"
        SystemErr = 5 "SYSTEM_ERR"
    }
}

named_enum! {
    /// Why RPC rejected the credentials (RFC 5531, `auth_stat`).
    pub enum Denied: u32 {
        BadCred = 1 "AUTH_BADCRED"
        RejectedCred = 2 "AUTH_REJECTEDCRED"
        BadVerf = 3 "AUTH_BADVERF"
        RejectedVerf = 4 "AUTH_REJECTEDVERF"
        TooWeak = 5 "AUTH_TOOWEAK"
        // Ganesha: the export does not allow this version or transport.
        Failed = 7 "AUTH_FAILED"
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

/// `accept_stat` for a procedure that the server does not have.
pub const PROCEDURE_UNAVAILABLE: u32 = Unaccepted::ProcUnavail as u32;

/// Returns the failure of a call that ended with this NFSv3 status, which becomes the detail of the failure.
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

/// Returns the failure of a call that ended with this NFSv4 status.
pub fn failure4(status: u32) -> Failure {
    let fault = match Status4::of_code(status) {
        Some(Status4::Denied | Status4::Locked) => Fault::LockConflict,
        Some(Status4::ShareDenied | Status4::FileOpen) => Fault::SharingViolation,
        Some(
            Status4::Expired
            | Status4::StaleStateid
            | Status4::OldStateid
            | Status4::BadStateid
            | Status4::AdminRevoked
            | Status4::DelegationRevoked,
        ) => Fault::SessionLost,
        _ => failure(status).fault,
    };
    Failure {
        fault,
        detail: Detail::Status(of4(status)),
    }
}

/// Returns an NFSv4 status in the form that failures carry.
pub fn of4(status: u32) -> ProtocolStatus {
    NFS4_STATUSES.status(status)
}

/// Returns `fault` with an NFS status as its detail.
pub fn with(fault: Fault, status: u32) -> Failure {
    NFS_STATUSES.failure(fault, status)
}

/// Returns an NFS status in the form that failures carry.
pub fn of(status: u32) -> ProtocolStatus {
    NFS_STATUSES.status(status)
}

/// Returns a MOUNT status in the form that failures carry.
pub fn of_mount(status: u32) -> ProtocolStatus {
    MOUNT_STATUSES.status(status)
}

/// Returns an `accept_stat` in the form that failures carry.
pub fn of_rpc(status: u32) -> ProtocolStatus {
    RPC_STATUSES.status(status)
}

/// Returns an `auth_stat` in the form that failures carry.
pub fn of_authentication(status: u32) -> ProtocolStatus {
    AUTH_STATUSES.status(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_maps_to_its_fault_and_keeps_its_number() {
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
        for (status, fault) in [
            (2, Fault::NotFound),
            (10_010, Fault::LockConflict),
            (10_015, Fault::SharingViolation),
            (10_025, Fault::SessionLost),
            (10_044, Fault::ErrorStatus),
            (77_777, Fault::ErrorStatus),
        ] {
            assert_eq!(failure4(status).fault, fault, "{status}");
        }
        assert_eq!(of4(10_025).to_string(), "NFS4ERR_BAD_STATEID (10025)");
        assert_eq!(of4(10_008).to_string(), "NFS4ERR_DELAY (10008)");
        assert_eq!(of4(2).to_string(), "NFS4ERR_NOENT (2)");
        assert_eq!(of(70).to_string(), "NFS3ERR_STALE (70)");
        assert_eq!(of_mount(13).to_string(), "MNT3ERR_ACCES (13)");
        assert_eq!(of_rpc(3).to_string(), "RPC PROC_UNAVAIL (3)");
    }
}
