//! Failover: each client keeps its own file open and continues to write and read it through server outages.
//! It writes a block, flushes after every few writes, and reads a block. Blocks are drawn at random. After
//! the level, every block is read back.
//!
//! `versions.rs` defines the contents of a block and the permitted losses.

use crate::random::RandomStream;
use crate::upkeep::{self, make_directory, open};
use crate::{
    ClassId, FileAction, FileCatalogue, FileOp, FileWorkload, Intent, Outcome, PathId, Slot, Workload,
};

const OPEN: ClassId = ClassId(0);
const WRITE: ClassId = ClassId(1);
const FLUSH: ClassId = ClassId(2);
const READ: ClassId = ClassId(3);

const DIRECTORY: PathId = PathId(0);
const FILE: PathId = PathId(1);
const SLOT: Slot = Slot(0);
/// Slot for reading the whole file back after the level.
const SECOND_SLOT: Slot = Slot(1);
/// Number of a client's random stream for blocks, unique among its streams.
const BLOCKS_STREAM: u32 = u32::MAX - 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailoverOptions {
    pub blocks: u32,
    pub block_bytes: u32,
    pub writes_per_flush: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    None,
    Open,
    Write,
    Flush,
    Read,
}

#[derive(Clone, Debug)]
pub struct Failover {
    options: FailoverOptions,
    catalogue: FileCatalogue,
    random: RandomStream,
    last: Step,
    unflushed: u32,
    turns: u64,
}

impl Failover {
    /// Returns the client's operations for this seed.
    pub fn new(options: FailoverOptions, seed: u64, client: u32) -> Self {
        Self {
            options,
            catalogue: FileCatalogue {
                classes: ["open", "write", "flush", "read"].map(str::to_owned).to_vec(),
                paths: ["", "kept"].map(str::to_owned).to_vec(),
                patterns: Vec::new(),
            },
            random: RandomStream::of_thread(seed, client, BLOCKS_STREAM),
            last: Step::None,
            unflushed: 0,
            turns: 0,
        }
    }

    /// Returns the step after the last one. Reopens a file whose open failed or whose session was lost.
    fn following(&self, last: &Outcome) -> Step {
        match self.last {
            _ if last.session_lost => Step::Open,
            Step::None => Step::Open,
            Step::Open if !last.ok => Step::Open,
            Step::Write if self.unflushed >= self.options.writes_per_flush => Step::Flush,
            Step::Write | Step::Flush => Step::Read,
            Step::Open | Step::Read => Step::Write,
        }
    }

    fn offsets(&self) -> impl Iterator<Item = u64> {
        let block_bytes = u64::from(self.options.block_bytes);
        (0..u64::from(self.options.blocks)).map(move |block| block * block_bytes)
    }

    fn draw(&mut self) -> u64 {
        u64::from(self.random.below(self.options.blocks)) * u64::from(self.options.block_bytes)
    }

    fn write(&self, offset: u64) -> FileAction {
        FileAction::WriteBlock {
            slot: SLOT,
            path: FILE,
            offset,
            bytes: self.options.block_bytes,
        }
    }
}

impl Workload for Failover {
    type Op = FileOp;

    fn next(&mut self, last: &Outcome) -> FileOp {
        if last.session_lost {
            self.unflushed = 0;
        }
        let step = self.following(last);
        self.last = step;
        let (class, action) = match step {
            Step::Open | Step::None => (OPEN, open(SLOT, FILE, Intent::Edit)),
            Step::Write => {
                self.unflushed += 1;
                let offset = self.draw();
                (WRITE, self.write(offset))
            }
            Step::Flush => {
                self.unflushed = 0;
                (FLUSH, FileAction::Flush { slot: SLOT })
            }
            Step::Read => {
                self.turns += 1;
                let action = FileAction::ReadBlock {
                    slot: SLOT,
                    path: FILE,
                    offset: self.draw(),
                    bytes: self.options.block_bytes,
                };
                (READ, action)
            }
        };
        FileOp { class, action }
    }

    fn begins_piece(&self) -> bool {
        matches!(self.last, Step::Open | Step::Write)
    }
}

impl FileWorkload for Failover {
    fn catalogue(&self) -> &FileCatalogue {
        &self.catalogue
    }

    /// Creates the file again for each level. Versions count from 0, so a version of an earlier level could
    /// otherwise be mistaken for one of this level.
    fn preparation(&self, _found: bool) -> Vec<FileAction> {
        let mut made = vec![make_directory(DIRECTORY), open(SLOT, FILE, Intent::Replace)];
        made.extend(self.offsets().map(|offset| self.write(offset)));
        made.extend([FileAction::Flush { slot: SLOT }, FileAction::Close { slot: SLOT }]);
        made
    }

    fn marker(&self) -> PathId {
        FILE
    }

    fn leaving(&self) -> Vec<FileAction> {
        let mut left = vec![
            FileAction::LetGo { slot: SLOT },
            open(SECOND_SLOT, FILE, Intent::Read),
        ];
        left.extend(self.offsets().map(|offset| FileAction::ReadBack {
            slot: SECOND_SLOT,
            path: FILE,
            offset,
            bytes: self.options.block_bytes,
        }));
        left.push(FileAction::Close { slot: SECOND_SLOT });
        left
    }

    fn removal(&self) -> Vec<FileAction> {
        upkeep::remove([FILE], [DIRECTORY])
    }

    fn passes(&self) -> u64 {
        self.turns
    }

    fn pass_operations(&self) -> u64 {
        2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint_bytes;

    const OPTIONS: FailoverOptions = FailoverOptions {
        blocks: 8,
        block_bytes: 4096,
        writes_per_flush: 2,
    };
    const FAILED: Outcome = Outcome {
        ok: false,
        ..Outcome::START
    };
    const LOST: Outcome = Outcome {
        session_lost: true,
        ..FAILED
    };

    fn steps(outcomes: &[Outcome]) -> Vec<ClassId> {
        let mut workload = Failover::new(OPTIONS, 1, 3);
        let class = |outcome| workload.next(outcome).class;
        outcomes.iter().map(class).collect()
    }

    #[test]
    fn a_file_stays_open_and_is_flushed_after_every_few_writes() {
        let expected = [OPEN, WRITE, READ, WRITE, FLUSH, READ, WRITE, READ, WRITE, FLUSH];
        assert_eq!(steps(&[Outcome::START; 10]), expected);
    }

    #[test]
    fn only_a_lost_session_or_a_failed_open_reopens_the_file() {
        let ok = Outcome::START;
        for (outcomes, expected) in [
            (vec![ok, FAILED, FAILED], vec![OPEN, OPEN, OPEN]),
            (vec![ok, ok, FAILED], vec![OPEN, WRITE, READ]),
            (vec![ok, ok, LOST, ok], vec![OPEN, WRITE, OPEN, WRITE]),
        ] {
            assert_eq!(steps(&outcomes), expected);
        }
    }

    #[test]
    fn every_block_is_created_and_read_back() {
        let workload = Failover::new(OPTIONS, 1, 0);
        let count = |actions: Vec<FileAction>, is_it: fn(&FileAction) -> bool| {
            actions.iter().filter(|action| is_it(action)).count()
        };
        let made = |action: &FileAction| matches!(action, FileAction::WriteBlock { .. });
        let read = |action: &FileAction| matches!(action, FileAction::ReadBack { .. });
        assert_eq!(count(workload.preparation(true), made), 8);
        assert_eq!(count(workload.leaving(), read), 8);
        assert_eq!(footprint_bytes(&mut Failover::new(OPTIONS, 1, 0)), 8 * 4096);
    }
}
