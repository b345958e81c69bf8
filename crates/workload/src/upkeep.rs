//! Actions that create and remove a client's workspace, whatever exists there. Each workload determines its
//! files.

use crate::{FileAction, Intent, PathId, Presence, Slot};

pub(crate) fn open(slot: Slot, path: PathId, intent: Intent) -> FileAction {
    FileAction::Open {
        slot,
        path,
        intent,
        directory: false,
        presence: Presence::There,
    }
}

pub(crate) fn delete(path: PathId) -> FileAction {
    let presence = Presence::Either;
    FileAction::Delete { path, presence }
}

pub(crate) fn make_directory(path: PathId) -> FileAction {
    let presence = Presence::Either;
    FileAction::MakeDirectory { path, presence }
}

/// Returns the actions that remove existing files, then existing empty directories.
pub(crate) fn remove(
    files: impl IntoIterator<Item = PathId>,
    directories: impl IntoIterator<Item = PathId>,
) -> Vec<FileAction> {
    let presence = Presence::Either;
    let remove = |path| FileAction::RemoveDirectory { path, presence };
    let deletes = files.into_iter().map(delete);
    deletes.chain(directories.into_iter().map(remove)).collect()
}

/// Returns the writes that fill a file with content of generation 0, at most `write_bytes` each.
pub(crate) fn writes(slot: Slot, bytes: u64, write_bytes: u32) -> impl Iterator<Item = FileAction> {
    let piece_bytes = u64::from(write_bytes);
    (0..bytes.div_ceil(piece_bytes)).map(move |piece| FileAction::Write {
        slot,
        offset: piece * piece_bytes,
        bytes: (bytes - piece * piece_bytes).min(piece_bytes) as u32, // At most `write_bytes`.
        generation: 0,
    })
}

/// Returns the actions that create or replace a file of this size.
pub(crate) fn make_file(path: PathId, bytes: u64, write_bytes: u32) -> impl Iterator<Item = FileAction> {
    let slot = Slot(0);
    std::iter::once(open(slot, path, Intent::Replace))
        .chain(writes(slot, bytes, write_bytes))
        .chain([FileAction::Close { slot }])
}
