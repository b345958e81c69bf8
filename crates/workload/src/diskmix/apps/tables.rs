//! A database of table files. Each of its four tables has five files. They are opened together, their headers are read,
//! and they are closed again. Queries write their results to separate files.

use crate::diskmix::draft::{Burst, Draft, Place};
use crate::diskmix::facts::{Made, TABLES};
use crate::{Intent, PathId, Slot};

/// Queries, with one result each.
const QUERIES: usize = TABLES.len();
/// Tables per query. A choice. Seen: up to twenty files are open at once. Seen in capture 4: of 390 opens,
/// about 150 remain if files that are reopened before the next delete count once.
const TABLES_USED: [usize; QUERIES] = [1, 1, 1, 1, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1];
/// Number of times that a table is opened with its companions. Each query also opens one table first, to inspect it.
/// Seen: 76 in total.
const OPENINGS: usize = 76 - QUERIES;
/// Files per table: data, index, two of a second index, large fields.
const FILES_OF_TABLE: usize = 5;
/// Number of opens after which the last companion is reopened. Derived: 390 opens, of which 76 + 4 x 59 are of tables,
/// and 38 of results.
const AGAIN: usize = 40;
/// Number of reopens that read from the start. Derived: 345 of all handles do so, 308 of which read a whole header.
const BEGUN: usize = 37;
/// Size of a header read. Seen.
const HEADER_BYTES: u32 = 511;
/// Size and offset of the first block of data. Seen.
const BLOCK_BYTES: u32 = 2048;
/// Size of a header change: a choice among the remaining sizes.
const CHANGE_BYTES: u32 = 88;
/// Size of a change of scanned data across the end of a page: a choice among the remaining sizes.
const WIDE_CHANGE_BYTES: u32 = 4_000;
/// Size of a piece of a scan. Seen.
const PIECE_BYTES: u32 = 16_384;
/// Results kept for the sweep: four, seen.
const KEPT: [usize; 4] = [3, 8, 10, 11];
/// The only result that is renamed. Seen.
const RENAMED: usize = 8;
/// One-page results that are flushed: six, seen.
const DURABLE: [usize; 6] = [1, 4, 6, 7, 9, 12];
/// Results that are opened for a query of their times before deletion: nine, seen.
const ASKED_AT_LAST: [usize; 9] = [1, 4, 6, 7, 9, 12, 13, 15, 16];
/// Results whose times are not queried while they are filled. Derived: the other ten are queried.
const NOT_ASKED: [usize; 7] = [2, 3, 5, 8, 10, 11, 14];
/// Number of opens that change the header of the data file, and number that change the header of the first companion.
/// Derived from the pages written in capture 4.
const CHANGED: usize = 7;
const INDEX_CHANGED: usize = 6;
/// Number of queries that first scan a table in large pieces. Derived: of 72 reads of 16 KiB in capture 2, eight passed
/// the cache in capture 4.
const SCANS: usize = 8;
/// Number of scans, counted from the first, that change data across the end of a page. Derived: three writes
/// of two pages.
const WIDE_CHANGES: usize = 3;

/// Number of openings, reopens and scans so far.
#[derive(Default)]
struct Counts {
    openings: usize,
    again: usize,
    scans: usize,
    scan_due: bool,
}

/// Returns whether step `before` of `all` steps, counted from 0, is one of `wanted` evenly spread steps.
fn due(before: usize, wanted: usize, all: usize) -> bool {
    before * wanted / all != (before + 1) * wanted / all
}

pub(super) fn write(draft: &mut Draft<'_>, documents: &[PathId]) {
    draft.space(1);
    draft.list(1);
    draft.miss_some("family", 6);
    for number in 0..2 {
        let path = draft.file(&format!("net{number}.cfg"));
        draft.probe(path);
    }
    let mut counts = Counts::default();
    for query in 0..QUERIES {
        self::query(draft, documents, query, &mut counts);
    }
    for &path in &documents[..9] {
        draft.stat(path);
    }
}

fn query(draft: &mut Draft<'_>, documents: &[PathId], number: usize, counts: &mut Counts) {
    let used = TABLES_USED[number];
    let tables: Vec<&[PathId]> = documents
        .chunks(FILES_OF_TABLE)
        .cycle()
        .skip(number / 2 % 4)
        .take(used)
        .collect();
    draft.list(3);
    for place in 0..7 {
        draft.stat(tables[place % used][place % FILES_OF_TABLE]);
    }
    draft.touch(tables[0][0], Intent::Read);
    draft.miss_some(&format!("lookup{number}"), 3);
    let mut openings = (number + 1) * OPENINGS / QUERIES - number * OPENINGS / QUERIES;
    counts.scan_due = due(number, SCANS, QUERIES);
    openings -= open_tables(draft, &tables, openings, counts);
    let result = make_result(draft, number);
    while openings > 0 {
        openings -= open_tables(draft, &tables, openings, counts);
    }
    finish_result(draft, result, number);
}

/// Opens tables, each once and at most `most` in total, works on them, and closes them. Returns their number.
fn open_tables(draft: &mut Draft<'_>, tables: &[&[PathId]], most: usize, counts: &mut Counts) -> usize {
    let mut open = Vec::new();
    let count = most.min(tables.len());
    for table in &tables[..count] {
        open.extend(open_table(draft, table, counts));
    }
    for slot in open {
        draft.close(slot);
    }
    count
}

fn open_table(draft: &mut Draft<'_>, files: &[PathId], counts: &mut Counts) -> Vec<Slot> {
    let data = draft.open(files[0], Intent::Edit);
    draft.read(data, Place::At(0), HEADER_BYTES);
    // Read the block before or after the other reads, in the proportion that best matches the tables of
    // offsets and of relations.
    let block_first = counts.openings % 3 == 2;
    if block_first {
        draft.read(data, Place::At(u64::from(BLOCK_BYTES)), BLOCK_BYTES);
    }
    let mut slots = vec![data];
    for &path in &files[1..] {
        slots.push(open_companion(draft, path));
    }
    if due(counts.openings, AGAIN, OPENINGS) {
        let last = slots.pop().expect("its companions");
        draft.close(last);
        slots.push(open_again(draft, files[files.len() - 1], counts));
    }
    let work = if std::mem::take(&mut counts.scan_due) {
        draft.read(data, Place::Seek, PIECE_BYTES);
        if counts.scans < WIDE_CHANGES {
            draft.write(data, Place::Seek, WIDE_CHANGE_BYTES);
        }
        counts.scans += 1;
        Burst::reads(50, 4).and_asks(1).of_large()
    } else {
        Burst::reads(6, 10).and_asks(1)
    };
    draft.burst(data, work);
    if !block_first {
        draft.read(data, Place::At(u64::from(BLOCK_BYTES)), BLOCK_BYTES);
    }
    if due(counts.openings, CHANGED, OPENINGS) {
        draft.write(data, Place::At(0), CHANGE_BYTES);
    }
    if due(counts.openings, INDEX_CHANGED, OPENINGS) {
        draft.write(slots[1], Place::Seek, CHANGE_BYTES);
    }
    counts.openings += 1;
    slots
}

/// Opens a companion file of a table, and reads its header.
fn open_companion(draft: &mut Draft<'_>, path: PathId) -> Slot {
    let slot = draft.open(path, Intent::Edit);
    draft.read(slot, Place::At(0), HEADER_BYTES);
    slot
}

/// Reopens a companion and reads it piece by piece.
fn open_again(draft: &mut Draft<'_>, path: PathId, counts: &mut Counts) -> Slot {
    let slot = draft.open(path, Intent::Edit);
    if due(counts.again, BEGUN, AGAIN) {
        draft.read(slot, Place::At(0), None);
        draft.burst(slot, Burst::reads(4, 8));
    }
    counts.again += 1;
    slot
}

/// Starts a query's result: creates a file, reopens it, fills the first block, and then reads its header.
fn make_result(draft: &mut Draft<'_>, number: usize) -> PathId {
    let path = draft.file(&format!("result{number:02}.tab"));
    draft.probe(path);
    draft.probe(path);
    let slot = draft.make(path);
    draft.close(slot);
    let slot = draft.open(path, Intent::Edit);
    if !NOT_ASKED.contains(&number) {
        draft.ask_times(slot, 1);
    }
    draft.write(slot, Place::At(0), TABLES[number].pieces[0]);
    draft.close(slot);
    path
}

/// Writes the rest of a result that is a table, and flushes it if it is in `DURABLE`. If the result is larger
/// than a block, changes its header once more at the end.
fn finish_result(draft: &mut Draft<'_>, path: PathId, number: usize) {
    let made = &TABLES[number];
    if is_table(made) {
        let slot = draft.open(path, Intent::Edit);
        draft.read(slot, Place::At(0), HEADER_BYTES);
        let mut place = Place::At(u64::from(BLOCK_BYTES));
        for &bytes in &made.pieces[1..] {
            draft.write(slot, place, bytes);
            place = Place::Next;
        }
        if made.pieces.len() > 1 {
            draft.burst(slot, Burst::writes(60, 20).of_large());
        } else if made.bytes > u64::from(BLOCK_BYTES) {
            draft.write(slot, Place::At(u64::from(BLOCK_BYTES)), BLOCK_BYTES);
        }
        if DURABLE.contains(&number) {
            draft.flush(slot);
        }
        if made.bytes > u64::from(BLOCK_BYTES) {
            draft.write(slot, Place::At(0), CHANGE_BYTES);
        }
        draft.close(slot);
    }
    if ASKED_AT_LAST.contains(&number) {
        let slot = draft.open(path, Intent::Edit);
        draft.ask_times(slot, 1);
        draft.close(slot);
    }
    if number == RENAMED {
        let answer = draft.file("answer.tab");
        draft.rename(path, answer);
    }
    if !KEPT.contains(&number) {
        draft.delete(path);
    }
}

/// Returns whether a result is a table. The others are lists of values or large fields, in one piece.
fn is_table(made: &Made) -> bool {
    made.pieces[0] == BLOCK_BYTES
}
