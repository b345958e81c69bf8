//! Counts of open arrivals: part of the tally of a level (`tally.rs`).

use crate::merging as rule;
use crate::time_fields::seconds;
use dyno_measure::Histogram;
use merge::Merge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Open arrivals. Each is done, failed, dropped or overdue in the end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Merge, JsonSchema)]
#[merge(strategy = rule::sum)]
pub struct OpenTally {
    /// Operations that came from start to end. Each was done, failed, dropped or overdue. Null for closed load and before
    /// format 5, like the next six.
    pub arrivals: u64,
    /// Of them, those that came in the window.
    pub arrivals_in_window: u64,
    /// Operations that came when as many waited as may, from start to end.
    pub dropped: u64,
    /// Of them, those that came in the window.
    pub dropped_in_window: u64,
    /// Operations that ended in the window and had found no connection free.
    pub waited: u64,
    /// How long they waited for one, all together.
    #[serde(rename = "waiting_s", with = "seconds")]
    #[schemars(with = "f64")]
    pub waiting_ns: u64,
    /// ns, operations that ended in the window: how much later each began than it came or its connection was free, which
    /// is the generator's fault.
    #[serde(rename = "scheduling_error_hdr")]
    #[merge(strategy = rule::histogram)]
    pub scheduling_error: Histogram,
}
