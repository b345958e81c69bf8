//! Tasks and timers over one epoll instance.

use dyno_measure::{monotonic_ns, Histogram};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::Timespec;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// How often deadlines and the stop condition are looked at: a timeout is noticed at most this much late.
const SWEEP_NS: u64 = 20_000_000;
const EVENTS_AT_ONCE: usize = 1024;
const NO_DEADLINE: u64 = u64::MAX;
/// In the place of a deadline that has passed.
const PASSED: u64 = 0;

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A handle to the loop of this thread, cheap to clone; tasks and sockets hold one.
#[derive(Clone)]
pub struct Executor {
    shared: Rc<Shared>,
}

struct Shared {
    epoll: OwnedFd,
    current: Cell<usize>,
    /// By task, what the kernel has reported and no socket has taken note of yet. It is kept, because the kernel reports
    /// each arrival once, and the task may be waiting for something else at that moment.
    reports: RefCell<Vec<epoll::EventFlags>>,
    /// By task. A sweep polls the tasks whose deadline has passed; cheaper than a timer for every operation.
    deadlines_ns: RefCell<Vec<u64>>,
    timers: RefCell<BinaryHeap<Reverse<(u64, usize)>>>,
    spawned: RefCell<Vec<Task>>,
    lag: RefCell<Option<Histogram>>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Executor(task {})", self.shared.current.get())
    }
}

impl Executor {
    /// A loop without tasks.
    ///
    /// # Errors
    /// Where the kernel gives no epoll instance (out of file descriptors).
    pub fn new() -> Result<Self, Errno> {
        Ok(Self {
            shared: Rc::new(Shared {
                epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
                current: Cell::new(0),
                reports: RefCell::default(),
                deadlines_ns: RefCell::default(),
                timers: RefCell::default(),
                spawned: RefCell::default(),
                lag: RefCell::default(),
            }),
        })
    }

    /// Adds a task; it is first polled when the loop comes round.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.shared.spawned.borrow_mut().push(Box::pin(task));
    }

    /// From here on every batch of events is a sample: how long the last of it had waited.
    pub fn start_lag(&self) {
        *self.shared.lag.borrow_mut() = Some(Histogram::new());
    }

    /// Ends what `start_lag` began, and gives its samples, ns.
    #[must_use]
    pub fn take_lag(&self) -> Histogram {
        self.shared.lag.borrow_mut().take().unwrap_or_default()
    }

    /// Ends once `monotonic_ns` has reached `due_ns`.
    pub async fn sleep_until(&self, due_ns: u64) {
        let mut armed = false;
        poll_fn(|_| {
            if monotonic_ns() >= due_ns {
                return Poll::Ready(());
            }
            if !armed {
                armed = true;
                let timer = Reverse((due_ns, self.shared.current.get()));
                self.shared.timers.borrow_mut().push(timer);
            }
            Poll::Pending
        })
        .await;
    }

    /// From now on the current task is polled once `deadline_ns` has passed, whatever it waits for.
    pub fn set_deadline(&self, deadline_ns: u64) {
        self.shared.deadlines_ns.borrow_mut()[self.shared.current.get()] = deadline_ns;
    }

    /// Whether the deadline of the current task has passed, as of the last sweep.
    #[must_use]
    pub fn deadline_passed(&self) -> bool {
        self.shared.deadlines_ns.borrow()[self.shared.current.get()] == PASSED
    }

    /// Lets every other task have its turn: for a task that always finds more to do.
    pub async fn give_way(&self) {
        let timer = Reverse((monotonic_ns(), self.shared.current.get()));
        self.shared.timers.borrow_mut().push(timer);
        self.next_poll().await;
    }

    /// Gives way once: ends at the task's next poll, that is when a socket, a timer or its deadline calls.
    pub(crate) async fn next_poll(&self) {
        let mut waited = false;
        poll_fn(|_| {
            if waited {
                return Poll::Ready(());
            }
            waited = true;
            Poll::Pending
        })
        .await;
    }

    pub(crate) fn epoll(&self) -> &OwnedFd {
        &self.shared.epoll
    }

    /// What the kernel has reported for the current task since this was last asked.
    pub(crate) fn take_report(&self) -> epoll::EventFlags {
        let report = &mut self.shared.reports.borrow_mut()[self.shared.current.get()];
        std::mem::replace(report, epoll::EventFlags::empty())
    }

    /// The event data under which a socket of the current task is registered.
    pub(crate) fn current_task(&self) -> epoll::EventData {
        epoll::EventData::new_u64(self.shared.current.get() as u64)
    }

    /// Runs until no task is left, or `stop` says so (asked every 20 ms); tasks left then are dropped where they wait.
    ///
    /// # Errors
    /// Where waiting for events fails, which the kernel does not do for a valid instance.
    pub fn run(&self, stop: impl Fn() -> bool) -> Result<(), Errno> {
        let mut slots = Slots::default();
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        let mut swept_ns = monotonic_ns();
        loop {
            self.adopt(&mut slots);
            if slots.live == 0 {
                return Ok(());
            }
            self.wait_for_events(&mut events)?;
            let woke_ns = monotonic_ns();
            for event in &events {
                let (data, flags) = (event.data, event.flags);
                let slot = usize::try_from(data.u64()).unwrap_or(usize::MAX);
                self.shared.add_report(slot, flags);
                slots.poll(&self.shared, slot);
            }
            if let Some(lag) = self
                .shared
                .lag
                .borrow_mut()
                .as_mut()
                .filter(|_| !events.is_empty())
            {
                lag.record(monotonic_ns() - woke_ns);
            }
            self.fire_timers(&mut slots, woke_ns);
            if woke_ns - swept_ns >= SWEEP_NS {
                swept_ns = woke_ns;
                self.fire_deadlines(&mut slots, woke_ns);
                if stop() {
                    // Tasks hold this executor: what was spawned and never adopted would keep itself alive.
                    drop(self.shared.spawned.take());
                    return Ok(());
                }
            }
        }
    }

    fn adopt(&self, slots: &mut Slots) {
        while !self.shared.spawned.borrow().is_empty() {
            for task in self.shared.spawned.take() {
                let slot = slots.insert(task);
                self.shared.begin_task(slot);
                slots.poll(&self.shared, slot);
            }
        }
    }

    fn wait_for_events(&self, events: &mut Vec<epoll::Event>) -> Result<(), Errno> {
        let next_timer_ns = self.shared.timers.borrow().peek().map(|timer| timer.0 .0);
        let wait_ns = next_timer_ns.map_or(SWEEP_NS, |due| due.saturating_sub(monotonic_ns()).min(SWEEP_NS));
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

    fn fire_timers(&self, slots: &mut Slots, now_ns: u64) {
        loop {
            let mut timers = self.shared.timers.borrow_mut();
            match timers.peek() {
                Some(Reverse((due_ns, _))) if *due_ns <= now_ns => {}
                _ => return,
            }
            let Some(Reverse((_, slot))) = timers.pop() else {
                return;
            };
            drop(timers);
            slots.poll(&self.shared, slot);
        }
    }

    fn fire_deadlines(&self, slots: &mut Slots, now_ns: u64) {
        for slot in 0..slots.tasks.len() {
            let deadline_ns = self.shared.deadlines_ns.borrow()[slot];
            if deadline_ns <= now_ns && deadline_ns != PASSED {
                self.shared.deadlines_ns.borrow_mut()[slot] = PASSED;
                slots.poll(&self.shared, slot);
            }
        }
    }
}

impl Shared {
    /// Nothing that was left by an earlier task of the same number shall reach the new one.
    fn begin_task(&self, slot: usize) {
        let (mut deadlines_ns, mut reports) = (self.deadlines_ns.borrow_mut(), self.reports.borrow_mut());
        let length = deadlines_ns.len().max(slot + 1);
        deadlines_ns.resize(length, NO_DEADLINE);
        reports.resize(length, epoll::EventFlags::empty());
        deadlines_ns[slot] = NO_DEADLINE;
        reports[slot] = epoll::EventFlags::empty();
    }

    fn add_report(&self, slot: usize, flags: epoll::EventFlags) {
        if let Some(report) = self.reports.borrow_mut().get_mut(slot) {
            report.insert(flags);
        }
    }
}

/// The tasks by number. A number is used again once its task has ended; an event that was meant for the old one then
/// polls the new one, which tries, finds nothing and waits on.
#[derive(Default)]
struct Slots {
    tasks: Vec<Option<Task>>,
    free: Vec<usize>,
    live: usize,
}

impl Slots {
    fn insert(&mut self, task: Task) -> usize {
        self.live += 1;
        if let Some(slot) = self.free.pop() {
            self.tasks[slot] = Some(task);
            return slot;
        }
        self.tasks.push(Some(task));
        self.tasks.len() - 1
    }

    fn poll(&mut self, shared: &Shared, slot: usize) {
        let Some(Some(task)) = self.tasks.get_mut(slot) else {
            return;
        };
        shared.current.set(slot);
        if task
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
        {
            self.tasks[slot] = None;
            self.free.push(slot);
            self.live -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executor() -> Executor {
        Executor::new().expect("an epoll instance")
    }

    #[test]
    fn it_ends_when_the_last_task_does_and_a_task_may_spawn_another() {
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
    fn sleeping_tasks_wake_in_the_order_of_their_times_and_not_early() {
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
    fn a_deadline_wakes_a_task_that_nothing_else_would() {
        let executor = executor();
        let handle = executor.clone();
        executor.spawn(async move {
            handle.set_deadline(monotonic_ns() + 1_000_000);
            while !handle.deadline_passed() {
                handle.next_poll().await;
            }
        });
        executor.run(|| false).expect("the loop runs");
    }

    #[test]
    fn a_task_that_gives_way_lets_others_and_its_own_deadline_have_their_turn() {
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
    fn a_stop_drops_the_tasks_that_wait() {
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
    fn a_stop_drops_a_task_that_was_spawned_and_never_polled() {
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
