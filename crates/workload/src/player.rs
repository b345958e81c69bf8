//! Plays scripts, which are data, piece by piece and pass by pass, and recovers from errors.
//!
//! A failed operation must not spoil later passes. While a piece is disturbed, its steps tolerate leftover
//! and missing files, and skip a file that was not opened until its close. Then the piece's recovery restores
//! the initial state of later pieces, or of the next pass.
//!
//! `diskmix` and `loadfile` create scripts, and create and remove the workspace.

use crate::{FileAction, FileOp, Intent, Outcome, Presence, Slot, Workload};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Piece {
    /// The operations. Their writes have generations from 1.
    pub(crate) steps: Vec<FileOp>,
    /// Number of generations of the piece's writes.
    pub(crate) generations: u32,
    /// Restores the workspace if no step failed.
    pub(crate) restore: Vec<FileOp>,
    /// Restores the workspace after a failed step, whatever exists.
    pub(crate) recovery: Vec<FileOp>,
    /// Whether the piece deletes files of other pieces, so that a failure in any of them disturbs it.
    pub(crate) sweeps: bool,
}

/// Properties of a script other than its pieces.
pub trait Scripted {
    /// Whether only the sweep uses files of other pieces. If so, the loss of the session skips the rest of a
    /// piece and starts the piece's recovery. A failed recovery then disturbs only the sweep.
    const HAS_SEPARATE_PIECES: bool;
    /// Whether opens and searches that must find nothing look for names that a pass creates. If so, they may
    /// find leftovers.
    const LOOKS_FOR_ITS_OWN: bool;

    fn pieces(&self) -> &[Piece];

    /// Returns the maximum number of concurrently open files of a piece.
    fn slots(&self) -> usize;
}

/// One client's progress through a script.
#[derive(Clone, Debug)]
pub struct Player<S> {
    pub(crate) script: Arc<S>,
    /// Indices of the pieces of a pass.
    pub(crate) order: Vec<usize>,
    /// Index into `order`.
    piece: usize,
    /// Index into the steps of the piece followed by its restore, or, while `recovers`, into its recovery.
    next: usize,
    recovers: bool,
    /// Whether a file is open, by slot.
    open: Vec<bool>,
    last: Option<FileAction>,
    begins_piece: bool,
    /// Whether an operation of this piece, or of this pass, failed.
    is_disturbed: bool,
    pass_is_disturbed: bool,
    /// First generation of writes in the current piece.
    generation: u32,
    pub(crate) passes: u64,
}

impl<S: Scripted> Player<S> {
    /// Plays these pieces of `script` in each pass. Generations of writes start at `generation`.
    pub(crate) fn of_pieces(script: Arc<S>, order: Vec<usize>, generation: u32) -> Self {
        let open = vec![false; script.slots()];
        Self {
            script,
            order,
            piece: 0,
            next: 0,
            recovers: false,
            open,
            last: None,
            begins_piece: false,
            is_disturbed: false,
            pass_is_disturbed: false,
            generation,
            passes: 0,
        }
    }

    /// Returns the pieces of this pass, up to the current one.
    pub(crate) fn begun(&self) -> impl Iterator<Item = &Piece> {
        let pieces = self.script.pieces();
        self.order[..=self.piece].iter().map(|&piece| &pieces[piece])
    }

    /// Returns whether no operation of the current piece has been performed yet. The last operation that `next`
    /// returned counts as not performed.
    pub(crate) fn is_at_beginning(&self) -> bool {
        self.next <= 1 && !self.recovers && !self.is_disturbed
    }

    /// Returns the actions that close all open files.
    pub(crate) fn closes(&self) -> impl Iterator<Item = FileAction> + '_ {
        let open = (0_u16..).zip(&self.open).filter(|(_, open)| **open);
        open.map(|(slot, _)| FileAction::Close { slot: Slot(slot) })
    }

    pub(crate) fn operations_of_pass(&self) -> u64 {
        let pieces = self.order.iter().map(|&piece| &self.script.pieces()[piece]);
        pieces
            .map(|piece| (piece.steps.len() + piece.restore.len()) as u64)
            .sum()
    }

    fn current(&self) -> &Piece {
        &self.script.pieces()[self.order[self.piece]]
    }

    /// Records the outcome of the last operation.
    fn note(&mut self, last: &Outcome) {
        let Some(action) = self.last.take() else { return };
        match action {
            _ if last.session_lost => {
                self.open.fill(false);
                if S::HAS_SEPARATE_PIECES && !self.recovers {
                    self.next = self.current().steps.len();
                }
            }
            FileAction::Open {
                slot,
                presence: Presence::There,
                ..
            } => self.open[usize::from(slot.0)] = last.ok,
            FileAction::Close { slot } => self.open[usize::from(slot.0)] = false,
            _ => {}
        }
        if !last.ok || last.session_lost {
            self.is_disturbed = true;
            self.pass_is_disturbed = true;
        }
    }

    fn next_op(&mut self) -> FileOp {
        loop {
            match self.find_op() {
                Some(op) if self.can_be_done(&op.action) => return op,
                Some(_) => {}
                None => self.go_on(),
            }
        }
    }

    /// Returns the next operation of the piece or of its recovery, or None once the piece or the recovery is over.
    fn find_op(&mut self) -> Option<FileOp> {
        let number = self.next;
        self.next += 1;
        let piece = &self.script.pieces()[self.order[self.piece]];
        if self.recovers {
            return piece.recovery.get(number).copied();
        }
        if let Some(&step) = piece.steps.get(number) {
            self.begins_piece |= number == 0;
            return Some(self.adapted(step, piece.sweeps));
        }
        if self.is_disturbed {
            return None;
        }
        piece.restore.get(number - piece.steps.len()).copied()
    }

    /// Starts the recovery of a disturbed piece, or the next piece.
    fn go_on(&mut self) {
        self.next = 0;
        if self.is_disturbed && !self.recovers {
            self.recovers = true;
            self.is_disturbed = S::HAS_SEPARATE_PIECES;
            return;
        }
        self.recovers = false;
        self.is_disturbed &= !S::HAS_SEPARATE_PIECES;
        self.generation = self.generation.wrapping_add(self.current().generations);
        self.piece += 1;
        if self.piece == self.order.len() {
            self.piece = 0;
            self.passes += u64::from(!self.pass_is_disturbed);
            self.pass_is_disturbed = self.is_disturbed;
        }
    }

    /// Returns whether the action needs no open file, or its file is open.
    fn can_be_done(&self, action: &FileAction) -> bool {
        slot_of(action).is_none_or(|slot| self.open[usize::from(slot.0)])
    }

    fn adapted(&self, mut step: FileOp, sweeps: bool) -> FileOp {
        if let FileAction::Write { generation, .. } = &mut step.action {
            *generation = generation.wrapping_add(self.generation);
        }
        if self.is_disturbed || (sweeps && self.pass_is_disturbed) {
            forgive(&mut step.action, S::LOOKS_FOR_ITS_OWN);
        }
        step
    }
}

/// Changes an action so that a leftover or missing file does not fail it.
fn forgive(action: &mut FileAction, looks_for_its_own: bool) {
    match action {
        // A directory can't be replaced.
        FileAction::Open {
            intent, directory, ..
        } if *intent == Intent::Make => {
            *intent = if *directory {
                Intent::MakeOrEdit
            } else {
                Intent::Replace
            };
        }
        // If the file were found, it would have to be closed, but the script has no close for it.
        FileAction::Open {
            path,
            presence: Presence::NotThere,
            ..
        } if looks_for_its_own => {
            let (path, presence) = (*path, Presence::Either);
            *action = FileAction::QueryPath { path, presence };
        }
        FileAction::Find { presence, .. } if looks_for_its_own => *presence = Presence::Either,
        FileAction::Delete { presence, .. }
        | FileAction::QueryPath { presence, .. }
        | FileAction::MakeDirectory { presence, .. }
        | FileAction::RemoveDirectory { presence, .. } => *presence = Presence::Either,
        _ => {}
    }
}

/// Returns the slot that must be open for an action.
fn slot_of(action: &FileAction) -> Option<Slot> {
    match *action {
        FileAction::Close { slot }
        | FileAction::Read { slot, .. }
        | FileAction::Write { slot, .. }
        | FileAction::Flush { slot }
        | FileAction::Lock { slot, .. }
        | FileAction::Unlock { slot, .. }
        | FileAction::QueryFile { slot }
        | FileAction::QueryTimes { slot }
        | FileAction::SetEnd { slot, .. }
        | FileAction::SetTimes { slot } => Some(slot),
        _ => None,
    }
}

impl<S: Scripted + Send + Sync> Workload for Player<S> {
    type Op = FileOp;

    fn next(&mut self, last: &Outcome) -> FileOp {
        self.note(last);
        self.begins_piece = false;
        let op = self.next_op();
        self.last = Some(op.action);
        op
    }

    fn begins_piece(&self) -> bool {
        self.begins_piece
    }
}
