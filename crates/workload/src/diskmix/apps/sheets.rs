//! A spreadsheet: reads two workbooks, saves two new ones three times each, and prints four times to files.

use crate::diskmix::draft::{Burst, Draft, Place};
use crate::diskmix::facts::{SHEETS, SHEETS_PRINTED};
use crate::{Intent, PathId};

/// Lengths of two runs of reads, each in one record of the first workbook. Seen. The overlap of the runs is
/// derived from the pages that passed the client's cache.
const LONG_READS: [u32; 2] = [60, 83];
const RECORD_BYTES: u32 = 2048;
/// Size of a workbook's header, and of writes in place.
const PAGE_BYTES: u32 = 4096;

pub(super) fn write(draft: &mut Draft<'_>, documents: &[PathId]) {
    draft.space(3);
    draft.list(2);
    draft.look_for(5);
    draft.miss_some("start", 5);
    for (number, &document) in documents.iter().enumerate() {
        let slot = draft.structured(document, Intent::Read, 3);
        for count in LONG_READS.into_iter().filter(|_| number == 0) {
            draft.read(slot, Place::Seek, RECORD_BYTES);
            for _ in 1..count {
                draft.read(slot, Place::Next, RECORD_BYTES);
            }
        }
        draft.burst(slot, Burst::reads(6, 4).and_asks(4));
        draft.close(slot);
        let slot = draft.open(document, Intent::Edit);
        draft.write(slot, Place::At(0), PAGE_BYTES);
        draft.write(slot, Place::Next, RECORD_BYTES);
        draft.close(slot);
    }
    draft.stat(documents[0]);
    for target in 0..2 {
        for save in 0..3 {
            self::save(draft, target, save);
        }
        for print in [0, 1] {
            let path = draft.file(&format!("print{target}{print}.prn"));
            draft.look_for(1);
            draft.print(path, &SHEETS_PRINTED[target * 2 + print], 1, 0);
        }
    }
}

fn save(draft: &mut Draft<'_>, target: usize, save: usize) {
    let path = draft.file(&format!("book{target}.sht"));
    let temporary = draft.file(&format!("{target}{save}work.tmp"));
    draft.space(1);
    draft.look_for(3);
    draft.miss_some("link", 2);
    if save == 0 {
        draft.miss(path);
        draft.try_to_write(path, false);
    } else {
        draft.stat(path);
    }
    let slot = draft.make(temporary);
    draft.fill(slot, &SHEETS[target * 3 + save]);
    draft.burst(slot, Burst::writes(20, 6).and_asks(4));
    // Every save except the first of each file is flushed, after a separate write of the header. Derived:
    // four of the writes at offset 0 in `WRITE_OFFSETS` are neither the first write of their handle nor the
    // last of a save. In capture 4, eight single pages passed the client's cache, four of them just before a
    // flush.
    if save > 0 {
        draft.ask_times(slot, 1);
        draft.write(slot, Place::At(0), PAGE_BYTES);
        draft.flush(slot);
    }
    draft.write(slot, Place::At(0), PAGE_BYTES);
    draft.set_times(slot, 2);
    draft.close(slot);
    if save > 0 {
        draft.delete(path);
    }
    draft.rename(temporary, path);
    draft.view(path, Intent::Edit, 3, Burst::reads(8, 8).and_asks(4));
}
