//! Ready work: how many connections waited for the load generator rather than for the server.
//!
//! The generator does not see when an answer arrived, only when it asked the kernel. It knows how long it worked
//! between two calls of `epoll_wait`, and how many answers had arrived by then. If answers arrive evenly, each waited
//! on average half of that time before the call. Within a batch, each answer also waits for those before it. Let batch
//! i have k_i answers, and let the generator work on it for T_i. Then the total time that connections waited for the
//! generator is `sum of T_i x ((k_i + 1) / 2 + k_(i+1) / 2 if the loop did not have to wait for the next batch)`
//!
//! Divided by the elapsed time, this is the mean number of such connections. Divided by the sum of all
//! response times, it is the generator's share of the response time. The 1 in `k + 1` is the answer being
//! processed.
//!
//! The time to wake a sleeping thread is not included, because the arrival time of the first answer of a
//! batch is unknown. Waiting for a CPU is measured elsewhere (`run_delay_ns`).

/// Sums for the mean number of connections that waited for the generator. The sums of several loops may be added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadyWork {
    /// Integral over time of the number of connections that waited for the generator, in connection nanoseconds.
    pub ready_ns: u64,
    /// Time in which the loop processed batches of events, in nanoseconds.
    pub busy_ns: u64,
    pub batches: u64,
    /// Socket reports and due timers in all batches.
    pub events: u64,
}

impl ReadyWork {
    pub fn add(&mut self, other: Self) {
        self.ready_ns += other.ready_ns;
        self.busy_ns += other.busy_ns;
        self.batches += other.batches;
        self.events += other.events;
    }
}

/// Maximum duration of an `epoll_wait` call that found events ready, plus `ANSWER_NS` per event. A call that
/// sleeps takes longer.
const ASKING_NS: u64 = 2_000;
const ANSWER_NS: u64 = 100;

/// Measures the ready work of one loop.
#[derive(Debug, Default)]
pub struct ReadyWorkMeter {
    total: ReadyWork,
    /// Start of the current batch and its number of events.
    batch: Option<(u64, u64)>,
}

impl ReadyWorkMeter {
    /// Ends the previous batch at `asked_ns`, when the loop called `epoll_wait`. The call returned `events`
    /// at `woke_ns`.
    pub fn begin_batch(&mut self, asked_ns: u64, woke_ns: u64, events: usize) {
        let events = events as u64;
        let (worked_ns, before) = self.end_batch(asked_ns);
        let asking_ns = woke_ns.saturating_sub(asked_ns);
        if before > 0 && asking_ns < ASKING_NS + ANSWER_NS * events {
            self.total.ready_ns += (worked_ns + asking_ns) * events / 2;
        }
        self.batch = Some((woke_ns, events));
    }

    /// Adds `answers` that came with an event in addition to the one already counted.
    pub fn add_answers(&mut self, answers: usize) {
        if let Some((_, events)) = &mut self.batch {
            *events += answers as u64;
        }
    }

    /// Adds a timer that fired `late_ns` late: its task waited that long.
    pub fn add_timer(&mut self, late_ns: u64) {
        if let Some((_, events)) = &mut self.batch {
            *events += 1;
            self.total.ready_ns += late_ns;
        }
    }

    /// Ends the measurement at `now_ns` and returns the sums.
    pub fn finish(mut self, now_ns: u64) -> ReadyWork {
        self.end_batch(now_ns);
        self.total
    }

    /// Ends the batch and returns its duration and number of events.
    fn end_batch(&mut self, now_ns: u64) -> (u64, u64) {
        let Some((woke_ns, events)) = self.batch.take().filter(|batch| batch.1 > 0) else {
            return (0, 0);
        };
        let worked_ns = now_ns.saturating_sub(woke_ns);
        self.total.ready_ns += worked_ns * (events + 1) / 2;
        self.total.busy_ns += worked_ns;
        self.total.batches += 1;
        self.total.events += events;
        (worked_ns, events)
    }
}
