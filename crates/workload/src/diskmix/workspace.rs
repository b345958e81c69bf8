//! The files of a client's workspace, and their sizes.
//!
//! `upkeep.rs` creates and removes them.

use super::apps::document;
use super::draft::Names;
use super::facts::{APPS, DOCUMENTS, DOCUMENT_BYTES, FILLER_BYTES, SEED_DIRECTORY, SEED_FILES_BYTES};
use super::phases::SEED_FILES;
use super::LEAST_WORKSPACE_BYTES;
use crate::PathId;

/// Path of the marker, the file that is created last.
pub(super) const MARKER: &str = "bulk/complete.mrk";

/// Returns the files and their sizes: documents, files of the seed phases, and fillers for the rest of
/// `bytes`.
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
