//! What one connection of a session has to do with another: it borrows the files of the first, takes the place of one that was
//! lost, and sends once more what was not answered there.

use super::{Conversation, Incoming, Owner};
use crate::session::calls::Writer;
use crate::session::durable::Again;
use crate::session::handles::Handles;
use crate::session::inbox::Inbox;
use crate::wire::Dialect;
use dyno_files::{Call, CallId, Reply};
use dyno_measure::{Failure, Fault};
use std::collections::VecDeque;

/// What a lost connection has left: files and calls that may go on with the next.
#[derive(Debug, Default)]
pub struct LeftBehind {
    /// The session that the next one takes the place of.
    pub session_id: u64,
    /// All that was open; what the server did not promise to keep can't be used any more.
    pub handles: Handles,
    /// Calls without their end, in the order in which they were begun.
    pub calls: Vec<(CallId, Option<Again>)>,
    /// Ends of calls that have yet to be told.
    pub ended: VecDeque<(CallId, Result<Reply, Failure>)>,
}

impl Conversation {
    /// The connection is lost: takes out what may go on with the next one.
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

    /// Queues the calls of a lost connection once more. What may not be sent twice, and what has lost its handle, ends.
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

    /// Queues one of them; false where there is nothing to be sent.
    pub(in crate::session) fn send_once_more(&mut self, id: CallId, again: Again) -> Result<bool, Failure> {
        let agreed = self.agreed.ok_or(Fault::SessionLost)?;
        if let Again::Close(handle) = again {
            match self.handles.get(handle) {
                Some(open) if open.durable.is_some() || self.outlives_connections => open.closing = false,
                _ => {
                    // The server has nothing to close any more, which is all that was wanted.
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

    /// Begins `call`, which is about an open file, on this connection of the session whose first has the conversation
    /// `first`, with its files and its numbers of calls.
    ///
    /// # Errors
    /// As `begin`.
    pub fn begin_for(&mut self, first: &mut Self, call: &Call<'_>) -> Result<(CallId, bool), Failure> {
        self.next_call = first.next_call;
        std::mem::swap(&mut self.handles, &mut first.handles);
        let begun = self.begin(call);
        std::mem::swap(&mut self.handles, &mut first.handles);
        first.next_call = self.next_call;
        begun
    }

    /// `receive`, on such a connection: breaks come over any of them.
    ///
    /// # Errors
    /// As `receive`.
    pub fn receive_for(&mut self, first: &mut Self, inbox: &mut Inbox) -> Result<Option<Incoming>, Failure> {
        std::mem::swap(&mut self.handles, &mut first.handles);
        let told = self.receive(inbox);
        std::mem::swap(&mut self.handles, &mut first.handles);
        told
    }

    /// This connection becomes the session's first in the place of that of `lost`, which is gone: takes its files, counts
    /// and numbers over. Gives what was not answered there.
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
