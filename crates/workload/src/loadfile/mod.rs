//! Load files of dbench: recorded operations of one client, replayed repeatedly.
//!
//! The whole file is interpreted before replay: each line is parsed (`line.rs`), then followed with the
//! current names and handles (`follow.rs`). A contradictory recording is therefore rejected with its line
//! number. The set-up is the start of the file, which creates files without using them. Its result is prepared
//! before a level, and its operations are not replayed. The rest is one pass, which `player.rs` repeats. If a
//! pass changes its initial files, operations of the class "restore" restore them between passes.
//!
//! The directory of dbench's first client, `\\clients\\client1`, stands for the client's directory. Names
//! without this prefix are also below the client's directory. Names that differ only in case are one name, as
//! on the recorded servers. They are converted to capitals, so that they are also one name on case-sensitive
//! servers. Query levels are ignored: all queries of one kind are one operation.
//!
//! Load files with times, which define their own pace, are not supported. All clients perform the same
//! operations in the same order.

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

/// Maximum number of problems reported per file. More would give no new information.
const MOST_PROBLEMS: usize = 50;
/// Write size when creating a file.
const BUILD_BYTES: u32 = 65_536;

/// A line that can't be parsed, or contradicts earlier lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineProblem {
    /// Number of the line, from 1; 0: the whole file.
    pub line: usize,
    pub problem: String,
}

/// All problems of a file, printed one per line.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LoadFileError {
    pub problems: Vec<LineProblem>,
    /// Number of further problems, which are not reported.
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

#[derive(Clone, Debug)]
pub struct LoadFile {
    catalogue: FileCatalogue,
    counts: BTreeMap<&'static str, u64>,
    /// One pass, without the set-up.
    pass: Piece,
    /// Restores the initial files of a pass, whatever exists. All files are closed before.
    recovery: Vec<FileAction>,
    /// Directories and files (with sizes in bytes) at the start of a pass. Parent directories are first.
    directories: Vec<PathId>,
    files: Vec<(PathId, u64)>,
    marker: PathId,
    slots: usize,
}

impl LoadFile {
    /// Parses the content of a load file.
    ///
    /// # Errors
    /// All problems, each with its line.
    pub fn parse(content: &[u8]) -> Result<Self, LoadFileError> {
        follow::follow(content)
    }

    /// Returns the number of operations, including those of the set-up.
    pub fn operations(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the number of operations by kind, with the names in the file.
    pub fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    /// Returns the operations of one pass, without the set-up.
    pub fn steps(&self) -> &[FileOp] {
        &self.pass.steps
    }

    /// Returns the files that the set-up creates, with their sizes in bytes.
    pub fn files(&self) -> &[(PathId, u64)] {
        &self.files
    }

    /// Returns the names that the load file uses.
    pub fn catalogue(&self) -> &FileCatalogue {
        &self.catalogue
    }
}

/// Class of the operations between two passes. Its number follows the classes of actions.
const RESTORE: ClassId = ClassId(ACTION_CLASSES.len() as u8);

fn build_file(path: PathId, bytes: u64) -> impl Iterator<Item = FileAction> {
    make_file(path, bytes, BUILD_BYTES)
}
