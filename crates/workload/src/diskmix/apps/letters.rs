//! A word processor: edits two letters under an owner's lock file, saves each twice, and views a third letter.

use crate::diskmix::draft::{Burst, Draft, Place};
use crate::diskmix::facts::{LETTERS, LETTERS_GROWN, LETTERS_LOCK_BYTES};
use crate::diskmix::routines::SECTOR_BYTES;
use crate::{Intent, PathId, Slot};

/// Large pieces of a save that are rewritten before its header. The first save has one fewer. A choice: in
/// capture 4, no in-place writes larger than a sector passed the cache.
const SAVED_AGAIN: [u32; 4] = [3_000, 4_096, 4_096, 5_000];
const TIMES_OF_SAVE: u32 = 4;

pub(super) fn write(draft: &mut Draft<'_>, documents: &[PathId]) {
    draft.space(2);
    draft.list(2);
    draft.miss_some("style", 6);
    let (third, edited) = documents.split_last().expect("three documents");
    for (session, &document) in edited.iter().enumerate() {
        edit_and_save(draft, document, session);
    }
    let third = *third;
    draft.space(3);
    draft.look_for(2);
    draft.miss_some("addin", 2);
    let slot = draft.open(third, Intent::Read);
    draft.read(slot, Place::At(0), None);
    draft.burst(slot, Burst::reads(2, 2));
    draft.close(slot);
    draft.view(third, Intent::Edit, 3, Burst::reads(6, 6).and_asks(4));
    let trial = draft.file("try.tmp");
    draft.try_to_write(trial, false);
    draft.view(third, Intent::Read, 3, Burst::reads(8, 8).and_asks(4));
    draft.view(third, Intent::Edit, 3, Burst::reads(4, 4).and_asks(4));
    for _ in 0..4 {
        draft.stat(third);
    }
}

fn edit_and_save(draft: &mut Draft<'_>, document: PathId, session: usize) {
    let target = draft.file(&format!("new{session}.ltr"));
    let backup = draft.file(&format!("old{session}.bak"));
    let temporary = draft.file(&format!("save{session}.tmp"));
    draft.space(1);
    draft.look_for(2);
    let lock = take_lock(draft, session);
    draft.miss_some(&format!("macro{session}"), 4);
    draft.view(document, Intent::Read, 3, Burst::reads(6, 6).and_asks(4));
    let main = draft.structured(document, Intent::Edit, 3);
    draft.burst(main, Burst::reads(12, 10).and_writes(10, 4).and_asks(12));
    draft.try_to_write(temporary, false);
    draft.miss(target);
    save(draft, temporary, &[], target, session * 2);
    let edited = draft.structured(target, Intent::Edit, 3);
    draft.burst(edited, Burst::reads(8, 6).and_writes(14, 5).and_asks(12));
    draft.close(edited);
    draft.stat(target);
    save(draft, temporary, &[(target, backup)], target, session * 2 + 1);
    draft.touch(target, Intent::Read);
    let edited = draft.structured(target, Intent::Edit, 3);
    draft.burst(edited, Burst::reads(8, 6).and_writes(14, 5).and_asks(12));
    grow(draft, edited, session);
    draft.close(edited);
    draft.close(main);
    draft.stat(backup);
    draft.delete(backup);
    for _ in 0..4 {
        draft.stat(document);
    }
    draft.view(document, Intent::Read, 3, Burst::reads(6, 6).and_asks(2));
    give_lock_back(draft, lock);
    draft.touch(document, Intent::Read);
}

/// Writes the whole document to a temporary file, the header last, and renames it to the target.
fn save(draft: &mut Draft<'_>, temporary: PathId, aside: &[(PathId, PathId)], target: PathId, number: usize) {
    draft.space(2);
    draft.look_for(2);
    let slot = draft.make(temporary);
    draft.fill(slot, &LETTERS[number]);
    for &bytes in &SAVED_AGAIN[..4 - usize::from(number == 0)] {
        draft.write(slot, Place::Seek, bytes);
    }
    draft.write(slot, Place::At(0), SECTOR_BYTES);
    draft.set_times(slot, TIMES_OF_SAVE);
    draft.close(slot);
    for &(from, to) in aside {
        draft.rename(from, to);
    }
    draft.rename(temporary, target);
}

/// Rewrites the document after its header. The document becomes longer.
fn grow(draft: &mut Draft<'_>, slot: Slot, session: usize) {
    let mut place = Place::At(u64::from(SECTOR_BYTES));
    for &bytes in LETTERS_GROWN[session] {
        draft.write(slot, place, bytes);
        place = Place::Next;
    }
    draft.ask_times(slot, if session == 0 { 0 } else { 1 });
}

fn take_lock(draft: &mut Draft<'_>, session: usize) -> PathId {
    let lock = draft.file(&format!("owner{session}.lck"));
    let slot: Slot = draft.make(lock);
    draft.ask(slot, 1);
    draft.write(slot, Place::At(0), LETTERS_LOCK_BYTES as u32);
    draft.close(slot);
    lock
}

fn give_lock_back(draft: &mut Draft<'_>, lock: PathId) {
    draft.stat(lock);
    draft.look(lock);
    draft.stat(lock);
    draft.delete(lock);
}
