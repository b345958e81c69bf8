//! Counts of outages, durable handles and data after outages: part of the tally of a level (`tally.rs`).

use crate::merging as rule;
use crate::time_fields::seconds;
use dyno_files::KeptHandles;
use merge::Merge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One outage of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct OutageTally {
    /// The client's number in the level.
    pub client: u64,
    /// The end of the last success before the outage, since the start of the level.
    #[serde(rename = "last_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub last_ns: u64,
    /// The end of the first success after the outage, since the start of the level.
    #[serde(rename = "back_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub back_ns: u64,
    /// Whether the client lost its open files. If not, it continued with them.
    pub session_lost: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct FailoverTally {
    /// One row per outage of a client, by client and time, from start to end of the level.
    #[merge(strategy = rule::sorted)]
    pub outages: Vec<OutageTally>,
    /// Opens that asked the server to keep the handle, from start to end, ramps included.
    pub handles_asked: u64,
    /// Such handles that the server granted.
    pub handles_granted: u64,
    /// Granted handles that also outlive a restart of the server.
    pub handles_persistent: u64,
    /// Handles that were reopened on another connection.
    pub handles_regained: u64,
    /// Granted handles that the server no longer had.
    pub handles_lost: u64,
    /// Calls that were sent again on another connection.
    pub calls_sent_again: u64,
    /// Blocks that were read back after the level.
    pub blocks_read_back: u64,
    /// Blocks read back that were older than the acknowledged and flushed version.
    pub blocks_lost: u64,
    /// Blocks read back that match no version as a whole.
    pub blocks_wrong: u64,
    /// Blocks whose last acknowledged write was lost before a flush, including those found by reads during
    /// the level.
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
