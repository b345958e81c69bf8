//! Parameters of a scenario step: the commands of a user who works with files. `files/scenario.rs` performs
//! the steps, which the control plane chooses.

use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Number of mdtest's phases: create, stat, read, remove.
pub(crate) const METADATA_PHASES: usize = 4;

/// Files of a directory that share a name prefix.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSpec {
    /// Prefix of the file names, before a number from 1.
    pub name: String,
    pub count: u32,
    pub bytes: u64,
}

/// A directory tree with the same files in each directory.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeSpec {
    /// Name of the topmost directory in the scenario's own directory.
    pub name: String,
    /// Number of subdirectories of each directory above the lowest level.
    pub directories: u32,
    /// Number of levels of directories below the topmost.
    pub levels: u32,
    pub files: Vec<FilesSpec>,
    /// Whether a build has left an object next to each file.
    #[serde(default)]
    pub built: bool,
}

/// Files that each client creates, stats, reads and removes. With several clients, each client stats and reads the next
/// client's files, so that none of these files are in its own cache.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataSpec {
    /// The directory's name, or the prefix of the clients' directory names.
    pub name: String,
    /// Number of concurrent clients, each with its own session and thread.
    pub clients: u32,
    pub files: u32,
    pub bytes: u64,
    /// Whether all files are in one directory. Otherwise, each client has its own directory.
    pub shared: bool,
}

/// Files that are written and read, each by one client.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamsSpec {
    /// Prefix of the file names.
    pub name: String,
    pub writers: u32,
    /// Number of clients that read what they wrote before the clock started.
    pub readers: u32,
    /// Size of each file, a multiple of the block.
    pub bytes: u64,
    /// Size of a read or write.
    pub block_bytes: u32,
    /// Concurrent reads or writes per client.
    pub depth: u32,
    /// Whether to visit the blocks in random order, each once, instead of sequentially.
    pub random: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum StepAction {
    /// Creates the scenario's own directory, which must not exist.
    MakeBase,
    /// Removes the scenario's own directory if it exists and is empty.
    RemoveBase,
    /// `tar xf`: creates directories and files with their contents; `times`: sets each file's times.
    MakeTree { tree: TreeSpec, times: bool },
    /// `ls`: lists the matching names of the topmost directory; with `long`, their attributes.
    List {
        tree: TreeSpec,
        /// Pattern with `*` and `?`, which the shell expands.
        pattern: String,
        /// Whether to list attributes: `ls -l`.
        long: bool,
    },
    /// `find -type f`: lists every directory with attributes.
    Find { tree: TreeSpec },
    /// Reads the attributes of each file, by path.
    Stat { tree: TreeSpec },
    /// Reads each file as a whole and compares it with the data written.
    Read { tree: TreeSpec },
    /// A build: per file, looks up missing headers, reads the file and writes an object. At the end, queries
    /// all files and objects, like a linker.
    Build {
        tree: TreeSpec,
        /// Number of missing names to look up per file.
        searches: u32,
        object_bytes: u64,
    },
    /// `rm -r`. `lenient`: missing files are not an error.
    RemoveTree {
        tree: TreeSpec,
        /// Whether missing files are permitted, as after a scenario that ended early.
        lenient: bool,
    },
    /// `mkfile`: writes the last byte, and then zeros from the start.
    MakeFile { file: String, bytes: u64 },
    /// `cp` of a local file.
    CopyTo { local: PathBuf, file: String },
    /// `cp` to a local file.
    CopyFrom {
        file: String,
        local: PathBuf,
        /// The local file from which `file` was copied, if any.
        copied: Option<PathBuf>,
    },
    /// mdtest's phases, by several concurrent clients.
    Metadata(MetadataSpec),
    /// Concurrent streams of several clients.
    Streams(StreamsSpec),
    /// `rm`.
    RemoveFile {
        file: String,
        /// Whether a missing file is permitted.
        lenient: bool,
    },
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    pub action: StepAction,
    pub base: String,
    /// Number of passes in one session, each of which is a level. 0: one pass that is not a level.
    pub passes: u32,
    /// The clients' st_blksize: write size of mkfile, and read and write size of other programs if above 128 KiB.
    pub block_bytes: u32,
    pub seed: u32,
}

impl StepSpec {
    /// Returns the step with its local files in `directory`.
    pub(crate) fn within(&self, directory: &Path) -> Self {
        let mut step = self.clone();
        match &mut step.action {
            StepAction::CopyTo { local, .. } => *local = directory.join(&*local),
            StepAction::CopyFrom { local, copied, .. } => {
                *local = directory.join(&*local);
                *copied = copied.as_deref().map(|copied| directory.join(copied));
            }
            _ => {}
        }
        step
    }

    /// Returns the number of gates that the step's clients pass.
    pub(crate) fn gates(&self) -> u64 {
        match &self.action {
            // Two gates per phase, and one before directories are removed.
            StepAction::Metadata(_) => 2 * METADATA_PHASES as u64 + 1,
            StepAction::Streams(_) => 2,
            _ => 2 * u64::from(self.passes),
        }
    }

    pub(crate) fn levels(&self) -> usize {
        match &self.action {
            StepAction::Metadata(_) => METADATA_PHASES,
            StepAction::Streams(shape) => usize::from(shape.writers > 0) + usize::from(shape.readers > 0),
            _ => self.passes as usize,
        }
    }
}

impl TreeSpec {
    /// Returns every directory, parents first, below `base`.
    pub(crate) fn directories(&self, base: &str) -> Vec<String> {
        let mut all = vec![format!("{base}/{}", self.name)];
        let mut level = 0..1;
        for _ in 0..self.levels {
            for parent in level.clone() {
                for number in 1..=self.directories {
                    all.push(format!("{}/d{number}", all[parent]));
                }
            }
            level = level.end..all.len();
        }
        all
    }

    /// Returns the names and sizes of the files of one directory.
    pub(crate) fn files(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.files.iter().flat_map(|files| {
            (1..=files.count).map(|number| (format!("{}{number}", files.name), files.bytes))
        })
    }

    /// Returns the number of directories at the lowest level.
    pub(crate) fn lowest(&self) -> usize {
        (self.directories as usize).saturating_pow(self.levels)
    }

    /// Returns the number of subdirectories of the topmost directory.
    pub(crate) fn below_top(&self) -> u32 {
        if self.levels == 0 {
            0
        } else {
            self.directories
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directory_of_a_tree_follows_its_parent_and_files_are_numbered() {
        let tree = TreeSpec {
            name: "t".into(),
            directories: 2,
            levels: 2,
            files: vec![FilesSpec {
                name: "a".into(),
                count: 2,
                bytes: 3,
            }],
            built: false,
        };
        assert_eq!(
            tree.directories("b"),
            [
                "b/t",
                "b/t/d1",
                "b/t/d2",
                "b/t/d1/d1",
                "b/t/d1/d2",
                "b/t/d2/d1",
                "b/t/d2/d2"
            ]
        );
        assert_eq!((tree.lowest(), tree.below_top()), (4, 2));
        let files: Vec<_> = tree.files().collect();
        assert_eq!(files, [("a1".to_owned(), 3), ("a2".to_owned(), 3)]);
        let flat = TreeSpec { levels: 0, ..tree };
        assert_eq!(
            (flat.directories("b").len(), flat.lowest(), flat.below_top()),
            (1, 1, 0)
        );
    }
}
