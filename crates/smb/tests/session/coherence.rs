//! Two or three clients, each with a cache on top of its own session, use the same few files of a real server. No
//! client ever reads stale data. Random histories of opens, reads, writes, truncations, renames and deletes run one
//! step at a time. They are compared with a plain file system, and at the end with the server's own directory.
//! Concurrent calls are not tested here.

use crate::client::{fresh_number, options, run};
use crate::samba::Samba;
use crate::stage::{act, inspect, play, Act, Stage, Step, NAMES, SLOTS};
use dyno_files::{
    Access, Cache, CacheCounts, CacheOptions, Caching, Call, Disposition, Files, Policy, Redirector, Reply,
    Uncached,
};
use dyno_measure::{monotonic_ns, Failure};
use dyno_net::{Dialer, Executor};
use dyno_smb::Session;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;

const PATIENCE_NS: u64 = 20_000_000_000;
/// How often a client checks whether it is its turn.
const SLICE_NS: u64 = 200_000;
/// Longest pause in a history. Closes are deferred for a shorter or a longer time.
const MOST_IDLE_MS: u64 = 30;
const LONG_NS: u64 = 10_000 * MS;
const MS: u64 = 1_000_000;
/// Size of the shared part of a file, and maximum size of a call on it: whole pages and parts of pages.
const HOT_BYTES: u64 = 9_000;
const MOST_HOT_BYTES: u32 = 10_000;

/// Returns the settings for a few histories, the same in each run. PROPTEST_CASES and PROPTEST_RNG_SEED override the
/// number and the seed.
fn some_histories(cases: u32) -> ProptestConfig {
    let any = ProptestConfig::default();
    let set = |name| std::env::var_os(name).is_some();
    ProptestConfig {
        cases: if set("PROPTEST_CASES") { any.cases } else { cases },
        rng_seed: if set("PROPTEST_RNG_SEED") {
            any.rng_seed
        } else {
            RngSeed::Fixed(2004)
        },
        failure_persistence: None,
        max_shrink_time: 120_000,
        max_shrink_iters: 4096,
        ..any
    }
}

/// A client, with or without a cache, that has a time limit for every wait.
struct Workstation {
    files: Either,
    executor: Executor,
}

enum Either {
    Cached(Box<Cache<Session>>),
    Uncached(Box<Uncached<Session>>),
}

impl Workstation {
    fn new(executor: &Executor, samba: &Samba, cache: Option<CacheOptions>) -> Self {
        let dialer = Rc::new(Dialer::new(executor.clone(), samba.address, 0));
        let session = Session::new(
            executor.clone(),
            dialer,
            Rc::new(options()),
            fresh_number(),
            "share",
        );
        let files = match cache {
            Some(options) => Either::Cached(Box::new(Cache::new(session, options))),
            None => Either::Uncached(Box::new(Uncached::new(session))),
        };
        Self {
            files,
            executor: executor.clone(),
        }
    }

    fn be_patient(&self) {
        self.executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    }

    fn counts(&self) -> CacheCounts {
        match &self.files {
            Either::Cached(files) => files.counts(),
            Either::Uncached(_) => CacheCounts::default(),
        }
    }
}

impl Files for Workstation {
    async fn connect(&mut self) -> Result<(), Failure> {
        self.be_patient();
        match &mut self.files {
            Either::Cached(files) => files.connect().await,
            Either::Uncached(files) => files.connect().await,
        }
    }

    async fn call(&mut self, call: &Call<'_>, data: &mut impl FnMut(&[u8])) -> Result<Reply, Failure> {
        self.be_patient();
        match &mut self.files {
            Either::Cached(files) => files.call(call, data).await,
            Either::Uncached(files) => files.call(call, data).await,
        }
    }

    async fn idle_until(&mut self, due_ns: u64) -> Result<(), Failure> {
        self.be_patient();
        match &mut self.files {
            Either::Cached(files) => files.idle_until(due_ns).await,
            Either::Uncached(files) => files.idle_until(due_ns).await,
        }
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        self.be_patient();
        match &mut self.files {
            Either::Cached(files) => files.finish().await,
            Either::Uncached(files) => files.finish().await,
        }
    }
}

/// What happened in the histories of a property. It reveals a run in which nothing was ever cached or broken.
#[derive(Debug, Default)]
struct Seen {
    histories: Cell<u64>,
    breaks: Cell<u64>,
    kept: Cell<u64>,
    hits: Cell<u64>,
}

impl Seen {
    fn add(&self, counts: CacheCounts) {
        self.breaks.set(self.breaks.get() + counts.breaks);
        self.kept.set(self.kept.get() + counts.writes_kept);
        self.hits.set(self.hits.get() + counts.reads_hit);
    }

    fn assert_caches_were_used(&self) {
        println!("{self:?}");
        let least = self.histories.get();
        for (figure, name) in [
            (&self.breaks, "breaks"),
            (&self.kept, "writes kept"),
            (&self.hits, "reads hit"),
        ] {
            assert!(figure.get() > least, "{name}: {self:?}");
        }
    }
}

/// Starts a server. Samba checks locks under an oplock or lease only with "strict locking" (smb.conf(5)).
fn server(settings: &str) -> Option<Samba> {
    Samba::start("coherence", &format!("  strict locking = yes\n  {settings}"))
}

/// Environment of a history.
struct Scene {
    samba: Samba,
    /// All clients poll for breaks after each step, because the server sends some breaks without waiting.
    asks_around: bool,
    seen: Seen,
}

/// Creates a directory for a history, writable by the server's user.
fn fresh_directory(samba: &Samba) -> String {
    let name = format!("history{}", fresh_number());
    let path = samba.share().join(&name);
    fs::create_dir(&path).expect("a directory");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("allowed");
    name
}

/// Runs a history, each client with its own cache or without one. Returns the errors.
fn played(scene: &Scene, steps: Vec<Step>, caches: &[Option<CacheOptions>]) -> Result<(), String> {
    let Scene {
        samba,
        asks_around,
        seen,
    } = scene;
    let directory = fresh_directory(samba);
    let place = samba.share().join(&directory);
    let stage = Stage::new(steps, caches.len(), &format!("{directory}/"), *asks_around);
    let counts: Rc<RefCell<Vec<CacheCounts>>> = Rc::default();
    run(|executor| {
        for (client, cache) in caches.iter().enumerate() {
            let files = Workstation::new(&executor, samba, *cache);
            let (stage, counts) = (stage.clone(), counts.clone());
            executor.spawn(async move {
                let files = play(files, client, stage, monotonic_ns, SLICE_NS).await;
                counts.borrow_mut().push(files.counts());
            });
        }
        async {}
    });
    for counts in counts.borrow().iter() {
        seen.add(*counts);
    }
    seen.histories.set(seen.histories.get() + 1);
    if let Some(wrong) = stage.borrow_mut().wrong.take() {
        return Err(wrong);
    }
    in_the_end(samba, &stage)?;
    let there = contents(&place);
    let stage = stage.borrow();
    let expected = (0..NAMES).filter_map(|name| Some((format!("file{name}"), stage.content(name)?.to_vec())));
    if there != expected.collect() {
        let sizes: Vec<_> = there.iter().map(|(name, data)| (name, data.len())).collect();
        return Err(format!(
            "the server's directory has other files or contents: {sizes:?}"
        ));
    }
    fs::remove_dir_all(&place).map_err(|error| error.to_string())
}

/// Checks what a client reads afterwards.
fn in_the_end(samba: &Samba, stage: &Rc<RefCell<Stage>>) -> Result<(), String> {
    let result = Rc::new(RefCell::new(Ok(())));
    run(|executor| {
        let inspector = Workstation::new(&executor, samba, None);
        let (result, stage) = (result.clone(), stage.clone());
        async move {
            let inspected = inspect(inspector, &stage).await;
            *result.borrow_mut() = inspected;
        }
    });
    let result = result.borrow().clone();
    result
}

/// Returns the contents of the files by name, read from the server's directory.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(directory).expect("the directory").map(|file| {
        let file = file.expect("readable");
        let name = file.file_name().into_string().expect("a name of ours");
        (name, fs::read(file.path()).expect("readable"))
    });
    files.collect()
}

/// Returns an act that suits a real clock. A narrow act uses one handle slot of a client, one file and its first pages,
/// so that clients interfere. It takes no locks, because locked files are never cached.
fn met(act: Act, narrow: bool) -> Act {
    match act {
        Act::Idle { ms } => Act::Idle {
            ms: ms.min(MOST_IDLE_MS),
        },
        Act::Read { offset, bytes, .. } if narrow => Act::Read {
            slot: 0,
            offset: offset % HOT_BYTES,
            bytes: bytes.min(MOST_HOT_BYTES),
        },
        Act::ReadOn { bytes, .. } if narrow => Act::ReadOn { slot: 0, bytes },
        Act::Write { offset, bytes, .. } if narrow => Act::Write {
            slot: 0,
            offset: offset % HOT_BYTES,
            bytes: bytes.min(MOST_HOT_BYTES),
        },
        Act::Lock { .. } if narrow => Act::Query { slot: 0 },
        Act::Close { .. } if narrow => Act::Close { slot: 0 },
        other => other,
    }
}

/// Returns a run of acts of one client. The client opens a file that the others also have open. In a third of all
/// turns, it opens its own file, so that the server lets it cache data until the next client opens that file.
fn turn(clients: usize) -> impl Strategy<Value = Vec<Step>> {
    let act = (act(), 0..4_u32).prop_map(|(act, wide)| met(act, wide > 0));
    let acts = proptest::collection::vec(act, 1..12);
    (0..clients, 0..3_u32, acts).prop_map(move |(client, shared, acts)| {
        let own = acts.into_iter().map(|act| Step { client, act });
        let all_close = if shared == 0 {
            all_close(clients)
        } else {
            Vec::new()
        };
        let open = Act::Open {
            slot: 0,
            name: 0,
            access: Access::ReadWrite,
            disposition: Disposition::OpenIf,
        };
        let begin = Step { client, act: open };
        all_close.into_iter().chain([begin]).chain(own).collect()
    })
}

fn all_close(clients: usize) -> Vec<Step> {
    let close = |client, slot| Step {
        client,
        act: Act::Close { slot },
    };
    (0..clients)
        .flat_map(|client| (0..SLOTS).map(move |slot| close(client, slot)))
        .collect()
}

fn history(clients: usize) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(turn(clients), 1..30).prop_map(|turns| turns.concat())
}

/// Removes deletes and renames if closed handles are kept for a long time. Otherwise inserts an idle time before each,
/// so that all clients give up their closed handles. Samba (seen with 4.17) breaks no handle lease if another client
/// deletes the file, or if a client without a lease on the file renames it (`delay_rename_for_lease_break` in its
/// smb2_setinfo.c). A client that keeps a closed handle under a lease then reopens a file that has moved, and can't
/// know.
fn renaming(steps: Vec<Step>, kept_long: bool) -> Vec<Step> {
    let with_idling = |step: Step| {
        let changes = matches!(step.act, Act::Delete { .. } | Act::Rename { .. });
        let act = Act::Idle { ms: MOST_IDLE_MS };
        let idle = (changes && !kept_long).then_some(Step { act, ..step });
        idle.into_iter().chain((!changes || !kept_long).then_some(step))
    };
    steps.into_iter().flat_map(with_idling).collect()
}

fn oplock() -> impl Strategy<Value = Policy> {
    prop_oneof![
        4 => Just(Policy::Oplock(Caching::ALL)),
        1 => Just(Policy::Oplock(Caching::READ_WRITE)),
        1 => Just(Policy::Oplock(Caching::READ)),
    ]
}

fn lease() -> impl Strategy<Value = Policy> {
    prop_oneof![
        4 => Just(Policy::Lease(Caching::ALL)),
        1 => Just(Policy::Lease(Caching::READ_WRITE)),
        2 => Just(Policy::Lease(Caching::READ_HANDLE)),
        1 => Just(Policy::Lease(Caching::READ)),
    ]
}

fn cache(policy: impl Strategy<Value = Policy>) -> impl Strategy<Value = CacheOptions> {
    let redirector = prop_oneof![Just(Redirector::Xp), Just(Redirector::Plain)];
    let runs = prop_oneof![
        Just((61_440, 65_536)),
        Just((4_096, 4_096)),
        Just((1 << 20, 1 << 20))
    ];
    let read_ahead = prop_oneof![Just(0), Just(32 << 10)];
    let deferred = prop_oneof![1 => Just(0), 1 => Just(1), 3 => Just(45)];
    (policy, redirector, runs, read_ahead, deferred).prop_map(
        |(policy, redirector, (read_run_bytes, write_run_bytes), read_ahead_bytes, most_deferred)| {
            CacheOptions {
                policy,
                redirector,
                read_run_bytes,
                write_run_bytes,
                read_ahead_bytes,
                most_deferred,
                ..CacheOptions::default()
            }
        },
    )
}

/// Runs histories with random caches, and with closed handles kept for a long time or not.
fn check(cases: u32, scene: &Scene, caches: Vec<BoxedStrategy<Option<CacheOptions>>>) {
    let mut runner = TestRunner::new(some_histories(cases));
    let drawn = (history(caches.len()), caches, any::<bool>());
    let result = runner.run(&drawn, |(steps, mut caches, kept_long)| {
        let leases = |cache: &CacheOptions| matches!(cache.policy, Policy::Lease(_));
        let steps = match caches.iter().flatten().any(leases) {
            true => renaming(steps, kept_long),
            false => steps,
        };
        for cache in caches.iter_mut().flatten() {
            cache.deferred_age_ns = if kept_long { LONG_NS } else { MOST_IDLE_MS * MS / 2 };
        }
        prop_assert_eq!(played(scene, steps, &caches), Ok(()));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// Like `check`, on a server with default settings. The caches must have been used.
fn check_caches(cases: u32, caches: Vec<BoxedStrategy<Option<CacheOptions>>>) {
    let Some(samba) = server("") else { return };
    let scene = Scene {
        samba,
        asks_around: true,
        seen: Seen::default(),
    };
    check(cases, &scene, caches);
    scene.seen.assert_caches_were_used();
}

fn with(policy: impl Strategy<Value = Policy> + 'static) -> BoxedStrategy<Option<CacheOptions>> {
    cache(policy).prop_map(Some).boxed()
}

fn without() -> BoxedStrategy<Option<CacheOptions>> {
    Just(None).boxed()
}

#[test]
fn without_a_cache_the_server_matches_a_plain_file_system() {
    let Some(samba) = server("") else { return };
    let scene = Scene {
        samba,
        asks_around: false,
        seen: Seen::default(),
    };
    check(10, &scene, vec![without(), without(), without()]);
}

#[test]
fn two_clients_with_oplocks_see_the_last_write_of_either() {
    check_caches(16, vec![with(oplock()), with(oplock())]);
}

#[test]
fn two_clients_with_leases_see_the_last_write_of_either() {
    check_caches(16, vec![with(lease()), with(lease())]);
}

#[test]
fn three_clients_with_leases_and_oplocks_see_the_last_write_of_any() {
    let any = || with(prop_oneof![oplock(), lease()]);
    check_caches(16, vec![any(), any(), any()]);
}

#[test]
fn a_client_with_a_cache_and_one_without_agree() {
    check_caches(32, vec![with(prop_oneof![oplock(), lease()]), without()]);
}

#[test]
fn if_the_server_waits_for_every_break_the_next_step_may_follow_at_once() {
    let Some(samba) = server("level2 oplocks = no") else {
        return;
    };
    let scene = Scene {
        samba,
        asks_around: false,
        seen: Seen::default(),
    };
    check(16, &scene, vec![with(oplock()), with(oplock()), without()]);
    scene.seen.assert_caches_were_used();
}
