//! Counts of breaks, by which a file server revokes caching: part of the tally of a level (`tally.rs`).

use crate::merging as rule;
use dyno_files::Breaks;
use dyno_measure::Histogram;
use merge::Merge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Breaks from start to end of the level.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct BreakTally {
    /// Breaks, by which the server revoked a client's right to cache. Null over HTTP and before format 6, like the
    /// next three columns.
    #[serde(rename = "breaks")]
    pub came: u64,
    /// Breaks that kept the server, and another client, waiting for an answer.
    #[serde(rename = "breaks_to_answer")]
    pub to_answer: u64,
    /// Breaks that got an answer of their own. The others were answered by the close of the last handle.
    #[serde(rename = "breaks_answered")]
    pub answered: u64,
    /// Time from the arrival of a break until its answer was sent, in ns. Meanwhile the client writes cached data
    /// back.
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
