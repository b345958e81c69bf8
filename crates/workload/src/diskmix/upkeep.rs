//! What makes a client's workspace, and what removes it.
//!
//! Not for: which files there are (`workspace.rs`).

use super::facts::{APPS, BUILD_BYTES, MARKER_BYTES};
use super::Script;
use crate::player::{build_file, delete};
use crate::{FileAction, PathId, Presence};

impl Script {
    /// What makes the workspace, whatever stands there before; the marker last.
    pub(super) fn build(&self) -> Vec<FileAction> {
        let presence = Presence::Either;
        let mut actions: Vec<FileAction> = std::iter::once(&PathId(0))
            .chain(&self.directories)
            .map(|&path| FileAction::MakeDirectory { path, presence })
            .collect();
        actions.push(delete(self.marker));
        actions.extend(self.delete_all_made());
        for &(path, bytes) in &self.files {
            build_file(&mut actions, path, bytes, BUILD_BYTES);
        }
        build_file(&mut actions, self.marker, u64::from(MARKER_BYTES), BUILD_BYTES);
        actions
    }

    /// What deletes every file that a pass may have left.
    pub(super) fn delete_all_made(&self) -> Vec<FileAction> {
        let deletes = self.pieces[..APPS.len()].iter().flat_map(|piece| &piece.recovery);
        deletes.map(|op| op.action).collect()
    }

    /// What removes the workspace, the marker first: half a workspace is none.
    pub(super) fn remove(&self) -> Vec<FileAction> {
        let presence = Presence::Either;
        let files = std::iter::once(self.marker).chain(self.files.iter().map(|&(path, _)| path));
        let directories = self.directories.iter().copied().chain([PathId(0)]);
        files
            .map(delete)
            .chain(directories.map(|path| FileAction::RemoveDirectory { path, presence }))
            .collect()
    }
}
