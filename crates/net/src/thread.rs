//! On which CPU a thread runs, how exactly it is woken, and how long it waited for a CPU.

use rustix::io::Errno;
use rustix::thread::{sched_setaffinity, set_current_timer_slack, CpuSet};
use std::num::NonZeroU64;

/// Keeps the calling thread on one CPU. `INVAL` where there is no such CPU, or we may not use it.
pub fn pin_to(cpu: usize) -> Result<(), Errno> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL);
    }
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus)
}

/// Has the calling thread woken when its timers end. The kernel lets them end 50 us late otherwise, to wake several
/// threads at once (prctl(2), `PR_SET_TIMERSLACK`).
pub fn wake_on_time() -> Result<(), Errno> {
    set_current_timer_slack(Some(NonZeroU64::MIN))
}

/// How long the calling thread has been ready to run and waited for a CPU so far, in nanoseconds: the second field of
/// `/proc/thread-self/schedstat` (the kernel's Documentation/scheduler/sched-stats.rst). None where the kernel does not
/// count it.
#[must_use]
pub fn run_delay_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_measure::monotonic_ns;
    use rustix::thread::sched_getaffinity;

    #[test]
    fn two_busy_threads_on_one_cpu_wait_for_each_other() {
        let cpu =
            (0..CpuSet::MAX_CPU).find(|cpu| sched_getaffinity(None).is_ok_and(|cpus| cpus.is_set(*cpu)));
        let cpu = cpu.expect("this thread may run somewhere");
        let work = move || {
            pin_to(cpu).expect("it may run there");
            let before = run_delay_ns()?;
            let start_ns = monotonic_ns();
            // Long enough for the scheduler to take turns.
            while monotonic_ns() - start_ns < 100_000_000 {}
            Some(run_delay_ns()? - before)
        };
        let threads = [std::thread::spawn(work), std::thread::spawn(work)];
        let delays = threads.map(|thread| thread.join().expect("it ends"));
        // A kernel without these figures says so by None, and not by nought.
        assert!(
            delays.iter().all(|delay| delay.is_none_or(|ns| ns > 0)),
            "{delays:?}"
        );
    }
}
