//! Streams: each client repeatedly reads or writes its own large file, block by block, in order or at random.
//! Blocks don't depend on each other, so several may be outstanding at the same time, or they may arrive at a
//! fixed rate.
//!
//! A writing client requests a flush after each pass through its file, among its other blocks. The engine
//! determines the number of concurrent blocks, and when they are due.

use crate::random::RandomStream;
use crate::upkeep::{self, make_directory, make_file, open, writes};
use crate::{
    ClassId, FileAction, FileCatalogue, FileOp, FileWorkload, Intent, Outcome, PathId, Slot, Workload,
};
use std::sync::{Arc, OnceLock};

const OPEN: ClassId = ClassId(0);
const READ: ClassId = ClassId(1);
const WRITE: ClassId = ClassId(2);
const FLUSH: ClassId = ClassId(3);

const DIRECTORY: PathId = PathId(0);
const FILE: PathId = PathId(1);
const MARKER: PathId = PathId(2);
const SLOT: Slot = Slot(0);

/// Minimum size of the writes that create the workspace. Every server accepts this size.
const MAKING_BYTES: u32 = 1 << 16;
/// Number of a client's random stream for the order of blocks, unique among its streams.
const ORDER_STREAM: u32 = u32::MAX;

/// Parameters that all clients share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamsOptions {
    /// Size of each client's file, a multiple of the block.
    pub file_bytes: u64,
    pub block_bytes: u32,
    /// Whether each pass requests the blocks in the same random order instead of sequentially.
    pub random: bool,
    /// Percentage of clients that write. The others read.
    pub writers_percent: u32,
}

impl StreamsOptions {
    /// Returns whether a client writes. Writers are spread evenly among the clients.
    pub fn writes(&self, client: u32) -> bool {
        let writers = |clients: u64| clients * u64::from(self.writers_percent) / 100;
        writers(u64::from(client) + 1) > writers(u64::from(client))
    }

    fn blocks(&self) -> u64 {
        self.file_bytes / u64::from(self.block_bytes)
    }
}

/// Returns the offsets of a file's blocks in the order of requests. `random`: the seed and the client for a random
/// order, or None for sequential order.
pub fn block_offsets(bytes: u64, block_bytes: u32, random: Option<(u64, u32)>) -> Vec<u64> {
    let block = u64::from(block_bytes);
    let mut offsets: Vec<u64> = (0..bytes / block).map(|number| number * block).collect();
    if let Some((seed, client)) = random {
        let mut stream = RandomStream::of_thread(seed, client, ORDER_STREAM);
        for last in (1..offsets.len()).rev() {
            let bound = u32::try_from(last + 1).unwrap_or(u32::MAX);
            offsets.swap(last, stream.below(bound) as usize);
        }
    }
    offsets
}

fn catalogue() -> &'static Arc<FileCatalogue> {
    static CATALOGUE: OnceLock<Arc<FileCatalogue>> = OnceLock::new();
    let all = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    CATALOGUE.get_or_init(|| {
        Arc::new(FileCatalogue {
            classes: all(&["open", "read", "write", "flush"]),
            paths: all(&["", "stream", "made"]),
            patterns: Vec::new(),
        })
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Opening,
    Closed,
}

#[derive(Clone, Debug)]
pub struct Streams {
    options: StreamsOptions,
    writes: bool,
    offsets: Vec<u64>,
    state: State,
    /// Index into the offsets of this pass. If it equals their number, the next operation is a flush.
    place: usize,
    passes: u64,
}

impl Streams {
    /// Returns the client's operations for this seed.
    pub fn new(options: StreamsOptions, seed: u64, client: u32) -> Self {
        let random = options.random.then_some((seed, client));
        Self {
            options,
            writes: options.writes(client),
            offsets: block_offsets(options.file_bytes, options.block_bytes, random),
            state: State::Open, // `preparation` has opened the file.
            place: 0,
            passes: 0,
        }
    }

    fn open(&self) -> FileAction {
        let intent = if self.writes { Intent::Edit } else { Intent::Read };
        open(SLOT, FILE, intent)
    }

    fn block(&mut self) -> FileOp {
        let (slot, offset, bytes) = (SLOT, self.offsets[self.place], self.options.block_bytes);
        self.place += 1;
        if !self.writes {
            let action = FileAction::Read { slot, offset, bytes };
            if self.place == self.offsets.len() {
                self.end_pass();
            }
            return FileOp { class: READ, action };
        }
        // Each pass writes different data. The workspace was created with generation 0.
        let generation = u32::try_from(self.passes + 1).unwrap_or(u32::MAX);
        let action = FileAction::Write {
            slot,
            offset,
            bytes,
            generation,
        };
        FileOp { class: WRITE, action }
    }

    fn end_pass(&mut self) {
        self.place = 0;
        self.passes += 1;
    }

    fn made(&self) -> Vec<FileAction> {
        let write_bytes = self.options.block_bytes.max(MAKING_BYTES);
        let mut made = vec![make_directory(DIRECTORY), open(SLOT, FILE, Intent::Replace)];
        made.extend(writes(SLOT, self.options.file_bytes, write_bytes));
        made.extend([FileAction::Flush { slot: SLOT }, FileAction::Close { slot: SLOT }]);
        made.extend(make_file(MARKER, 0, write_bytes));
        made
    }
}

impl Workload for Streams {
    type Op = FileOp;

    fn next(&mut self, last: &Outcome) -> FileOp {
        if self.state == State::Opening {
            self.state = if last.ok { State::Open } else { State::Closed };
        }
        if last.session_lost {
            self.state = State::Closed;
        }
        if self.state == State::Closed {
            self.state = State::Opening;
            return FileOp {
                class: OPEN,
                action: self.open(),
            };
        }
        if self.place == self.offsets.len() {
            self.end_pass();
            return FileOp {
                class: FLUSH,
                action: FileAction::Flush { slot: SLOT },
            };
        }
        self.block()
    }
}

impl FileWorkload for Streams {
    fn catalogue(&self) -> &FileCatalogue {
        catalogue()
    }

    fn preparation(&self, found: bool) -> Vec<FileAction> {
        let mut actions = if found { Vec::new() } else { self.made() };
        actions.push(self.open());
        actions
    }

    fn marker(&self) -> PathId {
        MARKER
    }

    fn leaving(&self) -> Vec<FileAction> {
        match self.state {
            State::Open => vec![FileAction::Close { slot: SLOT }],
            State::Opening | State::Closed => Vec::new(),
        }
    }

    fn removal(&self) -> Vec<FileAction> {
        upkeep::remove([FILE, MARKER], [DIRECTORY])
    }

    fn passes(&self) -> u64 {
        self.passes
    }

    fn pass_operations(&self) -> u64 {
        self.options.blocks() + u64::from(self.writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{content_of, footprint_bytes, played, Writing};

    const OPTIONS: StreamsOptions = StreamsOptions {
        file_bytes: 1 << 20,
        block_bytes: 4096,
        random: false,
        writers_percent: 50,
    };

    fn offsets(ops: &[FileOp]) -> Vec<u64> {
        let offset = |op: &FileOp| match op.action {
            FileAction::Read { offset, .. } | FileAction::Write { offset, .. } => Some(offset),
            _ => None,
        };
        ops.iter().filter_map(offset).collect()
    }

    fn first(workload: &mut Streams, count: usize) -> Vec<FileOp> {
        (0..count).map(|_| workload.next(&Outcome::START)).collect()
    }

    #[test]
    fn each_block_is_requested_once_per_pass_in_the_order_of_the_seed() {
        let in_order = block_offsets(1 << 20, 4096, None);
        assert_eq!((in_order.len(), &in_order[..3]), (256, &[0, 4096, 8192][..]));
        let one = block_offsets(1 << 20, 4096, Some((7, 1)));
        assert_ne!(one, in_order);
        assert_eq!(one, block_offsets(1 << 20, 4096, Some((7, 1))));
        assert_ne!(one, block_offsets(1 << 20, 4096, Some((8, 1))));
        assert_ne!(one, block_offsets(1 << 20, 4096, Some((7, 2))));
        let mut sorted = one.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, in_order);
        let options = StreamsOptions {
            random: true,
            ..OPTIONS
        };
        let ops = first(&mut Streams::new(options, 7, 0), 512);
        assert_eq!(
            offsets(&ops),
            block_offsets(1 << 20, 4096, Some((7, 0))).repeat(2)
        );
    }

    #[test]
    fn the_share_of_writers_is_exact_and_evenly_spread() {
        let writers = |percent: u32, clients: u32| -> Vec<bool> {
            let options = StreamsOptions {
                writers_percent: percent,
                ..OPTIONS
            };
            (0..clients).map(|client| options.writes(client)).collect()
        };
        assert_eq!(writers(50, 4), [false, true, false, true]);
        assert_eq!((writers(0, 9), writers(100, 9)), (vec![false; 9], vec![true; 9]));
        for percent in 0..=100 {
            let all = writers(percent, 100);
            assert_eq!(all.iter().filter(|writes| **writes).count(), percent as usize);
        }
    }

    #[test]
    fn a_writer_flushes_after_each_pass_and_writes_different_data_in_the_next() {
        let mut writer = Streams::new(OPTIONS, 1, 1);
        let ops = first(&mut writer, 258);
        assert_eq!((writer.pass_operations(), writer.passes()), (257, 1));
        assert!(ops[..256].iter().all(|op| op.class == WRITE));
        assert_eq!(ops[256].action, FileAction::Flush { slot: SLOT });
        let generation = |op: &FileOp| match op.action {
            FileAction::Write { generation, .. } => generation,
            _ => panic!("a write"),
        };
        assert_eq!((generation(&ops[0]), generation(&ops[257])), (1, 2));
        assert_eq!(footprint_bytes(&mut Streams::new(OPTIONS, 1, 1)), 1 << 20);
    }

    #[test]
    fn after_a_lost_session_the_file_is_reopened_and_the_stream_continues() {
        let mut reader = Streams::new(OPTIONS, 1, 0);
        let (lost, failed) = (
            Outcome {
                ok: false,
                bytes_read: 0,
                session_lost: true,
            },
            Outcome {
                ok: false,
                ..Outcome::START
            },
        );
        assert_eq!(offsets(&first(&mut reader, 3)), [0, 4096, 8192]);
        for outcome in [lost, failed, lost] {
            let op = reader.next(&outcome);
            assert_eq!((op.class, op.action), (OPEN, reader.open()));
            assert_eq!(reader.leaving(), []);
        }
        assert_eq!(offsets(&[reader.next(&Outcome::START)]), [3 * 4096]);
        assert_eq!(reader.leaving(), [FileAction::Close { slot: SLOT }]);
        // A failed block is no reason to reopen the file.
        assert_eq!(offsets(&[reader.next(&failed)]), [4 * 4096]);
    }

    #[test]
    fn the_file_contains_the_data_written_last() {
        let made = played(&mut Streams::new(OPTIONS, 1, 0), 0, 5, 1);
        let left = played(&mut Streams::new(OPTIONS, 1, 1), 1, 5, 300);
        assert_eq!(left.keys().collect::<Vec<_>>(), ["made", "stream"]);
        let content = |client, generation, from: usize, to: usize| {
            let writing = Writing {
                client,
                level: 5,
                file: 1,
                generation,
            };
            content_of(writing, from as u64, to - from)
        };
        let (border, end) = (43 * 4096, 1 << 20);
        assert_eq!(made["stream"], content(0, 0, 0, end));
        assert_eq!(left["stream"][..border], *content(1, 2, 0, border));
        assert_eq!(left["stream"][border..], *content(1, 1, border, end));
    }
}
