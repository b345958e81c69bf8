//! Takes away what clients have made on a file server and could not take away themselves: their mix was stopped, the
//! disk was full, or the server was gone for a while.
//!
//! Each workspace has a session of its own again, which deletes by name whatever the workload may have made, and nothing
//! else. Not for: leaving in order at the end of a mix (`files.rs`).

use crate::files::{FilesReady, FilesWork, User, LOGGING_ON};
use crate::files_client::FilesClient;
use crate::sampling::Sampling;
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_reactor::{Dialer, Executor};
use dyno_workload::{FileAction, FileWorkload};
use rand_xoshiro::rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A server that has just lost its clients may have their files open for a moment yet.
const ATTEMPTS: u32 = 6;
/// After the first attempt; each further pause is twice as long, three seconds in all.
const FIRST_PAUSE_NS: u64 = 100_000_000;

/// Takes one workspace away, with everything that a pass may have left in it. What can't be removed keeps nothing else
/// from being removed. The task's deadline is the caller's.
pub(crate) async fn remove(client: &mut FilesClient, workload: &dyn FileWorkload) -> Result<(), Failure> {
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
        // The first failure is the most telling: a file that stays keeps its directory, too.
        result = result.and(removed);
        if client.lost() {
            return result;
        }
    }
    result.and(client.finish().await)
}

/// A workspace that still stands.
#[derive(Debug, Clone)]
pub struct LeftOver {
    /// Whose.
    pub client: usize,
    /// Where.
    pub share: String,
    /// From the root of the share.
    pub directory: String,
    /// Why it could not be removed; None: nobody came to it.
    pub why: Option<Failure>,
}

/// A removal under way, on a thread of its own.
#[derive(Debug)]
pub struct Removal {
    work: FilesWork,
    shared: Arc<Shared>,
    ended: Receiver<()>,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    failures: Mutex<BTreeMap<usize, Failure>>,
}

impl Shared {
    fn note(&self, client: usize, failure: Failure) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.insert(client, failure);
    }
}

impl Removal {
    /// Begins to remove every workspace of `work` that stands, and what is then empty above them. It gives up after
    /// `most_ns`.
    #[must_use]
    pub fn start(work: &FilesWork, most_ns: u64) -> Self {
        let shared = Arc::new(Shared::default());
        let (sender, ended) = channel();
        let (thread_work, thread_shared) = (work.clone(), shared.clone());
        let until_ns = monotonic_ns().saturating_add(most_ns);
        std::thread::spawn(move || {
            if let Err(failure) = remove_all(&thread_work, &thread_shared, until_ns) {
                for client in thread_work.workspaces.standing() {
                    thread_shared.note(client, failure);
                }
            }
            // The receiver is gone only where nobody wants to know any more.
            let _ = sender.send(());
        });
        Self {
            work: work.clone(),
            shared,
            ended,
            is_over: false,
        }
    }

    /// Gives up within a moment.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for its end, `timeout` at most; says whether it has ended.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        if !self.is_over {
            // A thread that was lost has ended, too; what it has not removed stands.
            self.is_over = self.ended.recv_timeout(timeout) != Err(RecvTimeoutError::Timeout);
        }
        self.is_over
    }

    /// What stands now.
    #[must_use]
    pub fn left(&self) -> Vec<LeftOver> {
        let failures = self
            .shared
            .failures
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let target = &self.work.target;
        let base = &target.options().base_path;
        let standing = self.work.workspaces.standing();
        let left = standing.into_iter().map(|client| LeftOver {
            client,
            share: target
                .share_of(u32::try_from(client).unwrap_or(u32::MAX))
                .to_owned(),
            directory: match base.as_str() {
                "" => self.work.workspaces.directory_of(client),
                base => format!("{base}/{}", self.work.workspaces.directory_of(client)),
            },
            why: failures.get(&client).copied(),
        });
        left.collect()
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the tasks of one removal share.
struct Ground {
    ready: FilesReady,
    executor: Executor,
    dialer: Rc<Dialer>,
    shared: Arc<Shared>,
    until_ns: u64,
    waiting: RefCell<VecDeque<usize>>,
}

fn remove_all(work: &FilesWork, shared: &Arc<Shared>, until_ns: u64) -> Result<(), Failure> {
    let ready = FilesReady::new(work);
    ready.enter().map_err(|_| Fault::Unreachable)?;
    let executor = Executor::new().map_err(|_| Fault::NoFiles)?;
    let ground = Rc::new(Ground {
        dialer: Rc::new(Dialer::new(executor.clone(), work.target.address(), 0)),
        executor: executor.clone(),
        ready,
        shared: shared.clone(),
        until_ns,
        waiting: RefCell::new(work.workspaces.standing().into()),
    });
    let over = || shared.stop.load(Ordering::Relaxed) || monotonic_ns() >= until_ns;
    for _ in 0..LOGGING_ON.min(ground.waiting.borrow().len()) {
        executor.spawn(remove_waiting(ground.clone()));
    }
    executor.run(over).map_err(|_| Fault::OtherIo)?;
    // Clients are dealt out to the shares in turn: the first of them have one each.
    for number in 0..work.target.shares().len() {
        executor.spawn(remove_parents(ground.clone(), number));
    }
    executor.run(over).map_err(|_| Fault::OtherIo.into())
}

/// Removes one workspace after another until none is left that nobody has begun with.
async fn remove_waiting(ground: Rc<Ground>) {
    loop {
        let next = ground.waiting.borrow_mut().pop_front();
        let Some(number) = next else { return };
        let mut pause_ns = FIRST_PAUSE_NS;
        for attempt in 1..=ATTEMPTS {
            ground.executor.set_deadline(ground.until_ns);
            match ground.remove_one(number).await {
                Ok(()) => {
                    ground.ready.work.workspaces.gone(number);
                    break;
                }
                Err(failure) => ground.shared.note(number, failure),
            }
            if attempt < ATTEMPTS {
                let due_ns = monotonic_ns().saturating_add(pause_ns);
                ground.executor.sleep_until(due_ns).await;
                pause_ns *= 2;
            }
        }
    }
}

async fn remove_parents(ground: Rc<Ground>, number: usize) {
    ground.executor.set_deadline(ground.until_ns);
    let mut client = ground.client(number);
    if client.connect().await.is_ok() {
        // A directory that is not empty, or not there, stays as it is.
        let _ = client.remove_parents().await;
        let _ = client.finish().await;
    }
}

impl Ground {
    async fn remove_one(&self, number: usize) -> Result<(), Failure> {
        let workload = self.ready.workload(0, number);
        remove(&mut self.client(number), workload.as_files()).await
    }

    fn client(&self, number: usize) -> FilesClient {
        let user = User {
            executor: &self.executor,
            dialer: &self.dialer,
            number,
            timeout_ns: 0,
        };
        let workload = self.ready.workload(0, number);
        let nothing = Sampling::new(0.0, Xoshiro256PlusPlus::seed_from_u64(0));
        self.ready.client(&user, workload.as_files().catalogue(), nothing)
    }
}
