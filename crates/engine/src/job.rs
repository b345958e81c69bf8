//! Work on files that is no mix: carried out once, by itself, and timed as a whole. Not for: doing it (`files/`).

use crate::bonnie::{BonniePhase, BonnieSpec};
use crate::scenario::{StepPass, StepSpec};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ends a job before its time, from outside.
#[derive(Debug, Default)]
pub struct JobEnd {
    stopped: AtomicBool,
    abandoned: AtomicBool,
}

impl JobEnd {
    /// Ends the job after the call that is under way. What it has made is removed.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Ends the job within a moment, whatever it waits for. Nothing is removed: the server is gone.
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
    /// Bonnie's phases.
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
    /// In their order.
    Step(Vec<StepPass>),
}
