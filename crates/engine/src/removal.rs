//! Removal of workspaces, on its own thread. `files/removal.rs` and `objects/removal.rs` remove one workspace.

use crate::workspaces::Workspaces;
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::Executor;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Number of attempts to remove a workspace. A server may keep files of lost clients open for a while, or
/// refuse some requests.
const ATTEMPTS: u32 = 6;
/// Pause after the first attempt. The pause doubles each time. All pauses together take three seconds.
const FIRST_PAUSE_NS: u64 = 100_000_000;

/// Retries a request or removal outside of the measured load.
pub(crate) struct Patience<'a> {
    executor: &'a Executor,
    /// Whether a failure may be temporary, so that another attempt may succeed.
    may_pass: fn(&Failure) -> bool,
    attempt: u32,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(executor: &'a Executor, may_pass: fn(&Failure) -> bool) -> Self {
        Self {
            executor,
            may_pass,
            attempt: 0,
        }
    }

    /// Waits before the next attempt.
    pub(crate) async fn wait_after(&mut self, failure: Failure) -> Result<(), Failure> {
        self.attempt += 1;
        if self.attempt == ATTEMPTS || !(self.may_pass)(&failure) {
            return Err(failure);
        }
        let pause_ns = FIRST_PAUSE_NS << (self.attempt - 1);
        self.executor.sleep_until(monotonic_ns() + pause_ns).await;
        Ok(())
    }
}

/// A workspace that still exists.
#[derive(Debug, Clone, Serialize)]
pub struct LeftOver {
    pub client: usize,
    pub share: String,
    /// Path of the workspace from the root of the share.
    pub directory: String,
    /// Why the removal of the workspace failed. None: removal was not tried.
    pub why: Option<String>,
}

/// State shared by the removing thread and its owner.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    stop: AtomicBool,
    failures: Mutex<BTreeMap<usize, Failure>>,
}

impl Progress {
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, client: usize, failure: Failure) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.insert(client, failure);
    }
}

/// The workspaces that are removed on one event loop.
#[derive(Clone)]
pub(crate) struct Waiting {
    pub workspaces: Workspaces,
    pub executor: Executor,
    pub progress: Arc<Progress>,
    pub until_ns: u64,
    /// Maximum number of concurrent removals.
    pub at_once: usize,
    pub may_pass: fn(&Failure) -> bool,
}

impl Waiting {
    /// Removes each workspace, and retries failed removals. `remover` creates a remover for each concurrent
    /// removal.
    pub(crate) fn remove<R>(&self, remover: impl Fn() -> R) -> Result<(), Failure>
    where
        R: AsyncFnMut(usize) -> Result<(), Failure> + 'static,
    {
        let standing: VecDeque<_> = self.workspaces.standing().into();
        let tasks = self.at_once.min(standing.len());
        let waiting = Rc::new(RefCell::new(standing));
        for _ in 0..tasks {
            let (this, waiting, mut remove) = (self.clone(), waiting.clone(), remover());
            self.executor.spawn(async move {
                loop {
                    let next = waiting.borrow_mut().pop_front();
                    let Some(number) = next else { return };
                    this.remove_one(number, &mut remove).await;
                }
            });
        }
        self.run()
    }

    async fn remove_one(&self, number: usize, remove: &mut impl AsyncFnMut(usize) -> Result<(), Failure>) {
        let mut patience = Patience::new(&self.executor, self.may_pass);
        loop {
            self.executor.set_deadline(self.until_ns);
            let Err(failure) = remove(number).await else {
                return self.workspaces.gone(number);
            };
            self.progress.note(number, failure);
            if patience.wait_after(failure).await.is_err() {
                return;
            }
        }
    }

    /// Runs the tasks of the event loop until they end, the time is over or the removal is stopped.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let over = || self.progress.stopped() || monotonic_ns() >= self.until_ns;
        self.executor.run(over).map_err(|_| Fault::OtherIo.into())
    }
}

/// Returns the share of a client, and the path of its workspace from the root of the share.
type Place = Box<dyn Fn(usize) -> (String, String) + Send>;

/// A removal in progress.
pub struct Removal {
    workspaces: Workspaces,
    place: Place,
    progress: Arc<Progress>,
    ended: Receiver<()>,
    is_over: bool,
}

impl std::fmt::Debug for Removal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Removal").finish_non_exhaustive()
    }
}

impl Removal {
    /// Starts a removal on a new thread. `remove` gets the progress and a deadline on the monotonic clock,
    /// `most_ns` from now. It must end by the deadline, or earlier if the progress is stopped.
    pub(crate) fn start(
        workspaces: Workspaces,
        place: Place,
        most_ns: u64,
        remove: impl FnOnce(&Arc<Progress>, u64) -> Result<(), Failure> + Send + 'static,
    ) -> Self {
        let progress = Arc::new(Progress::default());
        let (sender, ended) = channel();
        let (thread_workspaces, thread_progress) = (workspaces.clone(), progress.clone());
        let until_ns = monotonic_ns().saturating_add(most_ns);
        std::thread::spawn(move || {
            if let Err(failure) = remove(&thread_progress, until_ns) {
                for client in thread_workspaces.standing() {
                    thread_progress.note(client, failure);
                }
            }
            // The receiver is gone if the owner no longer waits for the end.
            let _ = sender.send(());
        });
        Self {
            workspaces,
            place,
            progress,
            ended,
            is_over: false,
        }
    }

    /// Tells the removal to end. Does not wait for its end.
    pub fn stop(&self) {
        self.progress.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end of the removal, for at most `timeout`. Returns whether it has ended.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        if !self.is_over {
            // A thread that panicked has ended, too. The workspaces that it did not remove count as left
            // over.
            self.is_over = self.ended.recv_timeout(timeout) != Err(RecvTimeoutError::Timeout);
        }
        self.is_over
    }

    pub fn left(&self) -> Vec<LeftOver> {
        let failures = self.progress.failures.lock();
        let failures = failures.unwrap_or_else(PoisonError::into_inner);
        let left = self.workspaces.standing().into_iter().map(|client| {
            let (share, directory) = (self.place)(client);
            LeftOver {
                client,
                share,
                directory,
                why: failures.get(&client).map(Failure::to_string),
            }
        });
        left.collect()
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.stop();
    }
}
