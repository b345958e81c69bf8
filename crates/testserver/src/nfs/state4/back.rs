//! The back channel of a session (RFC 8881, 2.10.3.1), and the handle of the connection that carries it. The
//! channel has one slot, and therefore one outstanding call. Encoding is elsewhere.

use super::opens::Stateid;
use crate::common::lock;
use crate::wakeup::Wakeup;
use dyno_nfs::wire::{Credential, FileHandle};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Weak};
use std::task::Context;

pub(in crate::nfs) type SessionId = [u8; 16];

/// Maximum number of waiting recalls per session. A further recall is dropped until a later conflict requests it again.
pub(super) const MOST_WAITING: usize = 4096;

/// A connection, as used by other connections that must call its client.
#[derive(Debug, Default)]
pub(in crate::nfs) struct ConnectionHandle {
    /// Whether the connection carries the back channel of a session.
    is_bound: AtomicBool,
    sessions: Mutex<Vec<SessionId>>,
    /// Wakes the connection's task to send callbacks.
    pub(super) wakeup: Wakeup,
}

impl ConnectionHandle {
    pub(in crate::nfs) fn is_bound(&self) -> bool {
        self.is_bound.load(Ordering::Relaxed)
    }

    pub(super) fn bind(&self, session: SessionId) {
        let mut sessions = lock(&self.sessions);
        if !sessions.contains(&session) {
            sessions.push(session);
        }
        self.is_bound.store(true, Ordering::Relaxed);
    }

    /// Returns the sessions whose back channel uses this connection.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        lock(&self.sessions).clone()
    }

    /// Returns whether the connection was woken since the last call. If not, registers the task.
    pub(in crate::nfs) fn poll_woken(&self, context: &Context<'_>) -> bool {
        self.is_bound() && self.wakeup.poll(context) && self.wakeup.take()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recall {
    pub(super) stateid: Stateid,
    pub(super) file: FileHandle,
}

/// The back channel of a session, with or without a connection.
#[derive(Debug, Default)]
pub(in crate::nfs) struct Back {
    pub(super) program: u32,
    pub(super) credential: Option<Credential>,
    /// Sequence number of the last call in the channel's slot.
    pub(super) number: u32,
    /// The outstanding call with its XID.
    pub(super) under_way: Option<(u32, Recall)>,
    pub(super) waiting: VecDeque<Recall>,
    /// Recalls that the client has accepted, which need no repetition.
    pub(super) understood: Vec<Stateid>,
    pub(super) connection: Weak<ConnectionHandle>,
}

impl Back {
    /// Creates the back channel to a client's program.
    pub(in crate::nfs) fn new(program: u32, credential: Option<Credential>) -> Self {
        Self {
            program,
            credential,
            ..Self::default()
        }
    }

    pub(super) fn is_down(&self) -> bool {
        self.connection.strong_count() == 0
    }

    /// Returns whether a recall is waiting, outstanding or accepted.
    pub(super) fn knows(&self, recall: &Recall) -> bool {
        self.waiting.contains(recall)
            || self.under_way.is_some_and(|(_, under_way)| under_way == *recall)
            || self.understood.contains(&recall.stateid)
    }
}
