//! Contention: all clients work on the same few files. A turn opens one of them, locks a block, reads it,
//! sometimes rewrites it, unlocks and closes. A server that grants caching to its clients must break it
//! repeatedly.
//!
//! The first client creates the files. Each client draws its files, blocks and writes independently.
//! `versions.rs` defines the contents of a block and checks reads.

use crate::random::RandomStream;
use crate::upkeep::{self, make_directory, make_file, open};
use crate::{
    ClassId, FileAction, FileCatalogue, FileOp, FileWorkload, Intent, Outcome, PathId, Slot, Workload,
};

const OPEN: ClassId = ClassId(0);
const LOCK: ClassId = ClassId(1);
const READ: ClassId = ClassId(2);
const WRITE: ClassId = ClassId(3);
const UNLOCK: ClassId = ClassId(4);
const CLOSE: ClassId = ClassId(5);

const DIRECTORY: PathId = PathId(0);
const MARKER: PathId = PathId(1);
const FIRST_FILE: u32 = 2;
const SLOT: Slot = Slot(0);
/// Number of a client's random stream for turns, unique among its streams.
const TURNS_STREAM: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentionOptions {
    pub files: u32,
    pub blocks: u32,
    pub block_bytes: u32,
    /// Percentage of turns that write; the other turns only read.
    pub writes_percent: u32,
}

/// Next step of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Open,
    Lock,
    Read,
    Write,
    Unlock,
    Close,
}

#[derive(Clone, Debug)]
pub struct Contention {
    options: ContentionOptions,
    catalogue: FileCatalogue,
    random: RandomStream,
    first: bool,
    /// Last step that `next` returned; `Close` before the first turn.
    last: Step,
    path: PathId,
    offset: u64,
    writes: bool,
    turns: u64,
}

impl Contention {
    /// Returns the client's operations for this seed. Paths are below the directory of all clients.
    pub fn new(options: ContentionOptions, seed: u64, client: u32) -> Self {
        let shared = (0..options.files).map(|file| format!("0/shared-{file}"));
        let paths = [client.to_string(), format!("{client}/made")];
        let classes = ["open", "lock", "read", "write", "unlock", "close"];
        Self {
            options,
            catalogue: FileCatalogue {
                classes: classes.map(str::to_owned).to_vec(),
                paths: paths.into_iter().chain(shared).collect(),
                patterns: Vec::new(),
            },
            random: RandomStream::of_thread(seed, client, TURNS_STREAM),
            first: client == 0,
            last: Step::Close,
            path: PathId(FIRST_FILE),
            offset: 0,
            writes: false,
            turns: 0,
        }
    }

    fn draw(&mut self) {
        self.path = PathId(FIRST_FILE + self.random.below(self.options.files));
        self.offset = u64::from(self.random.below(self.options.blocks)) * u64::from(self.options.block_bytes);
        self.writes = self.random.below(100) < self.options.writes_percent;
    }

    /// Returns the step after the last one. A failure skips the steps that depend on the failed one: no write
    /// without a read under the lock, and no unlock without a lock.
    fn following(&self, last: &Outcome) -> Step {
        if last.session_lost {
            return Step::Open;
        }
        match (self.last, last.ok) {
            (Step::Open, true) => Step::Lock,
            (Step::Lock, true) => Step::Read,
            (Step::Read, true) if self.writes => Step::Write,
            (Step::Read | Step::Write, _) => Step::Unlock,
            (Step::Lock, false) | (Step::Unlock, _) => Step::Close,
            (Step::Open, false) | (Step::Close, _) => Step::Open,
        }
    }

    fn write_block(&self, path: PathId, offset: u64) -> FileAction {
        FileAction::WriteBlock {
            slot: SLOT,
            path,
            offset,
            bytes: self.options.block_bytes,
        }
    }

    fn shared(&self) -> impl Iterator<Item = PathId> {
        let files = if self.first { self.options.files } else { 0 };
        (0..files).map(|file| PathId(FIRST_FILE + file))
    }
}

impl Workload for Contention {
    type Op = FileOp;

    fn next(&mut self, last: &Outcome) -> FileOp {
        let step = self.following(last);
        if step == Step::Open {
            self.draw();
        }
        if step == Step::Close {
            self.turns += 1;
        }
        self.last = step;
        let (slot, path, offset, bytes) = (SLOT, self.path, self.offset, self.options.block_bytes);
        let (class, action) = match step {
            // Open for reading and writing in every turn. Readers also take an exclusive lock, which NFS and
            // POSIX permit only on a file that is open for writing.
            Step::Open => (OPEN, open(SLOT, path, Intent::Edit)),
            Step::Lock => {
                let bytes = bytes.into();
                (LOCK, FileAction::LockWaiting { slot, offset, bytes })
            }
            Step::Read => {
                let action = FileAction::ReadBlock {
                    slot,
                    path,
                    offset,
                    bytes,
                };
                (READ, action)
            }
            Step::Write => (WRITE, self.write_block(path, offset)),
            Step::Unlock => {
                let bytes = bytes.into();
                (UNLOCK, FileAction::Unlock { slot, offset, bytes })
            }
            Step::Close => (CLOSE, FileAction::Close { slot }),
        };
        FileOp { class, action }
    }

    fn begins_piece(&self) -> bool {
        self.last == Step::Open
    }
}

impl FileWorkload for Contention {
    fn catalogue(&self) -> &FileCatalogue {
        &self.catalogue
    }

    fn preparation(&self, found: bool) -> Vec<FileAction> {
        if found {
            return Vec::new();
        }
        let mut made = vec![make_directory(DIRECTORY)];
        let close = FileAction::Close { slot: SLOT };
        for path in self.shared() {
            made.push(open(SLOT, path, Intent::Replace));
            let offsets = (0..self.options.blocks).map(u64::from);
            let block_bytes = u64::from(self.options.block_bytes);
            made.extend(offsets.map(|block| self.write_block(path, block * block_bytes)));
            made.push(close);
        }
        made.extend(make_file(MARKER, 0, self.options.block_bytes));
        made
    }

    fn marker(&self) -> PathId {
        MARKER
    }

    fn leaving(&self) -> Vec<FileAction> {
        let (slot, offset, bytes) = (SLOT, self.offset, self.options.block_bytes.into());
        let close = FileAction::Close { slot };
        // Unlock first: NFS may refuse to close a locked file, and other clients would then wait for the lock
        // forever.
        match self.last {
            Step::Read | Step::Write | Step::Unlock => {
                vec![FileAction::Unlock { slot, offset, bytes }, close]
            }
            Step::Lock | Step::Close => vec![close],
            Step::Open => Vec::new(),
        }
    }

    fn removal(&self) -> Vec<FileAction> {
        upkeep::remove(self.shared().chain([MARKER]), [DIRECTORY])
    }

    fn passes(&self) -> u64 {
        self.turns
    }

    fn pass_operations(&self) -> u64 {
        5
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint_bytes;

    const OPTIONS: ContentionOptions = ContentionOptions {
        files: 2,
        blocks: 4,
        block_bytes: 4096,
        writes_percent: 50,
    };
    const FAILED: Outcome = Outcome {
        ok: false,
        ..Outcome::START
    };

    fn steps(workload: &mut Contention, outcomes: &[Outcome]) -> Vec<ClassId> {
        outcomes
            .iter()
            .map(|outcome| workload.next(outcome).class)
            .collect()
    }

    #[test]
    fn a_turn_reads_under_a_lock_and_the_configured_share_of_turns_writes() {
        let mut workload = Contention::new(OPTIONS, 1, 3);
        let (mut turns, mut writes) = (0, 0);
        for _ in 0..2000 {
            assert_eq!(steps(&mut workload, &[Outcome::START; 3]), [OPEN, LOCK, READ]);
            let next = workload.next(&Outcome::START).class;
            if next == WRITE {
                writes += 1;
                assert_eq!(workload.next(&Outcome::START).class, UNLOCK);
            } else {
                assert_eq!(next, UNLOCK);
            }
            assert_eq!(workload.next(&Outcome::START).class, CLOSE);
            turns += 1;
            assert_eq!(workload.passes(), turns);
        }
        assert!((900..1100).contains(&writes), "{writes}");
    }

    #[test]
    fn a_failure_skips_the_steps_that_depend_on_it() {
        let ok = Outcome::START;
        let lost = Outcome {
            session_lost: true,
            ..FAILED
        };
        let options = ContentionOptions {
            writes_percent: 100,
            ..OPTIONS
        };
        for (outcomes, expected) in [
            (vec![ok, FAILED], vec![OPEN, OPEN]),
            (vec![ok, ok, FAILED], vec![OPEN, LOCK, CLOSE]),
            (vec![ok, ok, ok, FAILED], vec![OPEN, LOCK, READ, UNLOCK]),
            (
                vec![ok, ok, ok, ok, FAILED],
                vec![OPEN, LOCK, READ, WRITE, UNLOCK],
            ),
            (vec![ok, ok, ok, lost], vec![OPEN, LOCK, READ, OPEN]),
        ] {
            assert_eq!(steps(&mut Contention::new(options, 1, 0), &outcomes), expected);
        }
    }

    #[test]
    fn the_first_client_creates_the_files_and_all_clients_draw_from_them() {
        let made = |client| Contention::new(OPTIONS, 1, client).preparation(false);
        let writes = |actions: &[FileAction]| {
            let block = |action: &&FileAction| matches!(action, FileAction::WriteBlock { .. });
            actions.iter().filter(block).count()
        };
        assert_eq!((writes(&made(0)), writes(&made(1))), (8, 0));
        assert_eq!(footprint_bytes(&mut Contention::new(OPTIONS, 1, 0)), 8 * 4096);
        assert_eq!(
            Contention::new(OPTIONS, 1, 5).catalogue.paths[..3],
            ["5", "5/made", "0/shared-0"]
        );
        let mut places = std::collections::BTreeSet::new();
        let mut workload = Contention::new(OPTIONS, 1, 9);
        for _ in 0..1000 {
            if let FileAction::ReadBlock { path, offset, .. } = workload.next(&Outcome::START).action {
                places.insert((path, offset));
            }
        }
        assert_eq!(places.len(), 8);
    }

    #[test]
    fn a_file_that_is_open_and_locked_at_the_end_is_unlocked_and_closed() {
        let (open, lock) = (OPEN, LOCK);
        let options = ContentionOptions {
            writes_percent: 100,
            ..OPTIONS
        };
        let mut workload = Contention::new(options, 1, 0);
        let mut held = Vec::new();
        let mut next = workload.next(&Outcome::START);
        // One turn and the start of another. The last operation that `next` returned is not performed.
        for _ in 0..8 {
            let leaving = workload.leaving();
            let unlocks = leaving
                .iter()
                .any(|action| matches!(action, FileAction::Unlock { .. }));
            let closes = matches!(leaving.last(), Some(FileAction::Close { .. }));
            assert_eq!(
                (closes, unlocks),
                (held.contains(&open), held.contains(&lock)),
                "{held:?}"
            );
            assert_eq!(leaving.len(), held.len());
            match next.action {
                FileAction::Open { .. } => held.push(open),
                FileAction::LockWaiting { .. } => held.push(lock),
                FileAction::Unlock { .. } => held.retain(|&class| class != lock),
                FileAction::Close { .. } => held.retain(|&class| class != open),
                _ => {}
            }
            next = workload.next(&Outcome::START);
        }
    }
}
