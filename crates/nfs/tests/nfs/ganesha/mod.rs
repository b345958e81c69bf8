//! Two or three clients over NFSv3 and NFSv4.1 use the same few files of a private Ganesha server in its own network
//! namespace. Without a cache, every answer equals that of a plain file system. With close-to-open rules, each open
//! shows everything written before the last close by any client. The tests run random histories of turns, in which one
//! client opens, works and closes. They compare them with the plain file system, and at the end with the server's own
//! directory. PROPTEST_CASES sets the number of histories. Without root or Ganesha, the tests print a note and pass.

mod server;
/// Requirements on every cache with any server.
#[allow(dead_code)]
#[path = "../../../../files/tests/files/stage.rs"]
mod stage;

use dyno_files::{
    Access, Ask, Cache, CacheOptions, Call, Disposition, FileClient, Files, Handle, Open, Reply, Stability,
    Uncached,
};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::{Dialer, Executor};
use dyno_nfs::{NfsTarget, Session};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use server::Ganesha;
use stage::{act, inspect, play, Act, Stage, Step, NAMES, SLOTS};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

const PATIENCE_NS: u64 = 20_000_000_000;
/// How often a client checks whether it is its turn.
const SLICE_NS: u64 = 200_000;
const MOST_IDLE_MS: u64 = 5;

fn some_histories(cases: u32) -> ProptestConfig {
    let any = ProptestConfig::default();
    let is_set = |name| std::env::var_os(name).is_some();
    ProptestConfig {
        cases: if is_set("PROPTEST_CASES") {
            any.cases
        } else {
            cases
        },
        rng_seed: RngSeed::Fixed(1813),
        failure_persistence: None,
        max_shrink_time: 60_000,
        ..any
    }
}

fn fresh_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Runs tasks to completion on a thread in the server's network namespace.
fn run(executor: &Executor) {
    executor.run(|| false).expect("the loop runs");
}

/// A client with a time limit for every wait.
struct Patient<F> {
    files: F,
    executor: Executor,
}

impl<F: Files> Patient<F> {
    fn be_patient(&self) {
        self.executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    }
}

impl<F: Files> Files for Patient<F> {
    async fn connect(&mut self) -> Result<(), Failure> {
        self.be_patient();
        self.files.connect().await
    }

    async fn call(&mut self, call: &Call<'_>, data: &mut impl FnMut(&[u8])) -> Result<Reply, Failure> {
        self.be_patient();
        self.files.call(call, data).await
    }

    async fn idle_until(&mut self, due_ns: u64) -> Result<(), Failure> {
        self.be_patient();
        self.files.idle_until(due_ns).await
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        self.be_patient();
        self.files.finish().await
    }
}

fn session(executor: &Executor, target: &NfsTarget) -> Session {
    let dialer = Rc::new(Dialer::new(executor.clone(), target.address(), 0));
    target.session(executor, &dialer, &target.exports()[0], fresh_number())
}

/// Runs a history. Returns the errors.
fn played(
    server: &Ganesha,
    target: &NfsTarget,
    steps: Vec<Step>,
    clients: usize,
    cache: Option<CacheOptions>,
) -> Result<(), String> {
    let name = format!("history{}", fresh_number());
    let place = server.make_directory(&name);
    let stage = Stage::new(steps, clients, &format!("{name}/"), false);
    let hits = Rc::new(Cell::new(0));
    let executor = Executor::new().expect("an epoll instance");
    for client in 0..clients {
        let session = session(&executor, target);
        let (stage, hits, patient) = (stage.clone(), hits.clone(), executor.clone());
        executor.spawn(async move {
            let executor = patient;
            match cache {
                None => {
                    let files = Uncached::new(session);
                    play(Patient { files, executor }, client, stage, monotonic_ns, SLICE_NS).await;
                }
                Some(options) => {
                    let files = Cache::new(session, options);
                    let played =
                        play(Patient { files, executor }, client, stage, monotonic_ns, SLICE_NS).await;
                    hits.set(hits.get() + played.files.counts().reads_hit);
                }
            }
        });
    }
    run(&executor);
    server.reads_hit.fetch_add(hits.get(), Ordering::Relaxed);
    if let Some(wrong) = stage.borrow_mut().wrong.take() {
        return Err(wrong);
    }
    in_the_end(server, &stage)?;
    let stage = stage.borrow();
    let expected = (0..NAMES).filter_map(|name| Some((format!("file{name}"), stage.content(name)?.to_vec())));
    match contents(&place) == expected.collect() {
        true => fs::remove_dir_all(&place).map_err(|error| error.to_string()),
        false => Err("the server's directory has other files or contents".to_owned()),
    }
}

/// Checks what a client reads afterwards.
fn in_the_end(server: &Ganesha, stage: &Rc<RefCell<Stage>>) -> Result<(), String> {
    let executor = Executor::new().expect("an epoll instance");
    let files = Patient {
        // Uses NFSv3, whatever the other clients use.
        files: Uncached::new(session(&executor, &server.v3)),
        executor: executor.clone(),
    };
    let result = Rc::new(RefCell::new(Ok(())));
    let (slot, stage) = (result.clone(), stage.clone());
    executor.spawn(async move {
        let inspected = inspect(files, &stage).await;
        *slot.borrow_mut() = inspected;
    });
    run(&executor);
    result.replace(Ok(()))
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

/// Excludes locks, because each client grants them itself, and queries by path, because their attributes may be some
/// seconds old.
fn met(act: Act) -> Act {
    match act {
        Act::Idle { ms } => Act::Idle {
            ms: ms.min(MOST_IDLE_MS),
        },
        Act::Lock { slot, .. } => Act::Query { slot },
        Act::QueryPath { .. } => Act::Idle { ms: 0 },
        other => other,
    }
}

/// Returns a turn of one client while no other has a file open: it opens a shared file, works and closes
/// it.
fn turn(clients: usize) -> impl Strategy<Value = Vec<Step>> {
    let acts = prop::collection::vec(act().prop_map(met), 1..12);
    (0..clients, acts).prop_map(|(client, acts)| {
        let open = Act::Open {
            slot: 0,
            name: 0,
            access: Access::ReadWrite,
            disposition: Disposition::OpenIf,
        };
        let closes = (0..SLOTS).map(|slot| Act::Close { slot });
        let all = [open].into_iter().chain(acts).chain(closes);
        all.map(|act| Step { client, act }).collect()
    })
}

/// Returns whether the kernel gives two writes within one clock tick different times (multigrain
/// timestamps, Linux 6.13). NFSv3 clients can detect changes only by times and sizes.
fn tells_writes_apart() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 13) {
        eprintln!("skipped: the kernel's timestamps are too coarse for NFSv3's cache rules");
    }
    version >= (6, 13)
}

fn check(target: fn(&Ganesha) -> &NfsTarget, clients: usize, cases: u32, cache: Option<CacheOptions>) {
    if cache.is_some() && !tells_writes_apart() {
        return;
    }
    let Some(server) = Ganesha::start() else { return };
    let checking = || {
        server.v3.enter().expect("root may");
        let turns = prop::collection::vec(turn(clients), 1..12).prop_map(|turns| turns.concat());
        let result = TestRunner::new(some_histories(cases)).run(&turns, |steps| {
            prop_assert_eq!(played(&server, target(&server), steps, clients, cache), Ok(()));
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{error}"));
    };
    // Use a separate thread, because a thread that enters a namespace stays there.
    std::thread::scope(|scope| scope.spawn(checking).join()).expect("histories agree");
    let hits = server.reads_hit.load(Ordering::Relaxed);
    assert!(
        cache.is_none() || hits > u64::from(cases),
        "the cache was used: {hits}"
    );
}

fn v3(server: &Ganesha) -> &NfsTarget {
    &server.v3
}

fn v4(server: &Ganesha) -> &NfsTarget {
    &server.v4
}

#[test]
fn without_a_cache_three_clients_see_one_plain_file_system() {
    check(v3, 3, 12, None);
}

#[test]
fn with_nfsv4_and_no_cache_three_clients_see_one_plain_file_system() {
    check(v4, 3, 12, None);
}

#[test]
fn with_nfsv4_and_close_to_open_rules_two_clients_see_closed_writes_of_the_other() {
    check(v4, 2, 16, Some(CacheOptions::close_to_open()));
}

#[test]
fn with_close_to_open_rules_two_clients_see_closed_writes_of_the_other() {
    check(v3, 2, 16, Some(CacheOptions::close_to_open()));
}

#[test]
fn with_close_to_open_rules_three_clients_see_closed_writes_of_any() {
    let small = CacheOptions {
        write_run_bytes: 4096,
        read_run_bytes: 4096,
        read_ahead_bytes: 0,
        ..CacheOptions::close_to_open()
    };
    check(v3, 3, 16, Some(small));
}

/// Returns the data written during the outage; all pages differ.
fn content() -> Vec<u8> {
    (0..3_u32 << 20)
        .map(|place| (place / 4096 * 7 + place % 251) as u8)
        .collect()
}

/// Writes a file, waits until the server has the data without having committed it, and closes it after
/// `pause`.
async fn write_around<C: FileClient>(files: &mut Patient<Cache<C>>, pause: impl FnOnce()) {
    files.connect().await.expect("a session");
    let open = Call::Open(Open {
        path: "outage",
        access: Access::ReadWrite,
        disposition: Disposition::Create,
        directory: false,
        delete_on_close: false,
        ask: Ask::Nothing,
    });
    let Ok(Reply::Opened { handle, .. }) = files.call(&open, &mut |_: &[u8]| {}).await else {
        panic!("it is made");
    };
    for (piece, data) in content().chunks(64 << 10).enumerate() {
        let write = Call::Write {
            handle,
            offset: (piece * (64 << 10)) as u64,
            data,
            stability: Stability::Unstable,
        };
        files.call(&write, &mut |_: &[u8]| {}).await.expect("is kept");
    }
    files
        .idle_until(monotonic_ns() + 50_000_000)
        .await
        .expect("a session");
    pause();
    let close = Call::Close { handle };
    files
        .call(&close, &mut |_: &[u8]| {})
        .await
        .expect("is written once more");
    files.finish().await.expect("all is written");
}

#[test]
fn a_server_that_is_killed_and_restarted_costs_time_but_no_data() {
    survives_a_kill(v3);
}

#[test]
fn with_nfsv4_a_server_that_is_killed_and_restarted_costs_time_but_no_data() {
    survives_a_kill(v4);
}

fn survives_a_kill(target: fn(&Ganesha) -> &NfsTarget) {
    let Some(mut server) = Ganesha::start() else {
        return;
    };
    let target = target(&server).clone();
    let (tell, told) = mpsc::channel();
    let (let_go, wait) = mpsc::channel();
    let client = std::thread::spawn(move || {
        target.enter().expect("root may");
        let executor = Executor::new().expect("an epoll instance");
        let mut files = Patient {
            files: Cache::new(session(&executor, &target), CacheOptions::close_to_open()),
            executor: executor.clone(),
        };
        executor.spawn(async move {
            let pause = || {
                tell.send(()).expect("the test waits");
                wait.recv().expect("the test says so");
            };
            write_around(&mut files, pause).await;
            let requests: BTreeMap<_, _> = files.files.client().requests_by_name().into_iter().collect();
            // Three writes would suffice for all data. Data that was answered under another verifier, or not at all, is
            // written again.
            assert!(requests["WRITE"] > 3, "{requests:?}");
        });
        run(&executor);
    });
    told.recv().expect("the client has written");
    server.kill_and_start_again();
    let_go.send(()).expect("the client waits");
    client.join().expect("the client goes on");
    assert!(fs::read(server.export().join("outage")).expect("is there") == content());
}

/// Locks a range of `file` and writes to it; returns the handle, or the refusal.
async fn locks<F: Files>(files: &mut F, offset: u64, data: &[u8]) -> Result<Handle, Failure> {
    let open = Call::Open(Open {
        path: "locked",
        access: Access::ReadWrite,
        disposition: Disposition::OpenIf,
        directory: false,
        delete_on_close: false,
        ask: Ask::Nothing,
    });
    let Reply::Opened { handle, .. } = files.call(&open, &mut |_: &[u8]| {}).await? else {
        panic!("it is made");
    };
    let bytes = data.len() as u64;
    let lock = Call::Lock {
        handle,
        offset,
        bytes,
    };
    files.call(&lock, &mut |_: &[u8]| {}).await?;
    writes(files, handle, offset, data).await.map(|()| handle)
}

async fn writes<F: Files>(files: &mut F, handle: Handle, offset: u64, data: &[u8]) -> Result<(), Failure> {
    let write = Call::Write {
        handle,
        offset,
        data,
        stability: Stability::File,
    };
    files.call(&write, &mut |_: &[u8]| {}).await.map(|_| ())
}

/// Runs the work of a client on its own thread.
fn client<W: std::future::Future<Output = ()> + 'static>(
    target: &NfsTarget,
    work: impl FnOnce(Patient<Uncached<Session>>) -> W,
) {
    target.enter().expect("root may");
    let executor = Executor::new().expect("an epoll instance");
    executor.spawn(work(Patient {
        files: Uncached::new(session(&executor, target)),
        executor: executor.clone(),
    }));
    run(&executor);
}

#[test]
fn a_lock_survives_the_kill_of_a_server_and_no_other_client_gets_it() {
    let grace = "Graceless = false; Lease_Lifetime = 10; Grace_Period = 60;";
    let Some(mut server) = Ganesha::start_with(grace) else {
        return;
    };
    let (target, other) = (server.v4.clone(), server.v4.clone());
    let (tell, told) = mpsc::channel();
    let (let_go, wait) = mpsc::channel();
    let (done, until_done) = mpsc::channel();
    let holder = std::thread::spawn(move || {
        client(&target, |mut files| async move {
            files.connect().await.expect("a session");
            let handle = locks(&mut files, 100, b"before").await.expect("nobody has it");
            tell.send(()).expect("the test waits");
            wait.recv().expect("the test says so");
            writes(&mut files, handle, 106, b" after")
                .await
                .expect("it has it still");
            until_done.recv().expect("the test says so");
            let offset = 100;
            let bytes = 6;
            let unlock = Call::Unlock {
                handle,
                offset,
                bytes,
            };
            files
                .call(&unlock, &mut |_: &[u8]| {})
                .await
                .expect("by its new name");
            files.finish().await.expect("a session");
        });
    });
    told.recv().expect("the client has the lock");
    let (say, said) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    let rival = std::thread::spawn(move || {
        client(&other, |mut files| async move {
            files.connect().await.expect("a session");
            say.send(()).expect("the test waits");
            goes.recv().expect("the test says so");
            let refused = locks(&mut files, 103, b"mine").await;
            assert_eq!(refused.map_err(|failure| failure.fault), Err(Fault::LockConflict));
            locks(&mut files, 200, b"free")
                .await
                .expect("nobody has this part");
            files.finish().await.expect("a session");
        });
    });
    said.recv().expect("the rival has a session");
    server.kill_and_start_again();
    go.send(()).expect("the rival waits");
    let_go.send(()).expect("the client waits");
    rival.join().expect("the rival is kept out");
    done.send(()).expect("the client waits");
    holder.join().expect("the client goes on");
    let content = fs::read(server.export().join("locked")).expect("is there");
    assert!(content[100..].starts_with(b"before after"), "{content:?}");
}

#[test]
fn without_a_grace_period_a_lock_that_another_client_got_is_lost_and_writes_fail() {
    let Some(mut server) = Ganesha::start() else {
        return;
    };
    let (target, other) = (server.v4.clone(), server.v4.clone());
    let (tell, told) = mpsc::channel();
    let (let_go, wait) = mpsc::channel();
    let holder = std::thread::spawn(move || {
        client(&target, |mut files| async move {
            files.connect().await.expect("a session");
            let handle = locks(&mut files, 0, b"mine").await.expect("nobody has it");
            tell.send(()).expect("the test waits");
            wait.recv().expect("the test says so");
            let written = writes(&mut files, handle, 0, b"lost").await;
            assert!(written.is_err(), "another client has the lock");
            files
                .call(&Call::Close { handle }, &mut |_: &[u8]| {})
                .await
                .expect("it can be closed");
            let refused = locks(&mut files, 0, b"mine").await;
            assert_eq!(refused.map_err(|failure| failure.fault), Err(Fault::LockConflict));
            locks(&mut files, 10, b"free").await.expect("all else goes on");
            files.finish().await.expect("a session");
        });
    });
    told.recv().expect("the client has the lock");
    let (say, said) = mpsc::channel();
    let (done, until_done) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    let rival = std::thread::spawn(move || {
        client(&other, |mut files| async move {
            files.connect().await.expect("a session");
            say.send(()).expect("the test waits");
            goes.recv().expect("the test says so");
            locks(&mut files, 0, b"his").await.expect("he is the first");
            say.send(()).expect("the test waits");
            until_done.recv().expect("the test says so");
            files.finish().await.expect("a session");
        });
    });
    said.recv().expect("the rival has a session");
    server.kill_and_start_again();
    go.send(()).expect("the rival waits");
    said.recv().expect("the rival has the lock");
    let_go.send(()).expect("the client waits");
    holder.join().expect("the client is kept out");
    done.send(()).expect("the rival waits");
    rival.join().expect("the rival goes on");
    let content = fs::read(server.export().join("locked")).expect("is there");
    assert!(content.starts_with(b"hise"), "{content:?}");
}

#[test]
fn the_client_speaks_nfsv4_2_if_the_server_does_and_otherwise_4_1() {
    for (lines, spoken) in [("Minor_Versions = 1, 2;", "4.2"), ("Minor_Versions = 1;", "4.1")] {
        let lines = format!("Graceless = true; {lines}");
        let Some(server) = Ganesha::start_with(&lines) else {
            return;
        };
        let target = server.open("4.2");
        let checking = std::thread::spawn(move || {
            client(&target, move |mut files| async move {
                files.connect().await.expect("a session");
                assert_eq!(files.files.client().version().name(), spoken);
                locks(&mut files, 0, b"written").await.expect("all of it works");
                files.finish().await.expect("a session");
            });
        });
        checking.join().expect("it is spoken");
        assert_eq!(
            fs::read(server.export().join("locked")).expect("is there"),
            b"written"
        );
    }
}
