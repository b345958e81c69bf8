//! A page database: one file that stays open, pages read and written at random, some commits, three prints.

use crate::diskmix::draft::{Burst, Draft, Place};
use crate::diskmix::facts::{RECORDS_LOCK_BYTES, RECORDS_PRINTED};
use crate::{Intent, PathId};

/// Rounds of work, each after a search for missing files. Seen.
const ROUNDS: u32 = 46;
/// Rounds that end with a print: a choice.
const PRINTS_AFTER: [u32; 3] = [10, 24, 38];
/// Rounds that end with a flush: four, seen.
const FLUSHES_AFTER: [u32; 4] = [8, 20, 32, 44];
/// Offset and size of the header's commit counter. Seen: the offset is fixed. The choice among the remaining offsets is
/// ours.
const COMMIT_COUNTER: (Place, u32) = (Place::At(1536), 2);

pub(super) fn write(draft: &mut Draft<'_>, documents: &[PathId]) {
    let base = documents[0];
    draft.space(2);
    draft.list(2);
    draft.miss_some("system", 1);
    draft.stat(base);
    draft.touch(base, Intent::Read);
    draft.stat(base);
    let slot = draft.open(base, Intent::Edit);
    draft.ask(slot, 1);
    draft.read(slot, Place::At(0), 16_384);
    let lock_path = draft.file("owner.lck");
    let lock = draft.make(lock_path);
    draft.ask(lock, 1);
    draft.write(lock, Place::At(0), 1);
    draft.write(lock, Place::At(0), RECORDS_LOCK_BYTES as u32);
    for round in 0..ROUNDS {
        draft.look_for(1);
        draft.burst(slot, Burst::reads(10, 0).and_writes(2, 1));
        draft.write(slot, COMMIT_COUNTER.0, COMMIT_COUNTER.1);
        if let Some(print) = PRINTS_AFTER.iter().position(|&after| after == round) {
            let path = draft.file(&format!("report{print}.prn"));
            draft.space(3);
            draft.print(path, &RECORDS_PRINTED[print], 0, 1);
        }
        if FLUSHES_AFTER.contains(&round) {
            draft.flush(slot);
        }
    }
    draft.space(2);
    draft.ask(slot, 1);
    draft.stat(base);
    draft.close(lock);
    draft.delete(lock_path);
    draft.close(slot);
}
