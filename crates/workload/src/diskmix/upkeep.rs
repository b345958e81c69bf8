//! Actions that create and remove a client's workspace.
//!
//! `workspace.rs` lists its files.

use super::facts::{APPS, BUILD_BYTES, MARKER_BYTES};
use super::Script;
use crate::upkeep::{self, delete, make_directory, make_file};
use crate::{FileAction, PathId};

impl Script {
    /// Returns the actions that create the workspace, whatever exists there. The marker is created last.
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

    /// Returns the actions that delete every file that a pass may have left.
    pub(super) fn delete_all_made(&self) -> Vec<FileAction> {
        let deletes = self.pieces[..APPS.len()].iter().flat_map(|piece| &piece.recovery);
        deletes.map(|op| op.action).collect()
    }

    /// Returns the actions that remove the workspace. The marker is removed first, because an incomplete workspace must
    /// have no marker.
    pub(super) fn remove(&self) -> Vec<FileAction> {
        let files = std::iter::once(self.marker).chain(self.files().map(|(path, _)| path));
        let directories = self.directories.iter().copied().chain([PathId(0)]);
        upkeep::remove(files, directories)
    }
}
