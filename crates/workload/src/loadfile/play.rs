//! A client's way through a load file, pass after pass, and recovery from errors.
//!
//! Once an operation has not ended as recorded, the rest of the pass is about files that may be there or not: what it
//! makes replaces what is there, looks for names may find either, and files that were not opened are left alone. After
//! such a pass, which is not counted, the files that passes begin with are restored whatever is left.

use super::{build_file, LoadFile, RESTORE};
use crate::{
    FileAction, FileCatalogue, FileOp, FileWorkload, Intent, Outcome, PathId, Presence, Slot, Workload,
};
use std::sync::Arc;

const MARKER_BYTES: u64 = 1;

/// The replay of one client.
#[derive(Clone, Debug)]
pub struct LoadFileReplay {
    file: Arc<LoadFile>,
    /// Of the pass, then of what restores its beginning.
    next: usize,
    open: Vec<bool>,
    last: Option<FileAction>,
    /// Something in this pass did not end as recorded.
    disturbed: bool,
    /// What is still to be done after a disturbed pass, the first at the end.
    recovery: Vec<FileAction>,
    recovering: bool,
    /// What the generations of this pass's writes count from.
    generation: u32,
    passes: u64,
    begins_piece: bool,
}

impl LoadFileReplay {
    /// The replay of one client, which does as all others do, with contents of its own.
    #[must_use]
    pub fn new(file: Arc<LoadFile>, client: u32) -> Self {
        let open = vec![false; file.slots];
        Self {
            file,
            next: 0,
            open,
            last: None,
            disturbed: false,
            recovery: Vec::new(),
            recovering: false,
            generation: client.rotate_left(20),
            passes: 0,
            begins_piece: false,
        }
    }

    /// Learns how the last operation ended.
    fn note(&mut self, last: &Outcome) {
        let Some(action) = self.last.take() else { return };
        self.disturbed |= !last.ok || last.session_lost;
        match action {
            _ if last.session_lost => self.open.fill(false),
            FileAction::Open {
                slot,
                presence: Presence::There,
                ..
            } => self.set_open(slot, last.ok),
            FileAction::Close { slot } => self.set_open(slot, false),
            _ => {}
        }
    }

    fn set_open(&mut self, slot: Slot, open: bool) {
        if let Some(place) = self.open.get_mut(usize::from(slot.0)) {
            *place = open;
        }
    }

    fn next_step(&mut self) -> FileOp {
        loop {
            if let Some(step) = self.find_step() {
                if self.can_be_done(&step.action) {
                    return step;
                }
            }
        }
    }

    /// The next step, if there is one before this pass or what restores its beginning has ended.
    fn find_step(&mut self) -> Option<FileOp> {
        if self.recovering {
            let action = self.recovery.pop();
            if action.is_none() {
                self.recovering = false;
                self.begin_pass();
            }
            return action.map(|action| FileOp {
                class: RESTORE,
                action,
            });
        }
        let number = self.next;
        self.next += 1;
        if let Some(&step) = self.file.steps.get(number) {
            self.begins_piece |= number == 0;
            return Some(self.adapted(step));
        }
        if self.disturbed {
            self.recovery = self.way_back();
            self.recovery.reverse();
            self.recovering = true;
            self.disturbed = false;
            return None;
        }
        let step = self.file.restore.get(number - self.file.steps.len()).copied();
        if step.is_none() {
            self.passes += 1;
            self.begin_pass();
        }
        step
    }

    fn begin_pass(&mut self) {
        self.next = 0;
        self.generation = self.generation.wrapping_add(self.file.generations);
    }

    /// Closes what is open, then whatever it takes to come back to the beginning of a pass.
    fn way_back(&self) -> Vec<FileAction> {
        let open = (0_u16..).zip(&self.open).filter(|(_, open)| **open);
        let closes = open.map(|(slot, _)| FileAction::Close { slot: Slot(slot) });
        closes.chain(self.file.recovery.iter().copied()).collect()
    }

    /// Whether the file that it is about is open, if it must be.
    fn can_be_done(&self, action: &FileAction) -> bool {
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
            | FileAction::SetTimes { slot } => self.open.get(usize::from(slot.0)) == Some(&true),
            _ => true,
        }
    }

    fn adapted(&self, mut step: FileOp) -> FileOp {
        if let FileAction::Write { generation, .. } = &mut step.action {
            *generation = generation.wrapping_add(self.generation);
        }
        if self.disturbed {
            forgive(&mut step.action);
        }
        step
    }
}

/// Makes an action one that a file that was left, or is missing, does not fail.
fn forgive(action: &mut FileAction) {
    match action {
        // Directories can't be replaced.
        FileAction::Open {
            intent, directory, ..
        } if *intent == Intent::Make => {
            *intent = if *directory {
                Intent::MakeOrEdit
            } else {
                Intent::Replace
            };
        }
        // Found after all, it would have to be closed again, which nobody recorded.
        FileAction::Open {
            path,
            presence: Presence::NotThere,
            ..
        } => {
            *action = FileAction::QueryPath {
                path: *path,
                presence: Presence::Either,
            };
        }
        FileAction::Delete { presence, .. }
        | FileAction::QueryPath { presence, .. }
        | FileAction::Find { presence, .. }
        | FileAction::MakeDirectory { presence, .. }
        | FileAction::RemoveDirectory { presence, .. } => *presence = Presence::Either,
        _ => {}
    }
}

impl Workload for LoadFileReplay {
    type Op = FileOp;

    fn next(&mut self, last: &Outcome) -> FileOp {
        self.note(last);
        self.begins_piece = false;
        let step = self.next_step();
        self.last = Some(step.action);
        step
    }

    /// A whole pass is one piece: what came between its operations is not in the file.
    fn begins_piece(&self) -> bool {
        self.begins_piece
    }
}

impl FileWorkload for LoadFileReplay {
    fn catalogue(&self) -> &FileCatalogue {
        &self.file.catalogue
    }

    fn preparation(&self, found: bool) -> Vec<FileAction> {
        if found {
            return self.file.recovery.clone();
        }
        let presence = Presence::Either;
        let directories = self.file.directories.iter();
        let mut actions: Vec<FileAction> = directories
            .map(|&path| FileAction::MakeDirectory { path, presence })
            .collect();
        let path = self.file.marker;
        actions.push(FileAction::Delete { path, presence });
        actions.extend(&self.file.recovery);
        for &(path, bytes) in &self.file.files {
            build_file(&mut actions, path, bytes);
        }
        build_file(&mut actions, self.file.marker, MARKER_BYTES);
        actions
    }

    fn marker(&self) -> PathId {
        self.file.marker
    }

    fn leaving(&self) -> Vec<FileAction> {
        // The operation that was given last is not carried out.
        if self.next <= 1 && !self.disturbed {
            return Vec::new();
        }
        self.way_back()
    }

    fn removal(&self) -> Vec<FileAction> {
        let presence = Presence::Either;
        let files = std::iter::once(self.file.marker).chain(self.file.files.iter().map(|&(path, _)| path));
        let directories = self.file.directories.iter().rev();
        files
            .map(|path| FileAction::Delete { path, presence })
            .chain(directories.map(|&path| FileAction::RemoveDirectory { path, presence }))
            .collect()
    }

    fn passes(&self) -> u64 {
        self.passes
    }

    fn pass_operations(&self) -> u64 {
        (self.file.steps.len() + self.file.restore.len()) as u64
    }
}
