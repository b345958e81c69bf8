//! What makes a client's workspace, and what removes it.
//!
//! Not for: which files there are (`workspace.rs`).

use super::facts::{APPS, BUILD_BYTES, MARKER_BYTES};
use super::Script;
use crate::{FileAction, Intent, PathId, Presence, Slot};

impl Script {
    /// What makes the workspace, whatever stands there before; the marker last.
    pub(super) fn build(&self) -> Vec<FileAction> {
        let presence = Presence::Either;
        let mut actions: Vec<FileAction> = std::iter::once(&PathId(0))
            .chain(&self.directories)
            .map(|&path| FileAction::MakeDirectory { path, presence })
            .collect();
        let path = self.marker;
        actions.push(FileAction::Delete { path, presence });
        actions.extend(self.delete_all_made());
        for &(path, bytes) in &self.files {
            build_file(&mut actions, path, bytes);
        }
        build_file(&mut actions, self.marker, u64::from(MARKER_BYTES));
        actions
    }

    /// What deletes every file that a pass may have left.
    pub(super) fn delete_all_made(&self) -> Vec<FileAction> {
        let made = self.pieces[..APPS.len()].iter().flat_map(|piece| &piece.made);
        made.map(|&path| FileAction::Delete {
            path,
            presence: Presence::Either,
        })
        .collect()
    }

    /// What removes the workspace, the marker first: half a workspace is none.
    pub(super) fn remove(&self) -> Vec<FileAction> {
        let presence = Presence::Either;
        let files = std::iter::once(self.marker).chain(self.files.iter().map(|&(path, _)| path));
        let directories = self.directories.iter().copied().chain([PathId(0)]);
        files
            .map(|path| FileAction::Delete { path, presence })
            .chain(directories.map(|path| FileAction::RemoveDirectory { path, presence }))
            .collect()
    }
}

fn build_file(actions: &mut Vec<FileAction>, path: PathId, bytes: u64) {
    let slot = Slot(0);
    actions.push(FileAction::Open {
        slot,
        path,
        intent: Intent::Replace,
        directory: false,
        presence: Presence::There,
    });
    let mut offset = 0;
    while offset < bytes {
        let chunk = u64::from(BUILD_BYTES).min(bytes - offset);
        actions.push(FileAction::Write {
            slot,
            offset,
            bytes: u32::try_from(chunk).expect("65,535 at most"),
            generation: 0,
        });
        offset += chunk;
    }
    actions.push(FileAction::Close { slot });
}
