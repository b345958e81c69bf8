//! What one step of a scenario asks for: the commands of a user who works with files. Not for: doing
//! it (`files/scenario.rs`), nor for which steps a scenario has (the control plane).

use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Create, stat, read, remove.
pub(crate) const METADATA_PHASES: usize = 4;

/// Files of a directory that have a name in common.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSpec {
    /// What their names begin with; a number from 1 on follows.
    pub name: String,
    pub count: u32,
    pub bytes: u64,
}

/// A directory, directories below it, and the same files in each of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeSpec {
    /// The topmost directory, below the scenario's own.
    pub name: String,
    /// In each directory but the lowest ones.
    pub directories: u32,
    /// Of directories below the topmost.
    pub levels: u32,
    pub files: Vec<FilesSpec>,
    /// A build has left an object beside each file.
    #[serde(default)]
    pub built: bool,
}

/// Files that each client makes, asks for, reads and removes. What it asks for and reads is the next client's, where
/// there are several: nothing of it lies in its own cache.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataSpec {
    /// Of the directory, or what the names of the clients' directories begin with.
    pub name: String,
    /// At once, each with a session and a thread of its own.
    pub clients: u32,
    pub files: u32,
    pub bytes: u64,
    /// All in one directory; else each client in its own.
    pub shared: bool,
}

/// Files that are written, and others that are read, by a client each.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamsSpec {
    /// What the names of the files begin with.
    pub name: String,
    pub writers: u32,
    /// Clients that read what they wrote before the clock ran.
    pub readers: u32,
    /// Of each file, a multiple of the block.
    pub bytes: u64,
    /// Of one read or write.
    pub block_bytes: u32,
    /// Reads or writes of a client that are under way at once.
    pub depth: u32,
    /// Each block once in an order that a seed gives; else from the beginning to the end.
    pub random: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum StepAction {
    /// The scenario's own directory is made; it must not be there.
    MakeBase,
    /// It is removed, where it is there and empty.
    RemoveBase,
    /// `tar xf`: directories and files with their contents; `times`: each file's times are set.
    MakeTree {
        tree: TreeSpec,
        /// As an archive has them.
        times: bool,
    },
    /// `ls`: names of the topmost directory that match; with `long` their attributes.
    List {
        tree: TreeSpec,
        /// With `*` and `?`, which the shell expands.
        pattern: String,
        /// `ls -l`.
        long: bool,
    },
    /// `find -type f`: every directory is listed with attributes.
    Find { tree: TreeSpec },
    /// Attributes of each file, by path.
    Stat { tree: TreeSpec },
    /// Each file is read as a whole and compared with what was written.
    Read { tree: TreeSpec },
    /// A build: for each file headers are looked for in vain, it is read, and an object is written.
    Build {
        tree: TreeSpec,
        /// Names that are not there, asked for each file.
        searches: u32,
        object_bytes: u64,
    },
    /// `rm -r`. `lenient`: what is not there is none the worse.
    RemoveTree {
        tree: TreeSpec,
        /// After a scenario that ended early.
        lenient: bool,
    },
    /// `mkfile`: zeros, the last one first.
    MakeFile { file: String, bytes: u64 },
    /// `cp` of a local file.
    CopyTo {
        local: PathBuf,
        /// Its name on the server.
        file: String,
    },
    /// `cp` to a local file.
    CopyFrom {
        /// Its name on the server.
        file: String,
        local: PathBuf,
        /// The local file that was copied there; None: none was.
        copied: Option<PathBuf>,
    },
    /// mdtest's phases, by several clients at once.
    Metadata(MetadataSpec),
    /// Streams of several clients at once.
    Streams(StreamsSpec),
    /// `rm`.
    RemoveFile {
        file: String,
        /// As of a tree.
        lenient: bool,
    },
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    pub action: StepAction,
    /// The scenario's own directory, below the target's root.
    pub base: String,
    /// So many times in one session, each a level; 0: once, in no level.
    pub passes: u32,
    /// What programs read and write at once, where the file is no smaller: st_blksize.
    pub block_bytes: u32,
    pub seed: u32,
}

impl StepSpec {
    /// Return the step with its local files in this directory.
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

    /// The number of gates that its clients pass.
    pub(crate) fn gates(&self) -> u64 {
        match &self.action {
            // The phases, and once before directories are removed.
            StepAction::Metadata(_) => 2 * METADATA_PHASES as u64 + 1,
            StepAction::Streams(_) => 2,
            _ => 2 * u64::from(self.passes),
        }
    }

    /// The number of its levels.
    pub(crate) fn levels(&self) -> usize {
        match &self.action {
            StepAction::Metadata(_) => METADATA_PHASES,
            StepAction::Streams(shape) => usize::from(shape.writers > 0) + usize::from(shape.readers > 0),
            _ => self.passes as usize,
        }
    }
}

impl TreeSpec {
    /// Every directory, parents first, below `base`.
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

    /// Names of the files of one directory, each with its size.
    pub(crate) fn files(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.files.iter().flat_map(|files| {
            (1..=files.count).map(|number| (format!("{}{number}", files.name), files.bytes))
        })
    }

    /// How many directories are the lowest ones.
    pub(crate) fn lowest(&self) -> usize {
        (self.directories as usize).saturating_pow(self.levels)
    }

    /// Directories in each but the lowest ones, so in the topmost.
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
    fn a_tree_has_every_directory_behind_its_parent_and_numbers_its_files() {
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
