//! Clients apart from any mix: those that ask a server, write a journal, or do Bonnie's phases or a scenario's steps. Not
//! for: load (`client_task.rs`).

use super::sessions::{Place, Sessions, FIRST_ASKING_CLIENT};
use crate::job::JobControl;
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::Executor;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

/// Does `work` on a thread of its own: who has entered a namespace doesn't come back.
pub(super) fn apart<T: Send>(work: impl FnOnce() -> Result<T, Failure> + Send) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(work);
        thread.join().unwrap_or_else(|_| Err(Fault::OtherIo.into()))
    })
}

/// Run one task per client until all have ended or `is_over` returns true. Tasks that still wait then are dropped.
/// A client is its number and the index of its share.
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

/// Return the result of one client on the first share. It has `most_ns` at most, and `end` can abandon it.
pub(super) fn alone<S: Sessions, T: 'static, F: Future<Output = Result<T, Failure>> + 'static>(
    sessions: &S,
    identity: u64,
    client: u32,
    most_ns: u64,
    end: &JobControl,
    work: impl FnOnce(S::Client) -> F,
) -> Result<T, Failure> {
    let result = Rc::new(RefCell::new(Err(Fault::ResponseTimeout.into())));
    let mut work = Some(work);
    each_client(
        sessions,
        identity,
        [(client, 0)],
        || end.is_abandoned(),
        |_, session, executor| {
            let Some(work) = work.take() else { return };
            let work = work(session);
            let (slot, handle) = (result.clone(), executor.clone());
            executor.spawn(async move {
                handle.set_deadline(monotonic_ns().saturating_add(most_ns));
                let outcome = work.await;
                *slot.borrow_mut() = outcome;
            });
        },
    )?;
    result.replace(Err(Fault::ResponseTimeout.into()))
}
