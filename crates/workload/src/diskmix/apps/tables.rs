//! A data base of table files: each of its four tables is five files, opened together, read at their headers, and
//! closed again; queries leave their results in files of their own.

use crate::diskmix::draft::{Burst, Draft, Place};
use crate::diskmix::facts::TABLES;
use crate::{Intent, PathId, Slot};

/// Queries: one result each.
const QUERIES: usize = TABLES.len();
/// How many tables each query uses. A choice: up to twenty files are open at once (seen), and of 390 opens some 150 are
/// left once files that are opened again before the next delete are opened once (seen in capture 4).
const TABLES_USED: [usize; QUERIES] = [2, 2, 2, 2, 1, 4, 2, 2, 2, 1, 2, 2, 2, 4, 2, 1, 1];
/// Openings of a table: 76 over all queries, seen.
const OPENINGS: usize = 76;
/// Files of a table: data, index, two of a second index, large fields.
const FILES_OF_TABLE: usize = 5;
/// Openings in which the last file stays closed, so that 373 files are opened: derived (390 opens, 17 of results).
const SHORT_OPENINGS: usize = 7;
/// Bytes of a header that are read. Seen.
const HEADER_BYTES: u32 = 511;
/// Size and place of the first block of data. Seen.
const BLOCK_BYTES: u32 = 2048;
/// Results that stay for the sweep: four, seen.
const KEPT: [usize; 4] = [2, 8, 11, 14];
/// The result that is renamed, once. Seen.
const RENAMED: usize = 8;
/// Companions of the data files that are opened, those of them whose whole header is not read, and those that are read
/// from their beginning all the same. Derived: of 373 files that are opened 345 are read, 308 from a whole header on.
const COMPANIONS: usize = 297;
const WITHOUT_HEADER: usize = 65;
const BEGUN: usize = 37;
/// Handles of tables that are written, those of scans included. Derived: 45 in all, 17 of them of results.
const WRITTEN: usize = 28;
/// Openings in which a table is gone through in large pieces. Derived: few, since of 72 reads of 16 KiB in capture 2
/// some five passed the cache in capture 4, and of 500 KB in large writes a fifth did.
const SCANS: usize = 4;

/// What has been given out of the numbers above.
#[derive(Default)]
struct Counts {
    openings: usize,
    companions: usize,
    without_header: usize,
}

/// Whether the step after `before` of `all` is one of `wanted` that are spread evenly.
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
    draft.miss_some(&format!("lookup{number}"), 3);
    let mut openings = (number + 1) * OPENINGS / QUERIES - number * OPENINGS / QUERIES;
    openings -= open_tables(draft, &tables, openings, counts);
    let result = make_result(draft, number);
    while openings > 0 {
        openings -= open_tables(draft, &tables, openings, counts);
    }
    if number == RENAMED {
        let answer = draft.file("answer.tab");
        draft.rename(result, answer);
    }
    if !KEPT.contains(&number) {
        draft.delete(result);
    }
}

/// Opens tables, each once and `most` at most, works on them, and closes all. Returns how many.
fn open_tables(draft: &mut Draft<'_>, tables: &[&[PathId]], most: usize, counts: &mut Counts) -> usize {
    let mut open = Vec::new();
    let count = most.min(tables.len());
    for table in &tables[..count] {
        let short = due(counts.openings, SHORT_OPENINGS, OPENINGS);
        let files = FILES_OF_TABLE - usize::from(short);
        open.extend(open_table(draft, &table[..files], counts));
    }
    for slot in open {
        draft.close(slot);
    }
    count
}

fn open_table(draft: &mut Draft<'_>, files: &[PathId], counts: &mut Counts) -> Vec<Slot> {
    let data = draft.open(files[0], Intent::Edit);
    draft.read(data, Place::At(0), HEADER_BYTES);
    // Before the other reads or after them: as often as brings the tables of offsets and of relations together.
    let block_first = counts.openings % 3 == 2;
    if block_first {
        draft.read(data, Place::At(u64::from(BLOCK_BYTES)), BLOCK_BYTES);
    }
    let mut slots = vec![data];
    for &path in &files[1..] {
        slots.push(open_companion(draft, path, counts));
    }
    let work = if due(counts.openings, SCANS, OPENINGS) {
        Burst::reads(50, 4).and_asks(1).and_writes(32, 1).of_large()
    } else if due(counts.openings, WRITTEN, OPENINGS) {
        Burst::reads(6, 10).and_asks(1).and_writes(3, 2)
    } else {
        Burst::reads(6, 10).and_asks(1)
    };
    draft.burst(data, work);
    if !block_first {
        draft.read(data, Place::At(u64::from(BLOCK_BYTES)), BLOCK_BYTES);
    }
    counts.openings += 1;
    slots
}

/// Opens a file of a table beside its data, and reads its header, some of it, or nothing.
fn open_companion(draft: &mut Draft<'_>, path: PathId, counts: &mut Counts) -> Slot {
    let slot = draft.open(path, Intent::Edit);
    if !due(counts.companions, WITHOUT_HEADER, COMPANIONS) {
        draft.read(slot, Place::At(0), HEADER_BYTES);
        if counts.companions % 4 == 0 {
            draft.burst(slot, Burst::reads(2, 2));
        }
    } else {
        if due(counts.without_header, BEGUN, WITHOUT_HEADER) {
            draft.read(slot, Place::At(0), None);
        }
        counts.without_header += 1;
    }
    counts.companions += 1;
    slot
}

/// The result of a query: a file that is made, opened again and filled; six are made durable (those of one page).
fn make_result(draft: &mut Draft<'_>, number: usize) -> PathId {
    let path = draft.file(&format!("result{number:02}.tab"));
    draft.probe(path);
    draft.probe(path);
    let slot = draft.make(path);
    draft.close(slot);
    let slot = draft.open(path, Intent::Edit);
    let made = &TABLES[number];
    draft.fill(slot, made);
    if made.bytes == 4096 && made.pieces.is_empty() {
        draft.flush(slot);
    }
    draft.ask(slot, 1);
    draft.close(slot);
    path
}
