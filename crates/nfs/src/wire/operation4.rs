//! Operations of a compound by number and name (RFC 8881, 16.2).

/// Highest number of an operation, plus one.
pub const OPERATIONS: usize = 59;

/// Declares a constant for each operation, and the names of all by number.
macro_rules! operations {
    ($($name:ident = $number:literal)*) => {
        $(pub const $name: u32 = $number;)*

        pub const NAMES: [&str; OPERATIONS] = {
            let mut names = [""; OPERATIONS];
            $(names[$number] = stringify!($name);)*
            names
        };
    };
}

operations! {
    ACCESS = 3
    CLOSE = 4
    COMMIT = 5
    CREATE = 6
    DELEGPURGE = 7
    DELEGRETURN = 8
    GETATTR = 9
    GETFH = 10
    LINK = 11
    LOCK = 12
    LOCKT = 13
    LOCKU = 14
    LOOKUP = 15
    LOOKUPP = 16
    NVERIFY = 17
    OPEN = 18
    OPENATTR = 19
    OPEN_CONFIRM = 20
    OPEN_DOWNGRADE = 21
    PUTFH = 22
    PUTPUBFH = 23
    PUTROOTFH = 24
    READ = 25
    READDIR = 26
    READLINK = 27
    REMOVE = 28
    RENAME = 29
    RENEW = 30
    RESTOREFH = 31
    SAVEFH = 32
    SECINFO = 33
    SETATTR = 34
    SETCLIENTID = 35
    SETCLIENTID_CONFIRM = 36
    VERIFY = 37
    WRITE = 38
    RELEASE_LOCKOWNER = 39
    BACKCHANNEL_CTL = 40
    BIND_CONN_TO_SESSION = 41
    EXCHANGE_ID = 42
    CREATE_SESSION = 43
    DESTROY_SESSION = 44
    FREE_STATEID = 45
    GET_DIR_DELEGATION = 46
    GETDEVICEINFO = 47
    GETDEVICELIST = 48
    LAYOUTCOMMIT = 49
    LAYOUTGET = 50
    LAYOUTRETURN = 51
    SECINFO_NO_NAME = 52
    SEQUENCE = 53
    SET_SSV = 54
    TEST_STATEID = 55
    WANT_DELEGATION = 56
    DESTROY_CLIENTID = 57
    RECLAIM_COMPLETE = 58
}
