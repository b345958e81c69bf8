//! A presentation program: loads an add-in in small pieces, opens four presentations repeatedly, and saves
//! two new ones three times each, with in-place edits after each save.

use crate::diskmix::draft::{Burst, Draft, Place};
use crate::diskmix::facts::SLIDES;
use crate::diskmix::routines::SECTOR_BYTES;
use crate::{Intent, PathId};

/// Weight of the add-in when the remaining reads are distributed. The other files have a total weight of
/// about 130. Seen: about 1,610 reads.
const ADDIN_WEIGHT: u32 = 930;
/// Longest run of reads of the add-in. Seen.
const ADDIN_RUN: u32 = 88;
/// Size of the signature that identifies a presentation. Seen.
const SIGNATURE_BYTES: u32 = 24;

pub(super) fn write(draft: &mut Draft<'_>, documents: &[PathId]) {
    draft.space(1);
    draft.list(2);
    draft.miss_some("theme", 1);
    let never = draft.file("viewer.cfg");
    draft.probe(never);
    let (addin, presentations) = documents.split_last().expect("five documents");
    load(draft, *addin);
    look_through(draft, presentations);
    draft.stat(presentations[0]);
    for target in 0..2 {
        for save in 0..3 {
            self::save(draft, target, save);
        }
    }
    for &path in &presentations[..3] {
        draft.touch(path, Intent::Read);
    }
    let slot = draft.open(presentations[3], Intent::Read);
    draft.read(slot, Place::At(0), None);
    draft.close(slot);
}

/// Opens each presentation seven times, in rounds. Between the rounds, creates and deletes an empty file.
fn look_through(draft: &mut Draft<'_>, presentations: &[PathId]) {
    let trial = draft.file("try.tmp");
    for &path in presentations {
        has_signature(draft, path);
        draft.view(path, Intent::Edit, 3, Burst::reads(6, 1).and_asks(2).of_large());
    }
    for round in 0..2 {
        draft.try_to_write(trial, true);
        for &path in presentations {
            draft.view(path, Intent::Read, 3, Burst::reads(3, 1));
            if round == 0 {
                draft.touch(path, Intent::Edit);
            } else {
                draft.view(path, Intent::Edit, 3, Burst::reads(6, 1).and_asks(2).of_large());
            }
        }
    }
    draft.try_to_write(trial, true);
    for &path in presentations {
        draft.touch(path, Intent::Read);
    }
}

/// Loads the add-in by sectors, with jumps, from the start.
fn load(draft: &mut Draft<'_>, addin: PathId) {
    let slot = draft.open(addin, Intent::Read);
    draft.read(slot, Place::At(0), SECTOR_BYTES);
    // Read one long run. The tables determine the other runs.
    draft.read(slot, Place::Seek, SECTOR_BYTES);
    for _ in 1..ADDIN_RUN {
        draft.read(slot, Place::Next, SECTOR_BYTES);
    }
    draft.burst(slot, Burst::reads(ADDIN_WEIGHT, ADDIN_WEIGHT));
    draft.close(slot);
}

fn has_signature(draft: &mut Draft<'_>, path: PathId) {
    let slot = draft.open(path, Intent::Read);
    draft.read(slot, Place::At(0), SIGNATURE_BYTES);
    draft.close(slot);
}

fn save(draft: &mut Draft<'_>, target: usize, save: usize) {
    let path = draft.file(&format!("show{target}.sld"));
    let aside = draft.file(&format!("show{target}{save}.tmp"));
    let trial = draft.file(&format!("try{target}{save}.tmp"));
    draft.space(3);
    draft.look_for(4);
    if save == 0 {
        draft.miss(path);
    } else {
        draft.stat(path);
        draft.rename(path, aside);
        has_signature(draft, aside);
    }
    let slot = draft.make(path);
    draft.fill(slot, &SLIDES[target * 3 + save]);
    draft.burst(slot, Burst::writes(10, 1).of_large());
    draft.set_times(slot, 3);
    draft.close(slot);
    if save > 0 {
        draft.delete(aside);
    }
    edit(draft, path, if target == 0 { 3 } else { 1 });
    if save > 0 && !(target == 1 && save == 2) {
        draft.try_to_write(trial, true);
    }
    draft.touch(path, Intent::Read);
    draft.view(
        path,
        Intent::Edit,
        3,
        Burst::reads(4, 1).and_writes(10, 1).and_asks(4),
    );
}

/// Edits in place: writes bursts of small pieces, and sometimes flushes the header separately.
fn edit(draft: &mut Draft<'_>, path: PathId, commits: u32) {
    let slot = draft.structured(path, Intent::Edit, 3);
    if commits > 1 {
        draft.ask_times(slot, 1);
    }
    for _ in 0..commits {
        draft.burst(
            slot,
            Burst::reads(3, 1)
                .and_writes(36 / commits, 1)
                .and_asks(6 / commits),
        );
        draft.flush(slot);
        draft.write(slot, Place::At(0), SECTOR_BYTES);
        draft.flush(slot);
    }
    draft.close(slot);
}
