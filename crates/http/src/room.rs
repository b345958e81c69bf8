//! First-come, first-served queue of client threads that wait for a free place on a connection.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::{Context, Waker};

/// Number and waker of each waiting thread.
#[derive(Debug, Default)]
pub(crate) struct RoomQueue(RefCell<VecDeque<(usize, Waker)>>);

impl RoomQueue {
    /// Returns whether the thread is first in the queue, or the queue is empty.
    pub(crate) fn is_first(&self, thread: usize) -> bool {
        self.0.borrow().front().is_none_or(|(first, _)| *first == thread)
    }

    pub(crate) fn join(&self, thread: usize, context: &Context<'_>) {
        let mut waiting = self.0.borrow_mut();
        match waiting.iter_mut().find(|(other, _)| *other == thread) {
            Some((_, waker)) => waker.clone_from(context.waker()),
            None => waiting.push_back((thread, context.waker().clone())),
        }
    }

    pub(crate) fn leave(&self, thread: usize) {
        self.0.borrow_mut().retain(|(other, _)| *other != thread);
    }

    /// Wakes the first thread in the queue.
    pub(crate) fn call_first(&self) {
        if let Some((_, first)) = self.0.borrow().front() {
            first.wake_by_ref();
        }
    }

    /// Empties the queue and wakes all its threads.
    pub(crate) fn call_all(&self) {
        self.0.take().into_iter().for_each(|(_, waker)| waker.wake());
    }
}
