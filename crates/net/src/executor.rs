//! Event loop: tasks and timers over one epoll instance. `wake.rs` holds the wakers, `readiness.rs` the
//! socket states.

use crate::readiness::{Key, Readiness, Registry};
use crate::ready_work::{ReadyWork, ReadyWorkMeter};
use crate::task_times::{TaskTimes, PASSED};
use crate::wake::{Current, RemoteWakes, RunningLoop, TaskWakers, Waiter};
use dyno_measure::{monotonic_ns, Detail, Failure, Fault, Histogram};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Interval between checks of deadlines and of the stop condition. A timeout is detected at most this much later.
const SWEEP_NS: u64 = 20_000_000;
const EVENTS_AT_ONCE: usize = 1024;
/// Maximum number of rounds in which tasks that wake each other are polled before sockets and timers get a
/// turn.
const PASSES_IN_A_TURN: u32 = 16;
/// Key under which epoll reports a wake-up by another thread. No socket has it.
const REMOTE_WAKE: u64 = u64::MAX;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Handle to the event loop of this thread. Tasks and sockets hold clones of it.
#[derive(Clone)]
pub struct Executor {
    shared: Rc<Shared>,
}

struct Shared {
    epoll: OwnedFd,
    remote: Arc<RemoteWakes>,
    registry: RefCell<Registry>,
    current: Current,
    /// Deadline and delays of each task. A sweep polls tasks whose deadline has passed, which costs less than one timer
    /// per operation.
    times: RefCell<Vec<TaskTimes>>,
    timers: RefCell<BinaryHeap<Timer>>,
    spawned: RefCell<Vec<Task>>,
    lag: RefCell<Option<Histogram>>,
    ready_work: RefCell<Option<ReadyWorkMeter>>,
}

/// Returns the failure for an error of the executor's own system calls.
pub fn system_failure(error: Errno) -> Failure {
    Failure {
        fault: Fault::OtherIo,
        detail: Detail::Errno(error.raw_os_error()),
    }
}

/// Runs one task on an event loop of its own, outside of load. `deadline_ns`: its deadline, on the monotonic clock.
pub fn run_alone<T: 'static, F: Future<Output = Result<T, Failure>> + 'static>(
    deadline_ns: u64,
    work: impl FnOnce(&Executor) -> F,
) -> Result<T, Failure> {
    let executor = Executor::new().map_err(system_failure)?;
    let result = Rc::new(RefCell::new(Err(Fault::ResponseTimeout.into())));
    let (slot, handle, work) = (result.clone(), executor.clone(), work(&executor));
    executor.spawn(async move {
        handle.set_deadline(deadline_ns);
        let outcome = work.await;
        *slot.borrow_mut() = outcome;
    });
    executor.run(|| false).map_err(system_failure)?;
    result.replace(Err(Fault::ResponseTimeout.into()))
}

/// Timer of a task. The earliest timer compares as the greatest, because `BinaryHeap` pops the greatest.
struct Timer {
    due_ns: u64,
    waiter: Waiter,
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        other.due_ns.cmp(&self.due_ns)
    }
}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.due_ns == other.due_ns
    }
}

impl Eq for Timer {}

impl std::fmt::Debug for Executor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Executor(task {})", self.shared.current.number())
    }
}

impl Executor {
    /// Creates a loop without tasks.
    ///
    /// # Errors
    /// Returns the kernel's error if it cannot create an epoll instance or an eventfd.
    pub fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let remote = RemoteWakes::new()?;
        let data = epoll::EventData::new_u64(REMOTE_WAKE);
        epoll::add(
            &epoll,
            remote.eventfd(),
            data,
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        )?;
        Ok(Self {
            shared: Rc::new(Shared {
                epoll,
                remote,
                registry: RefCell::default(),
                current: Current::default(),
                times: RefCell::default(),
                timers: RefCell::default(),
                spawned: RefCell::default(),
                lag: RefCell::default(),
                ready_work: RefCell::default(),
            }),
        })
    }

    /// Adds a task. It is first polled in the next round of the loop.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.shared.spawned.borrow_mut().push(Box::pin(task));
    }

    /// Starts to sample the loop lag: how long the last event of each batch waited.
    pub fn start_lag(&self) {
        *self.shared.lag.borrow_mut() = Some(Histogram::new());
    }

    /// Stops sampling the loop lag and returns the samples in nanoseconds.
    pub fn take_lag(&self) -> Histogram {
        self.shared.lag.borrow_mut().take().unwrap_or_default()
    }

    /// Starts to measure how many connections wait for this loop.
    pub fn start_ready_work(&self) {
        *self.shared.ready_work.borrow_mut() = Some(ReadyWorkMeter::default());
    }

    /// Stops the measurement of ready work and returns its sums.
    pub fn take_ready_work(&self) -> ReadyWork {
        let meter = self.shared.ready_work.borrow_mut().take();
        meter.map_or_else(ReadyWork::default, |meter| meter.finish(monotonic_ns()))
    }

    /// Records that one socket event brought `answers` additional answers. Each waits for those before it.
    pub fn add_answers(&self, answers: usize) {
        if let Some(meter) = &mut *self.shared.ready_work.borrow_mut() {
            meter.add_answers(answers);
        }
    }

    /// Waits until `monotonic_ns` reaches `due_ns`. If dropped early, its timer remains and wakes the task
    /// spuriously.
    pub async fn sleep_until(&self, due_ns: u64) {
        let mut armed: Option<Waiter> = None;
        poll_fn(|context| {
            if monotonic_ns() >= due_ns {
                return Poll::Ready(());
            }
            let waiter = self.waiter(context);
            if !armed.as_ref().is_some_and(|armed| armed.is(&waiter)) {
                armed = Some(waiter);
                self.call_at(due_ns, self.waiter(context));
            }
            Poll::Pending
        })
        .await;
    }

    /// Calls `look` with the times of the current task (`deadlines.rs`).
    pub(crate) fn times<T>(&self, look: impl FnOnce(&mut TaskTimes) -> T) -> T {
        look(&mut self.shared.times.borrow_mut()[self.shared.current.number()])
    }

    /// Yields to all other tasks, sockets and timers. For tasks that always have more to do.
    pub async fn give_way(&self) {
        let mut gave_way = false;
        poll_fn(|context| {
            if gave_way {
                return Poll::Ready(());
            }
            gave_way = true;
            self.call_at(monotonic_ns(), self.waiter(context));
            Poll::Pending
        })
        .await;
    }

    fn call_at(&self, due_ns: u64, waiter: Waiter) {
        self.shared.timers.borrow_mut().push(Timer { due_ns, waiter });
    }

    /// Returns the waiter that wakes the future polled with `context`.
    pub(crate) fn waiter(&self, context: &Context<'_>) -> Waiter {
        self.shared.current.waiter(context.waker())
    }

    /// Registers `file` with epoll and returns its key.
    pub(crate) fn register(&self, file: impl AsFd, flags: epoll::EventFlags) -> Result<Key, Errno> {
        let key = self.shared.registry.borrow_mut().insert();
        let data = epoll::EventData::new_u64(key.into());
        let added = epoll::add(&self.shared.epoll, file, data, flags);
        if added.is_err() {
            self.unregister(key);
        }
        added.map(|()| key)
    }

    /// Changes the events that are reported for `file`. Conditions that already hold are reported again.
    pub(crate) fn change_registration(
        &self,
        file: impl AsFd,
        key: Key,
        flags: epoll::EventFlags,
    ) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(key.into());
        epoll::modify(&self.shared.epoll, file, data, flags)
    }

    /// Discards all further reports for `key`. The kernel removes a closed file from epoll itself.
    pub(crate) fn unregister(&self, key: Key) {
        let removed = self.shared.registry.borrow_mut().remove(key);
        // Drop the waiters only after the registry is released: they may own sockets of this loop.
        drop(removed);
    }

    /// Calls `look` with the state of the registered socket `key`.
    pub(crate) fn with_readiness<T>(&self, key: Key, look: impl FnOnce(&mut Readiness) -> T) -> T {
        let mut registry = self.shared.registry.borrow_mut();
        look(
            registry
                .get(key)
                .expect("a socket is registered until it is dropped"),
        )
    }

    /// Runs until no task is left or `stop` returns true (checked every 20 ms). Remaining tasks are dropped.
    ///
    /// # Errors
    /// The error of `epoll_wait`, which does not fail for a valid instance.
    pub fn run(&self, stop: impl Fn() -> bool) -> Result<(), Errno> {
        let _running = RunningLoop::enter(&self.shared.remote);
        let mut tasks = Tasks::new(self.shared.remote.clone());
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        let mut swept_ns = monotonic_ns();
        loop {
            self.adopt(&mut tasks);
            if tasks.live == 0 {
                return Ok(());
            }
            let asked_ns = monotonic_ns();
            self.wait_for_events(&mut events, asked_ns)?;
            let woke_ns = monotonic_ns();
            if let Some(meter) = &mut *self.shared.ready_work.borrow_mut() {
                meter.begin_batch(asked_ns, woke_ns, events.len());
            }
            for event in &events {
                self.report(*event, &mut tasks);
            }
            tasks.poll_woken(&self.shared);
            if let Some(lag) = self
                .shared
                .lag
                .borrow_mut()
                .as_mut()
                .filter(|_| !events.is_empty())
            {
                lag.record(monotonic_ns() - woke_ns);
            }
            self.fire_timers(&mut tasks, woke_ns);
            tasks.poll_woken(&self.shared);
            if woke_ns - swept_ns >= SWEEP_NS {
                swept_ns = woke_ns;
                self.fire_deadlines(&mut tasks, woke_ns);
                if stop() {
                    // A task holds this executor, so a spawned task that never ran would keep the executor
                    // alive.
                    drop(self.shared.spawned.take());
                    return Ok(());
                }
            }
        }
    }

    fn adopt(&self, tasks: &mut Tasks) {
        while !self.shared.spawned.borrow().is_empty() {
            for task in self.shared.spawned.take() {
                let number = tasks.insert(task);
                self.shared.begin_task(number);
                tasks.poll(&self.shared, number);
            }
        }
    }

    fn wait_for_events(&self, events: &mut Vec<epoll::Event>, now_ns: u64) -> Result<(), Errno> {
        let next_timer_ns = self.shared.timers.borrow().peek().map(|timer| timer.due_ns);
        let wait_ns = match next_timer_ns {
            _ if self.shared.remote.any_here() => 0,
            Some(due_ns) => due_ns.saturating_sub(now_ns).min(SWEEP_NS),
            None => SWEEP_NS,
        };
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: wait_ns as _,
        };
        events.clear();
        match epoll::wait(&self.shared.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn report(&self, event: epoll::Event, tasks: &mut Tasks) {
        let (data, flags) = (event.data, event.flags);
        if data.u64() == REMOTE_WAKE {
            return tasks.wakers.receive_remote();
        }
        let mut registry = self.shared.registry.borrow_mut();
        let Some(readiness) = registry.get(data.u64().into()) else {
            return;
        };
        let waiters = readiness.report(flags);
        drop(registry);
        for waiter in waiters.into_iter().flatten() {
            waiter.call(&mut tasks.woken);
        }
    }

    fn fire_timers(&self, tasks: &mut Tasks, now_ns: u64) {
        let due = |timer: &Timer| timer.due_ns <= now_ns;
        loop {
            let mut timers = self.shared.timers.borrow_mut();
            let first = timers.peek().is_some_and(due).then(|| timers.pop());
            drop(timers);
            let Some(timer) = first.flatten() else {
                return;
            };
            if let Some(meter) = &mut *self.shared.ready_work.borrow_mut() {
                meter.add_timer(now_ns.saturating_sub(timer.due_ns));
            }
            timer.waiter.call(&mut tasks.woken);
        }
    }

    fn fire_deadlines(&self, tasks: &mut Tasks, now_ns: u64) {
        for number in 0..tasks.slots.len() {
            let deadline_ns = self.shared.times.borrow()[number].deadline_ns;
            if deadline_ns <= now_ns && deadline_ns != PASSED {
                self.shared.times.borrow_mut()[number].deadline_ns = PASSED;
                tasks.poll(&self.shared, number);
            }
        }
    }
}

impl Shared {
    /// Clears the times that an earlier task with this number left.
    fn begin_task(&self, number: usize) {
        let mut times = self.times.borrow_mut();
        let length = times.len().max(number + 1);
        times.resize(length, TaskTimes::NEW);
        times[number] = TaskTimes::NEW;
    }
}

/// Tasks by number. The number of a finished task is reused.
struct Tasks {
    slots: Vec<Slot>,
    wakers: TaskWakers,
    free: Vec<usize>,
    live: usize,
    /// Tasks to poll next. A task may occur twice, because an extra poll is harmless.
    woken: Vec<usize>,
}

struct Slot {
    task: Option<Task>,
    waker: Waker,
}

impl Tasks {
    fn new(remote: Arc<RemoteWakes>) -> Self {
        Self {
            slots: Vec::new(),
            wakers: TaskWakers::new(remote),
            free: Vec::new(),
            live: 0,
            woken: Vec::new(),
        }
    }

    fn insert(&mut self, task: Task) -> usize {
        self.live += 1;
        if let Some(number) = self.free.pop() {
            self.slots[number].task = Some(task);
            return number;
        }
        self.slots.push(Slot {
            task: Some(task),
            waker: self.wakers.make_next(),
        });
        self.slots.len() - 1
    }

    /// Polls the woken tasks and the tasks that they wake, for a limited number of rounds.
    fn poll_woken(&mut self, shared: &Shared) {
        for _ in 0..PASSES_IN_A_TURN {
            let mut woken = std::mem::take(&mut self.woken);
            self.wakers.take_woken(&mut woken);
            let none = woken.is_empty();
            for number in woken.drain(..) {
                self.poll(shared, number);
            }
            self.woken = woken;
            if none {
                return;
            }
        }
    }

    fn poll(&mut self, shared: &Shared, number: usize) {
        // A timer of an earlier run may refer to a task that no longer exists.
        let Some(Slot {
            task: Some(task),
            waker,
        }) = self.slots.get_mut(number)
        else {
            return;
        };
        shared.current.set(number, waker);
        if task.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
            self.slots[number].task = None;
            self.free.push(number);
            self.live -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn executor() -> Executor {
        Executor::new().expect("an epoll instance")
    }

    #[test]
    fn the_loop_ends_when_its_last_task_ends_and_a_task_may_spawn_another() {
        let executor = executor();
        let done = Rc::new(Cell::new(0));
        let (inner, counted) = (executor.clone(), done.clone());
        executor.spawn(async move {
            let again = counted.clone();
            inner.spawn(async move { again.set(again.get() + 1) });
            counted.set(counted.get() + 1);
        });
        executor.run(|| false).expect("the loop runs");
        assert_eq!(done.get(), 2);
    }

    #[test]
    fn sleeping_tasks_wake_in_order_and_never_early() {
        let executor = executor();
        let woken = Rc::new(RefCell::new(Vec::new()));
        let start_ns = monotonic_ns();
        for wait_ns in [3_000_000, 1_000_000, 2_000_000] {
            let (handle, woken) = (executor.clone(), woken.clone());
            executor.spawn(async move {
                handle.sleep_until(start_ns + wait_ns).await;
                assert!(monotonic_ns() >= start_ns + wait_ns);
                woken.borrow_mut().push(wait_ns);
            });
        }
        executor.run(|| false).expect("the loop runs");
        assert_eq!(*woken.borrow(), [1_000_000, 2_000_000, 3_000_000]);
    }

    #[test]
    fn a_deadline_wakes_a_task_that_has_no_other_event() {
        let executor = executor();
        let handle = executor.clone();
        executor.spawn(async move {
            handle.set_deadline(monotonic_ns() + 1_000_000);
            poll_fn(|_| {
                if handle.deadline_passed() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
        });
        executor.run(|| false).expect("the loop runs");
    }

    #[test]
    fn a_task_that_yields_lets_other_tasks_and_its_own_deadline_run() {
        let executor = executor();
        let other_ran = Rc::new(Cell::new(false));
        let (busy, idle, ran) = (executor.clone(), executor.clone(), other_ran.clone());
        executor.spawn(async move {
            busy.set_deadline(monotonic_ns() + SWEEP_NS);
            while !busy.deadline_passed() {
                busy.give_way().await;
            }
        });
        executor.spawn(async move {
            idle.give_way().await;
            ran.set(true);
        });
        executor.run(|| false).expect("the loop runs");
        assert!(other_ran.get());
    }

    #[test]
    fn a_stop_drops_waiting_tasks() {
        let executor = executor();
        let kept = Rc::new(());
        let (handle, held) = (executor.clone(), kept.clone());
        executor.spawn(async move {
            let _held = held;
            handle.sleep_until(u64::MAX).await;
        });
        executor.run(|| true).expect("the loop runs");
        assert_eq!(Rc::strong_count(&kept), 1);
    }

    #[test]
    fn a_stop_drops_a_spawned_task_that_was_never_polled() {
        let executor = executor();
        let kept = Rc::new(());
        let (handle, held) = (executor.clone(), kept.clone());
        executor.spawn(async move {
            handle.sleep_until(monotonic_ns() + SWEEP_NS).await;
            let inner = handle.clone();
            handle.spawn(async move {
                let _held = held;
                inner.sleep_until(u64::MAX).await;
            });
            handle.sleep_until(u64::MAX).await;
        });
        executor.run(|| true).expect("the loop runs");
        assert_eq!(Rc::strong_count(&kept), 1);
    }
}
