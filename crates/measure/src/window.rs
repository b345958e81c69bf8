//! The measured window of a level.
//!
//! Rules published for the Open Benchmark (WebBench 2.0, 1999): the *length* is the whole level including
//! both ramps. Operations in the ramps are performed but not counted. An operation counts at the time at
//! which it *completes*.

/// Phase of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the window: load without counting.
    RampUp,
    Measured,
    /// After the window: load without counting.
    RampDown,
    /// After the level: no new operation starts, and those in progress finish.
    Drain,
}

/// Length and ramps of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Length including both ramps.
    pub length_ns: u64,
    /// Uncounted time at the start.
    pub ramp_up_ns: u64,
    /// Uncounted time at the end.
    pub ramp_down_ns: u64,
}

impl Window {
    /// Returns the start of the window.
    pub fn opens_ns(&self) -> u64 {
        self.ramp_up_ns
    }

    /// Returns the end of the window (exclusive).
    pub fn closes_ns(&self) -> u64 {
        self.length_ns.saturating_sub(self.ramp_down_ns)
    }

    pub fn measured_ns(&self) -> u64 {
        self.closes_ns().saturating_sub(self.opens_ns())
    }

    /// Returns how many nanoseconds of the interval lie in the window. Both ends are in nanoseconds since the
    /// start of the level.
    #[inline]
    pub fn overlap_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        to_ns
            .min(self.closes_ns())
            .saturating_sub(from_ns.max(self.opens_ns()))
    }

    /// Returns the phase `elapsed_ns` after the start of the level.
    #[inline]
    pub fn phase(&self, elapsed_ns: u64) -> Phase {
        if elapsed_ns >= self.length_ns {
            Phase::Drain
        } else if elapsed_ns < self.opens_ns() {
            Phase::RampUp
        } else if elapsed_ns < self.closes_ns() {
            Phase::Measured
        } else {
            Phase::RampDown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN_BENCHMARK: Window = Window {
        length_ns: 300,
        ramp_up_ns: 30,
        ramp_down_ns: 30,
    };

    #[test]
    fn the_length_includes_both_ramps() {
        assert_eq!(OPEN_BENCHMARK.measured_ns(), 240);
    }

    #[test]
    fn a_time_on_a_border_belongs_to_the_phase_that_begins_there() {
        let phases: Vec<Phase> = [0, 29, 30, 269, 270, 299, 300]
            .map(|moment| OPEN_BENCHMARK.phase(moment))
            .to_vec();
        use Phase::{Drain, Measured, RampDown, RampUp};
        assert_eq!(
            phases,
            [RampUp, RampUp, Measured, Measured, RampDown, RampDown, Drain]
        );
    }

    #[test]
    fn an_interval_across_a_border_counts_only_inside_the_window() {
        let overlap = |from, to| OPEN_BENCHMARK.overlap_ns(from, to);
        assert_eq!((overlap(0, 30), overlap(20, 35), overlap(40, 50)), (0, 5, 10));
        assert_eq!(
            (overlap(0, 300), overlap(260, 290), overlap(280, 290)),
            (240, 10, 0)
        );
    }

    #[test]
    fn without_ramps_everything_before_the_end_counts() {
        let window = Window {
            length_ns: 10,
            ramp_up_ns: 0,
            ramp_down_ns: 0,
        };
        assert_eq!(window.phase(0), Phase::Measured);
        assert_eq!(window.phase(9), Phase::Measured);
        assert_eq!(window.phase(10), Phase::Drain);
    }
}
