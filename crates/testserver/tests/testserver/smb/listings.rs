//! Two or three of this project's clients cache listings and look-ups under directory leases of a real
//! server. No cached result may be older than the rules allow. Acts run one after the other. Before each act,
//! its client receives an answer from the server, and with it every break sent before. The result of the act
//! must therefore equal the current state of the directory. PROPTEST_CASES lengthens the run.

use super::client::{fresh_number, options, run, Client};
use super::samba::{server_options, Samba};
use dyno_files::{
    Access, Ask, Cache, CacheCounts, CacheOptions, Call, Disposition, FileClient, Files, Open, Reply,
    Stability,
};
use dyno_measure::monotonic_ns;
use dyno_net::{Dialer, Executor};
use dyno_smb::Session;
use dyno_testserver::smb::Options;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

const DIRECTORIES: usize = 2;
const NAMES: usize = 3;
const PATIENCE_NS: u64 = 20_000_000_000;
const SLICE_NS: u64 = 100_000;

/// A name in one of the directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    directory: usize,
    number: usize,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    List { directory: usize },
    LookUp { name: Name },
    OpenToRead { name: Name },
    Write { name: Name, bytes: u32 },
    Delete { name: Name },
    Rename { from: Name, to: Name },
    MakeAndRemoveDirectory { directory: usize },
}

fn act() -> impl Strategy<Value = Act> {
    let name = || (0..DIRECTORIES, 0..NAMES).prop_map(|(directory, number)| Name { directory, number });
    prop_oneof![
        6 => (0..DIRECTORIES).prop_map(|directory| Act::List { directory }),
        6 => name().prop_map(|name| Act::LookUp { name }),
        2 => name().prop_map(|name| Act::OpenToRead { name }),
        3 => (name(), 0..9_000_u32).prop_map(|(name, bytes)| Act::Write { name, bytes }),
        2 => name().prop_map(|name| Act::Delete { name }),
        1 => (name(), name()).prop_map(|(from, to)| Act::Rename { from, to }),
        1 => (0..DIRECTORIES).prop_map(|directory| Act::MakeAndRemoveDirectory { directory }),
    ]
}

/// State shared by the clients of a history: lengths of the existing files, and the first error.
struct Stage {
    base: String,
    steps: Vec<(usize, Act)>,
    /// Index of the next step.
    next: Cell<usize>,
    files: RefCell<BTreeMap<Name, u32>>,
    wrong: RefCell<Option<String>>,
}

impl Stage {
    fn directory(&self, number: usize) -> String {
        format!("{}/d{number}", self.base)
    }

    fn path(&self, name: Name) -> String {
        format!("{}/f{}", self.directory(name.directory), name.number)
    }

    fn check<T: PartialEq + std::fmt::Debug>(&self, act: Act, told: T, is: T) {
        if told != is {
            let wrong = format!("{act:?}: told {told:?}, it is {is:?}");
            self.wrong.borrow_mut().get_or_insert(wrong);
        }
    }
}

struct User {
    files: Cache<Session>,
    executor: Executor,
    stage: Rc<Stage>,
}

impl User {
    fn new(executor: &Executor, samba: &Samba, stage: &Rc<Stage>) -> Self {
        let dialer = Rc::new(Dialer::new(executor.clone(), samba.address, 0));
        let number = fresh_number();
        let session = Session::new(executor.clone(), dialer, Rc::new(options()), number, "share");
        let cache = CacheOptions {
            lease_directories: true,
            ..CacheOptions::modern()
        };
        Self {
            files: Cache::new(session, cache),
            executor: executor.clone(),
            stage: stage.clone(),
        }
    }

    fn be_patient(&self) {
        self.executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    }

    async fn call(&mut self, call: Call<'_>) -> Reply {
        self.be_patient();
        let reply = self.files.call(&call, &mut |_| ()).await;
        reply.unwrap_or_else(|failure| panic!("{call:?}: {failure:?}"))
    }

    async fn open(&mut self, path: &str, access: Access, disposition: Disposition) -> Reply {
        let open = Open {
            path,
            access,
            disposition,
            directory: false,
            delete_on_close: false,
            ask: Ask::Nothing,
        };
        self.call(Call::Open(open)).await
    }

    async fn carry_out(&mut self, act: Act) {
        let stage = self.stage.clone();
        let is_there = |name| stage.files.borrow().get(&name).copied();
        match act {
            Act::List { directory } => {
                let path = stage.directory(directory);
                let (directory_path, pattern) = (&path, "f*");
                let told = self
                    .call(Call::Find {
                        directory: directory_path,
                        pattern,
                    })
                    .await;
                let files = stage.files.borrow();
                let entries = files.keys().filter(|name| name.directory == directory).count();
                let entries = u32::try_from(entries).expect("few");
                stage.check(act, told, Reply::Found { entries });
            }
            Act::LookUp { name } => {
                let path = stage.path(name);
                let told = match self.call(Call::QueryPath { path: &path }).await {
                    Reply::Info(info) => Some(info.bytes),
                    _ => None,
                };
                stage.check(act, told, is_there(name).map(u64::from));
            }
            Act::OpenToRead { name } => {
                let path = stage.path(name);
                let told = self.open(&path, Access::Read, Disposition::Open).await;
                if let Reply::Opened { handle, .. } = told {
                    self.call(Call::Close { handle }).await;
                }
                let told = matches!(told, Reply::Opened { .. });
                stage.check(act, told, is_there(name).is_some());
            }
            Act::Write { name, bytes } => self.write(name, bytes).await,
            Act::Delete { name } if is_there(name).is_some() => {
                let path = stage.path(name);
                self.call(Call::Delete { path: &path }).await;
                stage.files.borrow_mut().remove(&name);
            }
            Act::Rename { from, to } if is_there(from).is_some() && is_there(to).is_none() => {
                let (old, new) = (stage.path(from), stage.path(to));
                let call = Call::Rename { from: &old, to: &new };
                self.call(call).await;
                let mut files = stage.files.borrow_mut();
                if let Some(bytes) = files.remove(&from) {
                    files.insert(to, bytes);
                }
            }
            Act::Delete { .. } | Act::Rename { .. } => {}
            Act::MakeAndRemoveDirectory { directory } => {
                let path = format!("{}/e", stage.directory(directory));
                self.call(Call::MakeDirectory { path: &path }).await;
                self.call(Call::RemoveDirectory { path: &path }).await;
            }
        }
    }

    /// Creates or truncates a file, and writes all of it. After the close, the server has the data.
    async fn write(&mut self, name: Name, bytes: u32) {
        let path = self.stage.path(name);
        let (access, disposition) = (Access::ReadWrite, Disposition::OverwriteIf);
        let Reply::Opened { handle, .. } = self.open(&path, access, disposition).await else {
            panic!("it is made");
        };
        let write = Call::Write {
            handle,
            offset: 0,
            data: &vec![7; bytes as usize],
            stability: Stability::Unstable,
        };
        self.call(write).await;
        self.call(Call::Close { handle }).await;
        self.stage.files.borrow_mut().insert(name, bytes);
    }

    /// Waits for an answer from the server, by which all earlier breaks have arrived.
    async fn hear(&mut self) {
        self.call(Call::QuerySpace { directory: "" }).await;
    }

    /// Runs the client's steps in turn. Gives up its leases when another client waits for them.
    async fn play(mut self, number: usize) -> CacheCounts {
        self.be_patient();
        self.files.connect().await.expect("a session");
        loop {
            let next = self.stage.next.get();
            match self.stage.steps.get(next).copied() {
                None => break,
                Some((client, act)) if client == number => {
                    self.hear().await;
                    self.carry_out(act).await;
                    self.stage.next.set(next + 1);
                }
                Some(_) => {
                    self.be_patient();
                    let idled = self.files.idle_until(monotonic_ns() + SLICE_NS).await;
                    idled.expect("the session goes on");
                }
            }
        }
        self.be_patient();
        self.files.finish().await.expect("nothing is refused");
        self.files.counts()
    }
}

/// Runs a history in its own directories. Returns the first error, and adds the counts.
fn played(
    samba: &Arc<Samba>,
    clients: usize,
    steps: Vec<(usize, Act)>,
    seen: &mut Seen,
) -> Result<(), String> {
    let stage = Rc::new(Stage {
        base: format!("h{}", fresh_number()),
        steps,
        next: Cell::new(0),
        files: RefCell::default(),
        wrong: RefCell::default(),
    });
    let counts: Rc<RefCell<Vec<CacheCounts>>> = Rc::default();
    run(|executor| {
        let (samba, stage, counts) = (samba.clone(), stage.clone(), counts.clone());
        async move {
            let mut first = Client::connect(&executor, &samba).await;
            first.make_directory(&stage.base).await;
            for directory in 0..DIRECTORIES {
                first.make_directory(&stage.directory(directory)).await;
            }
            first.session.disconnect().await;
            for number in 0..clients {
                let user = User::new(&executor, &samba, &stage);
                let counts = counts.clone();
                executor.spawn(async move {
                    let kept = user.play(number).await;
                    counts.borrow_mut().push(kept);
                });
            }
        }
    });
    assert_eq!(counts.borrow().len(), clients);
    for counts in counts.borrow().iter() {
        seen.listings_kept += counts.listings_kept;
        seen.look_ups_kept += counts.look_ups_kept;
        seen.breaks += counts.directory_breaks;
    }
    seen.histories += 1;
    let wrong = stage.wrong.borrow_mut().take();
    wrong.map_or(Ok(()), Err)
}

/// Counts over the histories of a property. They reveal a run in which nothing was cached or broken.
#[derive(Debug, Default)]
struct Seen {
    histories: u64,
    listings_kept: u64,
    look_ups_kept: u64,
    breaks: u64,
}

/// Returns the settings for a few histories, the same in each run, or for as many as PROPTEST_CASES says.
fn some_histories() -> ProptestConfig {
    let any = ProptestConfig::default();
    let set = |name| std::env::var_os(name).is_some();
    ProptestConfig {
        cases: if set("PROPTEST_CASES") { any.cases } else { 24 },
        rng_seed: if set("PROPTEST_RNG_SEED") {
            any.rng_seed
        } else {
            RngSeed::Fixed(2012)
        },
        failure_persistence: None,
        ..any
    }
}

/// Runs histories with `clients` clients on a server with this fault. Returns the first error, if any, and
/// the counts.
fn check(clients: usize, fault: Option<&str>) -> (Result<(), String>, Seen) {
    let samba = Samba::with(&Options {
        // One thread, so that breaks and answers on one connection are in order.
        threads: 1,
        fault: fault.map(|name| name.parse().expect("a fault")),
        ..server_options()
    });
    let histories = proptest::collection::vec((0..clients, act()), 1..60);
    let seen = RefCell::new(Seen::default());
    let found = TestRunner::new(some_histories()).run(&histories, |steps| {
        played(&samba, clients, steps, &mut seen.borrow_mut()).map_err(TestCaseError::fail)
    });
    (found.map_err(|wrong| wrong.to_string()), seen.into_inner())
}

#[test]
fn no_client_of_two_or_three_gets_a_listing_older_than_a_change() {
    for clients in [2, 3] {
        let (found, seen) = check(clients, None);
        assert_eq!(found, Ok(()), "{clients} clients");
        println!("{clients} clients: {seen:?}");
        for figure in [seen.listings_kept, seen.look_ups_kept, seen.breaks] {
            assert!(figure > seen.histories, "{seen:?}");
        }
    }
}

#[test]
fn a_server_that_breaks_no_directory_lease_is_found_to_give_stale_listings() {
    for clients in [2, 3] {
        let (found, seen) = check(clients, Some("no-directory-breaks"));
        let wrong = found.expect_err("it is found");
        assert!(wrong.contains("told"), "{wrong}");
        assert_eq!(seen.breaks, 0);
    }
}
