//! A simulated clock that advances only when no task can progress, and the loop that polls tasks with it. No test waits
//! for real time.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(0) };
    static NEXT_DUE_NS: Cell<u64> = const { Cell::new(u64::MAX) };
    static EVENTS: Cell<u64> = const { Cell::new(0) };
}

pub const MS: u64 = 1_000_000;
/// Longer than any test takes by this clock.
const MOST_NS: u64 = 3_600_000 * MS;

pub type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

pub fn now() -> u64 {
    NOW_NS.get()
}

/// Records an event that a task may be waiting for.
pub fn note_event() {
    EVENTS.set(EVENTS.get() + 1);
}

/// Returns whether the clock has reached `due_ns`. If not, it advances to `due_ns` when no task can progress.
pub fn is_due(due_ns: u64) -> bool {
    if now() >= due_ns {
        return true;
    }
    NEXT_DUE_NS.set(NEXT_DUE_NS.get().min(due_ns));
    false
}

/// Waits until a condition holds, without polling for breaks meanwhile.
pub async fn until(is_so: impl Fn() -> bool) {
    std::future::poll_fn(|_| if is_so() { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Polls tasks until all have ended. If no task progresses, `nudge` may cause an event. If it causes none, the clock
/// advances. If no task waits for the clock either, the tasks wait for each other, and the test fails.
pub fn run(mut tasks: Vec<Task<'_>>, mut nudge: impl FnMut() -> bool) {
    NOW_NS.set(0);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        NEXT_DUE_NS.set(u64::MAX);
        let events = EVENTS.get();
        let before = tasks.len();
        tasks.retain_mut(|task| task.as_mut().poll(&mut context) == Poll::Pending);
        if tasks.is_empty() {
            return;
        }
        // A nudge that reports no progress may still have sent a message.
        if EVENTS.get() != events || tasks.len() != before || nudge() || EVENTS.get() != events {
            continue;
        }
        let due_ns = NEXT_DUE_NS.get();
        assert!(due_ns != u64::MAX, "every task waits for another");
        // A task that polls the server regularly would make the clock advance for ever.
        assert!(due_ns < MOST_NS, "some task waits in vain");
        NOW_NS.set(due_ns);
    }
}
