//! Levels on files that end when their work is done: carried out once, and timed as a whole. Not for: doing it (`files/`).

use crate::bonnie::BonnieSpec;
use crate::scenario::StepSpec;
use serde::Deserialize;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most that a program reads or writes at once.
const MOST_BLOCK_BYTES: u32 = 1 << 20;
/// Threads of one machine, each with a session.
const MOST_SESSIONS: u64 = 1024;

/// Stops a job from another thread.
#[derive(Debug, Default)]
pub struct JobEnd {
    stopped: AtomicBool,
    abandoned: AtomicBool,
}

impl JobEnd {
    /// Stop the job after its current call. The job removes its files.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Stop the job at once, because its server is gone. Its files stay.
    pub fn abandon(&self) {
        self.stop();
        self.abandoned.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }
}

/// What is to be done, and within which bounds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileJob {
    pub task: FileTask,
    /// The longest that each client may take.
    pub most_ns: u64,
    /// Calls per second of all clients together, at most. A job on another machine needs this bound.
    pub max_rate_per_s: Option<f64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileTask {
    Bonnie(BonnieSpec),
    /// One step of a scenario.
    Step(StepSpec),
}

impl FileJob {
    /// Return what is wrong with it: no size may be none, and sessions and blocks are bounded.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        let is_sound = match &self.task {
            FileTask::Bonnie(spec) => {
                let is_whole =
                    spec.chunk_bytes > 0 && spec.bytes > 0 && spec.bytes % u64::from(spec.chunk_bytes) == 0;
                let sessions = u64::from(spec.clients) * u64::from(spec.seekers);
                is_whole && spec.stdio_bytes > 0 && (1..=MOST_SESSIONS).contains(&sessions)
            }
            FileTask::Step(spec) => (1..=MOST_BLOCK_BYTES).contains(&spec.block_bytes),
        };
        let has_bound = self
            .max_rate_per_s
            .is_none_or(|rate| rate.is_finite() && rate > 0.0);
        (!(is_sound && has_bound)).then_some(
            "the size is a multiple of the chunk, nothing but the seeks may be none, all clients have up to 1,024 \
             seekers, and a block up to 1 MiB",
        )
    }
}
