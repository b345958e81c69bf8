//! A clock that stands still while anything can be done, and the loop that polls tasks by it: no test waits for time.

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
/// No test lasts as long by this clock.
const MOST_NS: u64 = 3_600_000 * MS;

/// One of the things that go on at the same time.
pub type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Now.
pub fn now() -> u64 {
    NOW_NS.get()
}

/// Something happened that a task may be waiting for.
pub fn note_event() {
    EVENTS.set(EVENTS.get() + 1);
}

/// Whether `due_ns` has come; if not, the clock will come to it when nothing else can be done.
pub fn is_due(due_ns: u64) -> bool {
    if now() >= due_ns {
        return true;
    }
    NEXT_DUE_NS.set(NEXT_DUE_NS.get().min(due_ns));
    false
}

/// Waits until something is so, looking after nothing meanwhile.
pub async fn until(is_so: impl Fn() -> bool) {
    std::future::poll_fn(|_| if is_so() { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Polls tasks until all have ended. Where none gets on, `nudge` may move something, and if it has nothing to move the
/// clock goes on; if nobody waits for the clock either, they wait for each other, which fails the test.
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
        // A nudge that moves nothing may still have sent somebody something.
        if EVENTS.get() != events || tasks.len() != before || nudge() || EVENTS.get() != events {
            continue;
        }
        let due_ns = NEXT_DUE_NS.get();
        assert!(due_ns != u64::MAX, "every task waits for another");
        // Tasks that look after the server from time to time never run out of moments to wait for.
        assert!(due_ns < MOST_NS, "some task waits in vain");
        NOW_NS.set(due_ns);
    }
}
