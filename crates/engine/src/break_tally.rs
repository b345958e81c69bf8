//! Counts of breaks, by which a file server revokes caching: part of the tally of a level (`tally.rs`).

use crate::merging as rule;
use dyno_files::Breaks;
use dyno_measure::Histogram;
use merge::Merge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Breaks, from start to end of the mix.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct BreakTally {
    /// Breaks: the server took caching back from a client. Null over HTTP and before format 6, like the next three.
    #[serde(rename = "breaks")]
    pub came: u64,
    /// Breaks whose answer the server waited for, and another client with it.
    #[serde(rename = "breaks_to_answer")]
    pub to_answer: u64,
    /// Of those, the breaks that were answered as such. The close of the last handle answered the others.
    #[serde(rename = "breaks_answered")]
    pub answered: u64,
    /// ns from the arrival of a break until its answer was sent: what was kept back is written in between.
    #[serde(rename = "break_time_hdr")]
    #[merge(strategy = rule::histogram)]
    pub answer_time: Histogram,
}

impl From<Breaks> for BreakTally {
    fn from(breaks: Breaks) -> Self {
        Self {
            came: breaks.came,
            to_answer: breaks.to_answer,
            answered: breaks.answered,
            answer_time: breaks.answer_time.unwrap_or_default(),
        }
    }
}
