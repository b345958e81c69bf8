//! Jobs: levels on files that end when their work is done, or the removal of files left by other jobs. The controller
//! opens gates at which levels begin and end on all nodes together. `files/` performs the work.

use crate::bonnie::BonnieSpec;
use crate::scenario::{StepAction, StepSpec};
use crate::spec::PartSpec;
use crate::tally::LevelTally;
use dyno_measure::{monotonic_ns, Failure, NS_PER_S};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time in which the clients of a stopped job must end their call and remove their files.
const LEAVING_NS: u64 = 2 * NS_PER_S;
/// Maximum size of a program's read or write.
const MOST_BLOCK_BYTES: u32 = 1 << 20;
/// Maximum number of threads, each with a session, per machine.
const MOST_SESSIONS: u64 = 1024;

/// Event for which all clients wait at a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateKind {
    /// The start of one or more concurrent levels.
    Begin,
    /// The end of levels.
    End,
    /// An event outside of levels.
    Between,
}

/// State of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct JobStage {
    pub ended: bool,
    /// The closed gate that all clients of this process have reached. A gate has the same number on all
    /// nodes. A node skips gates that none of its clients use.
    pub gate: Option<u64>,
    pub kind: Option<GateKind>,
}

/// Controls a job from another thread: reports its state, opens gates, and stops the job.
#[derive(Debug, Default)]
pub struct JobControl {
    stopped: AtomicBool,
    stopped_ns: AtomicU64,
    abandoned: AtomicBool,
    /// Whether a controller opens the gates. Otherwise, a gate opens when all clients have arrived.
    is_led: bool,
    /// Number of the first closed gate.
    closed_from: AtomicU64,
    begins_ns: AtomicU64,
    has_begun: AtomicBool,
    stage: Mutex<JobStage>,
    changed: Condvar,
}

impl JobControl {
    pub fn led() -> Self {
        Self {
            is_led: true,
            ..Self::default()
        }
    }

    /// Stops the job after its current call, without a long wait for a hanging server. The job removes its
    /// files.
    pub fn stop(&self) {
        let _looking = self.stage();
        // A controller repeats its request until the job has ended.
        if !self.stopped.swap(true, Ordering::Relaxed) {
            self.stopped_ns.store(monotonic_ns(), Ordering::Relaxed);
        }
        self.changed.notify_all();
    }

    /// Stops the job at once, because its server is gone. Its files remain.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Waits until the job is at a gate or has ended, for at most `timeout`. Returns the job's state.
    pub fn wait(&self, timeout: Duration) -> JobStage {
        self.wait_while(timeout, |stage| !stage.ended && stage.gate.is_none())
    }

    /// Waits until the job has ended, for at most `timeout`. Returns whether it has ended.
    pub fn wait_for_end(&self, timeout: Duration) -> bool {
        self.wait_while(timeout, |stage| !stage.ended).ended
    }

    fn wait_while(&self, timeout: Duration, goes_on: impl Fn(&JobStage) -> bool) -> JobStage {
        let waited = self
            .changed
            .wait_timeout_while(self.stage(), timeout, |stage| goes_on(stage));
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Opens a gate and all gates before it. Levels at the gate begin at `begins_ns` of the monotonic clock.
    pub fn open(&self, gate: u64, begins_ns: u64) {
        let mut stage = self.stage();
        if stage.gate.is_some_and(|at| at <= gate) {
            *stage = JobStage {
                gate: None,
                kind: None,
                ..*stage
            };
        }
        self.begins_ns.store(begins_ns, Ordering::Relaxed);
        self.closed_from.fetch_max(gate + 1, Ordering::Release);
        self.changed.notify_all();
    }

    pub fn end(&self) {
        *self.stage() = JobStage {
            ended: true,
            ..JobStage::default()
        };
        self.changed.notify_all();
    }

    /// Records that all clients of this process have reached a gate.
    pub(crate) fn reach(&self, gate: u64, kind: GateKind) {
        if kind == GateKind::Begin {
            self.has_begun.store(true, Ordering::Relaxed);
        }
        if !self.is_led {
            return self.open(gate, monotonic_ns());
        }
        let mut stage = self.stage();
        if !self.is_open(gate) {
            (stage.gate, stage.kind) = (Some(gate), Some(kind));
        }
        self.changed.notify_all();
    }

    /// Returns whether all clients of this process have logged on, so that the server has answered.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    pub(crate) fn is_open(&self, gate: u64) -> bool {
        self.closed_from.load(Ordering::Acquire) > gate
    }

    /// Returns the start of the levels at the last opened gate.
    pub(crate) fn begins_ns(&self) -> u64 {
        self.begins_ns.load(Ordering::Relaxed)
    }

    /// Passes a gate without clients: blocks until the gate is open or the job is stopped. Returns whether the gate is
    /// open.
    pub(crate) fn pass(&self, gate: u64) -> bool {
        self.reach(gate, GateKind::Between);
        let waiting = |_: &mut JobStage| !self.is_open(gate) && !self.is_stopped();
        drop(self.changed.wait_while(self.stage(), waiting));
        self.is_open(gate) && !self.is_stopped()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns whether clients that began at `begun_ns` have to end now, in the middle of a call. They do if
    /// the job was abandoned, or if it was stopped a while ago and they still wait for the server.
    pub(crate) fn ends_at_once(&self, begun_ns: u64) -> bool {
        let due_ns = || self.stopped_ns.load(Ordering::Relaxed).max(begun_ns) + LEAVING_NS;
        self.is_abandoned() || (self.is_stopped() && monotonic_ns() >= due_ns())
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    fn stage(&self) -> MutexGuard<'_, JobStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work and limits of a job.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileJob {
    pub task: FileTask,
    pub most_ns: u64,
    /// Time without an answer after which a call fails.
    pub timeout_ns: u64,
    /// Maximum requests per second of all clients. Required for targets on other machines.
    pub max_rate_per_s: Option<f64>,
    /// Clients that this process runs. None: all.
    pub part: Option<PartSpec>,
    /// A number that is unique to the job, and equal on all its nodes.
    pub nonce: u64,
    /// Whether a controller opens the gates.
    pub is_led: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileTask {
    Bonnie(BonnieSpec),
    Steps(StepsSpec),
}

/// Consecutive steps, each in its own sessions.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepsSpec {
    pub steps: Vec<StepSpec>,
    /// Directory of the local files that steps name.
    pub local: PathBuf,
    /// Whether each machine drops its page cache before a step.
    pub drop_caches: bool,
}

/// Tallies of the levels. None: no client of this process took part in the level.
pub type JobLevels = Vec<Option<LevelTally>>;

/// The failure of a job, and the step at which it failed.
#[derive(Debug)]
pub struct JobFailure {
    pub step: usize,
    pub failure: Failure,
}

impl FileJob {
    /// Returns why the job is invalid, or None if it is valid. A job is invalid if a size is 0, there are too
    /// many sessions, a block is too large, or a local file is given with a path.
    pub fn problem(&self) -> Option<&'static str> {
        let is_sound = match &self.task {
            FileTask::Bonnie(spec) => {
                let is_whole =
                    spec.chunk_bytes > 0 && spec.bytes > 0 && spec.bytes % u64::from(spec.chunk_bytes) == 0;
                let sessions = u64::from(spec.clients) * u64::from(spec.seekers);
                is_whole && spec.stdio_bytes > 0 && (1..=MOST_SESSIONS).contains(&sessions)
            }
            FileTask::Steps(all) => all.steps.iter().all(|spec| {
                (1..=MOST_BLOCK_BYTES).contains(&spec.block_bytes) && has_bare_names(&spec.action)
            }),
        };
        let has_bound = self
            .max_rate_per_s
            .is_none_or(|rate| rate.is_finite() && rate > 0.0);
        let is_part = self
            .part
            .is_none_or(|part| part.client_step > 0 && (1..=part.client_step).contains(&part.client_run));
        (!(is_sound && has_bound && is_part)).then_some(
            "the size must be a multiple of the chunk size, and only the number of seeks may be 0; all clients together \
             can have at most 1,024 seekers; a block can be at most 1 MiB; a local file must be named without a path",
        )
    }
}

/// Returns whether local files are named without a path.
fn has_bare_names(action: &StepAction) -> bool {
    let is_bare = |path: &Path| {
        let mut parts = path.components();
        matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none()
    };
    match action {
        StepAction::CopyTo { local, .. } => is_bare(local),
        StepAction::CopyFrom { local, copied, .. } => is_bare(local) && copied.as_deref().is_none_or(is_bare),
        _ => true,
    }
}
