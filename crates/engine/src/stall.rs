//! Detects whether this process stood still under load: it was stopped by a signal, its machine was paused,
//! or the clock was set.
//!
//! A separate thread reads the clocks ten times per second and adds up its lateness. Time for which the
//! thread was ready but had no CPU is not counted, because a busy machine is not a stall. The run delay shows
//! that time.
//!
//! The control plane decides what a stall means for a level.

use crate::start::Start;
use dyno_measure::{monotonic_ns, NS_PER_S};
use dyno_net::run_delay_ns;
use rustix::time::{clock_gettime, ClockId};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

const LOOK_NS: u64 = 100_000_000;
/// Normal lateness of a wakeup by the kernel or on a slow machine.
const TOLERATED_NS: u64 = 100_000_000;

/// Watches one level until the result is requested.
#[derive(Debug)]
pub(crate) struct StallWatch {
    end: Sender<()>,
    thread: Option<JoinHandle<u64>>,
    stalled_ns: u64,
}

impl StallWatch {
    /// Starts to watch. Only stalls between the start and the end of the level count.
    pub(crate) fn begin(start: Arc<Start>, length_ns: u64) -> Self {
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut stalled_ns = 0;
            let mut before = Clocks::now();
            while ended.recv_timeout(Duration::from_nanos(LOOK_NS)) == Err(RecvTimeoutError::Timeout) {
                let now = Clocks::now();
                let under_way =
                    |start_ns: u64| now.monotonic_ns > start_ns && before.monotonic_ns < start_ns + length_ns;
                if start.ns().is_some_and(under_way) {
                    stalled_ns += now.stalled_since(&before, LOOK_NS);
                }
                before = now;
            }
            stalled_ns
        });
        Self {
            end,
            thread: Some(thread),
            stalled_ns: 0,
        }
    }

    /// Ends the watch and returns how long the process stood still, in nanoseconds.
    pub(crate) fn stalled_ns(&mut self) -> u64 {
        if let Some(thread) = self.thread.take() {
            // Sending fails only if the thread has panicked. The stall is then unknown and counts as 0.
            let _ = self.end.send(());
            self.stalled_ns = thread.join().unwrap_or(0);
        }
        self.stalled_ns
    }
}

/// Simultaneous readings of all clocks, and of the total time for which the thread has waited for a CPU.
#[derive(Debug, Clone, Copy)]
struct Clocks {
    monotonic_ns: u64,
    /// Time since boot, including the time for which the machine was suspended.
    boot_ns: u64,
    /// Calendar time, which is corrected after a pause that the machine did not detect.
    calendar_ns: u64,
    run_delay_ns: u64,
}

impl Clocks {
    fn now() -> Self {
        Self {
            monotonic_ns: monotonic_ns(),
            boot_ns: clock_ns(ClockId::Boottime),
            calendar_ns: clock_ns(ClockId::Realtime),
            run_delay_ns: run_delay_ns().unwrap_or(0),
        }
    }

    /// Returns how long the process stood still between two readings that are normally `look_ns` apart, in
    /// nanoseconds.
    fn stalled_since(&self, before: &Self, look_ns: u64) -> u64 {
        let passed_ns = self.monotonic_ns - before.monotonic_ns;
        let own_ns = look_ns + (self.run_delay_ns - before.run_delay_ns) + TOLERATED_NS;
        let late_ns = passed_ns.saturating_sub(own_ns);
        let jumped = |now_ns: u64, before_ns: u64| {
            let moved_ns = i128::from(now_ns) - i128::from(before_ns) - i128::from(passed_ns);
            u64::try_from(moved_ns.abs()).unwrap_or(u64::MAX)
        };
        let set_ns = jumped(self.boot_ns, before.boot_ns).max(jumped(self.calendar_ns, before.calendar_ns));
        late_ns.max(set_ns.saturating_sub(TOLERATED_NS))
    }
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec.unsigned_abs() * NS_PER_S + now.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Clocks = Clocks {
        monotonic_ns: 50 * NS_PER_S,
        boot_ns: 60 * NS_PER_S,
        calendar_ns: 1_000 * NS_PER_S,
        run_delay_ns: NS_PER_S,
    };

    fn later(monotonic_ns: u64, boot_ns: u64, calendar_ns: u64, run_delay_ns: u64) -> Clocks {
        Clocks {
            monotonic_ns: SECOND.monotonic_ns + monotonic_ns,
            boot_ns: SECOND.boot_ns + boot_ns,
            calendar_ns: SECOND.calendar_ns + calendar_ns,
            run_delay_ns: SECOND.run_delay_ns + run_delay_ns,
        }
    }

    #[test]
    fn a_slightly_late_reading_is_not_a_stall() {
        let late = LOOK_NS + TOLERATED_NS;
        assert_eq!(later(late, late, late, 0).stalled_since(&SECOND, LOOK_NS), 0);
    }

    #[test]
    fn a_stopped_process_has_stalled_for_that_time() {
        let passed = 5 * NS_PER_S;
        let stalled_ns = later(passed, passed, passed, 0).stalled_since(&SECOND, LOOK_NS);
        assert_eq!(stalled_ns, passed - LOOK_NS - TOLERATED_NS);
    }

    #[test]
    fn a_thread_that_waited_for_a_cpu_has_not_stalled() {
        let passed = 5 * NS_PER_S;
        assert_eq!(
            later(passed, passed, passed, passed).stalled_since(&SECOND, LOOK_NS),
            0
        );
    }

    #[test]
    fn a_suspended_machine_and_a_changed_clock_count_as_stalls() {
        let suspended = later(LOOK_NS, 3 * NS_PER_S, 3 * NS_PER_S, 0);
        let set_back = Clocks {
            calendar_ns: SECOND.calendar_ns - 2 * NS_PER_S,
            ..later(LOOK_NS, LOOK_NS, 0, 0)
        };
        for clocks in [suspended, set_back] {
            assert!(clocks.stalled_since(&SECOND, LOOK_NS) > NS_PER_S);
        }
    }
}
