//! A client's way through the script: pass after pass, its own order of applications, and recovery from errors.
//!
//! An operation that fails must not spoil the passes after it. While a piece is disturbed, what it makes replaces what
//! is there, and what it deletes may be gone; a file that was not opened is left alone until its close. After it, every
//! file that it may have made is deleted, so that the next pass finds the workspace as the first one did.
//!
//! Not for: what pieces are made of (`script.rs`).

use super::facts::APPS;
use super::script::{Piece, SEED_READ, SEED_WRITE, SWEEP};
use super::share::shuffle;
use super::Script;
use crate::action_class::class_of;
use crate::random::RandomStream;
use crate::{
    FileAction, FileCatalogue, FileOp, FileWorkload, Intent, Outcome, PathId, Presence, Slot, Workload,
};
use std::sync::Arc;

/// Pieces of a pass: an application and a seed phase by turns, and the sweep after the last application.
const PIECES: usize = 2 * APPS.len();
/// Sets the stream of the order of applications apart from those of a client's threads.
const ORDER_STREAM: u32 = u32::MAX;

/// What an application's number for a file leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Open,
    /// The open failed: nothing is done with it until its close.
    Refused,
}

/// The disk mix of one client.
#[derive(Clone, Debug)]
pub struct DiskMix {
    script: Arc<Script>,
    order: [usize; PIECES],
    /// Which piece of the pass, and which of its steps is next.
    piece: usize,
    step: usize,
    /// Which of the files that a disturbed piece may have made is deleted next.
    cleaning: Option<usize>,
    slots: Vec<State>,
    last: Option<FileAction>,
    begins_piece: bool,
    /// An operation of this piece, or of this pass, failed.
    piece_disturbed: bool,
    pass_disturbed: bool,
    /// Before that of the current piece's first write.
    generation: u32,
    passes: u64,
}

impl DiskMix {
    /// The mix of one client: seed and client choose the order of its applications, and the contents that it writes.
    #[must_use]
    pub fn new(script: Arc<Script>, seed: u64, client: u32) -> Self {
        let mut random = RandomStream::of_thread(seed, client, ORDER_STREAM);
        let mut applications: [usize; APPS.len()] = std::array::from_fn(|number| number);
        shuffle(&mut applications, &mut random);
        let order = std::array::from_fn(|place| match place {
            place if place % 2 == 0 => applications[place / 2],
            place if place == PIECES - 1 => SWEEP,
            place if place % 4 == 1 => SEED_WRITE,
            _ => SEED_READ,
        });
        let slots = vec![State::Closed; script.slots];
        Self {
            script,
            order,
            piece: 0,
            step: 0,
            cleaning: None,
            slots,
            last: None,
            begins_piece: false,
            piece_disturbed: false,
            pass_disturbed: false,
            // Anything but the workspace's own, which is 0.
            generation: random.below(u32::MAX),
            passes: 0,
        }
    }

    /// Names of the pieces of a pass, in this client's order.
    #[must_use]
    pub fn order(&self) -> Vec<&'static str> {
        let name = |&number: &usize| match number {
            SEED_WRITE => "seed write",
            SEED_READ => "seed read",
            SWEEP => "sweep",
            application => APPS[application],
        };
        self.order.iter().map(name).collect()
    }

    fn current(&self) -> &Piece {
        &self.script.pieces[self.order[self.piece]]
    }

    /// Learns how the last operation ended.
    fn note(&mut self, last: &Outcome) {
        let Some(action) = self.last.take() else { return };
        if last.session_lost {
            self.slots.fill(State::Closed);
            // What is left of the piece would be about files that are no longer open.
            self.step = self.current().steps.len();
        } else {
            match action {
                FileAction::Open {
                    slot,
                    presence: Presence::There,
                    ..
                } => {
                    self.slots[usize::from(slot.0)] = if last.ok { State::Open } else { State::Refused };
                }
                FileAction::Close { slot } => self.slots[usize::from(slot.0)] = State::Closed,
                _ => {}
            }
        }
        if !last.ok || last.session_lost {
            self.piece_disturbed = true;
            self.pass_disturbed = true;
        }
    }

    /// The next action of the script or, after a disturbed piece, of cleaning up.
    fn next_action(&mut self) -> FileAction {
        loop {
            if let Some(number) = self.cleaning {
                if let Some(&path) = self.current().made.get(number) {
                    self.cleaning = Some(number + 1);
                    let presence = Presence::Either;
                    return FileAction::Delete { path, presence };
                }
                self.cleaning = None;
                self.piece_disturbed = false;
                self.begin_next_piece();
            } else if let Some(step) = self.current().steps.get(self.step) {
                let action = step.action;
                self.begins_piece |= self.step == 0;
                self.step += 1;
                if self.can_be_done(&action) {
                    return self.adapted(action);
                }
            } else if self.piece_disturbed {
                self.cleaning = Some(0);
            } else {
                self.begin_next_piece();
            }
        }
    }

    fn begin_next_piece(&mut self) {
        self.generation = self.generation.wrapping_add(self.current().generations);
        self.step = 0;
        self.piece += 1;
        if self.piece == PIECES {
            self.piece = 0;
            self.passes += u64::from(!self.pass_disturbed);
            self.pass_disturbed = false;
        }
    }

    /// Whether the file that it is about is open, if it must be.
    fn can_be_done(&mut self, action: &FileAction) -> bool {
        let Some(slot) = slot_of(action) else { return true };
        let state = &mut self.slots[usize::from(slot.0)];
        let open = *state == State::Open;
        if matches!(action, FileAction::Close { .. }) && !open {
            *state = State::Closed;
        }
        open
    }

    fn adapted(&self, mut action: FileAction) -> FileAction {
        if let FileAction::Write { generation, .. } = &mut action {
            *generation = generation.wrapping_add(self.generation);
        }
        let sweeps = self.order[self.piece] == SWEEP;
        if self.piece_disturbed || (sweeps && self.pass_disturbed) {
            forgive(&mut action);
        }
        action
    }
}

/// Makes an action one that a file that was left, or is missing, does not fail.
fn forgive(action: &mut FileAction) {
    match action {
        FileAction::Open { intent, .. } if *intent == Intent::Make => *intent = Intent::Replace,
        FileAction::Delete { presence, .. } | FileAction::QueryPath { presence, .. } => {
            *presence = Presence::Either;
        }
        _ => {}
    }
}

/// The slot that must be open for an action.
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

impl Workload for DiskMix {
    type Op = FileOp;

    fn next(&mut self, last: &Outcome) -> FileOp {
        self.note(last);
        self.begins_piece = false;
        let action = self.next_action();
        self.last = Some(action);
        FileOp {
            class: class_of(&action),
            action,
        }
    }

    fn begins_piece(&self) -> bool {
        self.begins_piece
    }
}

impl FileWorkload for DiskMix {
    fn catalogue(&self) -> &FileCatalogue {
        &self.script.catalogue
    }

    fn preparation(&self, found: bool) -> Vec<FileAction> {
        if found {
            self.script.delete_all_made()
        } else {
            self.script.build()
        }
    }

    fn marker(&self) -> PathId {
        self.script.marker
    }

    fn leaving(&self) -> Vec<FileAction> {
        let open = (0_u16..)
            .zip(&self.slots)
            .filter(|(_, &state)| state == State::Open);
        let closes = open.map(|(slot, _)| FileAction::Close { slot: Slot(slot) });
        let begun = self.order[..=self.piece].iter().filter(|&&piece| piece != SWEEP);
        let made = begun.flat_map(|&piece| &self.script.pieces[piece].made);
        let presence = Presence::Either;
        closes
            .chain(made.map(|&path| FileAction::Delete { path, presence }))
            .collect()
    }

    fn removal(&self) -> Vec<FileAction> {
        self.script.remove()
    }

    fn passes(&self) -> u64 {
        self.passes
    }

    fn pass_operations(&self) -> u64 {
        let pieces = self.order.iter().map(|&piece| &self.script.pieces[piece]);
        pieces.map(|piece| piece.steps.len() as u64).sum()
    }
}
