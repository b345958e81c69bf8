//! The calls that a file server is asked for, and their replies. One vocabulary for what an application asks, what
//! the cache asks below itself, and what a protocol carries out.

/// A file that is open, as the client that opened it numbers it. Numbers are used again after the close.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u32);

/// What may be done with a file that is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Attributes alone; sharing modes don't matter.
    Attributes,
    Read,
    ReadWrite,
    Write,
    Delete,
}

/// What an open does, depending on whether the file is there (MS-SMB2 2.2.13, CreateDisposition).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// It must be there.
    Open,
    /// It must not be there.
    Create,
    /// Made if it is not there.
    OpenIf,
    /// It must be there, and is emptied.
    Overwrite,
    OverwriteIf,
}

/// What a client may keep without asking the server again: an oplock or a lease in SMB's words (MS-SMB2 2.2.13.2.8).
/// Level II is `READ`, exclusive `READ_WRITE`, batch `ALL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Caching {
    /// Data that was read.
    pub read: bool,
    /// Data that was written and has not been sent.
    pub write: bool,
    /// The handle, after the application has closed it.
    pub handle: bool,
}

impl Caching {
    pub const NONE: Self = Self {
        read: false,
        write: false,
        handle: false,
    };
    pub const READ: Self = Self {
        read: true,
        ..Self::NONE
    };
    pub const READ_HANDLE: Self = Self {
        handle: true,
        ..Self::READ
    };
    pub const READ_WRITE: Self = Self {
        write: true,
        ..Self::READ
    };
    pub const ALL: Self = Self {
        read: true,
        write: true,
        handle: true,
    };
}

/// Names a lease; one a file of one client (MS-SMB2 2.2.13.2.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseKey(pub u128);

/// What caching an open asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    Nothing,
    /// An oplock: `READ`, `READ_WRITE` or `ALL`.
    Oplock(Caching),
    /// A lease. Opens under the same key share it.
    Lease(LeaseKey, Caching),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open<'a> {
    /// From the share's root, parts separated by `/`, without a leading one.
    pub path: &'a str,
    pub access: Access,
    /// Depending on whether it is there.
    pub disposition: Disposition,
    /// A directory, not a file.
    pub directory: bool,
    /// Deleted when its last handle is closed.
    pub delete_on_close: bool,
    /// Caching that is asked for.
    pub ask: Ask,
}

/// How durable a write is when it has been answered (RFC 1813, 3.3.7), from the least. What makes an unstable one
/// durable is a `Flush`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Stability {
    /// The server may have it in memory alone.
    #[default]
    Unstable,
    /// The data are on stable storage, and what is needed to read them.
    Data,
    /// So are all attributes.
    File,
}

/// One call. Offsets and lengths are in bytes; paths are as in `Open::path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// Open, and make where the disposition says so.
    Open(Open<'a>),
    Close {
        handle: Handle,
    },
    /// Read `bytes` from `offset`; fewer come at the end of the file, none past it.
    Read {
        handle: Handle,
        offset: u64,
        bytes: u32,
    },
    /// Write, at least as durably as `stability` says.
    Write {
        handle: Handle,
        offset: u64,
        data: &'a [u8],
        stability: Stability,
    },
    /// Make what was written durable: FLUSH, COMMIT, fsync.
    Flush {
        handle: Handle,
    },
    /// Lock a range, failing at once where somebody else has it.
    Lock {
        handle: Handle,
        offset: u64,
        bytes: u64,
    },
    Unlock {
        handle: Handle,
        offset: u64,
        bytes: u64,
    },
    /// Size and attributes of an open file.
    QueryHandle {
        handle: Handle,
    },
    /// Times of an open file. The answer is `Info`, as to `QueryHandle`: what is known of times is not kept.
    QueryTimes {
        handle: Handle,
    },
    /// Set the end of an open file.
    SetEnd {
        handle: Handle,
        bytes: u64,
    },
    /// Set times (and attributes) of an open file.
    SetTimes {
        handle: Handle,
    },
    /// Size and attributes by path.
    QueryPath {
        path: &'a str,
    },
    /// Space on the volume that a directory is on.
    QuerySpace {
        directory: &'a str,
    },
    /// List `directory`, names that match `pattern` (`*` and `?`).
    Find {
        directory: &'a str,
        pattern: &'a str,
    },
    /// Rename a file; the new name must not be there.
    Rename {
        from: &'a str,
        to: &'a str,
    },
    Delete {
        path: &'a str,
    },
    MakeDirectory {
        path: &'a str,
    },
    /// Remove an empty directory.
    RemoveDirectory {
        path: &'a str,
    },
}

/// Size and attributes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Info {
    /// Names the file, whatever its path: the number that the server gave it; 0 where the protocol brings none.
    pub file_id: u64,
    /// Differs whenever the file's data do: a change attribute, or made of its size and the time of the last write. 0
    /// where the protocol brings none.
    pub change: u64,
    pub bytes: u64,
    /// Room that the server keeps for it.
    pub allocated_bytes: u64,
    /// It is a directory.
    pub directory: bool,
    /// It may not be written.
    pub read_only: bool,
}

/// Space on a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceInfo {
    pub total_bytes: u64,
    /// Of it free for us.
    pub free_bytes: u64,
}

/// What a call that succeeded came to. Data of a read is handed over apart.
///
/// That a path is not there is a reply, not a failure, for `Open` with `Disposition::Open` or `Overwrite`, `QueryPath`
/// and `Find`: applications ask to find out. Whether it should have been there is judged above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// To `Open`.
    Opened {
        handle: Handle,
        /// Caching that was granted.
        granted: Caching,
        /// It was made by this open.
        created: bool,
        /// As of the open.
        info: Info,
    },
    /// To a path that is not there.
    NotThere,
    /// To what gives nothing back.
    Done,
    /// To `Read`: so many came.
    Read { bytes: u32 },
    /// To `Write`: so many were taken; fewer than sent is the caller's to judge.
    Written { bytes: u32 },
    /// To `QueryHandle`, `QueryTimes` and `QueryPath`.
    Info(Info),
    /// To `QuerySpace`.
    Space(SpaceInfo),
    /// To `Find`: so many names matched.
    Found { entries: u32 },
}
