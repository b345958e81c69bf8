//! What was counted of breaks, by which a file server takes caching back from its clients: a part of the tally of a mix
//! (`tally.rs`), merged like the rest of it.

use dyno_files::Breaks;
use dyno_measure::Histogram;
use serde::{Deserialize, Serialize};

/// Breaks, from start to end of the mix.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BreakTally {
    pub came: u64,
    /// Of them, those for whose answer the server waits, and another client with it.
    pub to_answer: u64,
    /// Of those, how many were answered as such. The others were answered by the close of the last handle.
    pub answered: u64,
    /// From the arrival of a break until its answer was sent, ns: what was kept back is written in between.
    #[serde(rename = "answer_time_hdr")]
    pub answer_time: Histogram,
}

impl BreakTally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.came += other.came;
        self.to_answer += other.to_answer;
        self.answered += other.answered;
        self.answer_time.add(&other.answer_time);
    }
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
