//! What clients do with files: the workloads, and their section of the document.

use crate::problems::Problems;
use dyno_workload::{
    footprint_bytes, DiskMix, DiskMixOptions, FileOp, FileWorkload, LoadFile, LoadFileReplay, Outcome,
    Script, Workload, LEAST_WORKSPACE_BYTES,
};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

const MAX_WORKSPACE_BYTES: u64 = 1 << 40;

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

    pub(crate) fn of_client(&self, seed: u64, client: usize) -> AnyWorkload {
        let number = u32::try_from(client).unwrap_or(u32::MAX);
        match self {
            Self::LoadFile(file) => AnyWorkload::LoadFile(LoadFileReplay::new(file.clone(), number)),
            Self::DiskMix(script) => AnyWorkload::DiskMix(DiskMix::new(script.clone(), seed, number)),
        }
    }

    /// The room that one client's files need at least, once it has gone through its workload.
    pub(crate) fn footprint_bytes(&self) -> u64 {
        match self.of_client(0, 0) {
            AnyWorkload::DiskMix(mut workload) => footprint_bytes(&mut workload),
            AnyWorkload::LoadFile(mut workload) => footprint_bytes(&mut workload),
        }
    }
}

/// One workload or the other; an enum because it lies in the hot path.
#[derive(Debug)]
pub(crate) enum AnyWorkload {
    DiskMix(DiskMix),
    LoadFile(LoadFileReplay),
}

impl AnyWorkload {
    pub(crate) fn as_files(&self) -> &dyn FileWorkload {
        match self {
            Self::DiskMix(workload) => workload,
            Self::LoadFile(workload) => workload,
        }
    }
}

impl Workload for AnyWorkload {
    type Op = FileOp;

    fn next(&mut self, last: &Outcome) -> FileOp {
        match self {
            Self::DiskMix(workload) => workload.next(last),
            Self::LoadFile(workload) => workload.next(last),
        }
    }

    fn begins_piece(&self) -> bool {
        match self {
            Self::DiskMix(workload) => workload.begins_piece(),
            Self::LoadFile(workload) => workload.begins_piece(),
        }
    }
}
