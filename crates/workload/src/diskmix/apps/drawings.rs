//! A drawing program: queries the sizes of its libraries, reads three drawings in large pieces, and saves two
//! new ones twice each, with many small writes.

use crate::diskmix::draft::{Burst, Draft, Place};
use crate::diskmix::facts::DRAWINGS;
use crate::{Intent, PathId};

/// Consecutive 8 KiB pieces of each drawing. Seen: 38 in total, the longest run 21.
const PIECES: [u32; 3] = [21, 9, 8];
const PIECE_BYTES: u32 = 8192;
/// Sizes of the notes written to a drawing before each later save. Seen.
const NOTE_BYTES: [u32; 2] = [510, 168];
/// Number of times that each library is opened only for its size. Seen.
const LIBRARY_OPENS: u32 = 3;

pub(super) fn write(draft: &mut Draft<'_>, documents: &[PathId]) {
    let (drawings, rest) = documents.split_at(3);
    let (settings, libraries) = rest.split_first().expect("eleven documents");
    draft.space(2);
    draft.list(2);
    draft.miss_some("palette", 7);
    for number in 0..6 {
        let path = draft.file(&format!("pens{number}.cfg"));
        draft.probe(path);
    }
    for _ in 0..4 {
        read_settings(draft, *settings);
    }
    let marker = draft.file("running.flg");
    ask_libraries(draft, libraries, marker);
    for (&drawing, pieces) in drawings.iter().zip(PIECES) {
        draft.list(1);
        draft.stat(drawing);
        read_drawing(draft, drawing, pieces);
    }
    draft.try_to_write(marker, false);
    for target in 0..2 {
        save(draft, target, marker);
    }
    for &path in &drawings[..2] {
        draft.touch(path, Intent::Read);
    }
}

/// Opens each library for its size, in several rounds, during which it creates and removes the marker twice.
fn ask_libraries(draft: &mut Draft<'_>, libraries: &[PathId], marker: PathId) {
    for round in 0..LIBRARY_OPENS {
        for (number, &library) in libraries.iter().enumerate() {
            if round == 1 && number == 0 || round == 2 && number == 3 {
                draft.try_to_write(marker, false);
            }
            if round == 0 {
                draft.stat(library);
            }
            let slot = draft.open(library, Intent::Read);
            draft.ask(slot, 1);
            draft.close(slot);
        }
    }
}

fn read_settings(draft: &mut Draft<'_>, settings: PathId) {
    let slot = draft.open(settings, Intent::Read);
    draft.read(slot, Place::At(0), None);
    draft.burst(slot, Burst::reads(4, 4));
    draft.close(slot);
}

fn read_drawing(draft: &mut Draft<'_>, drawing: PathId, pieces: u32) {
    let slot = draft.open(drawing, Intent::Read);
    if pieces > PIECES[2] {
        // Small read at the start to identify the drawing's kind. The shortest drawing is identified by its name.
        draft.read(slot, Place::At(0), None);
    }
    draft.read(slot, Place::At(0), PIECE_BYTES);
    for _ in 1..pieces {
        draft.read(slot, Place::Next, PIECE_BYTES);
    }
    draft.close(slot);
}

/// Saves a new drawing twice, and keeps the old version under another name.
fn save(draft: &mut Draft<'_>, target: usize, marker: PathId) {
    let path = draft.file(&format!("plan{target}.drw"));
    let aside = draft.file(&format!("plan{target}.tmp"));
    let backup = draft.file(&format!("plan{target}.bak"));
    draft.space(3);
    draft.list(2);
    draft.miss_some("font", 4);
    draft.miss(path);
    draft.try_to_write(path, false);
    fill(draft, path, target * 2);
    draft.view(path, Intent::Read, 3, Burst::reads(1, 1));
    read_again(draft, path);
    draft.stat(path);
    let slot = draft.open(path, Intent::Edit);
    draft.write(slot, Place::At(0), NOTE_BYTES[0]);
    draft.write(slot, Place::Next, NOTE_BYTES[1]);
    draft.burst(slot, Burst::default().and_asks(1));
    draft.close(slot);
    draft.try_to_write(marker, false);
    draft.space(3);
    draft.stat(path);
    draft.rename(path, aside);
    fill(draft, path, target * 2 + 1);
    draft.rename(aside, backup);
    read_again(draft, path);
}

/// Creates the file and rewrites it many times. A client's cache combines all these writes into one.
fn fill(draft: &mut Draft<'_>, path: PathId, number: usize) {
    let slot = draft.make(path);
    draft.fill(slot, &DRAWINGS[number]);
    draft.burst(slot, Burst::writes(20, 20));
    draft.close(slot);
}

fn read_again(draft: &mut Draft<'_>, path: PathId) {
    let slot = draft.open(path, Intent::Read);
    draft.read(slot, Place::At(0), None);
    draft.close(slot);
}
