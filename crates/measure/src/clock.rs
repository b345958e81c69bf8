//! Clocks: monotonic for intervals, thread CPU time for the generator's own cost, wall-clock time only for
//! dates.

use nix::sys::resource::{getrusage, UsageWho};
use rustix::time::{clock_gettime, ClockId};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns `CLOCK_MONOTONIC` in nanoseconds (vDSO, about 20 ns per call).
#[inline]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * crate::NS_PER_S + now.tv_nsec.unsigned_abs()
}

/// Returns the wall-clock time in seconds since 1970.
pub fn unix_s() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

/// CPU time of a thread, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ThreadCpu {
    pub user_s: f64,
    /// Kernel time on the thread's behalf. On loopback this includes much of the peer's TCP work.
    pub system_s: f64,
}

impl ThreadCpu {
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_s: self.user_s - earlier.user_s,
            system_s: self.system_s - earlier.system_s,
        }
    }
}

/// Returns the CPU time of the calling thread so far (`getrusage(2)`, `RUSAGE_THREAD`).
pub fn thread_cpu() -> ThreadCpu {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_THREAD) else {
        unreachable!("getrusage of the calling thread can't fail on Linux");
    };
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    ThreadCpu {
        user_s: seconds(usage.user_time()),
        system_s: seconds(usage.system_time()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_grows_while_the_thread_works() {
        let before = thread_cpu();
        let start = monotonic_ns();
        while monotonic_ns() - start < 30_000_000 {}
        let used = thread_cpu().since(before);
        assert!(used.user_s + used.system_s > 0.0);
    }
}
