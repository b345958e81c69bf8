//! Removes objects that clients could not remove: their level was stopped, or their process was killed.
//!
//! For each client that may have left something, everything below its prefix is deleted and its uploads are
//! aborted.

use super::{listing, may_pass, ObjectsWork};
use crate::removal::{Progress, Removal, Waiting};
use dyno_http::Transport;
use dyno_measure::{Failure, Fault};
use dyno_net::Executor;
use dyno_s3::{Call, Client};
use std::rc::Rc;
use std::sync::Arc;

/// Number of concurrent removals.
const AT_ONCE: usize = 32;

/// Starts to remove the objects of all clients of `work`, and the objects that they shared. Stops after
/// `most_ns`.
pub(crate) fn start(work: &Arc<ObjectsWork>, most_ns: u64) -> Removal {
    let (placed, removed) = (work.clone(), work.clone());
    let threads = work.workspaces.standing().len() * work.threads;
    let most_ns = most_ns.saturating_add(work.removal_ns(threads));
    let place = move |client: usize| {
        let bucket = placed.target.settings().bucket.clone();
        (bucket, placed.prefix_of(client).trim_end_matches('/').to_owned())
    };
    let remove = move |progress: &Arc<Progress>, until_ns| remove_all(&removed, progress, until_ns);
    Removal::start(work.workspaces.clone(), Box::new(place), most_ns, remove)
}

fn remove_all(work: &Arc<ObjectsWork>, progress: &Arc<Progress>, until_ns: u64) -> Result<(), Failure> {
    let executor = Executor::new().map_err(|_| Fault::NoFiles)?;
    let dialer = Rc::new(work.target.dialer(&executor, 0));
    let place = work.place(&executor, dialer);
    let waiting = Waiting {
        workspaces: work.workspaces.clone(),
        executor,
        progress: progress.clone(),
        until_ns,
        at_once: AT_ONCE,
        may_pass,
    };
    match work.target.tls().cloned() {
        None => waiting.remove(|| remover(work, place.plain(), until_ns)),
        Some(tls) => waiting.remove(|| remover(work, place.secure(&tls), until_ns)),
    }
}

/// Returns a function that removes a client's objects over one persistent connection.
fn remover<T: Transport + 'static>(
    work: &Arc<ObjectsWork>,
    mut client: Client<T>,
    until_ns: u64,
) -> impl AsyncFnMut(usize) -> Result<(), Failure> + 'static {
    let work = work.clone();
    async move |number| remove_one(&work, &mut client, number, until_ns).await
}

async fn remove_one<T: Transport>(
    work: &ObjectsWork,
    client: &mut Client<T>,
    number: usize,
    until_ns: u64,
) -> Result<(), Failure> {
    let uploads = work.options.part_bytes > 0;
    let mut sum = Call::default();
    // The first client puts the shared objects, so they are removed with its own.
    if work.workload.shared && number == 0 {
        let prefix = work.shared_prefix();
        listing::remove_all(client, &prefix, uploads, until_ns, &mut sum).await?;
    }
    let prefix = work.prefix_of(number);
    listing::remove_all(client, &prefix, uploads, until_ns, &mut sum).await
}
