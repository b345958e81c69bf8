//! A call without its end: what it has to do, which answer it waits for, and what has come of it so far. Data alone.

use crate::v4::{Closing, Stateid};
use crate::wire::{FileHandle, SetAttributes};
use dyno_files::{Access, CallId, Disposition, LeaseKey, PageRun, Piggyback, Stability, Stored};
use std::rc::Rc;

/// What an open is for.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    pub path: Rc<str>,
    pub access: Access,
    pub disposition: Disposition,
    pub directory: bool,
    pub delete_on_close: bool,
    /// The lease that is wanted.
    pub lease: Option<LeaseKey>,
}

/// What is known of the new name of a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewName {
    Unknown,
    Free,
    /// It is there: whether the old one is, too, decides what the rename is refused with.
    Taken,
}

/// What a call has to do.
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
    /// Of NFSv4.1, as the next.
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
        /// It is given back.
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

/// Which answer a call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// To the LOOKUP of this directory on the way.
    Walk(Rc<str>),
    /// To the LOOKUP of the name itself.
    Look,
    /// To CREATE, or the MKDIR of an open; whether it was exclusive.
    Create { exclusive: bool },
    /// To OPEN of NFSv4.1; whether it was an exclusive creation.
    Open { exclusive: bool },
    /// To SETATTR of what was made or is emptied.
    Furnish,
    /// To GETATTR, of what came without attributes.
    Ask,
    /// To the request that the call is for.
    Main,
}

/// A call without its end.
#[derive(Debug)]
pub(super) struct Running {
    pub id: CallId,
    pub work: Work,
    pub stage: Stage,
    pub piggyback: Piggyback,
    /// What an open has found or made.
    pub file: Option<FileHandle>,
    pub created: bool,
    /// The server keeps a state for it.
    pub has_state: bool,
    /// The lease that was wanted is granted.
    pub is_held: bool,
    /// Of a read or write that takes several requests: what was read, or how much was written, and how durably.
    pub joined: Vec<u8>,
    pub written: u32,
    /// What is to be written by further requests.
    pub later: Option<PageRun>,
    pub stored: Option<Stored>,
    pub cookie: u64,
    pub verifier: u64,
    pub entries: u32,
    pub plus: bool,
    /// How often it has begun anew: a directory on the way had gone, or somebody else was quicker.
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

/// A file that is open.
#[derive(Debug, Clone)]
pub(super) struct OpenFile {
    pub file: FileHandle,
    /// To be removed when it is closed.
    pub remove: Option<Rc<str>>,
    /// The server keeps a state for it, which NFSv3 has none of.
    pub has_state: bool,
}
