//! The script of all clients: the names and operations of every piece, generated once.
//!
//! `play.rs` orders the pieces, `player.rs` recovers from errors.

use super::draft::{Draft, Names, Rough, PATTERNS};
use super::facts::{APPS, DOCUMENT_BYTES, SEED_DIRECTORY, SEED_FILES_BYTES};
use super::fill::Filler;
use super::share::write_out;
use super::{apps, phases, workspace, DiskMixOptions};
use crate::action_class::{class_of, ACTION_CLASSES};
use crate::player::Piece;
use crate::random::RandomStream;
use crate::upkeep::delete;
use crate::{FileAction, FileCatalogue, FileOp, Intent, PathId, Presence};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Seed of the scripts, and therefore the version of the workload. Figures with another seed are not comparable.
const SCRIPT_SEED: u64 = 3;

/// Indices of pieces after the applications.
pub(super) const SEED_WRITE: usize = APPS.len();
pub(super) const SEED_READ: usize = SEED_WRITE + 1;
pub(super) const SWEEP: usize = SEED_READ + 1;

/// Returns a piece with these actions and a recovery that deletes all files it may have created.
fn piece(actions: Vec<FileAction>) -> Piece {
    let mut made = BTreeSet::new();
    let mut generations = 0;
    for action in &actions {
        match *action {
            FileAction::Open {
                path,
                intent: Intent::Make,
                ..
            }
            | FileAction::Rename { to: path, .. }
            | FileAction::Delete { path, .. } => {
                made.insert(path);
            }
            FileAction::Write { generation, .. } => generations = generations.max(generation),
            _ => {}
        }
    }
    Piece {
        steps: actions.into_iter().map(of_class).collect(),
        generations,
        restore: Vec::new(),
        // Every path at which this piece creates, renames or deletes a file. After an error, a file may remain at any
        // of them.
        recovery: made.into_iter().map(delete).map(of_class).collect(),
        sweeps: false,
    }
}

fn of_class(action: FileAction) -> FileOp {
    let class = class_of(&action);
    FileOp { class, action }
}

/// Returns the files that a piece leaves, in the order of creation.
fn left_by(piece: &Piece) -> Vec<PathId> {
    let mut left = Vec::new();
    for step in &piece.steps {
        match step.action {
            FileAction::Open {
                path,
                intent: Intent::Make,
                ..
            } => left.push(path),
            FileAction::Rename { from, to } => {
                left.retain(|&path| path != from);
                left.push(to);
            }
            FileAction::Delete { path, .. } => left.retain(|&other| other != path),
            _ => {}
        }
    }
    left
}

#[derive(Clone, Debug)]
pub struct Script {
    pub(super) options: DiskMixOptions,
    pub(super) catalogue: FileCatalogue,
    /// The applications, the seed write and seed read phases, and the sweep.
    pub(super) pieces: Vec<Piece>,
    /// Directories of the workspace below the client's directory.
    pub(super) directories: Vec<PathId>,
    /// Files of the workspace and their sizes, fillers included.
    pub(super) files: Vec<(PathId, u64)>,
    pub(super) marker: PathId,
    /// Maximum number of concurrently open files of a piece.
    pub(super) slots: usize,
}

impl Script {
    /// Returns the scripts for these options. They are the same on every machine.
    pub fn load(options: &DiskMixOptions) -> Arc<Self> {
        let mut names = Names::default();
        names.id("");
        let directories = APPS
            .iter()
            .chain([&SEED_DIRECTORY])
            .map(|name| names.id(name))
            .collect();
        let files = workspace::files(&mut names, options.workspace_bytes);
        let marker = names.id(workspace::MARKER);
        let mut pieces: Vec<Piece> = (0..APPS.len())
            .map(|application| application_piece(application, &mut names, options))
            .collect();
        let legacy = options.legacy_seed_reads;
        pieces.push(other_piece(&mut names, phases::write_seeds));
        pieces.push(other_piece(&mut names, |draft| phases::read_seeds(draft, legacy)));
        let left: Vec<PathId> = pieces.iter().flat_map(left_by).collect();
        pieces.push(Piece {
            sweeps: true,
            ..other_piece(&mut names, |draft| phases::sweep(draft, &left))
        });
        let slots = pieces.iter().map(slots_of).max().unwrap_or(0);
        Arc::new(Self {
            options: *options,
            catalogue: FileCatalogue {
                classes: ACTION_CLASSES.map(str::to_owned).to_vec(),
                paths: names.paths,
                patterns: PATTERNS.map(str::to_owned).to_vec(),
            },
            pieces,
            directories,
            files,
            marker,
            slots,
        })
    }

    /// Returns the names that all clients use.
    pub fn catalogue(&self) -> &FileCatalogue {
        &self.catalogue
    }

    pub fn options(&self) -> &DiskMixOptions {
        &self.options
    }

    /// Returns the files of a workspace with their sizes in bytes.
    pub fn files(&self) -> impl Iterator<Item = (PathId, u64)> + '_ {
        self.files.iter().copied()
    }
}

fn application_piece(application: usize, names: &mut Names, options: &DiskMixOptions) -> Piece {
    let mut draft = Draft::new(names, APPS[application]);
    apps::write(application, &mut draft);
    let number = u32::try_from(application).expect("less than eight");
    let steps = write_out(
        application,
        &draft.steps,
        &mut RandomStream::of_thread(SCRIPT_SEED, number, 0),
    );
    let documents = |_: PathId| DOCUMENT_BYTES;
    let filler = Filler::new(&documents, options.true_offsets);
    piece(filler.fill(
        application,
        &steps,
        &mut RandomStream::of_thread(SCRIPT_SEED, number, 1),
    ))
}

fn other_piece(names: &mut Names, write: impl FnOnce(&mut Draft<'_>)) -> Piece {
    let mut draft = Draft::new(names, SEED_DIRECTORY);
    write(&mut draft);
    let steps: Vec<Rough> = draft.steps;
    // Chunks end within the largest file, and never depend on the size of a file.
    let documents = |_: PathId| SEED_FILES_BYTES[2];
    piece(Filler::new(&documents, false).follow_all(&steps))
}

fn slots_of(piece: &Piece) -> usize {
    let slots = piece.steps.iter().filter_map(|step| match step.action {
        FileAction::Open {
            slot,
            presence: Presence::There,
            ..
        } => Some(usize::from(slot.0) + 1),
        _ => None,
    });
    slots.max().unwrap_or(0)
}
