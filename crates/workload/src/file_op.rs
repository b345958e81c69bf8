//! Operations on the files of one client's workspace, as its applications ask for them. Not for: how they are carried
//! out, nor what a cache makes of them.

use crate::ClassId;

/// Index into [`FileCatalogue::paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(pub u32);

/// An application's own number for a file that it has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u16);

/// One operation on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileOp {
    /// The class that it is counted under.
    pub class: ClassId,
    /// What is asked for.
    pub action: FileAction,
}

/// What an application opens a file for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Look at its attributes; it must be there. Setting them takes `Edit`.
    Look,
    /// Read; it must be there.
    Read,
    /// Read and write, and set attributes; it must be there.
    Edit,
    /// Read and write; it is made and must not have been there.
    Make,
    /// Read and write; it is made where it is not there.
    MakeOrEdit,
    /// Read and write; it is made, or emptied where it is there.
    Replace,
}

/// Whether a path must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    There,
    /// It must not; the answer that says so is a success.
    NotThere,
    Either,
}

/// What is asked for. Offsets and lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileAction {
    /// Open `path` under the number `slot`, which is free. Where it is right that the path is not there, `slot` stays
    /// free.
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
    /// Close what may have been lost already.
    LetGo {
        slot: Slot,
    },
    /// Read; at the end of the file fewer bytes come, which is right.
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
    /// Read a block that several clients write, and hold it against the rules (see [`crate::Versions`]).
    ReadBlock {
        slot: Slot,
        path: PathId,
        offset: u64,
        bytes: u32,
    },
    /// Write the next version of such a block.
    WriteBlock {
        slot: Slot,
        path: PathId,
        offset: u64,
        bytes: u32,
    },
    /// Read such a block after the mix: what is wrong with it is counted, and no failure.
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
    /// Lock a range as soon as nobody else has it.
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
    /// Ask for size and attributes of an open file.
    QueryFile {
        slot: Slot,
    },
    /// Ask for the times of an open file.
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
    /// Ask for size and attributes by path.
    QueryPath {
        path: PathId,
        presence: Presence,
    },
    /// Ask for the space on the volume.
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
    /// Delete. With `Presence::Either` it may be gone.
    Delete {
        path: PathId,
        presence: Presence,
    },
    /// Make a directory. With `Presence::Either` it may be there.
    MakeDirectory {
        path: PathId,
        presence: Presence,
    },
    /// Remove an empty directory.
    RemoveDirectory {
        path: PathId,
        presence: Presence,
    },
    /// Make a file or empty it, write all of it at once, and close it.
    WriteFile {
        path: PathId,
        bytes: u32,
        generation: u32,
    },
    /// Open a file, read it at once, and close it.
    ReadFile {
        path: PathId,
        bytes: u32,
    },
}

impl FileAction {
    /// What it takes, in order, in actions on open files: itself, except of a file as a whole. That takes [`Slot`] 0,
    /// which is free, and nothing between open and close where there are no bytes.
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

/// The names that a workload on files uses.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FileCatalogue {
    /// Names of the classes, in the order of their ids: "open", "read" ...
    pub classes: Vec<String>,
    /// Paths below the directory of one client, parts separated by `/`; the first is that directory itself, "". What
    /// begins with `../` is in the directory that the clients' own directories are in, and `..` is that directory itself.
    pub paths: Vec<String>,
    /// Patterns of finds: "*", "*.xyz".
    pub patterns: Vec<String>,
}

/// A workload on files: it has something to do before and after the mix, which is not measured.
pub trait FileWorkload: crate::Workload<Op = FileOp> {
    fn catalogue(&self) -> &FileCatalogue;

    /// What brings the workspace about, to be done before the mix. `found`: the marker of an earlier mix is there (its
    /// path is `marker`), so that the files are and only what an earlier mix may have left must be removed.
    fn preparation(&self, found: bool) -> Vec<FileAction>;

    /// The file whose presence says that the workspace is whole; made last by `preparation`.
    fn marker(&self) -> PathId;

    /// What closes and removes everything that the operations so far have left beside the workspace, after the mix. The
    /// operation that was given last is not carried out.
    fn leaving(&self) -> Vec<FileAction>;

    /// What removes the workspace itself, after `leaving`.
    fn removal(&self) -> Vec<FileAction>;

    /// Whole passes that have been completed.
    fn passes(&self) -> u64;

    /// The operations of an undisturbed pass.
    fn pass_operations(&self) -> u64;
}
