//! Counts of outages, of durable handles and of data after outages: part of the tally of a level
//! (`tally.rs`).

use crate::merging as rule;
use crate::time_fields::seconds;
use dyno_files::KeptHandles;
use merge::Merge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One outage of one client: it was without its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct OutageTally {
    /// Its number in the mix.
    pub client: u64,
    /// The end of the last operation that succeeded before, since the start of the mix.
    #[serde(rename = "last_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub last_ns: u64,
    /// The end of the first that succeeded after it.
    #[serde(rename = "back_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub back_ns: u64,
    /// What the client had open was lost; else it went on with it.
    pub session_lost: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct FailoverTally {
    /// By client and time, from start to end of the mix.
    #[merge(strategy = rule::sorted)]
    pub outages: Vec<OutageTally>,
    /// Opens that asked the server to keep the handle, from start to end.
    pub handles_asked: u64,
    /// Of them, those that it granted.
    pub handles_granted: u64,
    /// Of those, how many also over a restart of the server.
    pub handles_persistent: u64,
    /// Handles that were opened again on another connection.
    pub handles_regained: u64,
    /// Granted handles that were not there any more.
    pub handles_lost: u64,
    /// Calls that were sent once more on another connection.
    pub calls_sent_again: u64,
    /// Blocks that were read after the mix.
    pub blocks_read_back: u64,
    /// Of them, those older than what had been acknowledged and flushed.
    pub blocks_lost: u64,
    /// Those that were no version as a whole.
    pub blocks_wrong: u64,
    /// Blocks, in the mix too, whose last acknowledged write was lost before a flush.
    pub unflushed_lost: u64,
}

impl FailoverTally {
    pub(crate) fn of_handles(kept: KeptHandles) -> Self {
        Self {
            handles_asked: kept.asked,
            handles_granted: kept.granted,
            handles_persistent: kept.persistent,
            handles_regained: kept.regained,
            handles_lost: kept.lost,
            calls_sent_again: kept.sent_again,
            ..Self::default()
        }
    }
}
