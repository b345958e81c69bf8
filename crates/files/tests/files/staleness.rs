//! Clients that cache files by close-to-open rules never read data older than the rules allow. In any sequence of acts,
//! each byte read was written by the client itself, or was on the server after the client's open and within the maximum
//! age of attributes.

use crate::clock::{now, run, Task, MS};
use crate::connection::Connection;
use crate::rig::some_cases;
use crate::server::Server;
use crate::stateless::State;
use dyno_files::{
    Access, Ask, Cache, CacheOptions, Call, Disposition, Files, Handle, Open, Reply, Stability,
};
use proptest::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

const FILES: usize = 2;
const CLIENTS: usize = 3;
const NAMES: [&str; FILES] = ["a", "b"];
const S: u64 = 1000 * MS;
/// `AttributeAges::file_most_ns`: nothing in the cache is valid for longer without a request.
const MOST_AGE_NS: u64 = 60 * S;

#[derive(Debug, Clone, Copy)]
enum Act {
    Open { file: usize },
    Close { file: usize },
    Read { file: usize, offset: u64, bytes: u32 },
    Write { file: usize, offset: u64, bytes: u32 },
    Flush { file: usize },
    SetEnd { file: usize, bytes: u64 },
    Query { file: usize },
    Idle { ns: u64 },
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    let file = 0..FILES;
    let offset = prop_oneof![0..60_u64, 4_060..4_140_u64, 0..12_000_u64];
    // The large writes fill a client's memory, so that data is written back and made durable while the client keeps
    // writing.
    let bytes = prop_oneof![10 => 1..80_u32, 10 => 1..6_000_u32, 1 => 100_000..300_000_u32];
    let idle = prop_oneof![Just(MS), Just(2 * S), Just(3 * S), Just(17 * S), Just(61 * S)];
    prop_oneof![
        6 => file.clone().prop_map(|file| Act::Open { file }),
        5 => file.clone().prop_map(|file| Act::Close { file }),
        9 => (file.clone(), offset.clone(), bytes.clone())
            .prop_map(|(file, offset, bytes)| Act::Read { file, offset, bytes }),
        7 => (file.clone(), offset, bytes).prop_map(|(file, offset, bytes)| Act::Write { file, offset, bytes }),
        1 => file.clone().prop_map(|file| Act::Flush { file }),
        1 => (file.clone(), 0..9_000_u64).prop_map(|(file, bytes)| Act::SetEnd { file, bytes }),
        2 => file.prop_map(|file| Act::Query { file }),
        8 => idle.prop_map(|ns| Act::Idle { ns }),
        1 => Just(Act::Restart),
    ]
}

/// One client: its open files, when they were opened, and its own data.
struct User {
    number: usize,
    files: Cache<Connection>,
    server: Rc<RefCell<Server>>,
    open: [Option<(Handle, u64)>; FILES],
    /// Data written by the client since it opened the file, or set by changing its end; None for other
    /// bytes.
    own: [Vec<Option<u8>>; FILES],
    writes: u8,
    wrong: Rc<RefCell<Option<String>>>,
}

impl User {
    async fn call(&mut self, call: Call<'_>) -> (Reply, Vec<u8>) {
        let mut data = Vec::new();
        let mut take = |piece: &[u8]| data.extend_from_slice(piece);
        let reply = self
            .files
            .call(&call, &mut take)
            .await
            .expect("nothing is refused");
        (reply, data)
    }

    /// Returns the states of the server's file since `from_ns`.
    fn states(&self, file: usize, from_ns: u64) -> Vec<State> {
        let server = self.server.borrow();
        let history = &server.stateless.as_ref().expect("is stateless").history[&file];
        let ended = |place: usize| history.get(place + 1).map_or(u64::MAX, |next| next.since_ns);
        let some = (0..history.len()).filter(|&place| ended(place) >= from_ns);
        some.map(|place| history[place].clone()).collect()
    }

    fn fail(&self, what: String) {
        let client = self.number;
        self.wrong
            .borrow_mut()
            .get_or_insert(format!("client {client} at {} ms: {what}", now() / MS));
    }

    fn check_read(&self, file: usize, opened_ns: u64, offset: u64, asked: u32, data: &[u8]) {
        let states = self.states(file, opened_ns.max(now().saturating_sub(MOST_AGE_NS)));
        let own = &self.own[file];
        for (place, byte) in data.iter().enumerate() {
            let at = usize::try_from(offset).unwrap() + place;
            let is_own = own.get(at).copied().flatten() == Some(*byte);
            // There are zeros between the end on the server and the client's end.
            let is_gap = *byte == 0 && own.len() > at;
            let was_there = states.iter().any(|state| state.data.get(at) == Some(byte));
            if !(is_own || is_gap || was_there) {
                return self.fail(format!("byte {at} of {file} is {byte}, which is too old"));
            }
        }
        let end = offset + data.len() as u64;
        let ends = |length: usize| length as u64 <= end.max(offset);
        let may_end = states.iter().any(|state| ends(state.data.len()));
        if data.len() < asked as usize && !may_end {
            self.fail(format!("{file} ends at {end}, which is too old"));
        }
    }

    async fn carry_out(&mut self, act: Act) {
        match act {
            Act::Open { file } if self.open[file].is_none() => {
                let opened_ns = now();
                let open = Open {
                    path: NAMES[file],
                    access: Access::ReadWrite,
                    disposition: Disposition::Open,
                    directory: false,
                    delete_on_close: false,
                    ask: Ask::Nothing,
                };
                let (Reply::Opened { handle, .. }, _) = self.call(Call::Open(open)).await else {
                    panic!("is there");
                };
                self.open[file] = Some((handle, opened_ns));
            }
            Act::Open { .. } => {}
            Act::Idle { ns } => self.files.idle_until(now() + ns).await.expect("a session"),
            Act::Restart => self.server.borrow_mut().start_anew(),
            Act::Close { file } => {
                if let Some((handle, _)) = self.open[file].take() {
                    self.call(Call::Close { handle }).await;
                    self.own[file].clear();
                }
            }
            Act::Read { file, .. }
            | Act::Write { file, .. }
            | Act::Flush { file }
            | Act::SetEnd { file, .. }
            | Act::Query { file } => {
                if let Some((handle, opened_ns)) = self.open[file] {
                    self.use_file(act, file, handle, opened_ns).await;
                }
            }
        }
    }

    async fn use_file(&mut self, act: Act, file: usize, handle: Handle, opened_ns: u64) {
        match act {
            Act::Read { offset, bytes, .. } => {
                let (_, data) = self
                    .call(Call::Read {
                        handle,
                        offset,
                        bytes,
                    })
                    .await;
                self.check_read(file, opened_ns, offset, bytes, &data);
            }
            Act::Write { offset, bytes, .. } => {
                self.writes = self.writes % 80 + 1;
                let byte = self.writes * 3 + u8::try_from(self.number).unwrap();
                let data = vec![byte; bytes as usize];
                let (from, own) = (usize::try_from(offset).unwrap(), &mut self.own[file]);
                own.resize(own.len().max(from + data.len()), None);
                own[from..from + data.len()].fill(Some(byte));
                let stability = Stability::Unstable;
                self.call(Call::Write {
                    handle,
                    offset,
                    data: &data,
                    stability,
                })
                .await;
            }
            Act::Flush { .. } => {
                self.call(Call::Flush { handle }).await;
            }
            Act::SetEnd { bytes, .. } => {
                self.own[file].truncate(usize::try_from(bytes).unwrap());
                self.call(Call::SetEnd { handle, bytes }).await;
            }
            _ => {
                let (Reply::Info(info), _) = self.call(Call::QueryHandle { handle }).await else {
                    panic!("attributes");
                };
                let states = self.states(file, opened_ns.max(now().saturating_sub(MOST_AGE_NS)));
                let fits = |state: &State| state.data.len() as u64 == info.bytes;
                if !states.iter().any(fits) && self.own[file].len() as u64 != info.bytes {
                    self.fail(format!("{file} has {} bytes, which is too old", info.bytes));
                }
            }
        }
    }
}

/// Runs the clients' acts concurrently. Returns the first error.
fn played(acts: Vec<Vec<Act>>, options: CacheOptions, without_before: bool) -> Result<(), String> {
    let mut server = Server::stateless(CLIENTS);
    server.stateless.as_mut().unwrap().without_before = without_before;
    for name in NAMES {
        server.put(name, &[255; 5_000], false);
    }
    for node in 0..FILES {
        let (start, data) = (server.stateless.as_mut().unwrap(), vec![255; 5_000]);
        start.put_stable(node, data);
    }
    let server = Rc::new(RefCell::new(server));
    let wrong = Rc::new(RefCell::new(None));
    let tasks = acts.into_iter().enumerate().map(|(number, acts)| -> Task<'_> {
        let mut user = User {
            number,
            files: Cache::with_clock(Connection::new(&server, number), options, now),
            server: server.clone(),
            open: [None; FILES],
            own: Default::default(),
            writes: 0,
            wrong: wrong.clone(),
        };
        Box::pin(async move {
            user.files.connect().await.expect("a session");
            for act in acts {
                user.carry_out(act).await;
            }
            user.files.finish().await.expect("nothing is refused");
        })
    });
    run(tasks.collect(), || false);
    let result = wrong.borrow_mut().take();
    result.map_or(Ok(()), Err)
}

proptest! {
    #![proptest_config(some_cases())]

    #[test]
    fn data_read_are_never_older_than_the_rules_allow(
        acts in prop::collection::vec(prop::collection::vec(act(), 1..40), CLIENTS),
        without_before in prop::bool::ANY,
        read_ahead_bytes in prop_oneof![Just(0), Just(32_u32 << 10)],
        write_run_bytes in prop_oneof![Just(4_096_u32), Just(1 << 20)],
    ) {
        let most_bytes = CacheOptions::LEAST_BYTES;
        let options =
            CacheOptions { most_bytes, read_ahead_bytes, write_run_bytes, ..CacheOptions::close_to_open() };
        prop_assert_eq!(played(acts, options, without_before), Ok(()));
    }
}
