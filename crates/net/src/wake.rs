//! Wakers: how a task is called by a socket, a timer, another task or another thread.
//!
//! A wake on the loop's own thread pushes a number on a list of that thread and touches nothing that is shared. A wake
//! from another thread takes a lock and writes to an eventfd, which the loop waits for together with its sockets; so the
//! loop itself never looks at what is shared before somebody has called.
//!
//! Not for: what a task waits for (`readiness.rs`, `executor.rs`).

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
    /// The loop that runs on this thread.
    static RUNNING_LOOP: Cell<usize> = const { Cell::new(NO_LOOP) };
    /// The tasks of that loop that were called and have not been polled since.
    static WOKEN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Calls that come from other threads, or while the loop does not run.
#[derive(Debug)]
pub(crate) struct RemoteWakes {
    eventfd: OwnedFd,
    tasks: Mutex<Vec<usize>>,
    /// Whether `WOKEN` has any. Only the loop's own thread looks at it: quicker than at a variable of the thread.
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

    /// What becomes readable with each call.
    pub(crate) fn eventfd(&self) -> &OwnedFd {
        &self.eventfd
    }

    fn push(&self, task: usize) {
        self.tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(task);
        // It is registered edge-triggered: every write is an event. It is never read, and full after 2^64 writes.
        let _ = io::write(&self.eventfd, &1u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<usize> {
        mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a task has been called on the loop's own thread and was not taken since.
    pub(crate) fn any_here(&self) -> bool {
        self.any_here.load(Ordering::Relaxed)
    }

    /// What tells one loop from another as long as both exist.
    fn loop_id(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self) as usize
    }
}

/// Calls the task that has one number. A number is used again once its task has ended; a late call then polls the new
/// task, which tries, finds nothing and waits on.
#[derive(Debug)]
struct TaskWaker {
    task: usize,
    /// Stands in `WOKEN`. Only the loop's own thread looks at it.
    woken_here: AtomicBool,
    /// Stands in `RemoteWakes`. Cleared before the task is polled, so that whoever finds it set is heard.
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

/// The wakers of a loop's tasks, by the tasks' numbers. They stay when a task has ended, for the next of its number.
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

    /// The waker of the next number.
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

    /// Takes over what other threads have called.
    pub(crate) fn receive_remote(&self) {
        for task in self.remote.take() {
            let Some(waker) = self.wakers.get(task) else {
                continue; // Of an earlier run of this loop.
            };
            // Acquires what the caller did before, also of one who found it set already.
            waker.woken_remotely.swap(false, Ordering::AcqRel);
            waker.wake_here();
        }
    }

    /// Adds the tasks that were called to `tasks`. From here on they can be called again.
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

/// Whom a report or a timer calls: mostly a task as a whole, which the loop can poll without its waker.
#[derive(Debug)]
pub(crate) enum Waiter {
    Task(usize),
    /// Of a future that something within the task polls on its own account.
    Other(Waker),
}

impl Waiter {
    /// Adds the task to those that are polled next.
    pub(crate) fn call(self, woken: &mut Vec<usize>) {
        match self {
            Self::Task(number) => woken.push(number),
            Self::Other(waker) => waker.wake(),
        }
    }

    /// Whether both are the same; where that is not sure, they are not.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Task(own), Self::Task(number)) => own == number,
            (Self::Other(own), Self::Other(waker)) => own.will_wake(waker),
            _ => false,
        }
    }
}

/// The task that is being polled.
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

    /// Whom `waker` calls.
    pub(crate) fn waiter(&self, waker: &Waker) -> Waiter {
        match self.waker.get() {
            Some((data, vtable)) if data == waker.data() && std::ptr::eq(vtable, waker.vtable()) => {
                Waiter::Task(self.number.get())
            }
            _ => Waiter::Other(waker.clone()),
        }
    }
}

/// While it lives, the loop of `remote` is the one that runs on this thread.
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
