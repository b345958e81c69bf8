//! Callbacks to clients (RFC 8881, 2.10.3.1): chooses the session, the connection and the time of a callback. Each
//! session has one slot, and therefore one outstanding callback.
//!
//! `../v4/callbacks.rs` encodes callbacks.

use super::back::{Back, ConnectionHandle, Recall, MOST_WAITING};
use super::clients::{Clients, SessionId};
use super::delegations::Delegation;
use super::opens::Stateid;
use dyno_nfs::wire::{Credential, FileHandle};
use std::sync::Arc;

/// A recall to send now.
#[derive(Debug)]
pub(in crate::nfs) struct Due {
    pub(in crate::nfs) xid: u32,
    pub(in crate::nfs) program: u32,
    pub(in crate::nfs) credential: Option<Credential>,
    pub(in crate::nfs) session: SessionId,
    /// Sequence number in the session's slot.
    pub(in crate::nfs) number: u32,
    pub(in crate::nfs) stateid: Stateid,
    pub(in crate::nfs) file: FileHandle,
}

impl Clients {
    /// Binds the back channel of a session to a connection. Returns whether the session has a back channel.
    pub(in crate::nfs) fn bind(&mut self, id: &SessionId, connection: &Arc<ConnectionHandle>) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        let Some(back) = &mut session.back else {
            return false;
        };
        // The outstanding call on another connection, or its reply, is lost.
        if let Some((_, lost)) = back.under_way.take() {
            back.waiting.push_front(lost);
        }
        back.connection = Arc::downgrade(connection);
        connection.bind(*id);
        connection.wakeup.wake();
        if let Some(client) = self.clients.get_mut(&session.client) {
            client.called_by = Some(*id);
        }
        true
    }

    /// Returns whether the back channel of a session has no connection.
    pub(in crate::nfs) fn path_is_down(&self, id: &SessionId) -> bool {
        let back = self.sessions.get(id).and_then(|session| session.back.as_ref());
        back.is_some_and(Back::is_down)
    }

    pub(in crate::nfs) fn can_be_called(&self, client: u64) -> bool {
        let session = self.clients.get(&client).and_then(|client| client.called_by);
        session.is_some_and(|id| self.sessions.contains_key(&id) && !self.path_is_down(&id))
    }

    /// Queues a recall of a delegation `times` times, unless the recall is waiting, outstanding or accepted.
    pub(in crate::nfs) fn call_back(&mut self, delegation: &Delegation, times: usize) {
        let Delegation {
            client,
            stateid,
            file,
        } = *delegation;
        let session = self.clients.get(&client).and_then(|client| client.called_by);
        let session = session.and_then(|id| self.sessions.get_mut(&id));
        let Some(back) = session.and_then(|session| session.back.as_mut()) else {
            return;
        };
        let recall = Recall { stateid, file };
        if back.knows(&recall) || back.waiting.len() + times > MOST_WAITING {
            return;
        }
        back.waiting.extend(std::iter::repeat_n(recall, times));
        if let Some(connection) = back.connection.upgrade() {
            connection.wakeup.wake();
        }
    }

    pub(in crate::nfs) fn due_calls(&mut self, connection: &ConnectionHandle) -> Vec<Due> {
        let mut due = Vec::new();
        for id in connection.sessions() {
            let back = self
                .sessions
                .get_mut(&id)
                .and_then(|session| session.back.as_mut());
            let Some(back) = back.filter(|back| std::ptr::eq(back.connection.as_ptr(), connection)) else {
                continue;
            };
            if back.under_way.is_some() {
                continue;
            }
            let Some(recall) = back.waiting.pop_front() else {
                continue;
            };
            self.last_call = self.last_call.wrapping_add(1);
            back.number = back.number.wrapping_add(1);
            back.under_way = Some((self.last_call, recall));
            due.push(Due {
                xid: self.last_call,
                program: back.program,
                credential: back.credential.clone(),
                session: id,
                number: back.number,
                stateid: recall.stateid,
                file: recall.file,
            });
        }
        due
    }

    /// Handles a client's reply to a callback. Unless the client has `understood`, the next conflict repeats
    /// the recall. Returns false if the callback was not outstanding.
    pub(in crate::nfs) fn answered(
        &mut self,
        connection: &ConnectionHandle,
        xid: u32,
        understood: bool,
    ) -> bool {
        for id in connection.sessions() {
            let back = self
                .sessions
                .get_mut(&id)
                .and_then(|session| session.back.as_mut());
            let Some(back) = back else { continue };
            if let Some((_, recall)) = back.under_way.take_if(|(number, _)| *number == xid) {
                if understood && back.understood.len() < MOST_WAITING {
                    back.understood.push(recall.stateid);
                }
                return true;
            }
        }
        false
    }

    /// Drops the recalls of a delegation that was returned or freed.
    pub(in crate::nfs) fn given_back(&mut self, client: u64, stateid: Stateid) {
        let session = self.clients.get(&client).and_then(|client| client.called_by);
        let session = session.and_then(|id| self.sessions.get_mut(&id));
        if let Some(back) = session.and_then(|session| session.back.as_mut()) {
            back.understood.retain(|known| known.other != stateid.other);
            back.waiting
                .retain(|recall| recall.stateid.other != stateid.other);
        }
    }
}
