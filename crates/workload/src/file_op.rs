//! File operations of applications in one client's workspace, independent of their execution and of caches.

use crate::ClassId;

/// Number of a path: an index into [`FileCatalogue::paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub u32);

/// An application's own number for an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileOp {
    pub class: ClassId,
    pub action: FileAction,
}

/// Purpose of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Read the attributes of an existing file. Setting attributes needs `Edit`.
    Look,
    /// Read an existing file.
    Read,
    /// Read and write an existing file, and set its attributes.
    Edit,
    /// Create a file that must not exist, and read and write it.
    Make,
    /// Open or create a file, and read and write it.
    MakeOrEdit,
    /// Create or truncate a file, and read and write it.
    Replace,
}

/// Whether a path must exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    There,
    /// The path must not exist. An answer that says so is a success.
    NotThere,
    Either,
}

/// The action. Offsets and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileAction {
    /// Open `path` as the free slot `slot`. If the path is missing, as required, `slot` stays free.
    Open {
        slot: Slot,
        path: PathId,
        intent: Intent,
        directory: bool,
        presence: Presence,
    },
    Close {
        slot: Slot,
    },
    /// Close a file that may already be lost.
    LetGo {
        slot: Slot,
    },
    /// Read. At the end of the file, fewer bytes may be returned.
    Read {
        slot: Slot,
        offset: u64,
        bytes: u32,
    },
    /// Write the content of `generation` (see [`crate::content_of`]).
    Write {
        slot: Slot,
        offset: u64,
        bytes: u32,
        generation: u32,
    },
    /// Read a block that several clients write, and check its version (see [`crate::Versions`]).
    ReadBlock {
        slot: Slot,
        path: PathId,
        offset: u64,
        bytes: u32,
    },
    /// Write the next version of a block that several clients write.
    WriteBlock {
        slot: Slot,
        path: PathId,
        offset: u64,
        bytes: u32,
    },
    /// Read a block that several clients write, after the level. Faults are counted, but are not failures.
    ReadBack {
        slot: Slot,
        path: PathId,
        offset: u64,
        bytes: u32,
    },
    Flush {
        slot: Slot,
    },
    Lock {
        slot: Slot,
        offset: u64,
        bytes: u64,
    },
    /// Lock a range once no other client holds it.
    LockWaiting {
        slot: Slot,
        offset: u64,
        bytes: u64,
    },
    Unlock {
        slot: Slot,
        offset: u64,
        bytes: u64,
    },
    /// Query the size and attributes of an open file.
    QueryFile {
        slot: Slot,
    },
    /// Query the times of an open file.
    QueryTimes {
        slot: Slot,
    },
    /// Set the end of an open file.
    SetEnd {
        slot: Slot,
        bytes: u64,
    },
    /// Set the times of an open file.
    SetTimes {
        slot: Slot,
    },
    /// Query the size and attributes by path.
    QueryPath {
        path: PathId,
        presence: Presence,
    },
    /// Query the space on the volume.
    QuerySpace,
    /// List the names in `directory` that match `pattern`, an index into [`FileCatalogue::patterns`].
    Find {
        directory: PathId,
        pattern: u16,
        presence: Presence,
    },
    Rename {
        from: PathId,
        to: PathId,
    },
    /// Delete a file. With `Presence::Either`, it may be missing.
    Delete {
        path: PathId,
        presence: Presence,
    },
    /// Create a directory. With `Presence::Either`, it may exist.
    MakeDirectory {
        path: PathId,
        presence: Presence,
    },
    /// Remove an empty directory.
    RemoveDirectory {
        path: PathId,
        presence: Presence,
    },
    /// Create or truncate a file, write its whole content at once, and close it.
    WriteFile {
        path: PathId,
        bytes: u32,
        generation: u32,
    },
    /// Open a file, read its whole content at once, and close it.
    ReadFile {
        path: PathId,
        bytes: u32,
    },
}

impl FileAction {
    /// Splits this action into actions on open files, in order. `WriteFile` and `ReadFile` become open, transfer
    /// (omitted if there are no bytes) and close, and use [`Slot`] 0, which must be free. Any other action is returned
    /// unchanged.
    pub fn steps(&self) -> impl Iterator<Item = Self> {
        let slot = Slot(0);
        let open = |path, intent| Self::Open {
            slot,
            path,
            intent,
            directory: false,
            presence: Presence::There,
        };
        let (first, data) = match *self {
            Self::WriteFile {
                path,
                bytes,
                generation,
            } => {
                let data = Self::Write {
                    slot,
                    offset: 0,
                    bytes,
                    generation,
                };
                (open(path, Intent::Replace), (bytes > 0).then_some(data))
            }
            Self::ReadFile { path, bytes } => {
                let data = Self::Read {
                    slot,
                    offset: 0,
                    bytes,
                };
                (open(path, Intent::Read), (bytes > 0).then_some(data))
            }
            _ => return [Some(*self), None, None].into_iter().flatten(),
        };
        [Some(first), data, Some(Self::Close { slot })]
            .into_iter()
            .flatten()
    }
}

/// Names of classes, paths and patterns of a workload on files.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FileCatalogue {
    /// Names of the classes, in the order of their ids: "open", "read" ...
    pub classes: Vec<String>,
    /// Paths below the directory of one client, with `/` between parts. The first is that directory itself, "". Paths
    /// that begin with `../` are in the parent directory of the clients' own directories, and `..` is that directory
    /// itself.
    pub paths: Vec<String>,
    /// Patterns of finds: "*", "*.xyz".
    pub patterns: Vec<String>,
}

/// A workload on files. It has actions before and after the level, which are not measured.
pub trait FileWorkload: crate::Workload<Op = FileOp> {
    fn catalogue(&self) -> &FileCatalogue;

    /// Returns the actions that create the workspace before the level. `found`: whether the marker of an
    /// earlier level exists (its path is `marker`). If so, its files also exist, and only leftovers must be
    /// removed.
    fn preparation(&self, found: bool) -> Vec<FileAction>;

    /// Returns the file that marks a complete workspace. `preparation` creates it last.
    fn marker(&self) -> PathId;

    /// Returns the actions after the level that close and remove everything that the operations so far have
    /// added to the workspace. The last operation that `next` returned has not been performed.
    fn leaving(&self) -> Vec<FileAction>;

    /// Returns the actions that remove the workspace itself, after `leaving`.
    fn removal(&self) -> Vec<FileAction>;

    /// Returns the number of complete passes.
    fn passes(&self) -> u64;

    /// Returns the number of operations in a pass without failures.
    fn pass_operations(&self) -> u64;
}
