//! Handles of connections, through which other connections send notices or end them.

use super::volume::{ConnectionId, Notice};
use crate::common::lock;
use crate::wakeup::Wakeup;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

#[derive(Debug, Default)]
pub(super) struct ConnectionHandle {
    /// Signals notices or the end of the connection.
    pub(super) wakeup: Wakeup,
    notices: Mutex<Vec<Notice>>,
    /// Set when the connection must end. Dropping the sender reports that the connection has ended.
    ends: Mutex<Option<Sender<()>>>,
}

impl ConnectionHandle {
    pub(super) fn ends(&self) -> bool {
        lock(&self.ends).is_some()
    }

    pub(super) fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut *lock(&self.notices))
    }
}

#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<HashMap<ConnectionId, Arc<ConnectionHandle>>>,
    last: AtomicU64,
}

impl Connections {
    /// Adds a connection that `thread` serves, and gives it a unique number.
    pub(super) fn add(&self, thread: usize) -> (ConnectionId, Arc<ConnectionHandle>) {
        let serial = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (id, handle) = (
            ConnectionId { thread, serial },
            Arc::<ConnectionHandle>::default(),
        );
        lock(&self.open).insert(id, handle.clone());
        (id, handle)
    }

    pub(super) fn remove(&self, id: ConnectionId) {
        lock(&self.open).remove(&id);
    }

    pub(super) fn clear(&self) {
        lock(&self.open).clear();
    }

    /// Delivers notices. Those for closed connections are lost.
    pub(super) fn deliver(&self, notices: &mut Vec<(ConnectionId, Notice)>) {
        if notices.is_empty() {
            return;
        }
        let open = lock(&self.open);
        for (to, notice) in notices.drain(..) {
            if let Some(handle) = open.get(&to) {
                lock(&handle.notices).push(notice);
                handle.wakeup.wake();
            }
        }
    }

    /// Tells every connection to end. Each connection drops its copy of `told` once it has ended.
    pub(super) fn end(&self, told: &Sender<()>) {
        for handle in lock(&self.open).values() {
            *lock(&handle.ends) = Some(told.clone());
            handle.wakeup.wake();
        }
    }
}
