//! What clients do with files: the workloads, and their section of the document.

use crate::problems::Problems;
use dyno_workload::{
    footprint_bytes, DiskMix, DiskMixOptions, FileOp, FileWorkload, LoadFile, LoadFileReplay, Outcome,
    Script, Streams, StreamsOptions, Workload, LEAST_WORKSPACE_BYTES, MOST_BYTES_AT_ONCE,
};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

const MAX_WORKSPACE_BYTES: u64 = 1 << 40;
/// Of one stream's file: its order is in memory.
const MAX_BLOCKS: u64 = 1 << 24;

#[derive(Deserialize)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
enum WorkloadSection {
    DiskMix {
        #[serde(default = "usual_workspace_bytes")]
        workspace_bytes: u64,
        #[serde(default)]
        legacy_seed_reads: bool,
        #[serde(default)]
        true_offsets: bool,
    },
    LoadFile {},
    Streams {
        file_bytes: u64,
        block_bytes: u32,
        #[serde(default)]
        random: bool,
        #[serde(default)]
        writers_percent: u32,
    },
}

fn usual_workspace_bytes() -> u64 {
    20 << 20
}

/// What the workloads of all clients are made from.
#[derive(Debug, Clone)]
pub(crate) enum FilesWorkload {
    /// The office application mix.
    DiskMix(Arc<Script>),
    /// A load file, again and again.
    LoadFile(Arc<LoadFile>),
    /// One large file a client, block by block.
    Streams(StreamsOptions),
}

impl FilesWorkload {
    /// Reads the section `workload` of a document.
    pub(crate) fn read(
        section: &Value,
        load_file: Option<&Arc<LoadFile>>,
        problems: &mut Problems,
    ) -> Option<Self> {
        match (problems.section("workload", section)?, load_file) {
            (
                WorkloadSection::DiskMix {
                    workspace_bytes,
                    legacy_seed_reads,
                    true_offsets,
                },
                None,
            ) => {
                let holds = (LEAST_WORKSPACE_BYTES..=MAX_WORKSPACE_BYTES).contains(&workspace_bytes);
                problems.unless(
                    holds,
                    "workload.workspace_bytes",
                    "must lie between 15 MiB and 1 TiB",
                );
                holds.then(|| {
                    Self::DiskMix(Script::load(&DiskMixOptions {
                        workspace_bytes,
                        legacy_seed_reads,
                        true_offsets,
                    }))
                })
            }
            (
                WorkloadSection::Streams {
                    file_bytes,
                    block_bytes,
                    random,
                    writers_percent,
                },
                None,
            ) => Self::streams(
                StreamsOptions {
                    file_bytes,
                    block_bytes,
                    random,
                    writers_percent,
                },
                problems,
            ),
            (WorkloadSection::LoadFile {}, Some(file)) => Some(Self::LoadFile(file.clone())),
            _ => {
                problems.unless(
                    false,
                    "workload.name",
                    "a load file is for the workload loadfile, which needs one",
                );
                None
            }
        }
    }

    fn streams(options: StreamsOptions, problems: &mut Problems) -> Option<Self> {
        let StreamsOptions {
            file_bytes,
            block_bytes,
            writers_percent,
            ..
        } = options;
        let blocks = file_bytes.checked_div(block_bytes.into()).unwrap_or_default();
        let rules = [
            (
                (1..=MOST_BYTES_AT_ONCE as u32).contains(&block_bytes),
                "workload.block_bytes",
                "must lie between 1 and 1,048,576",
            ),
            (
                (2..=MAX_BLOCKS).contains(&blocks)
                    && file_bytes <= MAX_WORKSPACE_BYTES
                    && file_bytes == blocks * u64::from(block_bytes),
                "workload.file_bytes",
                "must be 2 to 16,777,216 whole blocks, and 1 TiB at most",
            ),
            (
                writers_percent <= 100,
                "workload.writers_percent",
                "must lie between 0 and 100",
            ),
        ];
        for (holds, path, problem) in rules {
            problems.unless(holds, path, problem);
        }
        let sound = rules.iter().all(|(holds, ..)| *holds);
        sound.then_some(Self::Streams(options))
    }

    /// Whether no operation waits for what another one came to: then several of a client may be under way at once, or
    /// they may come at a rate of their own.
    pub(crate) fn is_independent(&self) -> bool {
        match self {
            Self::Streams(_) => true,
            Self::DiskMix(_) | Self::LoadFile(_) => false,
        }
    }

    /// How many operations of one client may be under way at once.
    pub(crate) fn most_depth(&self) -> u64 {
        match self {
            // Each block once, or two writes of one would race.
            Self::Streams(options) => options.file_bytes / u64::from(options.block_bytes) - 1,
            Self::DiskMix(_) | Self::LoadFile(_) => 1,
        }
    }

    /// The most bytes that one operation moves, where the server has to take them at once.
    pub(crate) fn block_bytes(&self) -> Option<u32> {
        match self {
            Self::Streams(options) => Some(options.block_bytes),
            Self::DiskMix(_) | Self::LoadFile(_) => None,
        }
    }

    pub(crate) fn of_client(&self, seed: u64, client: usize) -> AnyWorkload {
        let number = u32::try_from(client).unwrap_or(u32::MAX);
        match self {
            Self::LoadFile(file) => AnyWorkload::LoadFile(LoadFileReplay::new(file.clone(), number)),
            Self::DiskMix(script) => AnyWorkload::DiskMix(DiskMix::new(script.clone(), seed, number)),
            Self::Streams(options) => AnyWorkload::Streams(Streams::new(*options, seed, number)),
        }
    }

    /// The room that one client's files need at least, once it has gone through its workload.
    pub(crate) fn footprint_bytes(&self) -> u64 {
        match self.of_client(0, 0) {
            AnyWorkload::DiskMix(mut workload) => footprint_bytes(&mut workload),
            AnyWorkload::LoadFile(mut workload) => footprint_bytes(&mut workload),
            AnyWorkload::Streams(mut workload) => footprint_bytes(&mut workload),
        }
    }
}

/// One workload or the other; an enum because it lies in the hot path.
#[derive(Debug)]
pub(crate) enum AnyWorkload {
    DiskMix(DiskMix),
    LoadFile(LoadFileReplay),
    Streams(Streams),
}

impl AnyWorkload {
    pub(crate) fn as_files(&self) -> &dyn FileWorkload {
        match self {
            Self::DiskMix(workload) => workload,
            Self::LoadFile(workload) => workload,
            Self::Streams(workload) => workload,
        }
    }
}

impl Workload for AnyWorkload {
    type Op = FileOp;

    fn next(&mut self, last: &Outcome) -> FileOp {
        match self {
            Self::DiskMix(workload) => workload.next(last),
            Self::LoadFile(workload) => workload.next(last),
            Self::Streams(workload) => workload.next(last),
        }
    }

    fn begins_piece(&self) -> bool {
        match self {
            Self::DiskMix(workload) => workload.begins_piece(),
            Self::LoadFile(workload) => workload.begins_piece(),
            Self::Streams(workload) => workload.begins_piece(),
        }
    }
}
