//! Workloads on files, and their section of the document.

use crate::problems::Problems;
use dyno_measure::Window;
use dyno_workload::{
    footprint_bytes, Contention, ContentionOptions, DiskMix, DiskMixOptions, Failover, FailoverOptions,
    FileOp, FileWorkload, LoadFile, LoadFileReplay, Metadata, MetadataOptions, Outcome, Script, Streams,
    StreamsOptions, Workload, LEAST_BLOCK_BYTES, LEAST_WORKSPACE_BYTES, MOST_BYTES_AT_ONCE,
};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

const MAX_WORKSPACE_BYTES: u64 = 1 << 40;
/// Maximum number of blocks per file, because their order is kept in memory.
const MAX_BLOCKS: u64 = 1 << 24;
/// Maximum number of files per client, because their names are kept in memory.
const MAX_FILES: u32 = 100_000;
const MAX_LOOKS: u32 = 1000;
/// Maximum number of shared files, which the first client creates before a level.
const MAX_SHARED_FILES: u32 = 1024;
const MAX_SHARED_BLOCKS: u32 = 1 << 16;

#[derive(Deserialize)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
enum WorkloadSection {
    DiskMix {
        workspace_bytes: u64,
        legacy_seed_reads: bool,
        true_offsets: bool,
    },
    LoadFile {},
    Streams {
        file_bytes: u64,
        block_bytes: u32,
        random: bool,
        writers_percent: u32,
    },
    Metadata {
        files: u32,
        file_bytes: u32,
        shared: bool,
        looks: u32,
    },
    Contention(ContentionSection),
    Failover(FailoverSection),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailoverSection {
    blocks: u32,
    block_bytes: u32,
    writes_per_flush: u32,
    /// Fraction of the window, in percent, after which clients cut their connections. None: never.
    cut_connections_percent: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContentionSection {
    files: u32,
    blocks: u32,
    block_bytes: u32,
    writes_percent: u32,
}

/// Options of the workloads of all clients.
#[derive(Debug, Clone)]
pub(crate) enum FilesWorkload {
    /// Office application mix.
    DiskMix(Arc<Script>),
    /// A load file, repeated.
    LoadFile(Arc<LoadFile>),
    /// One large file per client, block by block.
    Streams(StreamsOptions),
    /// Small files: created, queried, read and removed.
    Metadata(MetadataOptions),
    /// Blocks of a few files shared by all clients.
    Contention(ContentionOptions),
    /// One file per client, used across an outage. Clients cut their connections after this percentage of the
    /// window.
    Failover(FailoverOptions, Option<u32>),
}

impl FilesWorkload {
    /// Reads the section `workload` of a level document.
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
            ) => Self::diskmix(
                DiskMixOptions {
                    workspace_bytes,
                    legacy_seed_reads,
                    true_offsets,
                },
                problems,
            ),
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
            (
                WorkloadSection::Metadata {
                    files,
                    file_bytes,
                    shared,
                    looks,
                },
                None,
            ) => Self::metadata(
                MetadataOptions {
                    files,
                    bytes: file_bytes,
                    shared,
                    looks,
                },
                problems,
            ),
            (WorkloadSection::Contention(section), None) => Self::contention(&section, problems),
            (WorkloadSection::Failover(section), None) => Self::failover(&section, problems),
            (WorkloadSection::LoadFile {}, Some(file)) => Some(Self::LoadFile(file.clone())),
            _ => {
                problems.unless(
                    false,
                    "workload.name",
                    "a load file is required for the workload loadfile, and only for it",
                );
                None
            }
        }
    }

    fn diskmix(options: DiskMixOptions, problems: &mut Problems) -> Option<Self> {
        let holds = (LEAST_WORKSPACE_BYTES..=MAX_WORKSPACE_BYTES).contains(&options.workspace_bytes);
        problems.bounded(holds, "workload.workspace_bytes");
        holds.then(|| Self::DiskMix(Script::load(&options)))
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
            ),
            (
                (2..=MAX_BLOCKS).contains(&blocks)
                    && file_bytes <= MAX_WORKSPACE_BYTES
                    && file_bytes == blocks * u64::from(block_bytes),
                "workload.file_bytes",
            ),
            (writers_percent <= 100, "workload.writers_percent"),
        ];
        for (holds, path) in rules {
            problems.bounded(holds, path);
        }
        let sound = rules.iter().all(|(holds, _)| *holds);
        sound.then_some(Self::Streams(options))
    }

    fn metadata(options: MetadataOptions, problems: &mut Problems) -> Option<Self> {
        let few = (1..=MAX_FILES).contains(&options.files);
        problems.bounded(few, "workload.files");
        let small = options.bytes <= MOST_BYTES_AT_ONCE as u32;
        problems.bounded(small, "workload.file_bytes");
        let seldom = options.looks <= MAX_LOOKS;
        problems.bounded(seldom, "workload.looks");
        (few && small && seldom).then_some(Self::Metadata(options))
    }

    fn contention(section: &ContentionSection, problems: &mut Problems) -> Option<Self> {
        let options = ContentionOptions {
            files: section.files,
            blocks: section.blocks,
            block_bytes: section.block_bytes,
            writes_percent: section.writes_percent,
        };
        let rules = [
            ((1..=MAX_SHARED_FILES).contains(&options.files), "workload.files"),
            (
                (1..=MAX_SHARED_BLOCKS).contains(&options.blocks),
                "workload.blocks",
            ),
            (
                (LEAST_BLOCK_BYTES..=MOST_BYTES_AT_ONCE as u32).contains(&options.block_bytes),
                "workload.block_bytes",
            ),
            (options.writes_percent <= 100, "workload.writes_percent"),
        ];
        for (holds, path) in rules {
            problems.bounded(holds, path);
        }
        let sound = rules.iter().all(|(holds, _)| *holds);
        sound.then_some(Self::Contention(options))
    }

    fn failover(section: &FailoverSection, problems: &mut Problems) -> Option<Self> {
        let options = FailoverOptions {
            blocks: section.blocks,
            block_bytes: section.block_bytes,
            writes_per_flush: section.writes_per_flush,
        };
        let cut_percent = section.cut_connections_percent;
        let rules = [
            (
                (1..=MAX_SHARED_BLOCKS).contains(&options.blocks),
                "workload.blocks",
            ),
            (
                (LEAST_BLOCK_BYTES..=MOST_BYTES_AT_ONCE as u32).contains(&options.block_bytes),
                "workload.block_bytes",
            ),
            (options.writes_per_flush > 0, "workload.writes_per_flush"),
            (
                cut_percent.is_none_or(|percent| percent <= 100),
                "workload.cut_connections_percent",
            ),
        ];
        for (holds, path) in rules {
            problems.bounded(holds, path);
        }
        let sound = rules.iter().all(|(holds, _)| *holds);
        sound.then_some(Self::Failover(options, cut_percent))
    }

    /// Returns whether clients keep working on their open files after an outage.
    pub(crate) fn goes_on_over_outages(&self) -> bool {
        matches!(self, Self::Failover(..))
    }

    /// Returns when clients cut their connections, since the start of the level.
    pub(crate) fn cut_ns(&self, window: &Window) -> Option<u64> {
        let Self::Failover(_, Some(percent)) = self else {
            return None;
        };
        let opens_ns = window.closes_ns() - window.measured_ns();
        Some(opens_ns + window.measured_ns() / 100 * u64::from(*percent))
    }

    /// Returns whether all clients use the same files, which the first of them creates.
    pub(crate) fn shares_files(&self) -> bool {
        matches!(self, Self::Contention(_))
    }

    /// Returns whether operations do not depend on earlier answers, as open load requires.
    pub(crate) fn is_independent(&self) -> bool {
        match self {
            Self::Streams(_) | Self::Metadata(_) => true,
            Self::DiskMix(_) | Self::LoadFile(_) | Self::Contention(_) | Self::Failover(..) => false,
        }
    }

    /// Returns whether the workload measures the server and permits no client cache. Workloads that query directories
    /// repeatedly may have a cache.
    pub(crate) fn goes_through(&self) -> bool {
        match self {
            Self::Metadata(options) => options.looks == 0,
            _ => self.is_independent() || self.flushes(),
        }
    }

    /// Returns whether the workload flushes its writes, so that they may be unstable until the flush.
    pub(crate) fn flushes(&self) -> bool {
        matches!(self, Self::Streams(_) | Self::Failover(..))
    }

    /// Returns the maximum number of concurrent operations per client.
    pub(crate) fn most_depth(&self) -> u64 {
        match self {
            // At most one operation per block at a time: two concurrent writes of a block would race.
            Self::Streams(options) => options.file_bytes / u64::from(options.block_bytes) - 1,
            // Operations on one file are sequential.
            Self::Metadata(_)
            | Self::DiskMix(_)
            | Self::LoadFile(_)
            | Self::Contention(_)
            | Self::Failover(..) => 1,
        }
    }

    /// Returns the largest transfer that the server must accept at once.
    pub(crate) fn block_bytes(&self) -> Option<u32> {
        match self {
            Self::Streams(options) => Some(options.block_bytes),
            Self::Metadata(options) => Some(options.bytes),
            Self::Contention(options) => Some(options.block_bytes),
            Self::Failover(options, _) => Some(options.block_bytes),
            Self::DiskMix(_) | Self::LoadFile(_) => None,
        }
    }

    pub(crate) fn of_client(&self, seed: u64, client: usize) -> AnyWorkload {
        let number = u32::try_from(client).unwrap_or(u32::MAX);
        match self {
            Self::LoadFile(file) => AnyWorkload::LoadFile(LoadFileReplay::new(file.clone(), number)),
            Self::DiskMix(script) => AnyWorkload::DiskMix(DiskMix::new(script.clone(), seed, number)),
            Self::Streams(options) => AnyWorkload::Streams(Streams::new(*options, seed, number)),
            Self::Metadata(options) => AnyWorkload::Metadata(Metadata::new(*options, number)),
            Self::Contention(options) => AnyWorkload::Contention(Contention::new(*options, seed, number)),
            Self::Failover(options, _) => AnyWorkload::Failover(Failover::new(*options, seed, number)),
        }
    }

    /// Returns the minimum space of one client's files at the end of its workload.
    pub(crate) fn footprint_bytes(&self) -> u64 {
        match self.of_client(0, 0) {
            AnyWorkload::DiskMix(mut workload) => footprint_bytes(&mut workload),
            AnyWorkload::LoadFile(mut workload) => footprint_bytes(&mut workload),
            AnyWorkload::Streams(mut workload) => footprint_bytes(&mut workload),
            AnyWorkload::Metadata(mut workload) => footprint_bytes(&mut workload),
            AnyWorkload::Contention(mut workload) => footprint_bytes(&mut workload),
            AnyWorkload::Failover(mut workload) => footprint_bytes(&mut workload),
        }
    }
}

/// The workload of a client. An enum rather than a trait object, because it is in the hot path.
#[derive(Debug)]
pub(crate) enum AnyWorkload {
    DiskMix(DiskMix),
    LoadFile(LoadFileReplay),
    Streams(Streams),
    Metadata(Metadata),
    Contention(Contention),
    Failover(Failover),
}

impl AnyWorkload {
    pub(crate) fn as_files(&self) -> &dyn FileWorkload {
        match self {
            Self::DiskMix(workload) => workload,
            Self::LoadFile(workload) => workload,
            Self::Streams(workload) => workload,
            Self::Metadata(workload) => workload,
            Self::Contention(workload) => workload,
            Self::Failover(workload) => workload,
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
            Self::Metadata(workload) => workload.next(last),
            Self::Contention(workload) => workload.next(last),
            Self::Failover(workload) => workload.next(last),
        }
    }

    fn begins_piece(&self) -> bool {
        match self {
            Self::DiskMix(workload) => workload.begins_piece(),
            Self::LoadFile(workload) => workload.begins_piece(),
            Self::Streams(workload) => workload.begins_piece(),
            Self::Metadata(workload) => workload.begins_piece(),
            Self::Contention(workload) => workload.begins_piece(),
            Self::Failover(workload) => workload.begins_piece(),
        }
    }
}
