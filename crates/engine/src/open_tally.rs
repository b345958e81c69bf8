//! Counts of open arrivals: part of the tally of a level (`tally.rs`).

use crate::merging as rule;
use crate::time_fields::seconds;
use dyno_measure::Histogram;
use merge::Merge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Open arrivals. Each ends as done, failed, dropped or overdue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct OpenTally {
    /// Operations that were due from start to end. Each succeeded, failed, was dropped, or was overdue. Null for
    /// closed load and before format 5, like the next six columns.
    pub arrivals: u64,
    /// Operations that were due in the window.
    pub arrivals_in_window: u64,
    /// Operations dropped because the queue was full, from start to end.
    pub dropped: u64,
    /// Dropped operations that were due in the window.
    pub dropped_in_window: u64,
    /// Operations that ended in the window and had to wait for a free connection.
    pub waited: u64,
    /// Total time that these operations waited for a connection.
    #[serde(rename = "waiting_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub waiting_ns: u64,
    /// The generator's delay, in ns, for operations that ended in the window: how late each began after it was due and
    /// its connection was free.
    #[serde(rename = "scheduling_error_hdr")]
    #[merge(strategy = rule::histogram)]
    pub scheduling_error: Histogram,
}
