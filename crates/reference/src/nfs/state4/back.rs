//! The back channel of a session (RFC 8881, 2.10.3.1), with one slot, so one call under way at once; and the connection that
//! carries it, as far as others have to do with it. Data alone.

use super::opens::Stateid;
use crate::common::lock;
use dyno_nfs::wire::{Credential, FileHandle};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Weak};
use std::task::{Context, Waker};

pub(in crate::nfs) type SessionId = [u8; 16];

/// Recalls of one session that wait: one more is left to the next who is in the way.
pub(super) const MOST_WAITING: usize = 4096;

/// A connection, as who has to call its client knows it.
#[derive(Debug, Default)]
pub(in crate::nfs) struct Line {
    /// A session's calls go over it.
    is_bound: AtomicBool,
    is_rung: AtomicBool,
    sessions: Mutex<Vec<SessionId>>,
    waker: Mutex<Option<Waker>>,
}

impl Line {
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

    /// Has the connection's task look for calls.
    pub(super) fn ring(&self) {
        self.is_rung.store(true, Ordering::Release);
        if let Some(waker) = lock(&self.waker).take() {
            waker.wake();
        }
    }

    /// Those whose calls have gone over it.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        lock(&self.sessions).clone()
    }

    /// Whether it has been rung since; if not, the task is called when it is.
    pub(in crate::nfs) fn poll_rung(&self, context: &Context<'_>) -> bool {
        if !self.is_bound() {
            return false;
        }
        *lock(&self.waker) = Some(context.waker().clone());
        self.is_rung.swap(false, Ordering::AcqRel)
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
    pub(super) line: Weak<Line>,
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
            line: Weak::new(),
        }
    }

    pub(super) fn is_down(&self) -> bool {
        self.line.strong_count() == 0
    }

    /// Whether a recall waits, is under way, or was understood.
    pub(super) fn knows(&self, recall: &Recall) -> bool {
        self.waiting.contains(recall)
            || self.under_way.is_some_and(|(_, under_way)| under_way == *recall)
            || self.understood.contains(&recall.stateid)
    }
}
