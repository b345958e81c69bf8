//! Removes objects that clients could not remove: their level was stopped, or their process was killed.
//!
//! Everything below the prefix of each client that may have left something is deleted, and uploads are ended.

use super::patience::Patience;
use super::{listing, ObjectsWork, Place};
use crate::removal::{Progress, Removal};
use dyno_http::Transport;
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::Executor;
use dyno_s3::{Call, Client};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Number of concurrent removals.
const AT_ONCE: usize = 32;

/// Starts to remove the objects of all clients of `work`, then those that they shared. Gives up after `most_ns`.
pub(crate) fn start(work: &Arc<ObjectsWork>, most_ns: u64) -> Removal {
    let (placed, removed) = (work.clone(), work.clone());
    let place = move |client: usize| {
        let bucket = placed.target.settings().bucket.clone();
        (bucket, placed.prefix_of(client).trim_end_matches('/').to_owned())
    };
    let remove = move |progress: &Arc<Progress>, until_ns| remove_all(&removed, progress, until_ns);
    Removal::start(work.workspaces.clone(), Box::new(place), most_ns, remove)
}

struct RemovalTask<C> {
    work: Arc<ObjectsWork>,
    progress: Arc<Progress>,
    until_ns: u64,
    executor: Executor,
    connect: C,
    waiting: RefCell<VecDeque<usize>>,
}

fn remove_all(work: &Arc<ObjectsWork>, progress: &Arc<Progress>, until_ns: u64) -> Result<(), Failure> {
    let executor = Executor::new().map_err(|_| Fault::NoFiles)?;
    let dialer = Rc::new(work.target.dialer(&executor, 0));
    let place = Place::new(work, &executor, dialer);
    match work.target.tls().cloned() {
        None => remove_with(work, progress, until_ns, &executor, move || place.plain()),
        Some(tls) => remove_with(work, progress, until_ns, &executor, move || place.secure(&tls)),
    }
}

fn remove_with<T: Transport + 'static>(
    work: &Arc<ObjectsWork>,
    progress: &Arc<Progress>,
    until_ns: u64,
    executor: &Executor,
    connect: impl Fn() -> Client<T> + 'static,
) -> Result<(), Failure> {
    let removal = Rc::new(RemovalTask {
        work: work.clone(),
        progress: progress.clone(),
        until_ns,
        executor: executor.clone(),
        connect,
        waiting: RefCell::new(work.workspaces.standing().into()),
    });
    let over = || progress.stopped() || monotonic_ns() >= until_ns;
    for _ in 0..AT_ONCE.min(removal.waiting.borrow().len()) {
        executor.spawn(remove_waiting(removal.clone()));
    }
    executor.run(over).map_err(|_| Fault::OtherIo.into())
}

async fn remove_waiting<T: Transport, C: Fn() -> Client<T>>(removal: Rc<RemovalTask<C>>) {
    let mut client = (removal.connect)();
    loop {
        let next = removal.waiting.borrow_mut().pop_front();
        let Some(number) = next else { return };
        let mut patience = Patience::new(&removal.executor);
        while let Err(failure) = removal.remove_one(&mut client, number).await {
            removal.progress.note(number, failure);
            if patience.wait_after(failure).await.is_err() {
                break;
            }
        }
    }
}

impl<C> RemovalTask<C> {
    async fn remove_one<T: Transport>(&self, client: &mut Client<T>, number: usize) -> Result<(), Failure> {
        let uploads = self.work.options.part_bytes > 0;
        let mut sum = Call::default();
        // The first client puts the objects that all share, so they are removed with its own.
        if self.work.workload.shared && number == 0 {
            let prefix = self.work.shared_prefix();
            listing::remove_all(client, &prefix, uploads, self.until_ns, &mut sum).await?;
        }
        let prefix = self.work.prefix_of(number);
        listing::remove_all(client, &prefix, uploads, self.until_ns, &mut sum).await?;
        self.work.workspaces.gone(number);
        Ok(())
    }
}
