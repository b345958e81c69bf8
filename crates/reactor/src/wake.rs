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
use std::task::{Wake, Waker};

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
}

impl RemoteWakes {
    pub(crate) fn new() -> Result<Arc<Self>, Errno> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self {
            eventfd,
            tasks: Mutex::default(),
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
    wakers: Vec<(Arc<TaskWaker>, Waker)>,
}

impl TaskWakers {
    pub(crate) fn new(remote: Arc<RemoteWakes>) -> Self {
        Self {
            remote,
            wakers: Vec::new(),
        }
    }

    /// Makes the wakers of the numbers below `tasks`.
    pub(crate) fn provide(&mut self, tasks: usize) {
        for task in self.wakers.len()..tasks {
            let waker = Arc::new(TaskWaker {
                task,
                woken_here: AtomicBool::new(false),
                woken_remotely: AtomicBool::new(false),
                remote: self.remote.clone(),
            });
            self.wakers.push((waker.clone(), waker.into()));
        }
    }

    pub(crate) fn of(&self, task: usize) -> &Waker {
        &self.wakers[task].1
    }

    /// Takes over what other threads have called.
    pub(crate) fn receive_remote(&self) {
        for task in self.remote.take() {
            let waker = &self.wakers[task].0;
            // Acquires what the caller did before, also of one who found it set already.
            waker.woken_remotely.swap(false, Ordering::AcqRel);
            waker.wake_here();
        }
    }

    /// Puts the tasks that were called into `tasks`, which is empty. From here on they can be called again.
    pub(crate) fn take_woken(&self, tasks: &mut Vec<usize>) {
        WOKEN.with_borrow_mut(|woken| mem::swap(woken, tasks));
        for task in &*tasks {
            self.wakers[*task].0.woken_here.store(false, Ordering::Relaxed);
        }
    }
}

/// Whether a task of the running loop has been called.
pub(crate) fn any_woken() -> bool {
    WOKEN.with_borrow(|woken| !woken.is_empty())
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
