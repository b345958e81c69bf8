//! Work on files that is no mix: carried out once, by itself, and timed as a whole. Not for: doing it (`files/`).

use crate::bonnie::{BonniePhase, BonnieSpec};
use crate::scenario::{StepPass, StepSpec};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// What is to be done.
#[derive(Debug, Clone)]
pub enum FileJob {
    Bonnie(BonnieSpec),
    /// One step of a scenario.
    Step(StepSpec),
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum FileJobOutcome {
    /// In the order in which they ran.
    Bonnie(Vec<BonniePhase>),
    Step(Vec<StepPass>),
}
