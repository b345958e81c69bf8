//! Concurrent reads, writes and flushes of one client, without a client cache.

use super::answers::leaves_session;
use super::{moved_since, FilesClient};
use crate::files::sessions::Sessions;
use crate::protocol::{Overlapping, Performed};
use dyno_files::{Call, CallId, FileClient, Reply, Stability, Traffic};
use dyno_measure::{Failure, Fault};
use dyno_workload::{content_of, FileAction, FileOp, Slot};

/// An operation in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnderWay {
    number: u64,
    call: CallId,
    op: FileOp,
    until_ns: u64,
    /// Whether the read content is compared.
    checking: bool,
}

/// State of a client's operations in progress.
#[derive(Debug, Default)]
pub(super) struct AllUnderWay {
    calls: Vec<UnderWay>,
    /// Operations that ended because their session was lost.
    lost: Vec<(u64, FileOp, Failure)>,
    next_number: u64,
    traffic: Traffic,
}

impl<S: Sessions> FilesClient<S> {
    async fn begin_call(&mut self, action: &FileAction) -> Result<CallId, Failure> {
        let call = match *action {
            FileAction::Read { slot, offset, bytes } => Call::Read {
                handle: self.handle(slot)?,
                offset,
                bytes,
            },
            FileAction::Write {
                slot,
                offset,
                bytes,
                generation,
            } => Call::Write {
                handle: self.handle(slot)?,
                offset,
                data: content_of(self.writing(slot, generation)?, offset, bytes as usize),
                stability: Stability::Unstable,
            },
            _ => self.call_by_handle(action)?,
        };
        // `prepare` rejects a cache here.
        self.client.begin(&call).await
    }

    /// Waits for the next operation to end. Returns the operation, its result and the bytes moved.
    async fn next_end(&mut self) -> Result<(UnderWay, Result<(u64, u64), Failure>), Failure> {
        let calls = &mut self.under_way.calls;
        loop {
            let oldest_ns = calls.iter().map(|one| one.until_ns).min();
            self.executor.set_deadline(oldest_ns.ok_or(Fault::OtherIo)?);
            let (ledger, checked_bytes) = (&self.ledger, &mut self.checked_bytes);
            let mut wrong = false;
            let mut check = |id: CallId, data: &[u8]| {
                let Some(one) = calls.iter().find(|one| one.call == id && one.checking) else {
                    return;
                };
                if let FileAction::Read { slot, offset, .. } = one.op.action {
                    match ledger.check(slot, offset, data) {
                        Ok(checked) => *checked_bytes += checked,
                        Err(_) => wrong = true,
                    }
                }
            };
            let (id, result) = self.client.ended(&mut check).await?;
            let Some(place) = calls.iter().position(|one| one.call == id) else {
                continue;
            };
            let one = calls.swap_remove(place);
            let moved = match one.op.action {
                FileAction::Read { slot, offset, bytes } => {
                    let judged = self.judge_read(result, (slot, offset, bytes), wrong);
                    judged.map(|came| (came, 0))
                }
                FileAction::Write { .. } => self.judge_write(&one.op.action, result).map(|put| (0, put)),
                _ => result.map(|_| {
                    self.ledger.apply(&one.op.action);
                    (0, 0)
                }),
            };
            return Ok((one, moved));
        }
    }

    fn judge_read(
        &self,
        result: Result<Reply, Failure>,
        (slot, offset, bytes): (Slot, u64, u32),
        wrong: bool,
    ) -> Result<u64, Failure> {
        match result? {
            Reply::Read { bytes: came } => self
                .expect_read((slot, offset, bytes), came.into(), wrong)
                .map(|()| came.into()),
            _ => Err(Fault::MalformedMessage.into()),
        }
    }

    /// Records the result of an operation. If the session is lost, ends all its operations.
    async fn note_end(&mut self, result: &Result<(), Failure>) {
        self.note_loss(result).await;
        if !self.lost {
            return;
        }
        for one in self.under_way.calls.drain(..) {
            if let FileAction::Write {
                slot, offset, bytes, ..
            } = one.op.action
            {
                self.ledger.forget(slot, offset, bytes);
            }
            let lost = (one.number, one.op, Fault::SessionLost.into());
            self.under_way.lost.push(lost);
        }
    }

    /// Returns the result of an operation that ended. All traffic since the previous end is counted for it.
    fn told(&mut self, op: &FileOp, (read, written): (u64, u64), result: Result<(), Failure>) -> Performed {
        let now = self.client.counted().traffic();
        let before = std::mem::replace(&mut self.under_way.traffic, now);
        Performed {
            class: op.class,
            bytes_read: read,
            bytes_written: written,
            cost: moved_since(before, now),
            session_lost: self.lost,
            result,
        }
    }
}

impl<S: Sessions> Overlapping for FilesClient<S> {
    fn overlaps(op: &FileOp) -> bool {
        matches!(
            op.action,
            FileAction::Read { .. } | FileAction::Write { .. } | FileAction::Flush { .. }
        )
    }

    async fn begin(&mut self, op: &FileOp, due_ns: u64) -> Result<u64, Performed> {
        if self.under_way.calls.is_empty() {
            self.under_way.traffic = self.client.counted().traffic();
        }
        let until_ns = due_ns.saturating_add(self.timeout_ns);
        self.executor.set_deadline(until_ns);
        let checking = matches!(op.action, FileAction::Read { .. }) && self.sampling.draw();
        match self.begin_call(&op.action).await {
            Ok(call) => {
                let number = self.under_way.next_number;
                self.under_way.next_number += 1;
                self.under_way.calls.push(UnderWay {
                    number,
                    call,
                    op: *op,
                    until_ns,
                    checking,
                });
                Ok(number)
            }
            Err(failure) => {
                if let FileAction::Write {
                    slot, offset, bytes, ..
                } = op.action
                {
                    self.ledger.forget(slot, offset, bytes);
                }
                self.note_end(&Err(failure)).await;
                Err(self.told(op, (0, 0), Err(failure)))
            }
        }
    }

    async fn ended(&mut self) -> (u64, Performed) {
        loop {
            if let Some((number, op, failure)) = self.under_way.lost.pop() {
                return (number, self.told(&op, (0, 0), Err(failure)));
            }
            match self.next_end().await {
                Ok((one, moved)) => {
                    let result = moved.map(|_| ());
                    if result.is_err_and(|failure| !leaves_session(failure.fault)) {
                        self.note_end(&result).await;
                    }
                    let performed = self.told(&one.op, moved.unwrap_or_default(), result);
                    return (one.number, performed);
                }
                Err(failure) => {
                    self.note_end(&Err(failure)).await;
                    // Report the oldest operation; the others are lost with the session.
                    let oldest = self.under_way.lost.iter_mut().min_by_key(|(number, ..)| *number);
                    if let Some((_, _, told)) = oldest {
                        *told = failure;
                    }
                }
            }
        }
    }
}
