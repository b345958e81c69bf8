//! Work on files of a server: what is asked for, and the life of a client that asks: it makes or finds its workspace,
//! waits for the others, works, and leaves things as a next mix needs them.

use crate::client::{ClientState, Seat};
use crate::files_client::{Client, FilesClient};
use crate::load::{Bench, LoadError};
use crate::names::Names;
use crate::removal::remove;
use crate::sampling::{Sampling, SAMPLING_STREAM};
use crate::tally::FilesTally;
use dyno_files::{Cache, CacheOptions, Calls, Counted, Uncached};
use dyno_measure::{monotonic_ns, unix_s, Failure, NS_PER_S};
use dyno_reactor::{Dialer, Executor};
use dyno_smb::{Options, Session, SmbTarget};
use dyno_workload::{
    footprint_bytes, DiskMix, DiskMixOptions, FileAction, FileCatalogue, FileOp, FileWorkload, Ledger,
    LoadFile, LoadFileReplay, Outcome, Script, Workload,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// How the directory begins that each load makes in a share, with one directory a client in it. The rest of its name is
/// the load's own: two that meet on a share, or one after another that was killed, don't touch each other's files.
pub(crate) const DIRECTORY: &str = "serverdyno-clients";
/// What a client may take to write back, close and remove what its mix has left.
const LEAVING_NS: u64 = 120 * NS_PER_S;
/// How often a client that waits for the others looks whether all are there.
const LOOK_NS: u64 = 2_000_000;
/// How many clients log on at the same time. A server's queue of new connections is short (Samba's has 50 places), and
/// whoever finds it full is forgotten by the kernel, which shows as a reset a minute later.
pub(crate) const LOGGING_ON: usize = 32;

/// What clients do with files.
#[derive(Debug, Clone)]
pub enum FilesWorkload {
    /// The office application mix.
    DiskMix(DiskMixOptions),
    /// A load file, again and again.
    LoadFile(Arc<LoadFile>),
}

/// The workspaces on a server, from mix to mix: which there are, so that they can be taken away whatever happens, and
/// what their files should contain, so that what an earlier mix wrote can be checked.
#[derive(Debug, Clone)]
pub struct Workspaces {
    directory: Arc<str>,
    known: Arc<Mutex<Known>>,
}

impl Default for Workspaces {
    /// Those of a load that has yet to begin, with a directory of their own.
    fn default() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut name = unix_s().to_le_bytes().to_vec();
        name.extend(std::process::id().to_le_bytes());
        name.extend(NUMBER.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        Self {
            directory: format!("{DIRECTORY}-{:08x}", xxh3_64(&name) >> 32).into(),
            known: Arc::default(),
        }
    }
}

#[derive(Debug, Default)]
struct Known {
    ledgers: HashMap<usize, Ledger>,
    /// Clients that have begun to make one, which has not been taken away as a whole.
    standing: BTreeSet<usize>,
    begun: bool,
}

impl Workspaces {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client's workspace, from the target's directory in its share.
    pub(crate) fn directory_of(&self, client: usize) -> String {
        format!("{}/{client}", self.directory)
    }

    /// What a client's files should contain after its last mix; None where nobody knows.
    #[must_use]
    pub fn kept(&self, client: usize) -> Option<Ledger> {
        self.known().ledgers.get(&client).cloned()
    }

    /// The clients whose workspaces stand on the server, whole or in part.
    #[must_use]
    pub fn standing(&self) -> Vec<usize> {
        self.known().standing.iter().copied().collect()
    }

    /// Whether any was ever begun, also where it is gone by now.
    #[must_use]
    pub fn begun(&self) -> bool {
        self.known().begun
    }

    fn stands(&self, client: usize) -> bool {
        self.known().standing.contains(&client)
    }

    fn take(&self, client: usize) -> Option<Ledger> {
        self.known().ledgers.remove(&client)
    }

    fn keep(&self, client: usize, ledger: Ledger) {
        self.known().ledgers.insert(client, ledger);
    }

    fn begin(&self, client: usize) {
        let mut known = self.known();
        known.begun = true;
        known.standing.insert(client);
    }

    pub(crate) fn gone(&self, client: usize) {
        let mut known = self.known();
        known.standing.remove(&client);
        known.ledgers.remove(&client);
    }
}

/// Files over SMB.
#[derive(Debug, Clone)]
pub struct FilesWork {
    /// Where to.
    pub target: SmbTarget,
    /// What.
    pub workload: FilesWorkload,
    /// The client cache; None: every operation goes through to the server.
    pub cache: Option<CacheOptions>,
    /// Leave the workspaces for the next mix.
    pub keep_workspace: bool,
    /// What is known of them.
    pub workspaces: Workspaces,
    /// What a client may take to make its workspace.
    pub preparation_ns: u64,
}

impl FilesWork {
    /// The room that one client's files need at least, once it has gone through its workload.
    #[must_use]
    pub fn footprint_bytes(&self) -> u64 {
        match FilesReady::new(self).workload(0, 0) {
            AnyWorkload::DiskMix(mut workload) => footprint_bytes(&mut workload),
            AnyWorkload::LoadFile(mut workload) => footprint_bytes(&mut workload),
        }
    }
}

/// One workload or the other; an enum because it lies in the hot path.
#[derive(Debug)]
pub(crate) enum AnyWorkload {
    DiskMix(DiskMix),
    LoadFile(LoadFileReplay),
}

impl AnyWorkload {
    pub(crate) fn as_files(&self) -> &dyn FileWorkload {
        match self {
            Self::DiskMix(workload) => workload,
            Self::LoadFile(workload) => workload,
        }
    }
}

impl Workload for AnyWorkload {
    type Op = FileOp;

    fn next(&mut self, last: &Outcome) -> FileOp {
        match self {
            Self::DiskMix(workload) => workload.next(last),
            Self::LoadFile(workload) => workload.next(last),
        }
    }

    fn begins_piece(&self) -> bool {
        match self {
            Self::DiskMix(workload) => workload.begins_piece(),
            Self::LoadFile(workload) => workload.begins_piece(),
        }
    }
}

/// What the workloads of all clients are made from.
#[derive(Debug)]
enum Material {
    DiskMix(Arc<Script>),
    LoadFile(Arc<LoadFile>),
}

/// Files over SMB, with everything made that all clients share.
#[derive(Debug)]
pub(crate) struct FilesReady {
    pub work: FilesWork,
    material: Material,
    /// Tells what this mix writes from what any other wrote, one of the same seed too: a mix that is measured again, or
    /// the same mix of another configuration on a server that was not started for it.
    mark: u32,
    options: Options,
    /// Names of the operation classes.
    pub classes: Vec<String>,
}

impl FilesReady {
    pub(crate) fn new(work: &FilesWork) -> Self {
        let mut ready = Self {
            work: work.clone(),
            material: match &work.workload {
                FilesWorkload::DiskMix(options) => Material::DiskMix(Script::load(options)),
                FilesWorkload::LoadFile(file) => Material::LoadFile(file.clone()),
            },
            mark: (xxh3_64(&unix_s().to_le_bytes()) >> 32) as u32,
            options: as_new_clients(work.target.options()),
            classes: Vec::new(),
        };
        ready.classes = ready.workload(0, 0).as_files().catalogue().classes.clone();
        ready
    }

    /// Brings the calling thread to where the server can be reached.
    pub(crate) fn enter(&self) -> Result<(), LoadError> {
        Ok(self.work.target.enter()?)
    }

    pub(crate) fn workload(&self, seed: u64, client: usize) -> AnyWorkload {
        let number = u32::try_from(client).unwrap_or(u32::MAX);
        match &self.material {
            Material::LoadFile(file) => AnyWorkload::LoadFile(LoadFileReplay::new(file.clone(), number)),
            Material::DiskMix(script) => AnyWorkload::DiskMix(DiskMix::new(script.clone(), seed, number)),
        }
    }

    /// Puts the clients of one engine thread on its loop, each with a session of its own.
    pub(crate) fn seat_clients(&self, bench: &Rc<Bench>) {
        let dialer = Rc::new(Dialer::new(
            bench.executor.clone(),
            self.work.target.address(),
            bench.dialer_number(),
        ));
        bench.dialer.set(dialer.clone()).expect("clients are seated once");
        let lives = bench.clients().map(|number| {
            let mix = &bench.shared.mix;
            let workload = self.workload(mix.seed, number);
            let sampling = Sampling::new(mix.verify_share, mix.random(SAMPLING_STREAM, number, 0));
            let user = User {
                executor: &bench.executor,
                dialer: &dialer,
                number,
                timeout_ns: mix.timeout_ns,
            };
            Life {
                bench: bench.clone(),
                number,
                client: self.client(&user, workload.as_files().catalogue(), sampling),
                workload,
                keep_workspace: self.work.keep_workspace,
                preparation_ns: self.work.preparation_ns,
                known: false,
                at_start: None,
                at_end: None,
            }
        });
        let queue = Rc::new(Queue {
            waiting: RefCell::new(lives.collect()),
            workspaces: self.work.workspaces.clone(),
            mark: self.mark,
        });
        for _ in 0..(LOGGING_ON / bench.threads()).max(1) {
            queue.admit(bench);
        }
    }

    /// One client with a session of its own, which it has yet to make.
    pub(crate) fn client(&self, user: &User<'_>, names: &FileCatalogue, sampling: Sampling) -> FilesClient {
        let client_number = u32::try_from(user.number).unwrap_or(u32::MAX);
        let options = Rc::new(self.options.clone());
        let share = self.work.target.share_of(client_number);
        let session = Session::new(
            user.executor.clone(),
            user.dialer.clone(),
            options,
            client_number,
            share,
        );
        let counted = Counted::new(session);
        let client = match self.work.cache {
            None => Client::Through(Box::new(Uncached::new(counted))),
            Some(options) => Client::Cached(Box::new(Cache::new(counted, options))),
        };
        FilesClient::new(
            client,
            Names::new(names, &self.work.workspaces.directory_of(user.number)),
            Ledger::new(client_number),
            sampling,
            user.executor.clone(),
            user.timeout_ns,
        )
    }
}

/// Client machines that the server has not met yet. Samba hands a connection under a known GUID to the process that had
/// the last one (multichannel); where that is about to end, the connection hangs or is ended with it.
pub(crate) fn as_new_clients(options: &Options) -> Options {
    Options {
        guid_seed: options.guid_seed ^ xxh3_64(&unix_s().to_be_bytes()),
        ..options.clone()
    }
}

/// Who uses files, and by what means.
pub(crate) struct User<'a> {
    pub executor: &'a Executor,
    pub dialer: &'a Rc<Dialer>,
    pub number: usize,
    pub timeout_ns: u64,
}

/// The clients of one engine thread that have yet to log on, in the order of their numbers.
struct Queue {
    waiting: RefCell<VecDeque<Life>>,
    workspaces: Workspaces,
    mark: u32,
}

impl Queue {
    /// The next one begins to live.
    fn admit(self: &Rc<Self>, bench: &Bench) {
        let next = self.waiting.borrow_mut().pop_front();
        if let Some(life) = next {
            bench.executor.spawn(life.live(self.clone()));
        }
    }
}

/// One client from its log-on to its leaving.
struct Life {
    bench: Rc<Bench>,
    number: usize,
    client: FilesClient,
    workload: AnyWorkload,
    keep_workspace: bool,
    preparation_ns: u64,
    /// The contents of a workspace that was found are known from an earlier mix.
    known: bool,
    /// What it had done when the mix started, and when its part in it was over.
    at_start: Option<Figures>,
    at_end: Option<Figures>,
}

impl Life {
    async fn live(mut self, queue: Rc<Queue>) {
        if let Some(ledger) = queue.workspaces.take(self.number) {
            self.client.set_ledger(ledger);
            self.known = true;
        }
        self.client.begin_mix(queue.mark);
        let whole = self.take_part(&queue).await;
        if whole && self.keep_workspace {
            queue.workspaces.keep(self.number, self.client.take_ledger());
        }
    }

    /// Whether it has left the workspace as the next mix needs it.
    async fn take_part(&mut self, queue: &Rc<Queue>) -> bool {
        let bench = self.bench.clone();
        let prepare_until_ns = monotonic_ns().saturating_add(self.preparation_ns);
        bench.executor.set_deadline(prepare_until_ns);
        let connected = self.client.connect().await;
        queue.admit(&bench);
        let prepared = match connected {
            Ok(()) => {
                queue.workspaces.begin(self.number);
                self.prepare().await
            }
            Err(failure) => Err(failure),
        };
        bench.start.arrive(1);
        let start_ns = self.wait_for_start(&bench).await;
        let seat = Seat::new(&bench, start_ns, self.number, Rc::new(ClientState::default()));
        let whole = prepared.is_ok();
        if let Err(failure) = prepared {
            // It was in the mix as it was planned, and is out of it before it begins.
            seat.absent(failure);
        } else {
            self.at_start = Some(self.figures());
            let due_ns = start_ns.saturating_add(bench.shared.mix.first_start_ns(self.number, 0));
            seat.occupy(&mut self.workload, &mut self.client, due_ns).await;
            self.at_end = Some(self.figures());
        }
        // Who is out of the mix early puts nothing in order while the others are measured.
        let end_ns = start_ns.saturating_add(bench.shared.mix.window.length_ns);
        if monotonic_ns() < end_ns {
            bench.executor.set_deadline(end_ns.saturating_add(LEAVING_NS));
            self.client.wait_until(end_ns).await;
        }
        let left = self.leave(whole, &queue.workspaces).await;
        whole && left.is_ok()
    }

    /// Finds the workspace of an earlier mix, or makes it.
    async fn prepare(&mut self) -> Result<(), Failure> {
        self.client.make_parents().await?;
        let marker = self.workload.as_files().marker();
        // A workspace of another day has contents that nobody knows any more: it is made anew.
        let found = self.known && self.client.finds(marker).await?;
        if !found {
            self.client.forget_everything();
        }
        self.do_all(self.workload.as_files().preparation(found)).await
    }

    async fn wait_for_start(&mut self, bench: &Bench) -> u64 {
        loop {
            if let Some(start_ns) = bench.start.ns() {
                return start_ns;
            }
            let look_ns = monotonic_ns() + LOOK_NS;
            bench
                .executor
                .set_deadline(look_ns.saturating_add(self.preparation_ns));
            self.client.wait_until(look_ns).await;
        }
    }

    /// Removes what the mix has left beside the workspace, and this too where it isn't kept. `whole`: there is one.
    async fn leave(&mut self, whole: bool, workspaces: &Workspaces) -> Result<(), Failure> {
        self.allow_for_leaving();
        let tidied = if whole { self.tidy().await } else { Ok(()) };
        if self.keep_workspace {
            return tidied.and(self.client.finish().await);
        }
        let mut removed = tidied;
        if whole && removed.is_ok() {
            removed = self.do_all(self.workload.as_files().removal()).await;
        }
        removed = removed.and(self.client.finish().await);
        if (!whole || removed.is_err()) && workspaces.stands(self.number) {
            // A file that could not be written, for one: what was open has ended with the session.
            self.allow_for_leaving();
            removed = remove(&mut self.client, self.workload.as_files()).await;
        }
        if removed.is_ok() {
            workspaces.gone(self.number);
        }
        removed
    }

    fn allow_for_leaving(&self) {
        let deadline_ns = monotonic_ns().saturating_add(LEAVING_NS);
        self.bench.executor.set_deadline(deadline_ns);
    }

    async fn tidy(&mut self) -> Result<(), Failure> {
        if self.client.lost() {
            self.client.connect().await?;
        }
        self.do_all(self.workload.as_files().leaving()).await
    }

    async fn do_all(&mut self, actions: Vec<FileAction>) -> Result<(), Failure> {
        for action in &actions {
            self.client.act_unmeasured(action).await?;
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures {
            passes: self.workload.as_files().passes(),
            checked_bytes: self.client.checked_bytes(),
            calls: self.client.calls(),
            requests: self.client.requests(),
        }
    }
}

/// Counts what a client did beside its operations, however its life ends: a mix that is stopped drops its clients
/// where they wait.
impl Drop for Life {
    fn drop(&mut self) {
        let mut files = FilesTally::default();
        if let Some(before) = &self.at_start {
            files = match &self.at_end {
                Some(after) => after.since(before),
                None => self.figures().since(before),
            };
        }
        files.protocol_requests = self.client.protocol_requests();
        files.sessions = self.client.sessions().iter().map(|kind| (*kind, 1)).collect();
        // Borrowed only where this thread is panicking.
        if let Ok(mut tally) = self.bench.tally.try_borrow_mut() {
            tally.add_files(&files);
            tally.generator().connections += self.client.connections();
            tally.generator().reconnects += self.client.reconnects();
        }
    }
}

/// What a client has done so far.
struct Figures {
    passes: u64,
    checked_bytes: u64,
    calls: Calls,
    requests: BTreeMap<&'static str, u64>,
}

impl Figures {
    fn since(&self, before: &Self) -> FilesTally {
        let mut calls = self.calls;
        for (now, then) in calls.iter_mut().zip(&before.calls) {
            *now = now.since(then);
        }
        let requests = self.requests.iter().map(|(name, count)| {
            let then = before.requests.get(name).copied().unwrap_or_default();
            (*name, count - then)
        });
        FilesTally {
            passes: self.passes - before.passes,
            bytes_checked: self.checked_bytes - before.checked_bytes,
            calls,
            requests: requests.collect(),
            ..FilesTally::default()
        }
    }
}
