//! What makes a client's workspace, and what removes it.
//!
//! Not for: which files there are (`workspace.rs`).

use super::facts::{APPS, BUILD_BYTES, MARKER_BYTES};
use super::Script;
use crate::upkeep::{self, delete, make_directory, make_file};
use crate::{FileAction, PathId};

impl Script {
    /// What makes the workspace, whatever stands there before; the marker last.
    pub(super) fn build(&self) -> Vec<FileAction> {
        let directories = std::iter::once(PathId(0)).chain(self.directories.iter().copied());
        let files = self.files().chain([(self.marker, u64::from(MARKER_BYTES))]);
        directories
            .map(make_directory)
            .chain([delete(self.marker)])
            .chain(self.delete_all_made())
            .chain(files.flat_map(|(path, bytes)| make_file(path, bytes, BUILD_BYTES)))
            .collect()
    }

    /// What deletes every file that a pass may have left.
    pub(super) fn delete_all_made(&self) -> Vec<FileAction> {
        let deletes = self.pieces[..APPS.len()].iter().flat_map(|piece| &piece.recovery);
        deletes.map(|op| op.action).collect()
    }

    /// What removes the workspace, the marker first: half a workspace is none.
    pub(super) fn remove(&self) -> Vec<FileAction> {
        let files = std::iter::once(self.marker).chain(self.files().map(|(path, _)| path));
        let directories = self.directories.iter().copied().chain([PathId(0)]);
        upkeep::remove(files, directories)
    }
}
