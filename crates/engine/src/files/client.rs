//! Executes a workload on files: converts operations to calls, compares read data with the expected contents,
//! and checks every answer.

use super::names::{wanted, Names};
use super::program::{same_length, Program};
use super::sessions::Sessions;
use crate::counting::SessionFacts;
use crate::kind::later_silence;
use crate::protocol::{Performed, Protocol};
use crate::sampling::Sampling;
use dyno_files::{
    Ask, Breaks, Call, Calls, FileClient, Files, Handle, KeptHandles, Open, Reply, Stability, Traffic,
};
use dyno_http::Exchange;
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::Executor;
use dyno_workload::{content_of, Block, FileAction, FileOp, Ledger, PathId, Presence, Slot, Writing};
use std::collections::BTreeMap;

mod answers;
mod cached;
mod outages;
mod overlapped;
mod shared;
mod whole_file;

use answers::{expect, leaves_session};
use cached::advice_on_size;
pub(crate) use cached::CachedClient;
pub(crate) use outages::Outage;
use outages::Outages;

/// Maximum number of different sessions recorded per client, because a server could vary the parameters endlessly.
const MOST_KINDS: usize = 8;

/// Returns a hint for a failure of work on files, if there is one. `has_answered`: the server answered before.
pub(in crate::files) fn hint(
    sessions: &impl Sessions,
    failure: &Failure,
    has_answered: bool,
) -> Option<&'static str> {
    advice_on_size(failure)
        .or_else(|| later_silence(failure, has_answered))
        .or_else(|| sessions.advice(failure))
}

/// Bytes moved by one operation.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    read: u64,
    written: u64,
}

pub(crate) struct FilesClient<S: Sessions> {
    client: CachedClient<S::Client>,
    names: Names,
    handles: Vec<Option<Handle>>,
    ledger: Ledger,
    sampling: Sampling,
    executor: Executor,
    timeout_ns: u64,
    checked_bytes: u64,
    reconnects: u64,
    /// Negotiated parameters of the client's sessions.
    sessions: Vec<SessionFacts>,
    /// Whether the session is lost. The next operation then creates a new one.
    lost: bool,
    under_way: overlapped::AllUnderWay,
    shared: shared::SharedBlocks,
    outages: Outages,
    /// Whether the client waits for an absent server, for at most the timeout of an operation.
    waits_for_server: bool,
    /// Time at which the client cuts its connection.
    cut_ns: Option<u64>,
    /// Time for which the rate limit delayed requests of the last operation, in nanoseconds.
    postponed_ns: u64,
}

impl<S: Sessions> FilesClient<S> {
    pub(crate) fn new(
        client: CachedClient<S::Client>,
        names: Names,
        number: u32,
        sampling: Sampling,
        executor: Executor,
        timeout_ns: u64,
    ) -> Self {
        Self {
            client,
            names,
            handles: Vec::new(),
            ledger: Ledger::new(number),
            sampling,
            executor,
            timeout_ns,
            checked_bytes: 0,
            reconnects: 0,
            sessions: Vec::new(),
            lost: false,
            under_way: overlapped::AllUnderWay::default(),
            shared: shared::SharedBlocks::default(),
            outages: Outages::default(),
            waits_for_server: false,
            cut_ns: None,
            postponed_ns: 0,
        }
    }

    /// Sets the expected contents from an earlier level.
    pub(crate) fn set_ledger(&mut self, ledger: Ledger) {
        self.ledger = ledger;
    }

    /// Marks further writes with `mark`, which identifies the level.
    pub(crate) fn begin_level(&mut self, mark: u32) {
        self.ledger.begin_level(mark);
    }

    pub(crate) fn forget_everything(&mut self) {
        self.ledger.clear();
    }

    pub(crate) async fn connect(&mut self) -> Result<(), Failure> {
        self.client.connect().await?;
        self.reconnects += u64::from(std::mem::take(&mut self.lost));
        if let Some(agreed) = S::agreed(self.client.counted().inner()) {
            if self.sessions.len() < MOST_KINDS && !self.sessions.contains(&agreed) {
                self.sessions.push(agreed);
            }
        }
        Ok(())
    }

    /// Checks that the server accepts reads and writes of `bytes`.
    pub(crate) fn takes_at_once(&self, bytes: u32) -> Result<(), Failure> {
        self.client.takes_at_once(bytes)
    }

    pub(crate) fn lost(&self) -> bool {
        self.lost
    }

    pub(crate) async fn finds(&mut self, path: PathId) -> Result<bool, Failure> {
        let call = Call::QueryPath {
            path: self.names.path(path),
        };
        Ok(!matches!(self.client.ask(&call).await?, Reply::NotThere))
    }

    /// Creates missing directories above the workspace.
    pub(crate) async fn make_parents(&mut self) -> Result<(), Failure> {
        let workspace = self.names.path(PathId(0)).to_owned();
        for (end, _) in workspace.match_indices('/') {
            self.make_directory(&workspace[..end]).await?;
        }
        Ok(())
    }

    pub(crate) async fn remove_parents(&mut self) -> Result<(), Failure> {
        let workspace = self.names.path(PathId(0)).to_owned();
        for (end, _) in workspace.rmatch_indices('/') {
            self.client.remove_directory(&workspace[..end]).await?;
        }
        Ok(())
    }

    async fn make_directory(&mut self, path: &str) -> Result<(), Failure> {
        match self.client.make_directory(path).await {
            Err(failure) if failure.fault == Fault::AlreadyThere => Ok(()),
            made => made,
        }
    }

    /// Performs an action outside the measured load. The caller sets the deadline.
    pub(crate) async fn act_unmeasured(&mut self, action: &FileAction) -> Result<(), Failure> {
        let result = self.act(action, &mut Moved::default()).await;
        self.note_loss(&result).await;
        result
    }

    pub(crate) async fn finish(&mut self) -> Result<(), Failure> {
        self.client.finish().await
    }

    /// Takes the expected contents for the next level. The client must not be used afterwards.
    pub(crate) fn take_ledger(&mut self) -> Ledger {
        std::mem::replace(&mut self.ledger, Ledger::new(0))
    }

    pub(crate) fn calls(&self) -> Calls {
        *self.client.counted().calls()
    }

    pub(crate) fn breaks(&self) -> Breaks {
        self.client.counted().breaks().clone()
    }

    /// Returns the counts of durable handles.
    pub(crate) fn kept_handles(&self) -> KeptHandles {
        self.client.counted().kept_handles()
    }

    pub(crate) fn requests(&self) -> BTreeMap<&'static str, u64> {
        self.client.requests()
    }

    /// Returns the number of executed requests in all sessions.
    pub(crate) fn protocol_requests(&self) -> u64 {
        let traffic = self.client.counted().traffic();
        traffic.requests - traffic.refused
    }

    pub(crate) fn connections(&self) -> u64 {
        self.client.counted().traffic().connections
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.reconnects
    }

    pub(crate) fn sessions(&self) -> &[SessionFacts] {
        &self.sessions
    }

    pub(crate) fn checked_bytes(&self) -> u64 {
        self.checked_bytes
    }

    /// Waits until `due_ns`. Handles breaks meanwhile.
    pub(crate) async fn wait_until(&mut self, due_ns: u64) {
        if self.lost {
            return self.executor.sleep_until(due_ns).await;
        }
        let idled = self.client.idle_until(due_ns).await;
        self.note_loss(&idled).await;
        if self.lost {
            self.executor.sleep_until(due_ns).await;
        }
    }

    fn handle(&self, slot: Slot) -> Result<Handle, Failure> {
        let handle = self.handles.get(usize::from(slot.0)).copied().flatten();
        handle.ok_or(Fault::SessionLost.into())
    }

    async fn note_loss(&mut self, result: &Result<(), Failure>) {
        let Err(failure) = result else { return };
        if leaves_session(failure.fault) || self.lost {
            return;
        }
        self.lost = true;
        self.handles.clear();
        self.ledger.session_lost();
        self.shared.session_lost();
        self.outages.lose_session();
        // The session is over or broken, so drop it without waiting.
        self.executor.set_deadline(monotonic_ns());
        let _ = self.client.finish().await;
    }

    async fn act(&mut self, action: &FileAction, moved: &mut Moved) -> Result<(), Failure> {
        match *action {
            FileAction::Open { .. } => return self.open(action).await,
            FileAction::Read { slot, offset, bytes } => return self.read(slot, offset, bytes, moved).await,
            FileAction::Write { .. } => return self.write(action, moved).await,
            FileAction::WriteFile { .. } | FileAction::ReadFile { .. } => {
                return self.whole_file(action, moved).await
            }
            FileAction::ReadBlock {
                slot,
                path,
                offset,
                bytes,
            } => return self.read_block(slot, Block { path, offset }, bytes, moved).await,
            FileAction::WriteBlock {
                slot,
                path,
                offset,
                bytes,
            } => return self.write_block(slot, Block { path, offset }, bytes, moved).await,
            FileAction::ReadBack {
                slot,
                path,
                offset,
                bytes,
            } => return self.read_block_back(slot, Block { path, offset }, bytes).await,
            FileAction::LetGo { slot } => {
                if self.handle(slot).is_err() {
                    return Ok(());
                }
                return self.noted(&FileAction::Close { slot }).await;
            }
            FileAction::LockWaiting { slot, offset, bytes } => {
                return self.lock_waiting(slot, offset, bytes).await
            }
            _ => {}
        }
        self.noted(action).await
    }

    /// Performs an action without data, and records its effect.
    async fn noted(&mut self, action: &FileAction) -> Result<(), Failure> {
        let result = self.simple(action).await;
        if result.is_ok() {
            self.ledger.apply(action);
            if matches!(action, FileAction::Flush { .. }) {
                self.shared.flushed();
            }
        }
        if let FileAction::Close { slot } = *action {
            self.forget(slot);
        }
        result
    }

    fn forget(&mut self, slot: Slot) {
        if let Some(handle) = self.handles.get_mut(usize::from(slot.0)) {
            *handle = None;
        }
    }

    async fn open(&mut self, action: &FileAction) -> Result<(), Failure> {
        let FileAction::Open {
            slot,
            path,
            intent,
            directory,
            presence,
        } = *action
        else {
            unreachable!("called only for opens");
        };
        let (access, disposition) = wanted(intent);
        let call = Call::Open(Open {
            path: self.names.path(path),
            access,
            disposition,
            directory,
            delete_on_close: false,
            ask: Ask::Nothing,
        });
        let reply = self.client.call(&call, &mut |_: &[u8]| {}).await?;
        let Reply::Opened { handle, .. } = reply else {
            return expect(presence, false);
        };
        if presence == Presence::NotThere {
            let close = Call::Close { handle };
            self.client.call(&close, &mut |_: &[u8]| {}).await?;
            return Err(Fault::AlreadyThere.into());
        }
        let place = usize::from(slot.0);
        if self.handles.len() <= place {
            self.handles.resize(place + 1, None);
        }
        self.handles[place] = Some(handle);
        self.ledger.apply(action);
        Ok(())
    }

    async fn read(&mut self, slot: Slot, offset: u64, bytes: u32, moved: &mut Moved) -> Result<(), Failure> {
        let handle = self.handle(slot)?;
        let checking = self.sampling.draw();
        let (ledger, checked_bytes) = (&self.ledger, &mut self.checked_bytes);
        let mut came = 0_u64;
        let mut wrong = false;
        let mut check = |piece: &[u8]| {
            if checking {
                match ledger.check(slot, offset + came, piece) {
                    Ok(checked) => *checked_bytes += checked,
                    Err(_) => wrong = true,
                }
            }
            came += piece.len() as u64;
        };
        let call = Call::Read {
            handle,
            offset,
            bytes,
        };
        self.client.call(&call, &mut check).await?;
        moved.read = came;
        self.expect_read((slot, offset, bytes), came, wrong)
    }

    /// Checks the length of a read. `wrong`: the content was wrong, so the check fails anyway.
    fn expect_read(
        &self,
        (slot, offset, bytes): (Slot, u64, u32),
        came: u64,
        wrong: bool,
    ) -> Result<(), Failure> {
        if wrong {
            return Err(Fault::WrongContent.into());
        }
        match self.ledger.expected_bytes(slot, offset, bytes) {
            Some(expected) => same_length(expected.into(), came),
            None => Ok(()),
        }
    }

    async fn write(&mut self, action: &FileAction, moved: &mut Moved) -> Result<(), Failure> {
        let FileAction::Write {
            slot,
            offset,
            bytes,
            generation,
        } = *action
        else {
            unreachable!("called with a write");
        };
        let handle = self.handle(slot)?;
        let data = content_of(self.writing(slot, generation)?, offset, bytes as usize);
        let call = Call::Write {
            handle,
            offset,
            data,
            stability: Stability::Unstable,
        };
        let result = self.client.call(&call, &mut |_: &[u8]| {}).await;
        moved.written = self.judge_write(action, result)?;
        Ok(())
    }

    fn writing(&self, slot: Slot, generation: u32) -> Result<Writing, Failure> {
        let writing = self.ledger.writing(slot, generation);
        writing.ok_or(Fault::SessionLost.into())
    }

    /// Records the result of a write and returns the number of bytes written.
    fn judge_write(&mut self, action: &FileAction, result: Result<Reply, Failure>) -> Result<u64, Failure> {
        let FileAction::Write {
            slot, offset, bytes, ..
        } = *action
        else {
            unreachable!("called with a write");
        };
        let failure = match result {
            Ok(reply) if reply == (Reply::Written { bytes }) => {
                self.ledger.apply(action);
                return Ok(u64::from(bytes));
            }
            Ok(_) => Fault::WrongLength.into(),
            Err(failure) => failure,
        };
        self.ledger.forget(slot, offset, bytes);
        Err(failure)
    }

    /// Performs actions without data.
    async fn simple(&mut self, action: &FileAction) -> Result<(), Failure> {
        let (call, presence) = match self.names.call_by_path(action) {
            Some((call, presence)) => (call, presence),
            None => (self.call_by_handle(action)?, None),
        };
        let reply = self.client.call(&call, &mut |_: &[u8]| {}).await;
        match (presence, reply) {
            (Some(Presence::Either), Err(failure))
                if matches!(failure.fault, Fault::NotFound | Fault::AlreadyThere) =>
            {
                Ok(())
            }
            (_, Err(failure)) => Err(failure),
            (Some(presence), Ok(Reply::NotThere | Reply::Found { entries: 0 })) => expect(presence, false),
            (Some(presence), Ok(Reply::Info(_) | Reply::Found { .. })) => expect(presence, true),
            (_, Ok(_)) => Ok(()),
        }
    }

    /// Returns the call of an action on an open file.
    fn call_by_handle(&self, action: &FileAction) -> Result<Call<'static>, Failure> {
        Ok(match *action {
            FileAction::Close { slot } => Call::Close {
                handle: self.handle(slot)?,
            },
            FileAction::Flush { slot } => Call::Flush {
                handle: self.handle(slot)?,
            },
            FileAction::Lock { slot, offset, bytes } => Call::Lock {
                handle: self.handle(slot)?,
                offset,
                bytes,
            },
            FileAction::Unlock { slot, offset, bytes } => Call::Unlock {
                handle: self.handle(slot)?,
                offset,
                bytes,
            },
            FileAction::QueryFile { slot } => Call::QueryHandle {
                handle: self.handle(slot)?,
            },
            FileAction::QueryTimes { slot } => Call::QueryTimes {
                handle: self.handle(slot)?,
            },
            FileAction::SetEnd { slot, bytes } => Call::SetEnd {
                handle: self.handle(slot)?,
                bytes,
            },
            FileAction::SetTimes { slot } => Call::SetTimes {
                handle: self.handle(slot)?,
            },
            _ => unreachable!("opens, reads and writes have their own functions; the others use paths"),
        })
    }
}

impl<S: Sessions> Protocol for FilesClient<S> {
    type Op = FileOp;

    fn postponed_ns(&self) -> u64 {
        self.postponed_ns
    }

    async fn perform(&mut self, op: &FileOp, start_ns: u64) -> Performed {
        self.executor
            .set_deadline(start_ns.saturating_add(self.timeout_ns));
        let postponed_ns = self.executor.postponed_ns();
        let before = self.client.counted().traffic();
        let mut moved = Moved::default();
        let mut connect_ns = None;
        let mut result = Ok(());
        if self.cut_ns.is_some_and(|cut_ns| cut_ns <= start_ns) {
            self.cut_ns = None;
            self.client.cut();
        }
        if self.lost {
            result = self.connect_again().await;
            let begun_ns = start_ns + (self.executor.postponed_ns() - postponed_ns);
            connect_ns = Some(monotonic_ns().saturating_sub(begun_ns));
        }
        if result.is_ok() {
            result = self.act(&op.action, &mut moved).await;
        }
        let after = self.client.counted().traffic();
        if result.is_ok() {
            // A session with several connections continues without the lost one.
            let lost = self.client.counted().kept_handles().channels_lost;
            self.outages.succeed(after.connections + lost);
        }
        self.note_loss(&result).await;
        self.postponed_ns = self.executor.postponed_ns() - postponed_ns;
        Performed {
            class: op.class,
            bytes_read: moved.read,
            bytes_written: moved.written,
            cost: Exchange {
                connect_ns,
                ..moved_since(before, after)
            },
            session_lost: self.lost,
            result,
        }
    }

    async fn idle_until(&mut self, _executor: &Executor, due_ns: u64) {
        // Handling a break may write, and therefore needs a deadline.
        self.executor.set_deadline(due_ns.saturating_add(self.timeout_ns));
        self.wait_until(due_ns).await;
    }
}

/// Returns the traffic between two counts. Sessions begin before the first operation and end after the last, so their
/// connections are counted elsewhere.
fn moved_since(before: Traffic, after: Traffic) -> Exchange {
    Exchange {
        received_bytes: after.bytes_in.saturating_sub(before.bytes_in),
        sent_bytes: after.bytes_out.saturating_sub(before.bytes_out),
        ..Exchange::default()
    }
}
