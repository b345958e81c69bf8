//! CPU affinity, timer slack and run delay of a thread.

use rustix::io::Errno;
use rustix::thread::{sched_setaffinity, set_current_timer_slack, CpuSet};
use std::num::NonZeroU64;

/// Pins the calling thread to one CPU. Fails with `INVAL` if the CPU does not exist or the thread may not use
/// it.
pub fn pin_to(cpu: usize) -> Result<(), Errno> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(Errno::INVAL);
    }
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus)
}

/// Sets the timer slack of the calling thread to the minimum. By default the kernel may delay timers by 50 us
/// (prctl(2), `PR_SET_TIMERSLACK`).
pub fn wake_on_time() -> Result<(), Errno> {
    set_current_timer_slack(Some(NonZeroU64::MIN))
}

/// Returns how many nanoseconds the calling thread has waited for a CPU while runnable: the second field of
/// `/proc/thread-self/schedstat` (Linux, Documentation/scheduler/sched-stats.rst). Returns None if the kernel does not
/// report this time.
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
            while monotonic_ns() - start_ns < 100_000_000 {}
            Some(run_delay_ns()? - before)
        };
        let threads = [std::thread::spawn(work), std::thread::spawn(work)];
        let delays = threads.map(|thread| thread.join().expect("it ends"));
        // A kernel without this counter must give None, not zero.
        assert!(
            delays.iter().all(|delay| delay.is_none_or(|ns| ns > 0)),
            "{delays:?}"
        );
    }
}
