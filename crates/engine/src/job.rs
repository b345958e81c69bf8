//! Work on files that is no mix: carried out once, by itself, and timed as a whole. Not for: doing it (`files/`).

use crate::bonnie::{BonniePhase, BonnieSpec};
use crate::scenario::{StepPass, StepSpec};
use serde::Serialize;

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
