//! Deadlines of tasks. While the rate limit (`pace.rs`) delays a request of a task, the task's deadline moves
//! by the same time.

use crate::executor::Executor;
use crate::task_times::PASSED;
use dyno_measure::monotonic_ns;
use std::future::Future;

impl Executor {
    /// Sets the current task's deadline: the task is polled after the deadline has passed. This poll does not
    /// reach futures that the task polls selectively (`FuturesUnordered`).
    pub fn set_deadline(&self, deadline_ns: u64) {
        self.times(|times| times.deadline_ns = deadline_ns);
    }

    /// Returns the deadline of the current task.
    pub fn deadline_ns(&self) -> u64 {
        self.times(|times| times.deadline_ns)
    }

    /// Returns whether the current task's deadline had passed at the last sweep.
    pub fn deadline_passed(&self) -> bool {
        self.deadline_ns() == PASSED
    }

    /// Returns the total time for which the rate limit has delayed requests of the current task, in nanoseconds.
    pub fn postponed_ns(&self) -> u64 {
        self.times(|times| times.postponed_ns)
    }

    /// Returns the monotonic clock minus the time for which the rate limit has delayed requests of the
    /// current task.
    pub fn task_clock_ns(&self) -> u64 {
        monotonic_ns().saturating_sub(self.postponed_ns())
    }

    /// Sets the current task's deadline, given as a time of `task_clock_ns`.
    pub fn set_deadline_by_task_clock(&self, deadline_ns: u64) {
        self.set_deadline(deadline_ns.saturating_add(self.postponed_ns()));
    }

    /// Runs `work` with another deadline of the current task, then restores the previous deadline.
    pub async fn with_deadline<T>(&self, deadline_ns: u64, work: impl Future<Output = T>) -> T {
        let (before_ns, postponed_ns) = (self.deadline_ns(), self.postponed_ns());
        self.set_deadline(deadline_ns);
        let done = work.await;
        self.set_deadline(before_ns.saturating_add(self.postponed_ns() - postponed_ns));
        done
    }

    /// Waits until `due_ns`, when the rate limit permits a request, and moves the current task's deadline by
    /// the time waited. Returns this time in nanoseconds.
    pub(crate) async fn postpone_until(&self, due_ns: u64) -> u64 {
        let begun_ns = monotonic_ns();
        if due_ns <= begun_ns {
            return 0;
        }
        // Move the deadline first, because the wait may be dropped.
        let moved_ns = self.times(|times| {
            if times.deadline_ns != PASSED {
                times.deadline_ns = times.deadline_ns.saturating_add(due_ns - begun_ns);
            }
            times.deadline_ns
        });
        self.sleep_until(due_ns).await;
        let now_ns = monotonic_ns();
        self.times(|times| {
            times.postponed_ns += now_ns - begun_ns;
            // Unless another deadline was set during the wait.
            if times.deadline_ns == moved_ns && moved_ns != PASSED {
                times.deadline_ns = moved_ns.saturating_add(now_ns - due_ns);
            }
        });
        now_ns - begun_ns
    }
}
