//! Ready work: how many connections waited for the loop, not for the server.
//!
//! A generator sees only when it was told of an answer, not when the answer came. But it knows how long it was at work
//! between two questions to the kernel, and how many answers had come by then. With answers that come evenly while the
//! loop works, half of that time is what each of them waited before the loop asked; and of the answers of a batch, which
//! are taken one after the other, each waits for those before it. So with batches i of k answers, each worked on for T,
//!
//! `sum of T_i x ((k_i + 1) / 2 + k_(i+1) / 2 where the loop did not have to wait for the next batch)`
//!
//! is the time that connections spent in the hands of the generator, added up. Divided by the time that passed it is the
//! mean number of such connections; divided by the sum of all response times it is the share of a response time that is
//! the generator's own. The one in `k + 1` is the answer that is being worked on.
//!
//! How long a sleeping thread takes to wake is not in it: nobody can say when the first answer of a batch came.
//!
//! Not for: waiting for a CPU (`run_delay_ns`), what follows from the share.

/// Connections in the hands of the generator, over some time. Sums: what several loops had may be added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadyWork {
    /// Connections times nanoseconds in which their next step was the generator's.
    pub ready_ns: u64,
    /// Nanoseconds in which the loop was at work.
    pub busy_ns: u64,
    /// Times that it had something to do.
    pub batches: u64,
    /// Reports of sockets and timers that were due, in all batches.
    pub events: u64,
}

impl ReadyWork {
    /// Adds what another loop had, or the same one at another time.
    pub fn add(&mut self, other: Self) {
        self.ready_ns += other.ready_ns;
        self.busy_ns += other.busy_ns;
        self.batches += other.batches;
        self.events += other.events;
    }
}

/// A question to the kernel that is answered within this much, and `ANSWER_NS` for each event, had its answer ready: a
/// thread that goes to sleep and is woken takes longer.
const ASKING_NS: u64 = 2_000;
const ANSWER_NS: u64 = 100;

/// Measures the ready work of one loop, batch by batch.
#[derive(Debug, Default)]
pub struct ReadyWorkMeter {
    total: ReadyWork,
    /// Since when the batch is worked on, and how many events it has.
    batch: Option<(u64, u64)>,
}

impl ReadyWorkMeter {
    /// The loop asked at `asked_ns`, which ended the batch before, and was told of `events` at `woke_ns`.
    pub fn begin_batch(&mut self, asked_ns: u64, woke_ns: u64, events: usize) {
        let events = events as u64;
        let (worked_ns, before) = self.end_batch(asked_ns);
        let asking_ns = woke_ns.saturating_sub(asked_ns);
        if before > 0 && asking_ns < ASKING_NS + ANSWER_NS * events {
            self.total.ready_ns += (worked_ns + asking_ns) * events / 2;
        }
        self.batch = Some((woke_ns, events));
    }

    /// One event of the batch brought so many answers more than the one that it is counted as.
    pub fn add_answers(&mut self, answers: usize) {
        if let Some((_, events)) = &mut self.batch {
            *events += answers as u64;
        }
    }

    /// A timer of the batch is `late_ns` behind its time: whoever set it has waited for so long.
    pub fn add_timer(&mut self, late_ns: u64) {
        if let Some((_, events)) = &mut self.batch {
            *events += 1;
            self.total.ready_ns += late_ns;
        }
    }

    /// Ends at `now_ns`, whatever the loop is at.
    #[must_use]
    pub fn finish(mut self, now_ns: u64) -> ReadyWork {
        self.end_batch(now_ns);
        self.total
    }

    /// How long it took and what it had.
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
