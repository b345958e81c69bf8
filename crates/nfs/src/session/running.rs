//! State of a running call: its work, the answer it waits for, and its results so far.

use crate::v4::Closing;
use crate::wire::{FileHandle, SetAttributes, Stateid};
use dyno_files::{Access, CallId, Disposition, LeaseKey, PageRun, Piggyback, Stability, Stored};
use std::rc::Rc;

/// Properties of an open.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    pub path: Rc<str>,
    pub access: Access,
    pub disposition: Disposition,
    pub directory: bool,
    pub delete_on_close: bool,
    pub lease: Option<LeaseKey>,
}

/// What is known about the new name of a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewName {
    Unknown,
    Free,
    /// The new name exists. The status of the refusal depends on whether the old name also exists.
    Taken,
}

#[derive(Debug, Clone)]
pub(super) enum Work {
    Open(Opening),
    Read {
        file: FileHandle,
        offset: u64,
        bytes: u32,
    },
    Write {
        file: FileHandle,
        offset: u64,
        bytes: u32,
        stability: Stability,
    },
    Flush {
        file: FileHandle,
    },
    /// CLOSE; only in NFSv4.1, like `GiveBack`.
    Close {
        file: FileHandle,
        closing: Closing,
        remove: Option<Rc<str>>,
    },
    GiveBack {
        file: FileHandle,
        stateid: Stateid,
        remove: Option<Rc<str>>,
    },
    Lock {
        file: FileHandle,
        offset: u64,
        bytes: u64,
        /// Whether the call unlocks the range.
        ends: bool,
    },
    Query {
        file: FileHandle,
    },
    Set {
        file: FileHandle,
        set: SetAttributes,
    },
    QueryPath {
        path: Rc<str>,
    },
    Space {
        directory: Rc<str>,
    },
    Find {
        directory: Rc<str>,
        pattern: Rc<str>,
    },
    Rename {
        from: Rc<str>,
        to: Rc<str>,
        new_name: NewName,
    },
    Remove {
        path: Rc<str>,
        directory: bool,
    },
    MakeDirectory {
        path: Rc<str>,
    },
}

/// The request whose answer a call awaits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// LOOKUP of this directory on the path.
    Walk(Rc<str>),
    /// LOOKUP of the last name.
    Look,
    /// CREATE or MKDIR for an open; whether the creation is exclusive.
    Create { exclusive: bool },
    /// OPEN in NFSv4.1; whether it is an exclusive creation.
    Open { exclusive: bool },
    /// SETATTR of a new or truncated file.
    Furnish,
    /// GETATTR of a file whose attributes are not known yet.
    Ask,
    /// The main request of the call.
    Main,
}

#[derive(Debug)]
pub(super) struct Running {
    pub id: CallId,
    pub work: Work,
    pub stage: Stage,
    pub piggyback: Piggyback,
    /// The file that an open has found or created.
    pub file: Option<FileHandle>,
    pub created: bool,
    /// Whether the server keeps open state for the file.
    pub has_state: bool,
    /// Whether the requested lease was granted.
    pub is_held: bool,
    /// For a read or write in several requests: the data read so far, or the number of bytes written so far.
    pub joined: Vec<u8>,
    pub written: u32,
    /// Data for further write requests.
    pub later: Option<PageRun>,
    pub stored: Option<Stored>,
    pub cookie: u64,
    pub verifier: u64,
    pub entries: u32,
    pub plus: bool,
    /// Number of restarts, because a directory on the path was gone or another client was faster.
    pub restarts: u32,
}

impl Running {
    pub(super) fn new(id: CallId, work: Work) -> Self {
        Self {
            id,
            work,
            stage: Stage::Main,
            piggyback: Piggyback::default(),
            file: None,
            created: false,
            has_state: false,
            is_held: false,
            joined: Vec::new(),
            written: 0,
            later: None,
            stored: None,
            cookie: 0,
            verifier: 0,
            entries: 0,
            plus: false,
            restarts: 0,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct OpenFile {
    pub file: FileHandle,
    /// Path to remove when the file is closed.
    pub remove: Option<Rc<str>>,
    /// Whether the server keeps open state for the file; false for NFSv3.
    pub has_state: bool,
}
