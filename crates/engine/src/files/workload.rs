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
    DiskMix(DiskMixOptions),
    LoadFile {},
    Streams(StreamsOptions),
    Metadata(MetadataOptions),
    Contention(ContentionOptions),
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

/// Evaluates an expression for each variant of `AnyWorkload`.
macro_rules! in_each {
    ($any:expr, $workload:pat => $result:expr) => {
        match $any {
            AnyWorkload::DiskMix($workload) => $result,
            AnyWorkload::LoadFile($workload) => $result,
            AnyWorkload::Streams($workload) => $result,
            AnyWorkload::Metadata($workload) => $result,
            AnyWorkload::Contention($workload) => $result,
            AnyWorkload::Failover($workload) => $result,
        }
    };
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
            (WorkloadSection::DiskMix(options), None) => Self::diskmix(options, problems),
            (WorkloadSection::Streams(options), None) => Self::streams(options, problems),
            (WorkloadSection::Metadata(options), None) => Self::metadata(options, problems),
            (WorkloadSection::Contention(options), None) => Self::contention(options, problems),
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
        let whole = (2..=MAX_BLOCKS).contains(&blocks) && file_bytes == blocks * u64::from(block_bytes);
        let small = (1..=MOST_BYTES_AT_ONCE as u32).contains(&block_bytes);
        let sound = problems.bounded(small, "workload.block_bytes")
            & problems.bounded(whole && file_bytes <= MAX_WORKSPACE_BYTES, "workload.file_bytes")
            & problems.bounded(writers_percent <= 100, "workload.writers_percent");
        sound.then_some(Self::Streams(options))
    }

    fn metadata(options: MetadataOptions, problems: &mut Problems) -> Option<Self> {
        let sound = problems.bounded((1..=MAX_FILES).contains(&options.files), "workload.files")
            & problems.bounded(
                options.file_bytes <= MOST_BYTES_AT_ONCE as u32,
                "workload.file_bytes",
            )
            & problems.bounded(options.looks <= MAX_LOOKS, "workload.looks");
        sound.then_some(Self::Metadata(options))
    }

    fn contention(options: ContentionOptions, problems: &mut Problems) -> Option<Self> {
        let few = (1..=MAX_SHARED_FILES).contains(&options.files);
        let sound = problems.bounded(few, "workload.files")
            & shared_blocks(options.blocks, options.block_bytes, problems)
            & problems.bounded(options.writes_percent <= 100, "workload.writes_percent");
        sound.then_some(Self::Contention(options))
    }

    fn failover(section: &FailoverSection, problems: &mut Problems) -> Option<Self> {
        let options = FailoverOptions {
            blocks: section.blocks,
            block_bytes: section.block_bytes,
            writes_per_flush: section.writes_per_flush,
        };
        let cut_percent = section.cut_connections_percent;
        let cuts_within = cut_percent.is_none_or(|percent| percent <= 100);
        let sound = shared_blocks(options.blocks, options.block_bytes, problems)
            & problems.bounded(options.writes_per_flush > 0, "workload.writes_per_flush")
            & problems.bounded(cuts_within, "workload.cut_connections_percent");
        sound.then_some(Self::Failover(options, cut_percent))
    }

    /// Returns whether clients keep working on their open files after an outage.
    pub(crate) fn goes_on_over_outages(&self) -> bool {
        matches!(self, Self::Failover(..))
    }

    /// Returns the time at which clients cut their connections, since the start of the level.
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

    /// Returns whether no operation depends on earlier answers, as open load requires.
    pub(crate) fn is_independent(&self) -> bool {
        match self {
            Self::Streams(_) | Self::Metadata(_) => true,
            Self::DiskMix(_) | Self::LoadFile(_) | Self::Contention(_) | Self::Failover(..) => false,
        }
    }

    /// Returns whether the workload must measure the server itself, so that no client cache is permitted.
    /// Workloads that query directories repeatedly may have one.
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
            Self::Metadata(options) => Some(options.file_bytes),
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
        in_each!(self.of_client(0, 0), mut workload => footprint_bytes(&mut workload))
    }
}

/// Returns whether the blocks of a file are within bounds.
fn shared_blocks(blocks: u32, block_bytes: u32, problems: &mut Problems) -> bool {
    let sizes = LEAST_BLOCK_BYTES..=MOST_BYTES_AT_ONCE as u32;
    problems.bounded((1..=MAX_SHARED_BLOCKS).contains(&blocks), "workload.blocks")
        & problems.bounded(sizes.contains(&block_bytes), "workload.block_bytes")
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
        in_each!(self, workload => workload)
    }
}

impl Workload for AnyWorkload {
    type Op = FileOp;

    fn next(&mut self, last: &Outcome) -> FileOp {
        in_each!(self, workload => workload.next(last))
    }

    fn begins_piece(&self) -> bool {
        in_each!(self, workload => workload.begins_piece())
    }
}
