//! Wakes a connection's task from any other thread or task.

use crate::common::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::task::{Context, Waker};

/// Whether a task has been woken, and its waker. A wake-up before the task waits is not lost.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    is_due: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Wakeup {
    pub(crate) fn wake(&self) {
        self.is_due.store(true, Ordering::Release);
        if let Some(waker) = lock(&self.waker).take() {
            waker.wake();
        }
    }

    /// Returns whether the task was woken since the last call.
    pub(crate) fn take(&self) -> bool {
        self.is_due.load(Ordering::Relaxed) && self.is_due.swap(false, Ordering::AcqRel)
    }

    /// Returns whether the task was woken since the last `take`. If not, registers the task.
    pub(crate) fn poll(&self, context: &Context<'_>) -> bool {
        let mut waker = lock(&self.waker);
        match &mut *waker {
            Some(known) => known.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        drop(waker);
        self.is_due.load(Ordering::Acquire)
    }
}
