//! The loop of a client with several concurrent operations: closed load without think time or rate limit
//! (`prepare` refuses any other load).
//!
//! An operation is due when the previous one in its slot has ended, so response times and concurrency obey
//! Little's law.

use super::{ClientThread, PAUSE_NS};
use crate::digest::OperationsDigest;
use crate::protocol::{Overlapping, Performed};
use dyno_measure::monotonic_ns;
use dyno_workload::{Outcome, Workload};

/// Slots for a client's concurrent operations.
struct Places {
    /// When each free slot became free.
    free_ns: Vec<u64>,
    /// Number and due time of each operation in progress.
    taken: Vec<(u64, u64)>,
    instant_failures: u64,
    resume_ns: u64,
    last: Outcome,
}

impl ClientThread {
    /// Performs up to `depth` concurrent operations until the level is over or the client leaves.
    pub(crate) async fn run_overlapped<W: Workload>(
        mut self,
        depth: usize,
        workload: &mut W,
        protocol: &mut impl Overlapping<Op = W::Op>,
    ) {
        let end_ns = self.limits.start_ns + self.limits.length_ns;
        let mut digest = OperationsDigest::new(self.limits.digest_operations, self.limits.thread);
        let Some((due_ns, now_ns)) = self.next_due(protocol, end_ns).await else {
            return self.close(&digest, end_ns);
        };
        self.tally
            .borrow_mut()
            .first_begins(now_ns.saturating_sub(due_ns));
        let mut places = Places {
            free_ns: vec![due_ns; depth],
            taken: Vec::with_capacity(depth),
            instant_failures: 0,
            resume_ns: 0,
            last: Outcome::START,
        };
        let mut held = None;
        loop {
            self.fill(&mut places, &mut held, &mut digest, workload, protocol, end_ns)
                .await;
            if places.taken.is_empty() {
                if self.state.left.get() || monotonic_ns() >= end_ns {
                    break;
                }
                let resume_ns = places.resume_ns.min(end_ns).max(monotonic_ns() + 1);
                protocol.idle_until(&self.executor, resume_ns).await;
                continue;
            }
            let (number, performed) = protocol.ended().await;
            let Some(place) = places.taken.iter().position(|(taken, _)| *taken == number) else {
                continue;
            };
            let (_, due_ns) = places.taken.swap_remove(place);
            self.count_end(&mut places, &performed, due_ns);
        }
        if places.last.session_lost && held.is_none() {
            // Report to the workload that its session is lost, so that it does not close files.
            workload.next(&places.last);
        }
        self.close(&digest, end_ns);
    }

    /// Starts operations until all slots are used, or an operation has to wait for others.
    async fn fill<W: Workload, P: Overlapping<Op = W::Op>>(
        &self,
        places: &mut Places,
        held: &mut Option<W::Op>,
        digest: &mut OperationsDigest,
        workload: &mut W,
        protocol: &mut P,
        end_ns: u64,
    ) {
        while !places.free_ns.is_empty() {
            let now_ns = monotonic_ns();
            if self.state.left.get() || now_ns >= end_ns || now_ns < places.resume_ns {
                return;
            }
            let op = held.take().unwrap_or_else(|| {
                let last = std::mem::replace(&mut places.last, Outcome::START);
                workload.next(&last)
            });
            let alone = !P::overlaps(&op);
            if alone && !places.taken.is_empty() {
                *held = Some(op);
                return;
            }
            let due_ns = places.free_ns.pop().unwrap_or(now_ns).max(places.resume_ns);
            digest.add(&op);
            let ended = if alone {
                // Pass only the outcome of this operation to the workload.
                places.last = Outcome::START;
                protocol.perform(&op, due_ns).await
            } else {
                match protocol.begin(&op, due_ns).await {
                    Ok(number) => {
                        places.taken.push((number, due_ns));
                        continue;
                    }
                    Err(ended) => ended,
                }
            };
            self.count_end(places, &ended, due_ns);
        }
    }

    fn count_end(&self, places: &mut Places, performed: &Performed, due_ns: u64) {
        let done_ns = monotonic_ns();
        let elapsed_ns = done_ns - self.limits.start_ns;
        let response_ns = done_ns.saturating_sub(due_ns);
        let begun_ns = due_ns - self.limits.start_ns;
        let mut tally = self.tally.borrow_mut();
        tally.count(self.state.place, performed, (begun_ns, elapsed_ns), response_ns);
        drop(tally);
        if self.limits.added_cpu_ns > 0 {
            let until_ns = done_ns + u64::from(self.limits.added_cpu_ns);
            while monotonic_ns() < until_ns {
                std::hint::spin_loop();
            }
        }
        let pause_ns = self.pause_after(&performed.result, elapsed_ns, &mut places.instant_failures);
        if pause_ns >= PAUSE_NS {
            places.resume_ns = done_ns.saturating_add(pause_ns);
        }
        places.free_ns.push(done_ns);
        places.last = Outcome {
            ok: performed.result.is_ok(),
            bytes_read: performed.bytes_read,
            // Report a lost session once, even if other operations end before the workload's next call.
            session_lost: performed.session_lost || places.last.session_lost,
        };
    }
}
