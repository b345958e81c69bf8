//! The calls of a file server and their replies, as used by applications, the cache and the protocols.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    Attributes,
    Read,
    ReadWrite,
    Write,
    Delete,
}

/// What an open does depending on whether the file exists (MS-SMB2 2.2.13, CreateDisposition).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    Open,
    /// Fails if the file exists.
    Create,
    /// Creates the file if it does not exist.
    OpenIf,
    /// Truncates the file; fails if it does not exist.
    Overwrite,
    OverwriteIf,
}

/// What a client may cache: an oplock or lease in SMB (MS-SMB2 2.2.13.2.8). Level II is `READ`, exclusive
/// `READ_WRITE`, batch `ALL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Caching {
    pub read: bool,
    /// Whether unsent writes may be cached.
    pub write: bool,
    /// Whether the handle may be kept after the application's close.
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

/// Key of a lease. There is one per file and client (MS-SMB2 2.2.13.2.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseKey(pub u128);

/// Caching that an open requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    Nothing,
    /// An oplock: `READ`, `READ_WRITE` or `ALL`.
    Oplock(Caching),
    /// A lease. Opens with the same key share it.
    Lease(LeaseKey, Caching),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open<'a> {
    pub path: &'a str,
    pub access: Access,
    /// What the open does depending on whether the file exists.
    pub disposition: Disposition,
    /// Whether the object to open is a directory.
    pub directory: bool,
    /// Whether the file is deleted on its last close.
    pub delete_on_close: bool,
    pub ask: Ask,
}

/// Minimum durability of an answered write, in ascending order (RFC 1813, 3.3.7). `Flush` makes unstable writes
/// durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Stability {
    /// The data may be only in the server's memory.
    #[default]
    Unstable,
    /// The data and the metadata needed to read it are on stable storage.
    Data,
    /// Data and all attributes are on stable storage.
    File,
}

/// One call. Offsets and lengths are in bytes; paths are as in `Open::path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call<'a> {
    /// Opens a file; creates it if the disposition says so.
    Open(Open<'a>),
    Close {
        handle: Handle,
    },
    Read {
        handle: Handle,
        offset: u64,
        bytes: u32,
    },
    /// Writes data. `stability`: the minimum durability.
    Write {
        handle: Handle,
        offset: u64,
        data: &'a [u8],
        stability: Stability,
    },
    Flush {
        handle: Handle,
    },
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
    /// Queries size and attributes of an open file.
    QueryHandle {
        handle: Handle,
    },
    /// Queries the times of an open file. The reply is `Info`, as for `QueryHandle`, and does not contain the times.
    QueryTimes {
        handle: Handle,
    },
    SetEnd {
        handle: Handle,
        bytes: u64,
    },
    SetTimes {
        handle: Handle,
    },
    QueryPath {
        path: &'a str,
    },
    QuerySpace {
        directory: &'a str,
    },
    /// Lists the names in `directory` that match `pattern` (`*` and `?`).
    Find {
        directory: &'a str,
        pattern: &'a str,
    },
    /// Renames a file. Fails if the new name exists.
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
    RemoveDirectory {
        path: &'a str,
    },
}

/// Size and attributes of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Info {
    /// The server's file number, independent of the path; 0 if the protocol has none.
    pub file_id: u64,
    /// Version of the file's data: a change attribute, or a value derived from size and modification time; 0 if the
    /// protocol has none.
    pub change: u64,
    pub bytes: u64,
    pub allocated_bytes: u64,
    pub directory: bool,
    pub read_only: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceInfo {
    pub total_bytes: u64,
    /// Free space available to this client.
    pub free_bytes: u64,
}

/// Result of a successful call. Data read is passed separately.
///
/// For `Open` with `Disposition::Open` or `Overwrite`, `QueryPath` and `Find`, a missing path is a reply, not a
/// failure. Applications use these calls to find out whether a path exists. The caller decides whether the path should
/// exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// Reply to `Open`.
    Opened {
        handle: Handle,
        granted: Caching,
        /// Whether this open created the file.
        created: bool,
        info: Info,
    },
    /// The path does not exist.
    NotThere,
    /// Reply without a result.
    Done,
    /// Reply to `Read`: bytes read.
    Read { bytes: u32 },
    /// Reply to `Write`: bytes written. The caller decides what a short write means.
    Written { bytes: u32 },
    /// Reply to `QueryHandle`, `QueryTimes` and `QueryPath`.
    Info(Info),
    /// Reply to `QuerySpace`.
    Space(SpaceInfo),
    /// Reply to `Find`: number of matching names.
    Found { entries: u32 },
}
