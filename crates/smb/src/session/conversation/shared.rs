//! Operations on two connections of a session: a connection borrows the files of the first one, or replaces a lost one
//! and repeats its unanswered calls.

use super::{Conversation, Incoming, Owner};
use crate::session::calls::Writer;
use crate::session::durable::Again;
use crate::session::handles::Handles;
use crate::session::inbox::Inbox;
use crate::wire::Dialect;
use dyno_files::{Call, CallId, Reply};
use dyno_measure::{Failure, Fault};
use std::collections::VecDeque;

/// State of a lost connection: files and calls that may continue on the next one.
#[derive(Debug, Default)]
pub struct LeftBehind {
    /// The session that the next one replaces.
    pub session_id: u64,
    /// All open files. Those that the server did not promise to keep are unusable.
    pub handles: Handles,
    /// Unfinished calls in the order in which they started.
    pub calls: Vec<(CallId, Option<Again>)>,
    /// Results of calls that are not reported yet.
    pub ended: VecDeque<(CallId, Result<Reply, Failure>)>,
}

impl Conversation {
    /// Moves the state that may continue on the next connection out of this lost one.
    pub(in crate::session) fn leave_behind(&mut self) -> LeftBehind {
        let session_id = self.link.session_id;
        let running = self.running.iter_mut().filter_map(Option::take);
        let mut calls: Vec<_> = running.map(|call| (call.id, call.again)).collect();
        calls.sort_by_key(|(id, _)| id.0);
        self.durability.channel_sequence = self.durability.channel_sequence.wrapping_add(1);
        LeftBehind {
            session_id,
            handles: std::mem::take(&mut self.handles),
            calls,
            ended: std::mem::take(&mut self.ended_at_once),
        }
    }

    /// Queues the calls of a lost connection again. A call that may not be repeated, or whose handle is lost,
    /// ends: a close with success, any other call with `SessionLost`.
    pub(in crate::session) fn send_again(&mut self, left: &mut LeftBehind) {
        self.ended_at_once.append(&mut left.ended);
        for (id, again) in std::mem::take(&mut left.calls) {
            let result = match again {
                Some(again) => self.send_once_more(id, again).map(|sent| {
                    self.durability.counts.sent_again += u64::from(sent);
                }),
                None => Err(Fault::SessionLost.into()),
            };
            if let Err(failure) = result {
                self.ended_at_once.push_back((id, Err(failure)));
            }
        }
    }

    /// Queues a call again; returns false if there is nothing to send.
    pub(in crate::session) fn send_once_more(&mut self, id: CallId, again: Again) -> Result<bool, Failure> {
        let agreed = self.agreed.ok_or(Fault::SessionLost)?;
        if let Again::Close(handle) = again {
            match self.handles.get(handle) {
                Some(open) if open.durable.is_some() || self.outlives_connections => open.closing = false,
                _ => {
                    // The file is already closed on the server.
                    self.handles.remove(handle);
                    self.ended_at_once.push_back((id, Ok(Reply::Done)));
                    return Ok(false);
                }
            }
        }
        self.message.begin(self.link, self.protection.room());
        let kind = Writer {
            message: &mut self.message,
            handles: &mut self.handles,
            agreed: &agreed,
            base: &self.base,
            durability: &mut self.durability,
            next_own_lease: &mut self.next_own_lease,
            durable: None,
        }
        .write(&again.call())?;
        if let Again::Write { data, .. } = &again {
            self.message.take_tail(data);
        }
        if again.changes() && agreed.dialect >= Dialect::Smb300 {
            self.message.mark_replay();
        }
        self.message.end();
        let index = self.run(id, kind, None, Some(again));
        if let Some(running) = &mut self.running[index] {
            running.repeated = true;
        }
        let message = std::mem::replace(&mut self.message, self.spare.pop().unwrap_or_default());
        self.waiting.push_back((message, Owner::Call(index)));
        Ok(true)
    }

    /// Starts `call`, which uses an open file, on this connection of the session. `first` is the
    /// conversation of the first connection, which has the files and the call numbers.
    ///
    /// # Errors
    /// There is no session, or the message can't be protected.
    pub fn begin_for(&mut self, first: &mut Self, call: &Call<'_>) -> Result<(CallId, bool), Failure> {
        self.next_call = first.next_call;
        std::mem::swap(&mut self.handles, &mut first.handles);
        let begun = self.begin(call);
        std::mem::swap(&mut self.handles, &mut first.handles);
        first.next_call = self.next_call;
        begun
    }

    /// Processes data received on this further connection, as `receive` does on the first one. Breaks may
    /// arrive on any connection.
    pub fn receive_for(&mut self, first: &mut Self, inbox: &mut Inbox) -> Result<Option<Incoming>, Failure> {
        std::mem::swap(&mut self.handles, &mut first.handles);
        let told = self.receive(inbox);
        std::mem::swap(&mut self.handles, &mut first.handles);
        told
    }

    /// Makes this connection the session's first, in place of the lost one, and takes over the files, counts
    /// and numbering. Returns the unfinished calls of the lost connection.
    pub(in crate::session) fn succeed(&mut self, lost: &mut Self) -> LeftBehind {
        let mut left = lost.leave_behind();
        self.handles = std::mem::take(&mut left.handles);
        self.handles.no_leases_asked();
        self.durability = std::mem::take(&mut lost.durability);
        (self.next_call, self.next_own_lease) = (lost.next_call, lost.next_own_lease);
        self.counts.add(&lost.counts);
        left
    }
}
