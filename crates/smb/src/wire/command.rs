//! The commands of SMB2 (MS-SMB2 2.2.1.2).

use dyno_measure::named_enum;

named_enum! {
    /// Commands that this client sends or receives, by their names in MS-SMB2.
    pub enum Command: u16 {
        Negotiate = 0 "NEGOTIATE"
        SessionSetup = 1 "SESSION_SETUP"
        Logoff = 2 "LOGOFF"
        TreeConnect = 3 "TREE_CONNECT"
        TreeDisconnect = 4 "TREE_DISCONNECT"
        Create = 5 "CREATE"
        Close = 6 "CLOSE"
        Flush = 7 "FLUSH"
        Read = 8 "READ"
        Write = 9 "WRITE"
        Lock = 10 "LOCK"
        Ioctl = 11 "IOCTL"
        QueryDirectory = 14 "QUERY_DIRECTORY"
        QueryInfo = 16 "QUERY_INFO"
        SetInfo = 17 "SET_INFO"
        OplockBreak = 18 "OPLOCK_BREAK"
    }
}

impl Command {
    /// One more than the highest code.
    pub const CODES: usize = 19;
}
