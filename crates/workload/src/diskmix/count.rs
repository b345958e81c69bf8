//! Counts one pass of a script in the same way as the captures were counted: operations by kind, sizes, and the
//! relations between successive requests of a handle.
//!
//! `facts.rs` has the targets. `accept.rs` compares the counts with them.

use super::facts::{Operation, SizeRow, APPS, OPERATIONS, READ_SIZES, SEED_PHASES, WRITE_SIZES};
use super::positions::{octave, relation};
use super::script::{SEED_READ, SEED_WRITE, SWEEP};
use super::Script;
use crate::player::Piece;
use crate::{FileAction, Intent, PathId, Presence, Slot};
use std::collections::HashMap;

/// Columns of the table of operations: the applications, the seed phases of a pass, and the sweep.
pub(super) const COLUMNS: usize = APPS.len() + 2;

/// Requests of one kind in a piece.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    pub(super) count: u32,
    pub(super) bytes: u64,
    pub(super) sizes: [u32; READ_SIZES.len()],
    pub(super) offsets: [u32; 8],
    pub(super) relations: [u32; 7],
}

#[derive(Clone, Debug, Default)]
pub(super) struct PieceCount {
    pub(super) operations: [u32; OPERATIONS.len()],
    pub(super) reads: Requests,
    pub(super) writes: Requests,
    /// Final sizes of the files that the piece creates, in ascending order.
    pub(super) made: Vec<u64>,
}

/// Counts the requests of a pass: per application, of all seed phases together, and of the sweep.
pub(super) fn count(script: &Script) -> Vec<PieceCount> {
    let mut counts: Vec<PieceCount> = script.pieces[..APPS.len()].iter().map(count_piece).collect();
    let mut seeds = PieceCount::default();
    for (piece, times) in [SEED_WRITE, SEED_READ].into_iter().zip(SEED_PHASES) {
        let once = count_piece(&script.pieces[piece]);
        for _ in 0..times {
            seeds.add(&once);
        }
    }
    counts.push(seeds);
    counts.push(count_piece(&script.pieces[SWEEP]));
    counts
}

impl PieceCount {
    fn add(&mut self, other: &Self) {
        add_all(&mut self.operations, &other.operations);
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
    }

    fn operation(&mut self, operation: Operation) {
        let place = OPERATIONS.iter().position(|row| row.operation == operation);
        self.operations[place.expect("a row for each operation")] += 1;
    }
}

impl Requests {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        add_all(&mut self.sizes, &other.sizes);
        add_all(&mut self.offsets, &other.offsets);
        add_all(&mut self.relations, &other.relations);
    }

    fn note(&mut self, rows: &[SizeRow], before: Option<(u64, u64)>, offset: u64, bytes: u32) {
        self.count += 1;
        self.bytes += u64::from(bytes);
        if let Some(row) = rows
            .iter()
            .position(|row| (row.least..=row.most).contains(&bytes))
        {
            self.sizes[row] += 1;
        }
        let sequential = before.is_some_and(|(_, end)| end == offset);
        self.offsets[if sequential { 0 } else { octave(offset) }] += 1;
        self.relations[relation(before, offset)] += 1;
    }
}

fn add_all(sums: &mut [u32], terms: &[u32]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += term;
    }
}

/// Returns the kind of an action other than a read or write.
fn operation_of(action: &FileAction) -> Option<Operation> {
    Some(match action {
        FileAction::Open {
            presence: Presence::NotThere,
            ..
        } => Operation::OpenMissing,
        FileAction::Open {
            intent: Intent::Make, ..
        } => Operation::Create,
        FileAction::Open {
            intent: Intent::Look, ..
        } => Operation::OpenAttributes,
        FileAction::Open { .. } => Operation::Open,
        FileAction::Close { .. } => Operation::Close,
        FileAction::Flush { .. } => Operation::Flush,
        FileAction::Lock { .. } => Operation::Lock,
        FileAction::Unlock { .. } => Operation::Unlock,
        FileAction::QueryFile { .. } => Operation::QueryFile,
        FileAction::QueryTimes { .. } => Operation::QueryTimes,
        FileAction::SetTimes { .. } => Operation::SetTimes,
        FileAction::QueryPath {
            presence: Presence::NotThere,
            ..
        } => Operation::QueryPathMissing,
        FileAction::QueryPath { .. } => Operation::QueryPathFound,
        FileAction::QuerySpace => Operation::QuerySpace,
        FileAction::Find {
            presence: Presence::NotThere,
            ..
        } => Operation::FindNone,
        FileAction::Find { .. } => Operation::Find,
        FileAction::Rename { .. } => Operation::Rename,
        FileAction::Delete { .. } => Operation::Delete,
        _ => return None,
    })
}

fn count_piece(piece: &Piece) -> PieceCount {
    let mut count = PieceCount::default();
    let mut lasts: HashMap<(Slot, bool), (u64, u64)> = HashMap::new();
    let mut files = Made::default();
    for step in &piece.steps {
        files.follow(&step.action);
        match step.action {
            FileAction::Open { slot, .. } => {
                lasts.remove(&(slot, false));
                lasts.remove(&(slot, true));
            }
            FileAction::Read { slot, offset, bytes } => {
                let before = lasts.insert((slot, false), (offset, offset + u64::from(bytes)));
                count.reads.note(&READ_SIZES, before, offset, bytes);
            }
            FileAction::Write {
                slot, offset, bytes, ..
            } => {
                let before = lasts.insert((slot, true), (offset, offset + u64::from(bytes)));
                count.writes.note(&WRITE_SIZES, before, offset, bytes);
            }
            _ => {}
        }
        if let Some(operation) = operation_of(&step.action) {
            count.operation(operation);
        }
    }
    count.made = files.sizes;
    count.made.sort_unstable();
    count
}

/// Sizes of the files that a piece creates. A renamed file keeps its size.
#[derive(Debug, Default)]
struct Made {
    sizes: Vec<u64>,
    paths: HashMap<PathId, usize>,
    slots: HashMap<Slot, Option<usize>>,
}

impl Made {
    fn follow(&mut self, action: &FileAction) {
        match *action {
            FileAction::Open {
                slot,
                path,
                intent: Intent::Make,
                ..
            } => {
                self.sizes.push(0);
                self.paths.insert(path, self.sizes.len() - 1);
                self.slots.insert(slot, Some(self.sizes.len() - 1));
            }
            FileAction::Open { slot, path, .. } => {
                self.slots.insert(slot, self.paths.get(&path).copied());
            }
            FileAction::Write {
                slot, offset, bytes, ..
            } => {
                if let Some(file) = self.slots.get(&slot).copied().flatten() {
                    self.sizes[file] = self.sizes[file].max(offset + u64::from(bytes));
                }
            }
            FileAction::Rename { from, to } => {
                if let Some(file) = self.paths.remove(&from) {
                    self.paths.insert(to, file);
                }
            }
            FileAction::Delete { path, .. } => {
                self.paths.remove(&path);
            }
            _ => {}
        }
    }
}
