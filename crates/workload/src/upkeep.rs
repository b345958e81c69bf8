//! The actions that make a client's workspace and remove it, whatever stands there before. Not for: which files there are,
//! nor for what workloads do to them.

use crate::{FileAction, Intent, PathId, Presence, Slot};

/// Open a file that must be there or is made, as `intent` says.
pub(crate) fn open(slot: Slot, path: PathId, intent: Intent) -> FileAction {
    FileAction::Open {
        slot,
        path,
        intent,
        directory: false,
        presence: Presence::There,
    }
}

/// Delete a file, if it is there.
pub(crate) fn delete(path: PathId) -> FileAction {
    let presence = Presence::Either;
    FileAction::Delete { path, presence }
}

/// Make a directory, if it is not there.
pub(crate) fn make_directory(path: PathId) -> FileAction {
    let presence = Presence::Either;
    FileAction::MakeDirectory { path, presence }
}

/// Remove files, and then empty directories, as far as they are there.
pub(crate) fn remove(
    files: impl IntoIterator<Item = PathId>,
    directories: impl IntoIterator<Item = PathId>,
) -> Vec<FileAction> {
    let presence = Presence::Either;
    let remove = |path| FileAction::RemoveDirectory { path, presence };
    let deletes = files.into_iter().map(delete);
    deletes.chain(directories.into_iter().map(remove)).collect()
}

/// Write a file from its beginning to its end, with contents of generation 0, by writes of `write_bytes` at most.
pub(crate) fn writes(slot: Slot, bytes: u64, write_bytes: u32) -> impl Iterator<Item = FileAction> {
    let piece_bytes = u64::from(write_bytes);
    (0..bytes.div_ceil(piece_bytes)).map(move |piece| FileAction::Write {
        slot,
        offset: piece * piece_bytes,
        bytes: (bytes - piece * piece_bytes).min(piece_bytes) as u32, // as `write_bytes`, which is one
        generation: 0,
    })
}

/// Make a file of this size, or replace it.
pub(crate) fn make_file(path: PathId, bytes: u64, write_bytes: u32) -> impl Iterator<Item = FileAction> {
    let slot = Slot(0);
    std::iter::once(open(slot, path, Intent::Replace))
        .chain(writes(slot, bytes, write_bytes))
        .chain([FileAction::Close { slot }])
}
