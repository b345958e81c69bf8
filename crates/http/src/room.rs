//! Who waits for room on a connection, in the order in which they came: nobody is passed over.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::{Context, Waker};

/// The threads that wait, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct RoomQueue(RefCell<VecDeque<(usize, Waker)>>);

impl RoomQueue {
    /// Whether this thread, which may wait already, comes before all that wait.
    pub(crate) fn is_first(&self, thread: usize) -> bool {
        self.0.borrow().front().is_none_or(|(first, _)| *first == thread)
    }

    /// Lets a thread wait behind those that wait already.
    pub(crate) fn join(&self, thread: usize, context: &Context<'_>) {
        let mut waiting = self.0.borrow_mut();
        match waiting.iter_mut().find(|(other, _)| *other == thread) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => waiting.push_back((thread, context.waker().clone())),
        }
    }

    /// A thread waits no longer.
    pub(crate) fn leave(&self, thread: usize) {
        self.0.borrow_mut().retain(|(other, _)| *other != thread);
    }

    /// Calls the first that waits.
    pub(crate) fn call_first(&self) {
        if let Some((_, first)) = self.0.borrow().front() {
            first.wake_by_ref();
        }
    }

    /// Sends all away.
    pub(crate) fn call_all(&self) {
        self.0.take().into_iter().for_each(|(_, waker)| waker.wake());
    }
}
