//! Any operations of several clients on a few files must be answered as by a single plain file system without a cache.
//! Every way to use a file server must meet this requirement. The steps need a clock and tasks, but no particular
//! server, so they can also run against a real one.

use dyno_files::{Access, Ask, Call, Disposition, Files, Handle, Open, Reply, Stability};
use dyno_measure::{Failure, Fault};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

pub const SLOTS: usize = 3;
pub const NAMES: usize = 3;

/// One operation of a history.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    Open {
        slot: usize,
        name: usize,
        access: Access,
        disposition: Disposition,
    },
    Close {
        slot: usize,
    },
    Read {
        slot: usize,
        offset: u64,
        bytes: u32,
    },
    /// Reads from the end of the last read through the same handle.
    ReadOn {
        slot: usize,
        bytes: u32,
    },
    Write {
        slot: usize,
        offset: u64,
        bytes: u32,
    },
    SetEnd {
        slot: usize,
        bytes: u64,
    },
    Flush {
        slot: usize,
    },
    Query {
        slot: usize,
    },
    Lock {
        slot: usize,
        offset: u64,
        bytes: u64,
    },
    QueryPath {
        name: usize,
    },
    Delete {
        name: usize,
    },
    Rename {
        from: usize,
        to: usize,
    },
    Idle {
        ms: u64,
    },
}

/// One step of one client.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub client: usize,
    pub act: Act,
}

fn extent() -> impl Strategy<Value = (u64, u32)> {
    // Around the edges of pages, and runs longer than one transfer.
    let offset = prop_oneof![0..300_u64, 4_000..4_200_u64, 0..20_000_u64, 60_000..140_000_u64];
    let bytes = prop_oneof![0..700_u32, 4_000..4_200_u32, 1..20_000_u32, 60_000..70_000_u32];
    (offset, bytes)
}

/// Generates any act of a client.
pub fn act() -> impl Strategy<Value = Act> {
    let slot = 0..SLOTS;
    let name = 0..NAMES;
    let access = prop_oneof![
        2 => Just(Access::Read),
        4 => Just(Access::ReadWrite),
        1 => Just(Access::Write),
        1 => Just(Access::Attributes)
    ];
    let disposition = prop_oneof![
        6 => Just(Disposition::OpenIf),
        3 => Just(Disposition::Open),
        1 => Just(Disposition::Create),
        1 => Just(Disposition::Overwrite),
        1 => Just(Disposition::OverwriteIf)
    ];
    prop_oneof![
        8 => (slot.clone(), name.clone(), access, disposition).prop_map(|(slot, name, access, disposition)| {
            Act::Open { slot, name, access, disposition }
        }),
        5 => slot.clone().prop_map(|slot| Act::Close { slot }),
        10 => (slot.clone(), extent()).prop_map(|(slot, (offset, bytes))| Act::Read { slot, offset, bytes }),
        8 => (slot.clone(), 1..12_000_u32).prop_map(|(slot, bytes)| Act::ReadOn { slot, bytes }),
        10 => (slot.clone(), extent()).prop_map(|(slot, (offset, bytes))| Act::Write { slot, offset, bytes }),
        1 => (slot.clone(), 0..30_000_u64).prop_map(|(slot, bytes)| Act::SetEnd { slot, bytes }),
        1 => slot.clone().prop_map(|slot| Act::Flush { slot }),
        2 => slot.clone().prop_map(|slot| Act::Query { slot }),
        1 => (slot, 0..20_000_u64).prop_map(|(slot, offset)| Act::Lock { slot, offset, bytes: 30 }),
        1 => name.clone().prop_map(|name| Act::QueryPath { name }),
        2 => name.clone().prop_map(|name| Act::Delete { name }),
        1 => (name.clone(), name).prop_map(|(from, to)| Act::Rename { from, to }),
        1 => prop_oneof![Just(1_u64), Just(20_000)].prop_map(|ms| Act::Idle { ms }),
    ]
}

/// Generates any steps of this many clients.
pub fn steps(clients: usize, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (0..clients, act()).prop_map(|(client, act)| Step { client, act });
    proptest::collection::vec(step, 1..most)
}

#[derive(Debug, Clone, Copy)]
struct Holding {
    node: usize,
    access: Access,
    handle: Handle,
    locked: Option<(u64, u64)>,
    read_to: u64,
}

pub struct Stage {
    steps: Vec<Step>,
    next: usize,
    busy: bool,
    finished: usize,
    asks_around: bool,
    policy: VecDeque<usize>,
    directory: String,
    nodes: Vec<Vec<u8>>,
    names: [Option<usize>; NAMES],
    slots: Vec<[Option<Holding>; SLOTS]>,
    /// The first wrong answer.
    pub wrong: Option<String>,
}

/// Effect of a step on the plain file system.
enum Expected {
    /// `bytes`: None for an open for attributes. Such an open breaks nothing, so the server reports its own size, and
    /// another client may have more data.
    Opened {
        node: usize,
        bytes: Option<u64>,
        created: bool,
    },
    NotThere,
    Refused(Fault),
    Data(Vec<u8>),
    Bytes(u64),
    Found(bool),
    Done,
}

impl Stage {
    /// Creates the stage. `asks_around`: after each step, every client makes a request, beginning with the client of
    /// the step. This is for servers that break read caching without waiting. Such a server sends the break before it
    /// answers the first client, so the others receive it before their answers.
    pub fn new(steps: Vec<Step>, clients: usize, directory: &str, asks_around: bool) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            steps,
            next: 0,
            busy: false,
            finished: 0,
            asks_around,
            policy: VecDeque::new(),
            directory: directory.to_owned(),
            nodes: Vec::new(),
            names: [None; NAMES],
            slots: vec![[None; SLOTS]; clients],
            wrong: None,
        }))
    }

    pub fn path(&self, name: usize) -> String {
        format!("{}file{name}", self.directory)
    }

    /// Returns the expected final contents of a name.
    pub fn content(&self, name: usize) -> Option<&[u8]> {
        self.names[name].map(|node| self.nodes[node].as_slice())
    }

    fn holding(&self, client: usize, slot: usize) -> Option<Holding> {
        self.slots[client][slot]
    }

    fn is_open(&self, node: usize) -> bool {
        self.slots
            .iter()
            .flatten()
            .flatten()
            .any(|holding| holding.node == node)
    }

    /// Returns whether another handle has locked part of the range.
    fn meets_lock(&self, client: usize, slot: usize, offset: u64, bytes: u32) -> bool {
        let own = self.holding(client, slot).expect("applies");
        let others = self.slots.iter().enumerate().flat_map(|(of, slots)| {
            let is_other = move |place: &usize| (of, *place) != (client, slot);
            slots
                .iter()
                .enumerate()
                .filter_map(move |(place, held)| held.filter(|_| is_other(&place)))
        });
        let forbids = |other: &Holding| {
            let overlaps =
                |(from, long): (u64, u64)| from < offset + u64::from(bytes) && offset < from + long;
            other.node == own.node && bytes > 0 && other.locked.is_some_and(overlaps)
        };
        others.into_iter().any(|other| forbids(&other))
    }

    /// Returns whether the step is possible. Names are deleted and renamed only while no client has them open, because
    /// the result would otherwise depend on how they were opened.
    fn applies(&self, step: &Step) -> bool {
        let held = |slot: usize| self.holding(step.client, slot);
        let free = |name: usize| self.names[name].is_none_or(|node| !self.is_open(node));
        match step.act {
            Act::Open { slot, .. } => held(slot).is_none(),
            Act::Read { slot, .. } | Act::ReadOn { slot, .. } => {
                held(slot).is_some_and(|held| matches!(held.access, Access::Read | Access::ReadWrite))
            }
            Act::Write { slot, .. } | Act::SetEnd { slot, .. } => {
                held(slot).is_some_and(|held| matches!(held.access, Access::Write | Access::ReadWrite))
            }
            Act::Lock { slot, .. } => held(slot).is_some_and(|held| {
                let taken = |other: &Holding| other.node == held.node && other.locked.is_some();
                held.access == Access::ReadWrite && !self.slots.iter().flatten().flatten().any(taken)
            }),
            Act::Flush { slot } => held(slot).is_some_and(|held| held.access == Access::ReadWrite),
            Act::Close { slot } | Act::Query { slot } => held(slot).is_some(),
            Act::Delete { name } => free(name),
            Act::Rename { from, to } => from != to && free(from) && free(to),
            Act::QueryPath { .. } | Act::Idle { .. } => true,
        }
    }

    fn expect_open(&mut self, name: usize, access: Access, disposition: Disposition) -> Expected {
        let makes = matches!(
            disposition,
            Disposition::Create | Disposition::OpenIf | Disposition::OverwriteIf
        );
        let node = match self.names[name] {
            None if !makes => return Expected::NotThere,
            Some(_) if disposition == Disposition::Create => return Expected::Refused(Fault::AlreadyThere),
            None => {
                self.nodes.push(Vec::new());
                self.names[name] = Some(self.nodes.len() - 1);
                return Expected::Opened {
                    node: self.nodes.len() - 1,
                    bytes: Some(0),
                    created: true,
                };
            }
            Some(node) => node,
        };
        if matches!(disposition, Disposition::Overwrite | Disposition::OverwriteIf) {
            self.nodes[node].clear();
        }
        Expected::Opened {
            node,
            bytes: (access != Access::Attributes).then_some(self.nodes[node].len() as u64),
            created: false,
        }
    }

    /// Executes the step in the plain file system; `content` is the data of a write.
    fn expect(&mut self, step: &Step, content: &[u8]) -> Expected {
        let node = |stage: &Self, slot: usize| stage.holding(step.client, slot).expect("applies").node;
        match step.act {
            Act::Open {
                name,
                access,
                disposition,
                ..
            } => self.expect_open(name, access, disposition),
            Act::Read { slot, offset, bytes } if self.meets_lock(step.client, slot, offset, bytes) => {
                Expected::Refused(Fault::LockConflict)
            }
            Act::Write { slot, offset, bytes } if self.meets_lock(step.client, slot, offset, bytes) => {
                Expected::Refused(Fault::LockConflict)
            }
            Act::Read { slot, offset, bytes } => {
                let data = &self.nodes[node(self, slot)];
                let from = data.len().min(offset as usize);
                let to = data.len().min(offset as usize + bytes as usize);
                Expected::Data(data[from..to].to_vec())
            }
            Act::Write { slot, offset, .. } => {
                let node = node(self, slot);
                let data = &mut self.nodes[node];
                let end = offset as usize + content.len();
                if !content.is_empty() {
                    data.resize(data.len().max(end), 0);
                    data[offset as usize..end].copy_from_slice(content);
                }
                Expected::Done
            }
            Act::SetEnd { slot, bytes } => {
                let node = node(self, slot);
                self.nodes[node].resize(bytes as usize, 0);
                Expected::Done
            }
            Act::Query { slot } => match self.holding(step.client, slot).expect("applies").access {
                Access::Attributes => Expected::Found(true),
                _ => Expected::Bytes(self.nodes[node(self, slot)].len() as u64),
            },
            Act::QueryPath { name } => Expected::Found(self.names[name].is_some()),
            Act::Delete { name } => match self.names[name].take() {
                Some(_) => Expected::Done,
                None => Expected::Refused(Fault::NotFound),
            },
            Act::Rename { from, to } => match (self.names[from], self.names[to]) {
                (None, _) => Expected::Refused(Fault::NotFound),
                (_, Some(_)) => Expected::Refused(Fault::AlreadyThere),
                (moved, None) => {
                    (self.names[from], self.names[to]) = (None, moved);
                    Expected::Done
                }
            },
            Act::Close { .. } | Act::Flush { .. } | Act::Lock { .. } | Act::Idle { .. } => Expected::Done,
            Act::ReadOn { .. } => unreachable!("was told from where"),
        }
    }

    fn next_step(&self) -> Step {
        let mut step = self.steps[self.next];
        if let Act::ReadOn { slot, bytes } = step.act {
            let offset = self.holding(step.client, slot).map_or(0, |held| held.read_to);
            step.act = Act::Read { slot, offset, bytes };
        }
        step
    }

    fn note(&mut self, step: &Step, handle: Option<Handle>, expected: &Expected) {
        let slots = &mut self.slots[step.client];
        match (step.act, handle, expected) {
            (Act::Open { slot, access, .. }, Some(handle), Expected::Opened { node, .. }) => {
                slots[slot] = Some(Holding {
                    node: *node,
                    access,
                    handle,
                    locked: None,
                    read_to: 0,
                });
            }
            (Act::Close { slot }, ..) => slots[slot] = None,
            (Act::Read { slot, offset, .. }, _, Expected::Data(data)) => {
                if let Some(holding) = &mut slots[slot] {
                    holding.read_to = offset + data.len() as u64;
                }
            }
            (Act::Lock { slot, offset, bytes }, ..) => {
                if let Some(holding) = &mut slots[slot] {
                    holding.locked = Some((offset, bytes));
                }
            }
            _ => {}
        }
    }
}

fn content(number: usize, bytes: u32) -> Vec<u8> {
    (0..bytes as usize)
        .map(|place| (number * 31 + place * 7 + place / 251) as u8)
        .collect()
}

fn agrees(expected: &Expected, result: &Result<Reply, Failure>, data: &[u8]) -> bool {
    match (expected, result) {
        (
            Expected::Opened { bytes, created, .. },
            Ok(Reply::Opened {
                info, created: was, ..
            }),
        ) => bytes.is_none_or(|bytes| info.bytes == bytes) && was == created,
        (Expected::NotThere, Ok(Reply::NotThere))
        | (Expected::Done, Ok(Reply::Done | Reply::Written { .. })) => true,
        (Expected::Refused(fault), Err(failure)) => failure.fault == *fault,
        (Expected::Data(expected), Ok(Reply::Read { bytes })) => {
            expected == data && *bytes as usize == data.len()
        }
        (Expected::Bytes(expected), Ok(Reply::Info(info))) => info.bytes == *expected,
        (Expected::Found(found), Ok(reply)) => *found == matches!(reply, Reply::Info(_)),
        _ => false,
    }
}

async fn ask<F: Files>(
    files: &mut F,
    stage: &Rc<RefCell<Stage>>,
    step: &Step,
    content: &[u8],
) -> (Result<Reply, Failure>, Vec<u8>) {
    let held = |slot: usize| stage.borrow().holding(step.client, slot).expect("applies").handle;
    let path = |name: usize| stage.borrow().path(name);
    let (one, other) = match step.act {
        Act::Open { name, .. } | Act::QueryPath { name } | Act::Delete { name } => {
            (path(name), String::new())
        }
        Act::Rename { from, to } => (path(from), path(to)),
        _ => Default::default(),
    };
    let call = match step.act {
        Act::Open {
            access, disposition, ..
        } => Call::Open(Open {
            path: &one,
            access,
            disposition,
            directory: false,
            delete_on_close: false,
            ask: Ask::Nothing,
        }),
        Act::Close { slot } => Call::Close { handle: held(slot) },
        Act::Read { slot, offset, bytes } => Call::Read {
            handle: held(slot),
            offset,
            bytes,
        },
        Act::Write { slot, offset, .. } => Call::Write {
            handle: held(slot),
            offset,
            data: content,
            stability: Stability::Unstable,
        },
        Act::SetEnd { slot, bytes } => Call::SetEnd {
            handle: held(slot),
            bytes,
        },
        Act::Flush { slot } => Call::Flush { handle: held(slot) },
        Act::Query { slot } => Call::QueryHandle { handle: held(slot) },
        Act::Lock { slot, offset, bytes } => Call::Lock {
            handle: held(slot),
            offset,
            bytes,
        },
        Act::QueryPath { .. } => Call::QueryPath { path: &one },
        Act::Delete { .. } => Call::Delete { path: &one },
        Act::Rename { .. } => Call::Rename {
            from: &one,
            to: &other,
        },
        Act::ReadOn { .. } | Act::Idle { .. } => unreachable!("isn't a call"),
    };
    let mut data = Vec::new();
    let result = files
        .call(&call, &mut |piece: &[u8]| data.extend_from_slice(piece))
        .await;
    (result, data)
}

async fn perform<F: Files>(files: &mut F, stage: &Rc<RefCell<Stage>>, now: fn() -> u64) {
    let (number, step) = {
        let mut stage = stage.borrow_mut();
        stage.busy = true;
        (stage.next, stage.next_step())
    };
    let applied = stage.borrow().applies(&step);
    if let Act::Idle { ms } = step.act {
        files
            .idle_until(now() + ms * 1_000_000)
            .await
            .expect("no session ends here");
    } else if applied {
        let bytes = match step.act {
            Act::Write { bytes, .. } => bytes,
            _ => 0,
        };
        let content = content(number, bytes);
        let (result, data) = ask(files, stage, &step, &content).await;
        let mut stage = stage.borrow_mut();
        let expected = stage.expect(&step, &content);
        if !agrees(&expected, &result, &data) && stage.wrong.is_none() {
            let other = match &expected {
                Expected::Data(expected) => expected.iter().zip(&data).position(|(one, other)| one != other),
                _ => None,
            };
            stage.wrong = Some(format!(
                "step {number} {step:?}: {result:?}, first other byte at {other:?}"
            ));
        }
        let handle = match result {
            Ok(Reply::Opened { handle, .. }) => Some(handle),
            _ => None,
        };
        stage.note(&step, handle, &expected);
    }
    let mut stage = stage.borrow_mut();
    stage.busy = false;
    stage.next += 1;
    if stage.asks_around && applied {
        let others = (0..stage.slots.len()).filter(|client| *client != step.client);
        stage.policy = std::iter::once(step.client).chain(others).collect();
    }
}

/// Runs one client's steps, each when its turn comes, and answers breaks in between.
pub async fn play<F: Files>(
    mut files: F,
    client: usize,
    stage: Rc<RefCell<Stage>>,
    now: fn() -> u64,
    slice_ns: u64,
) -> F {
    files.connect().await.expect("the server is there");
    loop {
        let (asks, turn, may_finish) = {
            let stage = stage.borrow();
            let is_over = stage.next >= stage.steps.len() || stage.wrong.is_some();
            let ready = !stage.busy && stage.policy.is_empty();
            let turn = !is_over && ready && stage.steps[stage.next].client == client;
            let asks = stage.policy.front() == Some(&client);
            (asks, turn, is_over && ready && stage.finished == client)
        };
        if asks {
            let asked = files
                .call(&Call::QuerySpace { directory: "" }, &mut |_: &[u8]| {})
                .await;
            asked.expect("a volume has space");
            stage.borrow_mut().policy.pop_front();
        } else if turn {
            perform(&mut files, &stage, now).await;
        } else if may_finish {
            files.finish().await.expect("nothing was refused");
            stage.borrow_mut().finished += 1;
            return files;
        } else {
            files
                .idle_until(now() + slice_ns)
                .await
                .expect("no session ends here");
        }
    }
}

/// Reads every name through a client without a cache after all clients have finished, and compares the contents.
pub async fn inspect<F: Files>(mut files: F, stage: &Rc<RefCell<Stage>>) -> Result<(), String> {
    files.connect().await.map_err(|failure| failure.to_string())?;
    for name in 0..NAMES {
        let (path, expected) = {
            let stage = stage.borrow();
            (stage.path(name), stage.content(name).map(<[u8]>::to_vec))
        };
        let open = Call::Open(Open {
            path: &path,
            access: Access::Read,
            disposition: Disposition::Open,
            directory: false,
            delete_on_close: false,
            ask: Ask::Nothing,
        });
        let reply = files
            .call(&open, &mut |_: &[u8]| {})
            .await
            .map_err(|failure| failure.to_string())?;
        let Reply::Opened { handle, .. } = reply else {
            if expected.is_some() {
                return Err(format!("{path} is not there"));
            }
            continue;
        };
        let mut data = Vec::new();
        let call = Call::Read {
            handle,
            offset: 0,
            bytes: 1 << 20,
        };
        let read = files
            .call(&call, &mut |piece: &[u8]| data.extend_from_slice(piece))
            .await;
        read.map_err(|failure| failure.to_string())?;
        if expected.as_deref() != Some(&data) {
            return Err(format!("{path} has other contents in the end"));
        }
        let _ = files.call(&Call::Close { handle }, &mut |_: &[u8]| {}).await;
    }
    files.finish().await.map_err(|failure| failure.to_string())
}
