//! Times of a task: its deadline, and how long the rate limit has delayed its requests (`pace.rs`).

const NO_DEADLINE: u64 = u64::MAX;
/// Value of a deadline that has passed.
pub(crate) const PASSED: u64 = 0;

/// Times of one task, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskTimes {
    pub deadline_ns: u64,
    pub postponed_ns: u64,
}

impl TaskTimes {
    pub(crate) const NEW: Self = Self {
        deadline_ns: NO_DEADLINE,
        postponed_ns: 0,
    };
}
