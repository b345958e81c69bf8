//! The files of a client's workspace: which there are, what makes them, and what removes them.
//!
//! Not for: what is done with them.

use super::apps::document;
use super::draft::Names;
use super::facts::{
    APPS, BUILD_BYTES, DOCUMENTS, DOCUMENT_BYTES, FILLER_BYTES, MARKER_BYTES, SEED_DIRECTORY,
    SEED_FILES_BYTES,
};
use super::phases::SEED_FILES;
use super::{Script, LEAST_WORKSPACE_BYTES};
use crate::{FileAction, Intent, PathId, Presence, Slot};

/// Path of the file that is made last.
pub(super) const MARKER: &str = "bulk/complete.mrk";

/// The files and their sizes: documents, files of the seed phases, and fillers for what is left of `bytes`.
pub(super) fn files(names: &mut Names, bytes: u64) -> Vec<(PathId, u64)> {
    let mut files = Vec::new();
    for (application, (name, count)) in APPS.iter().zip(DOCUMENTS).enumerate() {
        for number in 0..count {
            let path = names.id(&format!("{name}/{}", document(application, number)));
            files.push((path, DOCUMENT_BYTES));
        }
    }
    for (name, bytes) in SEED_FILES.iter().zip(SEED_FILES_BYTES) {
        files.push((names.id(&format!("{SEED_DIRECTORY}/{name}")), bytes));
    }
    let mut left = bytes.saturating_sub(LEAST_WORKSPACE_BYTES);
    let mut number = 0;
    while left > 0 {
        let filler = left.min(FILLER_BYTES);
        files.push((
            names.id(&format!("{SEED_DIRECTORY}/filler{number:02}.bin")),
            filler,
        ));
        left -= filler;
        number += 1;
    }
    files
}

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
