//! The pieces of a pass other than the applications: seed phases, and the sweep.
//!
//! `play.rs` orders them.

use super::draft::{Draft, Place};
use super::facts::{
    APPS, LEGACY_SEED_READ_BYTES, SEED_CHUNK_BYTES, SEED_DIRECTORY, SEED_READ_BYTES, SEED_WRITE_CHUNKS,
};
use crate::{Intent, PathId};

pub(super) const SEED_FILES: [&str; 3] = ["small.bin", "medium.bin", "large.bin"];

/// Overwrites the start of the three files, chunk by chunk.
pub(super) fn write_seeds(draft: &mut Draft<'_>) {
    for (name, chunks) in SEED_FILES.iter().zip(SEED_WRITE_CHUNKS) {
        let path = draft.file(name);
        let slot = draft.open(path, Intent::Edit);
        draft.write(slot, Place::At(0), SEED_CHUNK_BYTES);
        for _ in 1..chunks {
            draft.write(slot, Place::Next, SEED_CHUNK_BYTES);
        }
        draft.close(slot);
    }
}

pub(super) fn read_seeds(draft: &mut Draft<'_>, legacy: bool) {
    let lengths = if legacy {
        LEGACY_SEED_READ_BYTES
    } else {
        SEED_READ_BYTES
    };
    let first = draft.file(SEED_FILES[0]);
    draft.stat(first);
    for (name, bytes) in SEED_FILES.iter().zip(lengths) {
        let path = draft.file(name);
        let slot = draft.open(path, Intent::Read);
        let mut left = u32::try_from(bytes).expect("some million bytes");
        let mut place = Place::At(0);
        while left > 0 {
            let chunk = left.min(SEED_CHUNK_BYTES);
            draft.read(slot, place, chunk);
            place = Place::Next;
            left -= chunk;
        }
        draft.close(slot);
    }
}

/// Lists every directory, then looks up and deletes the files that the applications left.
pub(super) fn sweep(draft: &mut Draft<'_>, left: &[PathId]) {
    draft.list(1);
    for directory in APPS.into_iter().chain([SEED_DIRECTORY]) {
        let path = draft.path(directory);
        draft.list_in(path, 1);
    }
    for &path in left {
        draft.stat(path);
        draft.delete(path);
    }
}
