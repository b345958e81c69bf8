//! What was counted of open arrivals: a part of the tally of a mix (`tally.rs`), merged like the rest of it.

use crate::time_fields::seconds;
use dyno_measure::Histogram;
use serde::{Deserialize, Serialize};

/// Open arrivals. Each is done, failed, dropped or overdue in the end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenTally {
    /// Operations that came from start to end.
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
    pub waiting_ns: u64,
    /// How much later than its time, or than its connection was free, an operation of the window began, ns: the
    /// generator's own part.
    #[serde(rename = "scheduling_error_hdr")]
    pub scheduling_error: Histogram,
}

impl OpenTally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.arrivals += other.arrivals;
        self.arrivals_in_window += other.arrivals_in_window;
        self.dropped += other.dropped;
        self.dropped_in_window += other.dropped_in_window;
        self.waited += other.waited;
        self.waiting_ns += other.waiting_ns;
        self.scheduling_error.add(&other.scheduling_error);
    }
}
