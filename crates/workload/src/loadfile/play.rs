//! A client's replay of a load file: creates, leaves and removes the initial files of a pass.
//!
//! A whole pass is one piece. After an operation that did not end as recorded, the rest of the pass tolerates files
//! that unexpectedly exist or are missing. Such a pass is not counted. `player.rs` recovers from errors.

use super::{build_file, LoadFile};
use crate::player::{Piece, Player, Scripted};
use crate::upkeep::{self, delete, make_directory};
use crate::{FileAction, FileCatalogue, FileWorkload, PathId};
use std::slice;
use std::sync::Arc;

const MARKER_BYTES: u64 = 1;

pub type LoadFileReplay = Player<LoadFile>;

impl Scripted for LoadFile {
    const HAS_SEPARATE_PIECES: bool = false;
    const LOOKS_FOR_ITS_OWN: bool = true;

    fn pieces(&self) -> &[Piece] {
        slice::from_ref(&self.pass)
    }

    fn slots(&self) -> usize {
        self.slots
    }
}

impl LoadFileReplay {
    /// Returns the replay of one client. All clients perform the same operations, each with its own contents.
    pub fn new(file: Arc<LoadFile>, client: u32) -> Self {
        Self::of_pieces(file, vec![0], client.rotate_left(20))
    }
}

impl FileWorkload for LoadFileReplay {
    fn catalogue(&self) -> &FileCatalogue {
        &self.script.catalogue
    }

    fn preparation(&self, found: bool) -> Vec<FileAction> {
        if found {
            return self.script.recovery.clone();
        }
        let script = &self.script;
        let files = script
            .files
            .iter()
            .copied()
            .chain([(script.marker, MARKER_BYTES)]);
        let directories = script.directories.iter().copied();
        directories
            .map(make_directory)
            .chain([delete(script.marker)])
            .chain(script.recovery.iter().copied())
            .chain(files.flat_map(|(path, bytes)| build_file(path, bytes)))
            .collect()
    }

    fn marker(&self) -> PathId {
        self.script.marker
    }

    fn leaving(&self) -> Vec<FileAction> {
        if self.is_at_beginning() {
            return Vec::new();
        }
        self.closes()
            .chain(self.script.recovery.iter().copied())
            .collect()
    }

    fn removal(&self) -> Vec<FileAction> {
        let files = self.script.files.iter().map(|&(path, _)| path);
        let directories = self.script.directories.iter().rev().copied();
        upkeep::remove([self.script.marker].into_iter().chain(files), directories)
    }

    fn passes(&self) -> u64 {
        self.passes
    }

    fn pass_operations(&self) -> u64 {
        self.operations_of_pass()
    }
}
