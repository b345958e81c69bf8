//! The back channel of a session (RFC 8881, 2.10.3.1), with one slot, so one call under way at once; and the connection that
//! carries it, as far as others have to do with it. Data alone.

use super::opens::Stateid;
use crate::common::lock;
use crate::wakeup::Wakeup;
use dyno_nfs::wire::{Credential, FileHandle};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Weak};
use std::task::Context;

pub(in crate::nfs) type SessionId = [u8; 16];

/// Recalls of one session that wait: one more is left to the next who is in the way.
pub(super) const MOST_WAITING: usize = 4096;

/// A connection, as who has to call its client knows it.
#[derive(Debug, Default)]
pub(in crate::nfs) struct ConnectionHandle {
    /// A session's calls go over it.
    is_bound: AtomicBool,
    sessions: Mutex<Vec<SessionId>>,
    /// The connection's task is to look for calls.
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

    /// Those whose calls have gone over it.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        lock(&self.sessions).clone()
    }

    /// Whether it has been woken since; if not, the task is called when it is.
    pub(in crate::nfs) fn poll_woken(&self, context: &Context<'_>) -> bool {
        self.is_bound() && self.wakeup.poll(context) && self.wakeup.take()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Recall {
    pub(super) stateid: Stateid,
    pub(super) file: FileHandle,
}

/// The back channel of a session, whether or not a connection carries it.
#[derive(Debug)]
pub(in crate::nfs) struct Back {
    pub(super) program: u32,
    pub(super) credential: Option<Credential>,
    /// Of the last call in its slot.
    pub(super) number: u32,
    /// The call without its answer, by its number (`xid`).
    pub(super) under_way: Option<(u32, Recall)>,
    pub(super) waiting: VecDeque<Recall>,
    /// Recalls that the client has understood: nothing more is to be said.
    pub(super) understood: Vec<Stateid>,
    pub(super) connection: Weak<ConnectionHandle>,
}

impl Back {
    /// Of a client's program, to be called as it says.
    pub(in crate::nfs) fn new(program: u32, credential: Option<Credential>) -> Self {
        Self {
            program,
            credential,
            number: 0,
            under_way: None,
            waiting: VecDeque::new(),
            understood: Vec::new(),
            connection: Weak::new(),
        }
    }

    pub(super) fn is_down(&self) -> bool {
        self.connection.strong_count() == 0
    }

    /// Whether a recall waits, is under way, or was understood.
    pub(super) fn knows(&self, recall: &Recall) -> bool {
        self.waiting.contains(recall)
            || self.under_way.is_some_and(|(_, under_way)| under_way == *recall)
            || self.understood.contains(&recall.stateid)
    }
}
