//! Replaces a lost connection, with durable handles (MS-SMB2 3.2.4.4, 3.2.7.1). The new session names the one that it
//! replaces. Each handle is reopened by its create GUID, and unanswered calls are sent again. Files that the server did
//! not keep are lost. Calls on other files continue.
//!
//! Reconnecting is attempted until the task's deadline. Sessions without durable handles end with their
//! connection.

use super::conversation::{Incoming, LeftBehind};
use super::handles::{caching_of_level, caching_of_state};
use super::Session;
use crate::status;
use crate::wire::{in_response_to, oplock, parse_create, Command, FileId};
use dyno_files::{Break, Grant, Handle};
use dyno_measure::{monotonic_ns, Failure, Fault};

/// Pause between two attempts to reconnect.
const RECONNECT_NS: u64 = 50_000_000;

impl Session {
    /// Returns whether another connection may replace the one that failed.
    pub(super) fn recovers(&self, failure: &Failure) -> bool {
        self.options.durable_handles && self.agreed().is_some() && costs_connection(failure)
    }

    /// Replaces the lost connection. If that fails, all handles and calls are lost.
    pub(super) async fn recover(&mut self) -> Result<(), Failure> {
        let mut left = self.conversation.leave_behind();
        let recovered = self.connect_until_deadline(&mut left).await;
        self.previous_session_id = 0;
        if recovered.is_err() {
            self.conversation.durability.counts.lost += left.handles.durable().count() as u64;
        }
        recovered
    }

    async fn connect_until_deadline(&mut self, left: &mut LeftBehind) -> Result<(), Failure> {
        let mut at_deadline = Fault::ResponseTimeout.into();
        loop {
            self.close_connection();
            let next_ns = self.dialed_ns.saturating_add(RECONNECT_NS);
            if monotonic_ns() < next_ns {
                self.executor.sleep_until(next_ns).await;
            }
            if self.executor.deadline_passed() {
                return Err(at_deadline);
            }
            self.dialed_ns = monotonic_ns();
            self.previous_session_id = left.session_id;
            match self.take_up(left).await {
                Err(failure) if failure.fault == Fault::ConnectionRefused => at_deadline = failure,
                Err(failure) if costs_connection(&failure) => at_deadline = Fault::ResponseTimeout.into(),
                result => return result,
            }
        }
    }

    /// Makes one attempt to replace the connection. Leaves `left` unchanged on failure.
    async fn take_up(&mut self, left: &mut LeftBehind) -> Result<(), Failure> {
        self.establish().await?;
        std::mem::swap(&mut self.conversation.handles, &mut left.handles);
        let reopened = self.reopen_handles().await;
        if reopened.is_err() {
            std::mem::swap(&mut self.conversation.handles, &mut left.handles);
            return reopened;
        }
        self.conversation.send_again(left);
        Ok(())
    }

    async fn reopen_handles(&mut self) -> Result<(), Failure> {
        let kept: Vec<Handle> = self.conversation.handles.durable().collect();
        for handle in kept {
            self.reopen(handle).await?;
        }
        // Files that the server did not keep are lost.
        self.conversation.handles.drop_not_reopened();
        Ok(())
    }

    async fn reopen(&mut self, handle: Handle) -> Result<(), Failure> {
        let Some(open) = self.conversation.handles.get(handle) else {
            return Ok(());
        };
        let (file, Some(durable)) = (open.file, open.durable.clone()) else {
            return Ok(());
        };
        let base = self.options.base_path.clone();
        self.conversation
            .begin_own(false, |message| message.create(&durable.request(&base, file)))?;
        self.send(&[]).await?;
        let (status, range) = loop {
            match self.next_incoming().await? {
                Incoming::Answer(status, _, range) => break (status, range),
                Incoming::Break(broken) => self.breaks_to_tell.push_back(broken),
                Incoming::Ended(..) | Incoming::Outrun(..) => {}
            }
        };
        if status::ends_session(status) {
            return Err(status::failure(status));
        }
        let counts = &mut self.conversation.durability.counts;
        if status != status::SUCCESS {
            counts.lost += 1;
            return Ok(());
        }
        counts.regained += 1;
        let key = durable.lease_key();
        let created = parse_create(&self.inbox.bytes()[range], key.map(|key| key.0))
            .map_err(|wrong| in_response_to(wrong.into(), Command::Create as u16))?;
        self.note_reopened(handle, created.file);
        let state = match created.oplock {
            oplock::LEASE => caching_of_state(created.lease_state),
            level => caching_of_level(level),
        };
        if state != durable.granted {
            // The caching changed while the connection was lost.
            self.breaks_to_tell.push_back(Break {
                grant: key.map_or(Grant::Handle(handle), Grant::Lease),
                to: state,
                acknowledge: false,
            });
        }
        Ok(())
    }

    fn note_reopened(&mut self, handle: Handle, file: FileId) {
        if let Some(open) = self.conversation.handles.get(handle) {
            (open.file, open.reopened) = (file, true);
        }
    }
}

/// Returns whether the connection or its session failed, not just a single request.
pub(super) fn costs_connection(failure: &Failure) -> bool {
    matches!(
        failure.fault,
        Fault::ConnectionRefused
            | Fault::ConnectionReset
            | Fault::ClosedEarly
            | Fault::ConnectTimeout
            | Fault::Unreachable
            | Fault::SessionLost
    )
}
