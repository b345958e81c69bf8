//! Runs clients outside of levels: checks of a server, journals, Bonnie and scenarios. `client_task.rs` runs load.

use super::bounded::{Bounded, Limits};
use super::sessions::{Place, Sessions, FIRST_ASKING_CLIENT};
use crate::job::JobControl;
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::Executor;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

/// Runs `work` on a new thread, because a thread that enters a namespace cannot return.
pub(super) fn apart<T: Send>(work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        thread.join().unwrap_or_else(|_| Err(Fault::OtherIo.into()))
    })
}

/// Runs one task per client until all have ended, or until `is_over` returns true and the rest are dropped.
/// `clients`: each client's number and the index of its share.
pub(super) fn each_client<S: Sessions>(
    sessions: &S,
    identity: u64,
    clients: impl IntoIterator<Item = (u32, usize)>,
    is_over: impl Fn() -> bool,
    mut spawn: impl FnMut(u32, S::Client, &Executor),
) -> Result<(), Failure> {
    sessions.enter().map_err(|_| Fault::Unreachable)?;
    let executor = Executor::new().map_err(|_| Fault::NoFiles)?;
    let dialer = super::dialer(&executor, sessions, 0);
    for (client, share) in clients {
        let place = Place {
            executor: &executor,
            dialer: &dialer,
        };
        let share = sessions.share_of(share);
        let session = sessions.session(place, identity, FIRST_ASKING_CLIENT - client, share);
        spawn(client, session, &executor);
    }
    executor.run(is_over).map_err(|_| Fault::OtherIo.into())
}

/// Runs `work` for one client on the first share and returns its result. Fails at the client's time limits,
/// or if `end` stops the job and the server does not answer.
pub(super) fn alone<S: Sessions, T: 'static, F: Future<Output = Result<T, Failure>> + 'static>(
    sessions: &S,
    identity: u64,
    client: u32,
    limits: Limits,
    end: &JobControl,
    work: impl FnOnce(Bounded<S::Client>) -> F,
) -> Result<T, Failure> {
    let result = Rc::new(RefCell::new(Err(Fault::ResponseTimeout.into())));
    let mut work = Some(work);
    let begun_ns = monotonic_ns();
    each_client(
        sessions,
        identity,
        [(client, 0)],
        || end.ends_at_once(begun_ns),
        |_, session, executor| {
            let Some(work) = work.take() else { return };
            let work = work(Bounded::new(
                session,
                executor.clone(),
                limits,
                sessions.postponed(),
            ));
            let slot = result.clone();
            executor.spawn(async move {
                let outcome = work.await;
                *slot.borrow_mut() = outcome;
            });
        },
    )?;
    result.replace(Err(Fault::ResponseTimeout.into()))
}
