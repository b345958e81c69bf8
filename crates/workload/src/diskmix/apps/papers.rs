//! A second word processor: pages through two long papers after locking a byte of each, saves two new ones,
//! and prints four times.

use crate::diskmix::draft::{Burst, Draft, Place};
use crate::diskmix::facts::{PAPERS, PAPERS_PRINTED};
use crate::{Intent, PathId, Slot};

/// Offset of the byte that is locked to claim a document, far beyond the document's end. Seen.
const LOCK_OFFSET: u64 = 0x7FFF_FF92;
/// Sizes of the pieces that identify a document. Seen.
const SIGNATURE_BYTES: [u32; 4] = [24, 14, 12, 8];
/// Saves of the two targets. Derived: three old files are deleted.
const SAVES: [usize; 2] = [3, 2];

pub(super) fn write(draft: &mut Draft<'_>, documents: &[PathId]) {
    draft.space(2);
    draft.list(1);
    for number in 0..5 {
        let path = draft.file(&format!("user{number}.cfg"));
        draft.probe(path);
    }
    draft.miss_some("words", 6);
    for intent in [Intent::Read, Intent::Edit] {
        let slot = draft.structured(documents[2], intent, 3);
        identify(draft, slot, 1);
        draft.close(slot);
    }
    let mut number = 0;
    for (target, saves) in SAVES.into_iter().enumerate() {
        page_through(draft, documents[target], target);
        for save in 0..saves {
            self::save(draft, target, save, number);
            number += 1;
        }
        for print in 0..2 {
            let path = draft.file(&format!("copy{target}{print}.prn"));
            draft.list(1);
            draft.print(path, &PAPERS_PRINTED[target * 2 + print], 0, 1);
        }
    }
    let slot = draft.open(documents[0], Intent::Edit);
    draft.read(slot, Place::At(0), None);
    draft.close(slot);
    draft.space(1);
    draft.stat(documents[0]);
    for &path in documents {
        draft.stat(path);
        draft.stat(path);
        draft.touch(path, Intent::Read);
    }
}

/// Reads a document page by page. While its lock is held, a client may not answer from its cache: nearly all
/// of these reads passed below the cache in capture 4, in the applications' own sizes.
fn page_through(draft: &mut Draft<'_>, document: PathId, target: usize) {
    draft.stat(document);
    draft.stat(document);
    let slot = draft.open(document, Intent::Edit);
    draft.lock(slot, LOCK_OFFSET, 1);
    draft.burst(slot, Burst::reads(130, 24).and_asks(6));
    draft.ask_times(slot, 1);
    draft.unlock(slot, LOCK_OFFSET, 1);
    draft.close(slot);
    draft.miss_some(&format!("note{target}"), 2);
    draft.list(1);
    let slot = draft.open(document, Intent::Read);
    identify(draft, slot, 0);
    draft.close(slot);
}

/// Identifies a document by small pieces near its start. `asks`: weight of file queries.
fn identify(draft: &mut Draft<'_>, slot: Slot, asks: u32) {
    draft.read(slot, Place::Seek, SIGNATURE_BYTES[0]);
    for &bytes in &SIGNATURE_BYTES[1..] {
        draft.read(slot, Place::Seek, bytes);
    }
    draft.burst(slot, Burst::default().and_asks(asks));
}

fn save(draft: &mut Draft<'_>, target: usize, save: usize, number: usize) {
    let path = draft.file(&format!("text{target}.ppr"));
    let temporary = draft.file(&format!("text{target}{save}.tmp"));
    draft.space(1);
    draft.list(1);
    if save == 0 {
        draft.miss(path);
        draft.try_to_write(path, true);
    } else {
        draft.stat(path);
    }
    let slot = draft.make(temporary);
    draft.fill(slot, &PAPERS[number]);
    draft.burst(slot, Burst::writes(10, 1).and_asks(2));
    draft.flush(slot);
    draft.close(slot);
    if save > 0 {
        draft.delete(path);
    }
    draft.rename(temporary, path);
    draft.stat(path);
    let slot = draft.open(path, Intent::Read);
    identify(draft, slot, 2);
    draft.close(slot);
}
