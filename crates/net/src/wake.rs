//! Wakers: how sockets, timers, tasks and other threads wake a task.
//!
//! A wake on the loop's own thread appends a number to a thread-local list. A wake from another thread takes a lock and
//! writes to an eventfd, on which the loop waits as on a socket. The loop reads shared state only after such a wake.

use rustix::event::{eventfd, EventfdFlags};
use rustix::fd::OwnedFd;
use rustix::io::{self, Errno};
use std::cell::{Cell, RefCell};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{RawWakerVTable, Wake, Waker};

const NO_LOOP: usize = 0;

thread_local! {
    /// Identifier of the loop that runs on this thread.
    static RUNNING_LOOP: Cell<usize> = const { Cell::new(NO_LOOP) };
    /// Woken tasks of that loop that have not been polled yet.
    static WOKEN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Wakes from other threads, or while the loop does not run.
#[derive(Debug)]
pub(crate) struct RemoteWakes {
    eventfd: OwnedFd,
    tasks: Mutex<Vec<usize>>,
    /// Whether `WOKEN` is not empty. Only the loop's thread uses this flag, which is faster to read than a
    /// thread-local variable.
    any_here: AtomicBool,
}

impl RemoteWakes {
    pub(crate) fn new() -> Result<Arc<Self>, Errno> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self {
            eventfd,
            tasks: Mutex::default(),
            any_here: AtomicBool::new(false),
        }))
    }

    /// Returns the eventfd that becomes readable with each wake.
    pub(crate) fn eventfd(&self) -> &OwnedFd {
        &self.eventfd
    }

    fn push(&self, task: usize) {
        self.tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(task);
        // The eventfd is registered edge-triggered, so every write is an event. It is never read; its counter
        // overflows only after 2^64 writes.
        let _ = io::write(&self.eventfd, &1u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<usize> {
        mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether a task was woken on the loop's own thread and has not been taken yet.
    pub(crate) fn any_here(&self) -> bool {
        self.any_here.load(Ordering::Relaxed)
    }

    /// Returns an identifier that is unique among existing loops.
    fn loop_id(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self) as usize
    }
}

/// Wakes the task with the number `task`. Numbers are reused, so a late wake may poll a new task, which is
/// harmless.
#[derive(Debug)]
struct TaskWaker {
    task: usize,
    /// Whether the task is in `WOKEN`. Only the loop's thread uses it.
    woken_here: AtomicBool,
    /// Whether the task is in `RemoteWakes`. Cleared before the task is polled, so that no wake is lost.
    woken_remotely: AtomicBool,
    remote: Arc<RemoteWakes>,
}

impl TaskWaker {
    fn wake_here(&self) {
        if !self.woken_here.load(Ordering::Relaxed) {
            self.woken_here.store(true, Ordering::Relaxed);
            self.remote.any_here.store(true, Ordering::Relaxed);
            WOKEN.with_borrow_mut(|woken| woken.push(self.task));
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if RUNNING_LOOP.get() == self.remote.loop_id() {
            self.wake_here();
        } else if !self.woken_remotely.swap(true, Ordering::AcqRel) {
            self.remote.push(self.task);
        }
    }
}

/// Wakers by task number. They are reused for later tasks with the same number.
#[derive(Debug)]
pub(crate) struct TaskWakers {
    remote: Arc<RemoteWakes>,
    wakers: Vec<Arc<TaskWaker>>,
}

impl TaskWakers {
    pub(crate) fn new(remote: Arc<RemoteWakes>) -> Self {
        Self {
            remote,
            wakers: Vec::new(),
        }
    }

    pub(crate) fn make_next(&mut self) -> Waker {
        let waker = Arc::new(TaskWaker {
            task: self.wakers.len(),
            woken_here: AtomicBool::new(false),
            woken_remotely: AtomicBool::new(false),
            remote: self.remote.clone(),
        });
        self.wakers.push(waker.clone());
        waker.into()
    }

    /// Moves the wakes by other threads to the thread's own list.
    pub(crate) fn receive_remote(&self) {
        for task in self.remote.take() {
            let Some(waker) = self.wakers.get(task) else {
                continue; // The task belonged to an earlier run of this loop.
            };
            // Acquire the writes of all threads that woke the task, including those that found the flag set.
            waker.woken_remotely.swap(false, Ordering::AcqRel);
            waker.wake_here();
        }
    }

    /// Moves the woken tasks to `tasks`. From then on, they can be woken again.
    pub(crate) fn take_woken(&self, tasks: &mut Vec<usize>) {
        if !self.remote.any_here() {
            return;
        }
        self.remote.any_here.store(false, Ordering::Relaxed);
        WOKEN.with_borrow_mut(|woken| {
            for task in woken.drain(..) {
                if let Some(waker) = self.wakers.get(task) {
                    waker.woken_here.store(false, Ordering::Relaxed);
                    tasks.push(task);
                }
            }
        });
    }
}

/// What a report or timer wakes: usually a whole task, which the loop polls without its waker.
#[derive(Debug)]
pub(crate) enum Waiter {
    Task(usize),
    /// Waker of a future that is polled by code within the task (not by the loop).
    Other(Waker),
}

impl Waiter {
    /// Adds the task to those polled next.
    pub(crate) fn call(self, woken: &mut Vec<usize>) {
        match self {
            Self::Task(number) => woken.push(number),
            Self::Other(waker) => waker.wake(),
        }
    }

    /// Returns true only if both certainly wake the same future.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Task(own), Self::Task(number)) => own == number,
            (Self::Other(own), Self::Other(waker)) => own.will_wake(waker),
            _ => false,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Current {
    number: Cell<usize>,
    waker: Cell<Option<(*const (), &'static RawWakerVTable)>>,
}

impl Current {
    pub(crate) fn set(&self, number: usize, waker: &Waker) {
        self.number.set(number);
        self.waker.set(Some((waker.data(), waker.vtable())));
    }

    pub(crate) fn number(&self) -> usize {
        self.number.get()
    }

    pub(crate) fn waiter(&self, waker: &Waker) -> Waiter {
        match self.waker.get() {
            Some((data, vtable)) if data == waker.data() && std::ptr::eq(vtable, waker.vtable()) => {
                Waiter::Task(self.number.get())
            }
            _ => Waiter::Other(waker.clone()),
        }
    }
}

/// Guard: while it exists, the loop of `remote` is the running loop of this thread.
pub(crate) struct RunningLoop {
    outer: usize,
    outer_woken: Vec<usize>,
}

impl RunningLoop {
    pub(crate) fn enter(remote: &Arc<RemoteWakes>) -> Self {
        Self {
            outer: RUNNING_LOOP.replace(remote.loop_id()),
            outer_woken: WOKEN.take(),
        }
    }
}

impl Drop for RunningLoop {
    fn drop(&mut self) {
        RUNNING_LOOP.set(self.outer);
        WOKEN.set(mem::take(&mut self.outer_woken));
    }
}
