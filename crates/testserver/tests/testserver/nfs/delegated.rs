//! This project's caching clients with delegations of a real server. No client may read data older than the
//! rules allow. Writers over another version must wait for recalls. No fault in the server's recalls may make
//! a client wait forever.
//!
//! Acts run one after the other, and each write is flushed immediately, so that the server's contents are
//! known. Every byte read must match the contents at some moment since the open, even if the cache did not
//! send the open. PROPTEST_CASES lengthens the run.

use super::raw::{url, Raw, EXPORT, OK};
use dyno_files::{
    Access, Ask, Cache, CacheOptions, Call, Disposition, FileClient, Files, Handle, Open, Reply, Stability,
};
use dyno_measure::monotonic_ns;
use dyno_net::{Dialer, Executor};
use dyno_nfs::status::Status;
use dyno_nfs::wire::{Payload, Request};
use dyno_nfs::{NfsTarget, Session};
use dyno_testserver::nfs::{Options, Server};
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const FILES: usize = 2;
const BYTES: usize = 9_000;
const PATIENCE_NS: u64 = 20_000_000_000;
const SLICE_NS: u64 = 100_000;
const MS: u64 = 1_000_000;

#[derive(Debug, Clone, Copy)]
enum Act {
    Open { file: usize, writes: bool },
    Close { file: usize },
    Read { file: usize, offset: usize },
    Write { file: usize, offset: usize },
    Query { file: usize },
    Idle { ms: u64 },
}

fn act() -> impl Strategy<Value = Act> {
    let file = 0..FILES;
    let offset = prop_oneof![0..60_usize, 4_060..4_140_usize];
    prop_oneof![
        6 => (file.clone(), prop::bool::weighted(0.15)).prop_map(|(file, writes)| Act::Open { file, writes }),
        6 => file.clone().prop_map(|file| Act::Close { file }),
        9 => (file.clone(), offset.clone()).prop_map(|(file, offset)| Act::Read { file, offset }),
        6 => (file.clone(), offset).prop_map(|(file, offset)| Act::Write { file, offset }),
        2 => file.prop_map(|file| Act::Query { file }),
        1 => (0..5_u64).prop_map(|ms| Act::Idle { ms }),
    ]
}

/// State shared by the clients of a history: the next step, and the versions of each file with their first
/// steps.
struct Stage {
    steps: Vec<(usize, Act)>,
    next: usize,
    states: Vec<Vec<(usize, Vec<u8>)>>,
    wrong: Option<String>,
    counted: BTreeMap<&'static str, u64>,
}

struct User {
    number: usize,
    files: Cache<Session>,
    executor: Executor,
    prefix: String,
    stage: Rc<RefCell<Stage>>,
    /// By file: the handle, whether it writes, and the step of its open.
    open: [Option<(Handle, bool, usize)>; FILES],
}

impl User {
    async fn call(&mut self, call: Call<'_>) -> (Reply, Vec<u8>) {
        self.executor.set_deadline(monotonic_ns() + PATIENCE_NS);
        let mut data = Vec::new();
        let mut take = |piece: &[u8]| data.extend_from_slice(piece);
        let reply = self.files.call(&call, &mut take).await;
        (reply.expect("nothing is refused"), data)
    }

    async fn play(mut self) {
        self.executor.set_deadline(monotonic_ns() + PATIENCE_NS);
        self.files.connect().await.expect("a session");
        loop {
            let turn = {
                let stage = self.stage.borrow();
                stage.steps.get(stage.next).copied()
            };
            match turn {
                None => break,
                Some((client, act)) if client == self.number => {
                    self.carry_out(act).await;
                    self.stage.borrow_mut().next += 1;
                }
                Some(_) => {
                    self.executor.set_deadline(monotonic_ns() + PATIENCE_NS);
                    let idled = self.files.idle_until(monotonic_ns() + SLICE_NS).await;
                    idled.expect("the session goes on");
                }
            }
        }
        for file in 0..FILES {
            self.carry_out(Act::Close { file }).await;
        }
        self.executor.set_deadline(monotonic_ns() + PATIENCE_NS);
        self.files.finish().await.expect("nothing is refused");
        let mut stage = self.stage.borrow_mut();
        for (name, count) in self.files.client().requests_by_name() {
            *stage.counted.entry(name).or_default() += count;
        }
        let counts = self.files.counts();
        *stage.counted.entry("joined").or_default() += counts.opens_joined;
        *stage.counted.entry("breaks").or_default() += counts.breaks;
    }

    async fn carry_out(&mut self, act: Act) {
        let step = self.stage.borrow().next;
        match act {
            Act::Idle { ms } => self
                .files
                .idle_until(monotonic_ns() + ms * MS)
                .await
                .expect("idles"),
            Act::Open { file, writes } if self.open[file].is_none() => {
                let path = format!("{}{file}", self.prefix);
                let open = Open {
                    path: &path,
                    access: if writes { Access::ReadWrite } else { Access::Read },
                    disposition: Disposition::Open,
                    directory: false,
                    delete_on_close: false,
                    ask: Ask::Nothing,
                };
                let (Reply::Opened { handle, .. }, _) = self.call(Call::Open(open)).await else {
                    panic!("it is there");
                };
                self.open[file] = Some((handle, writes, step));
            }
            Act::Open { .. } => {}
            Act::Close { file } => {
                if let Some((handle, ..)) = self.open[file].take() {
                    self.call(Call::Close { handle }).await;
                }
            }
            Act::Read { file, offset } => self.read(file, offset as u64).await,
            Act::Query { file } => {
                if let Some((handle, _, since)) = self.open[file] {
                    let (Reply::Info(info), _) = self.call(Call::QueryHandle { handle }).await else {
                        panic!("attributes");
                    };
                    self.check(file, since, "size", |state| state.len() as u64 == info.bytes);
                }
            }
            Act::Write { file, offset } => {
                if let Some((handle, true, _)) = self.open[file] {
                    let data = [u8::try_from(step % 250).expect("small") + 1; 300];
                    let mut state = self.stage.borrow().states[file].last().expect("one").1.clone();
                    state[offset..offset + data.len()].copy_from_slice(&data);
                    let write = Call::Write {
                        handle,
                        offset: offset as u64,
                        data: &data,
                        stability: Stability::Unstable,
                    };
                    self.call(write).await;
                    self.call(Call::Flush { handle }).await;
                    self.stage.borrow_mut().states[file].push((step, state));
                }
            }
        }
    }

    async fn read(&mut self, file: usize, offset: u64) {
        let Some((handle, _, since)) = self.open[file] else {
            return;
        };
        let bytes = 700;
        let read = Call::Read {
            handle,
            offset,
            bytes,
        };
        let (_, data) = self.call(read).await;
        assert_eq!(data.len(), 700);
        // An older page may contain the client's own data.
        for (at, byte) in (offset as usize..).zip(&data) {
            self.check(file, since, "read", |state| state[at] == *byte);
        }
    }

    /// Checks that the observation was true at some moment after the file was opened.
    fn check(&self, file: usize, since: usize, what: &str, is_it: impl Fn(&[u8]) -> bool) {
        let mut stage = self.stage.borrow_mut();
        let states = &stage.states[file];
        let ended = |place: usize| states.get(place + 1).map_or(usize::MAX, |next| next.0);
        let may_be = |(place, (_, state)): (usize, &(usize, Vec<u8>))| ended(place) >= since && is_it(state);
        if !states.iter().enumerate().any(may_be) {
            let step = stage.next;
            let told = format!(
                "step {step}: client {} has an older {what} of file {file}",
                self.number
            );
            stage.wrong.get_or_insert(told);
        }
    }
}

/// Starts a server whose exports have the files of many histories.
fn server(fault: Option<&str>) -> Server {
    let options = Options {
        fault: fault.map(|name| name.parse().expect("a fault")),
        // Shorter than any time limit, because conflicting clients wait this long if there is a fault.
        delegations: Some(100 * MS),
        ..Options::on_loopback(EXPORT)
    };
    Server::start(&options).expect("it starts")
}

fn target(server: &Server) -> NfsTarget {
    let options = dyno_nfs::Options {
        delegations: true,
        ..dyno_nfs::Options::default()
    };
    NfsTarget::open(&url(server.port(), "4.1"), vec![], options, None, None).expect("loopback")
}

fn cache() -> CacheOptions {
    CacheOptions {
        delegations: true,
        ..CacheOptions::close_to_open()
    }
}

fn session(target: &NfsTarget, executor: &Executor, number: u64) -> Session {
    let dialer = Rc::new(Dialer::new(executor.clone(), target.address(), 0));
    target.session(executor, &dialer, EXPORT, number)
}

/// Runs a history on its own files. Returns the errors, and adds the counts.
fn played(
    server: &Server,
    history: u64,
    clients: usize,
    steps: Vec<(usize, Act)>,
    counted: &mut BTreeMap<&'static str, u64>,
) -> Result<(), String> {
    let prefix = format!("h{history}-");
    let mut raw = Raw::connect(server.address());
    let root = raw.root();
    for file in 0..FILES {
        let file = raw.create(root, &format!("{prefix}{file}"));
        let data = Payload::Whole(&[255; BYTES]);
        let (offset, stability) = (0, Stability::File);
        let written = raw.ask(&Request::Write {
            file,
            offset,
            data,
            stability,
        });
        assert_eq!(written.status, OK);
    }
    let stage = Rc::new(RefCell::new(Stage {
        steps,
        next: 0,
        states: vec![vec![(0, vec![255; BYTES])]; FILES],
        wrong: None,
        counted: BTreeMap::new(),
    }));
    let executor = Executor::new().expect("an epoll instance");
    let target = target(server);
    for number in 0..clients {
        let user = User {
            number,
            files: Cache::new(session(&target, &executor, history * 8 + number as u64), cache()),
            executor: executor.clone(),
            prefix: prefix.clone(),
            stage: stage.clone(),
            open: [None; FILES],
        };
        executor.spawn(user.play());
    }
    executor.run(|| false).expect("the loop runs");
    let mut stage = stage.borrow_mut();
    for (name, count) in &stage.counted {
        *counted.entry(name).or_default() += count;
    }
    stage.wrong.take().map_or(Ok(()), Err)
}

fn runner(cases: u32) -> TestRunner {
    let any = ProptestConfig::default();
    TestRunner::new(ProptestConfig {
        cases: match std::env::var_os("PROPTEST_CASES") {
            Some(_) => any.cases.max(cases),
            None => cases,
        },
        rng_seed: RngSeed::Fixed(8881),
        failure_persistence: None,
        max_shrink_time: 30_000,
        ..any
    })
}

/// Runs several histories. Returns the first error, and the total counts.
fn histories(fault: Option<&str>, cases: u32) -> (Result<(), String>, BTreeMap<&'static str, u64>) {
    let server = server(fault);
    let counted = RefCell::new(BTreeMap::new());
    let next = std::cell::Cell::new(1);
    let any = (2..4_usize).prop_flat_map(|clients| {
        let steps = prop::collection::vec((0..clients, act()), 10..90);
        (Just(clients), steps)
    });
    let result = runner(cases).run(&any, |(clients, steps)| {
        let history = next.replace(next.get() + 1);
        played(&server, history, clients, steps, &mut counted.borrow_mut()).map_err(TestCaseError::fail)
    });
    (result.map_err(|error| error.to_string()), counted.into_inner())
}

#[test]
fn data_read_under_a_delegation_are_never_too_old() {
    let (result, counted) = histories(None, 60);
    assert_eq!(result, Ok(()));
    for name in ["(read delegations granted)", "joined", "breaks", "DELEGRETURN"] {
        assert!(
            counted.get(name).is_some_and(|count| *count > 10),
            "{name}: {counted:?}"
        );
    }
    assert_eq!(
        counted["(read delegations granted)"], counted["DELEGRETURN"],
        "each is given back"
    );
    assert_eq!(counted.get("(calls of the server, refused)"), None);
}

#[test]
fn a_server_without_recalls_is_detected() {
    let (result, _) = histories(Some("no-recall"), 200);
    let wrong = result.expect_err("somebody has read what was too old");
    assert!(wrong.contains("has an older"), "{wrong}");
}

#[test]
fn repeated_or_unfounded_recalls_are_harmless() {
    for (fault, refused) in [("double-recall", false), ("unknown-recall", true)] {
        let (result, counted) = histories(Some(fault), 10);
        assert_eq!(result, Ok(()), "{fault}");
        assert!(counted["breaks"] > 0);
        let was_refused = counted.contains_key("(calls of the server, refused)");
        // A second recall arrives before or after the return of the delegation.
        assert!(was_refused || !refused, "{fault}: {counted:?}");
    }
}

/// Runs `after` with a client that has read and closed a file under a delegation.
fn with_reader<F>(server: &Server, after: impl FnOnce(Cache<Session>, Executor) -> F + 'static)
where
    F: std::future::Future<Output = ()> + 'static,
{
    let executor = Executor::new().expect("an epoll instance");
    let target = target(server);
    let own = executor.clone();
    executor.spawn(async move {
        own.set_deadline(monotonic_ns() + PATIENCE_NS);
        let mut files = Cache::new(session(&target, &own, 1), cache());
        files.connect().await.expect("a session");
        assert_eq!(read(&mut files).await, b"0123456789");
        assert_eq!(count(&files, "(read delegations granted)"), 1);
        after(files, own).await;
    });
    executor.run(|| false).expect("the loop runs");
}

fn count(files: &Cache<Session>, name: &str) -> u64 {
    let counts = files.client().requests_by_name();
    counts
        .iter()
        .find(|(known, _)| *known == name)
        .map_or(0, |(_, count)| *count)
}

/// Opens the file, reads it and closes it.
async fn read(files: &mut Cache<Session>) -> Vec<u8> {
    let open = Open {
        path: "file",
        access: Access::Read,
        disposition: Disposition::Open,
        directory: false,
        delete_on_close: false,
        ask: Ask::Nothing,
    };
    let Ok(Reply::Opened { handle, .. }) = files.call(&Call::Open(open), &mut |_| {}).await else {
        panic!("it is there");
    };
    let mut data = Vec::new();
    let (offset, bytes) = (0, 10);
    let mut take = |piece: &[u8]| data.extend_from_slice(piece);
    let read = Call::Read {
        handle,
        offset,
        bytes,
    };
    files.call(&read, &mut take).await.expect("it is read");
    files
        .call(&Call::Close { handle }, &mut |_| {})
        .await
        .expect("it is closed");
    data
}

fn with_file(fault: Option<&str>, limit_ns: u64) -> Server {
    let options = Options {
        delegations: Some(limit_ns),
        files: vec![("file".to_owned(), b"0123456789".to_vec())],
        fault: fault.map(|name| name.parse().expect("a fault")),
        ..Options::on_loopback(EXPORT)
    };
    Server::start(&options).expect("it starts")
}

/// Writes to the file over NFSv3, with retries.
fn write_by_version_3(address: std::net::SocketAddr) {
    let mut raw = Raw::connect(address);
    let root = raw.root();
    let file = raw.look_up(root, "file").expect("there");
    let (offset, data, stability) = (0, Payload::Whole(b"abc"), Stability::File);
    let end = std::time::Instant::now() + Duration::from_nanos(PATIENCE_NS);
    loop {
        let status = raw
            .ask(&Request::Write {
                file,
                offset,
                data,
                stability,
            })
            .status;
        if status != Status::JukeBox as u32 || std::time::Instant::now() > end {
            assert_eq!(status, OK);
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_file_is_reopened_and_read_without_requests_until_an_nfsv3_client_writes() {
    let server = with_file(None, PATIENCE_NS);
    let address = server.address();
    with_reader(&server, move |mut files, _| async move {
        let sent = |files: &Cache<Session>| files.client().traffic().requests;
        let before = sent(&files);
        for _ in 0..5 {
            assert_eq!(read(&mut files).await, b"0123456789");
        }
        assert_eq!(sent(&files), before);
        let writer = std::thread::spawn(move || write_by_version_3(address));
        while !writer.is_finished() {
            files
                .idle_until(monotonic_ns() + SLICE_NS)
                .await
                .expect("a session");
        }
        writer.join().expect("it is let in");
        assert_eq!((files.counts().breaks, count(&files, "DELEGRETURN")), (1, 1));
        assert_eq!(read(&mut files).await, b"abc3456789");
        assert!(sent(&files) > before);
        files.finish().await.expect("nothing is refused");
    });
}

#[test]
fn a_client_that_never_waits_still_receives_a_recall() {
    let server = with_file(None, PATIENCE_NS);
    let address = server.address();
    with_reader(&server, move |mut files, _| async move {
        let writer = std::thread::spawn(move || write_by_version_3(address));
        while !writer.is_finished() {
            read(&mut files).await;
        }
        writer.join().expect("it is let in");
        assert_eq!(read(&mut files).await, b"abc3456789");
        files.finish().await.expect("nothing is refused");
    });
}

#[test]
fn a_revoked_delegation_is_noticed_with_the_next_request_and_freed() {
    let server = with_file(Some("silent-recall"), 50 * MS);
    let address = server.address();
    with_reader(&server, move |mut files, _| async move {
        let writer = std::thread::spawn(move || write_by_version_3(address));
        while !writer.is_finished() {
            files
                .idle_until(monotonic_ns() + SLICE_NS)
                .await
                .expect("a session");
        }
        writer
            .join()
            .expect("it is let in once the delegation is revoked");
        let space = Call::QuerySpace { directory: "" };
        files.call(&space, &mut |_| {}).await.expect("it is told");
        files
            .idle_until(monotonic_ns() + SLICE_NS)
            .await
            .expect("a session");
        assert_eq!(read(&mut files).await, b"abc3456789");
        files.call(&space, &mut |_| {}).await.expect("it is told");
        assert_eq!((files.counts().breaks, count(&files, "FREE_STATEID")), (1, 1));
        files.finish().await.expect("nothing is refused");
    });
}

#[test]
fn after_a_restart_there_are_no_delegations_and_new_data_are_read() {
    let server = Rc::new(with_file(None, PATIENCE_NS));
    let own = server.clone();
    with_reader(&server, move |mut files, executor| async move {
        let address = own.address();
        let _ = own.restart(Duration::from_millis(1));
        executor.set_deadline(monotonic_ns() + PATIENCE_NS);
        let writer = std::thread::spawn(move || write_by_version_3(address));
        while !writer.is_finished() {
            files
                .idle_until(monotonic_ns() + SLICE_NS)
                .await
                .expect("a session");
        }
        writer.join().expect("nobody is in the way");
        assert_eq!(read(&mut files).await, b"abc3456789");
        files.finish().await.expect("nothing is refused");
    });
}
