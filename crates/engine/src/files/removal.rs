//! Removes files that clients could not remove: their level was stopped, the disk was full, or the server was
//! gone.
//!
//! Each workspace is removed in a new session, which deletes only names that the workload may have created.
//! `client_task.rs` does the regular clean-up.

use super::client::FilesClient;
use super::sessions::{Place, Sessions};
use super::{FilesWork, LOGGING_ON};
use crate::removal::{Progress, Removal, Waiting};
use crate::sampling::Sampling;
use dyno_measure::{Failure, Fault};
use dyno_net::{Dialer, Executor};
use dyno_workload::{FileAction, FileWorkload};
use rand_xoshiro::rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::rc::Rc;
use std::sync::Arc;

/// Removes one workspace and everything that a pass may have left in it. Continues after failures. The caller sets the
/// deadline.
pub(crate) async fn remove<S: Sessions>(
    client: &mut FilesClient<S>,
    workload: &dyn FileWorkload,
) -> Result<(), Failure> {
    client.connect().await?;
    let mut result = Ok(());
    let left = workload.preparation(true);
    for action in left.iter().chain(&workload.removal()) {
        if !matches!(
            action,
            FileAction::Delete { .. } | FileAction::RemoveDirectory { .. }
        ) {
            continue;
        }
        let removed = client.act_unmeasured(action).await;
        // Keep the first failure: a remaining file also keeps its directory.
        result = result.and(removed);
        if client.lost() {
            return result;
        }
    }
    result.and(client.finish().await)
}

/// Starts to remove all workspaces of `work`, then the empty directories above them. Stops after `most_ns`.
pub(crate) fn start<S: Sessions>(work: &Arc<FilesWork<S>>, most_ns: u64) -> Removal {
    let (placed, removed) = (work.clone(), work.clone());
    let most_ns = most_ns.saturating_add(work.removal_ns());
    let place = move |client: usize| {
        let directory = placed.workspaces.directory_of(client);
        let directory = match placed.sessions.base_path() {
            "" => directory,
            base => format!("{base}/{directory}"),
        };
        (placed.share_of(client).to_owned(), directory)
    };
    let remove = move |progress: &Arc<Progress>, until_ns| remove_all(&removed, progress, until_ns);
    Removal::start(work.workspaces.clone(), Box::new(place), most_ns, remove)
}

struct RemovalTask<S> {
    work: Arc<FilesWork<S>>,
    executor: Executor,
    dialer: Rc<Dialer>,
}

fn remove_all<S: Sessions>(
    work: &Arc<FilesWork<S>>,
    progress: &Arc<Progress>,
    until_ns: u64,
) -> Result<(), Failure> {
    work.sessions.enter().map_err(|_| Fault::Unreachable)?;
    let executor = Executor::new().map_err(|_| Fault::NoFiles)?;
    let removal = Rc::new(RemovalTask {
        dialer: super::dialer(&executor, &work.sessions, 0),
        executor: executor.clone(),
        work: work.clone(),
    });
    let waiting = Waiting {
        workspaces: work.workspaces.clone(),
        executor: executor.clone(),
        progress: progress.clone(),
        until_ns,
        at_once: LOGGING_ON,
        may_pass: |_| true,
    };
    waiting.remove(|| {
        let task = removal.clone();
        async move |number| task.remove_one(number).await
    })?;
    // Clients are assigned to shares in turn, so the first ones cover all shares.
    for number in 0..work.sessions.shares().len() {
        executor.spawn(remove_parents(removal.clone(), number, until_ns));
    }
    waiting.run()
}

async fn remove_parents<S: Sessions>(removal: Rc<RemovalTask<S>>, number: usize, until_ns: u64) {
    removal.executor.set_deadline(until_ns);
    let mut client = removal.client(number);
    if client.connect().await.is_ok() {
        // Keep directories that are not empty.
        let _ = client.remove_parents().await;
        let _ = client.finish().await;
    }
}

impl<S: Sessions> RemovalTask<S> {
    async fn remove_one(&self, number: usize) -> Result<(), Failure> {
        let workload = self.work.workload.of_client(0, number);
        remove(&mut self.client(number), workload.as_files()).await
    }

    fn client(&self, number: usize) -> FilesClient<S> {
        let place = Place {
            executor: &self.executor,
            dialer: &self.dialer,
        };
        let workload = self.work.workload.of_client(0, number);
        let nothing = Sampling::new(0.0, Xoshiro256PlusPlus::seed_from_u64(0));
        self.work
            .client(place, number, workload.as_files().catalogue(), nothing)
    }
}
