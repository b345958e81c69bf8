//! Clients apart from any mix: those that ask a server, write a journal, or do Bonnie's phases or a scenario's steps. Not
//! for: load (`client_task.rs`).

use super::cache::FilesOptions;
use super::sessions::{Place, Sessions, FIRST_ASKING_CLIENT};
use crate::job::JobEnd;
use dyno_files::Files;
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_reactor::Executor;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

/// So often a client that waits for others looks for them.
const LOOK_NS: u64 = 200_000;

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
    end: &JobEnd,
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

/// A job on files, as its clients carry it out.
#[derive(Debug)]
pub(super) struct Job<'a, S> {
    pub(super) sessions: &'a S,
    pub(super) options: FilesOptions,
    pub(super) identity: u64,
    /// The longest that each client may take.
    pub(super) most_ns: u64,
    pub(super) end: &'a Arc<JobEnd>,
}

impl<S: Sessions> Job<'_, S> {
    /// Return the result of one client.
    pub(super) fn apart<T: Send + 'static, F: Future<Output = Result<T, Failure>> + 'static>(
        &self,
        work: impl FnOnce(S::Client) -> F + Send,
    ) -> Result<T, Failure> {
        apart(|| alone(self.sessions, self.identity, 0, self.most_ns, self.end, work))
    }

    /// Return the results of all clients of a gate, each on a thread of its own. Their sessions are numbered from `first`.
    /// If some fail, return the first failure.
    pub(super) fn at_once<T: Send + 'static, F: Future<Output = Result<T, Failure>> + 'static>(
        &self,
        gate: &Gate,
        first: u32,
        work: impl Fn(u32, S::Client) -> F + Sync,
    ) -> Result<Vec<T>, Failure> {
        let one = |number: u32| {
            let (sessions, client) = (self.sessions, first + number);
            let found = alone(
                sessions,
                self.identity,
                client,
                self.most_ns,
                self.end,
                |session| work(number, session),
            );
            if let Err(failure) = found {
                gate.fail(failure);
            }
            found
        };
        let found: Vec<_> = std::thread::scope(|scope| {
            let one = &one;
            let clients = u32::try_from(gate.clients).unwrap_or(u32::MAX);
            let threads: Vec<_> = (0..clients)
                .map(|number| scope.spawn(move || one(number)))
                .collect();
            threads.into_iter().map(ScopedJoinHandle::join).collect()
        });
        let found = found
            .into_iter()
            .map(|joined| joined.unwrap_or_else(|_| Err(Fault::OtherIo.into())));
        let found: Result<Vec<T>, Failure> = found.collect();
        found.map_err(|failure| gate.failure().unwrap_or(failure))
    }
}

/// Where clients on threads of their own wait for each other, again and again.
#[derive(Debug)]
pub(super) struct Gate {
    clients: u64,
    arrived: AtomicU64,
    has_failed: AtomicBool,
    /// Of the first that failed: nobody waits for it.
    failure: Mutex<Option<Failure>>,
}

impl Gate {
    pub(super) fn new(clients: u32) -> Self {
        Self {
            clients: clients.into(),
            arrived: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    /// Returns once all have come, obeying the server meanwhile.
    pub(super) async fn pass(&self, files: &mut impl Files) -> Result<(), Failure> {
        let before = self.arrived.fetch_add(1, Ordering::AcqRel);
        let all = (before / self.clients + 1) * self.clients;
        while self.arrived.load(Ordering::Acquire) < all {
            self.go_on()?;
            files.idle_until(monotonic_ns() + LOOK_NS).await?;
        }
        Ok(())
    }

    /// Fails once one of the clients has.
    pub(super) fn go_on(&self) -> Result<(), Failure> {
        match self.has_failed.load(Ordering::Acquire) {
            true => self.failure().map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    fn failure(&self) -> Option<Failure> {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, failure: Failure) {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(failure);
        self.has_failed.store(true, Ordering::Release);
    }
}
