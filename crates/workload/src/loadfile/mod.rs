//! Load files of dbench: recorded operations of one client, replayed again and again.
//!
//! A file is understood as a whole before anything is replayed: each line is parsed (`line.rs`), then followed with the
//! names and handles that it finds and leaves (`follow.rs`), so that a recording that contradicts itself is refused with
//! its line number. What the beginning makes, before it uses anything that it made, is the set-up: its outcome is
//! prepared before a mix, and its operations are not replayed. The rest is one pass; `player.rs` repeats it. Where a pass
//! leaves other files than it found, operations of the class "restore" mend that between two passes.
//!
//! The names of dbench's own directory for its first client, `\clients\client1`, stand for the client's directory, as
//! do names without it. Names that differ in case alone are one name, as on the servers that were recorded, and
//! are used in capitals, so that the case that a server tells apart makes no difference. Levels of
//! queries are not kept: all queries of one kind are one operation.
//!
//! Not for: timed load files, whose pace is their own; and not for carrying operations out. Nobody permutes anything:
//! all clients do the same in the same order.

mod follow;
mod line;
mod play;

pub use play::LoadFileReplay;

use crate::action_class::ACTION_CLASSES;
use crate::player::Piece;
use crate::upkeep::make_file;
use crate::{ClassId, FileAction, FileCatalogue, FileOp, PathId};
use std::collections::BTreeMap;
use std::fmt;

/// More problems of a file than these tell nothing new.
const MOST_PROBLEMS: usize = 50;
/// A file is made in pieces of this size.
const BUILD_BYTES: u32 = 65_536;

/// A line that can't be understood, or contradicts those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineProblem {
    /// Counted from 1; 0 stands for the whole file.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// All that is wrong with a file; one problem a line when printed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LoadFileError {
    pub problems: Vec<LineProblem>,
    /// How many more there are.
    pub more: usize,
}

impl LoadFileError {
    fn add(&mut self, line: usize, problem: String) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(LineProblem { line, problem });
        } else {
            self.more += 1;
        }
    }
}

impl fmt::Display for LoadFileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, LineProblem { line, problem }) in self.problems.iter().enumerate() {
            let end = if number == 0 { "" } else { "\n" };
            match line {
                0 => write!(formatter, "{end}{problem}")?,
                _ => write!(formatter, "{end}line {line}: {problem}")?,
            }
        }
        if self.more > 0 {
            write!(formatter, "\nand {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadFileError {}

/// A load file, understood.
#[derive(Clone, Debug)]
pub struct LoadFile {
    catalogue: FileCatalogue,
    counts: BTreeMap<&'static str, u64>,
    /// One pass, without the set-up.
    pass: Piece,
    /// What brings the names back to where the pass began, whatever it has left, once everything is closed.
    recovery: Vec<FileAction>,
    /// Directories and files (with their sizes in bytes) that a pass begins with; directories parents first.
    directories: Vec<PathId>,
    files: Vec<(PathId, u64)>,
    marker: PathId,
    slots: usize,
}

impl LoadFile {
    /// Understands the content of a load file.
    ///
    /// # Errors
    /// All that is wrong with it, each problem with its line.
    pub fn parse(content: &[u8]) -> Result<Self, LoadFileError> {
        follow::follow(content)
    }

    /// How many operations it has, the set-up's included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.counts.values().sum()
    }

    /// How many of each kind, by the file's own names for them.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// The operations of one pass, without the set-up.
    #[must_use]
    pub fn steps(&self) -> &[FileOp] {
        &self.pass.steps
    }

    /// The files that the set-up makes, with their sizes in bytes.
    #[must_use]
    pub fn files(&self) -> &[(PathId, u64)] {
        &self.files
    }

    /// The names that it uses.
    #[must_use]
    pub fn catalogue(&self) -> &FileCatalogue {
        &self.catalogue
    }
}

/// What is done between two passes has a class of its own, behind those of actions.
const RESTORE: ClassId = ClassId(ACTION_CLASSES.len() as u8);

fn build_file(path: PathId, bytes: u64) -> impl Iterator<Item = FileAction> {
    make_file(path, bytes, BUILD_BYTES)
}
