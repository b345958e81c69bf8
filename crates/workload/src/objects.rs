//! Objects of a store: each client thread puts, reads, lists and deletes its own objects, as often as weights
//! determine.
//!
//! A thread has a fixed number of objects, all of which exist when a level begins. A DELETE removes an
//! existing object. A PUT or COPY creates a missing one, or replaces one if none is missing. A level
//! therefore has no more objects at its end than at its beginning. If an operation needs more objects than
//! exist, it becomes a PUT. `object_ledger.rs` defines what each object must contain.

use crate::object_size::ObjectSize;
use crate::random::RandomStream;
use crate::{ClassId, Outcome, Workload};

/// Number of objects that one request deletes.
pub const OBJECTS_PER_DELETE_MANY: usize = 10;
/// Number of kinds of operations.
pub const OBJECT_KINDS: usize = 8;

/// Kinds of operations, in the order of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Put,
    Get,
    Head,
    Delete,
    List,
    Copy,
    GetRange,
    DeleteMany,
}

const KINDS: [(Kind, &str); OBJECT_KINDS] = [
    (Kind::Put, "put"),
    (Kind::Get, "get"),
    (Kind::Head, "head"),
    (Kind::Delete, "delete"),
    (Kind::List, "list"),
    (Kind::Copy, "copy"),
    (Kind::GetRange, "get_range"),
    (Kind::DeleteMany, "delete_many"),
];

/// Parameters of the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectsOptions {
    /// Weights of `put`, `get`, `head`, `delete`, `list`, `copy`, `get_range` and `delete_many`, in this
    /// order.
    pub weights: [u32; OBJECT_KINDS],
    pub size: ObjectSize,
    /// Number of objects per thread.
    pub objects: u32,
    pub objects_per_prefix: u32,
    /// Whether GET and HEAD read objects that all threads share and that never change.
    pub shared: bool,
}

impl ObjectsOptions {
    /// Returns the names of the weights.
    pub fn names() -> [&'static str; OBJECT_KINDS] {
        KINDS.map(|(_, name)| name)
    }

    /// Returns the names of the classes: those with a weight, and PUT.
    pub fn classes(&self) -> Vec<String> {
        let named = KINDS.iter().filter(|(kind, _)| self.has(*kind));
        named.map(|(_, name)| (*name).to_owned()).collect()
    }

    fn has(&self, kind: Kind) -> bool {
        kind == Kind::Put || self.weights[kind as usize] > 0
    }

    fn class(&self, kind: Kind) -> ClassId {
        let before = KINDS.iter().take_while(|(other, _)| *other != kind);
        let before = before.filter(|(other, _)| self.has(*other)).count();
        ClassId(u8::try_from(before).unwrap_or(0))
    }

    pub fn class_of(&self, op: &ObjectOp) -> ClassId {
        self.class(match op {
            ObjectOp::Put { .. } => Kind::Put,
            ObjectOp::Get { .. } => Kind::Get,
            ObjectOp::Head { .. } => Kind::Head,
            ObjectOp::Delete { .. } => Kind::Delete,
            ObjectOp::List { .. } => Kind::List,
            ObjectOp::Copy { .. } => Kind::Copy,
            ObjectOp::GetRange { .. } => Kind::GetRange,
            ObjectOp::DeleteMany { .. } => Kind::DeleteMany,
        })
    }

    /// Returns the number of prefixes of a thread's objects.
    pub fn prefixes(&self) -> u32 {
        self.objects.div_ceil(self.objects_per_prefix.max(1))
    }

    /// Returns the sizes of a thread's objects in the order of their numbers, for the preparation.
    pub fn sizes(&self, seed: u64, client: u32, thread: u32) -> Vec<u64> {
        let mut random = RandomStream::of_thread(seed ^ SIZES, client, thread);
        (0..self.objects).map(|_| self.size.draw(&mut random)).collect()
    }
}

/// Changes the seed for the sizes of the preparation, so that they are independent of the operations.
const SIZES: u64 = u64::from_le_bytes(*b"obj-size");

/// An operation on a thread's objects, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectOp {
    Put {
        object: u32,
        bytes: u64,
    },
    Get {
        object: u32,
        shared: bool,
    },
    Head {
        object: u32,
        shared: bool,
    },
    Delete {
        object: u32,
    },
    /// A complete list of one prefix.
    List {
        prefix: u32,
    },
    Copy {
        from: u32,
        to: u32,
    },
    /// A part of an object.
    GetRange {
        object: u32,
        shared: bool,
        /// Random number that determines the part.
        part: u64,
    },
    DeleteMany {
        objects: [u32; OBJECTS_PER_DELETE_MANY],
        count: u8,
    },
}

/// Returns the first and last byte of a part of an object of `bytes` bytes. The object must not be empty, and the part
/// has at least one byte.
pub fn part_of_object(part: u64, bytes: u64) -> (u64, u64) {
    let within = |half: u64, bound: u64| ((u128::from(half) * u128::from(bound)) >> 32) as u64;
    let first = within(part >> 32, bytes);
    let rest = bytes - first;
    (first, first + within(part & 0xffff_ffff, rest))
}

/// The existing and the missing objects of a thread.
#[derive(Clone, Debug)]
struct Population {
    there: Vec<u32>,
    absent: Vec<u32>,
    /// Position of each object in its list.
    place: Vec<u32>,
    is_there: Vec<bool>,
}

impl Population {
    fn whole(objects: u32) -> Self {
        Self {
            there: (0..objects).collect(),
            absent: Vec::new(),
            place: (0..objects).collect(),
            is_there: vec![true; objects as usize],
        }
    }

    fn set(&mut self, object: u32, there: bool) {
        let number = object as usize;
        if self.is_there[number] == there {
            return;
        }
        let (from, to) = if there {
            (&mut self.absent, &mut self.there)
        } else {
            (&mut self.there, &mut self.absent)
        };
        let place = self.place[number] as usize;
        from.swap_remove(place);
        if let Some(moved) = from.get(place) {
            self.place[*moved as usize] = place as u32;
        }
        self.place[number] = to.len() as u32;
        to.push(object);
        self.is_there[number] = there;
    }

    fn draw(list: &[u32], random: &mut RandomStream) -> u32 {
        list[random.below(list.len() as u32) as usize]
    }
}

/// The operations of one client thread.
#[derive(Clone, Debug)]
pub struct Objects {
    options: std::sync::Arc<ObjectsOptions>,
    total: u32,
    random: RandomStream,
    population: Population,
    last: Option<ObjectOp>,
}

impl Objects {
    /// Returns the workload of a thread whose objects all exist. The sum of the weights must be between 1 and
    /// `u32::MAX`.
    pub fn new(options: std::sync::Arc<ObjectsOptions>, seed: u64, client: u32, thread: u32) -> Self {
        Self {
            total: options.weights.iter().sum(),
            random: RandomStream::of_thread(seed, client, thread),
            population: Population::whole(options.objects),
            options,
            last: None,
        }
    }

    fn draw_kind(&mut self) -> Kind {
        let mut drawn = self.random.below(self.total);
        for (kind, _) in KINDS {
            let weight = self.options.weights[kind as usize];
            if drawn < weight {
                return kind;
            }
            drawn -= weight;
        }
        Kind::Put
    }

    /// Records the result of the last operation.
    fn follow(&mut self, ok: bool) {
        match self.last {
            // A failed write leaves an object unknown, so the object is put again before it is read.
            Some(ObjectOp::Put { object, .. } | ObjectOp::Copy { to: object, .. }) => {
                self.population.set(object, ok);
            }
            Some(ObjectOp::Delete { object }) => self.population.set(object, false),
            Some(ObjectOp::DeleteMany { objects, count }) => {
                for object in &objects[..usize::from(count)] {
                    self.population.set(*object, false);
                }
            }
            _ => {}
        }
    }

    /// Returns the object that a PUT writes.
    fn target(&mut self) -> u32 {
        let Population { there, absent, .. } = &self.population;
        Population::draw(if absent.is_empty() { there } else { absent }, &mut self.random)
    }

    fn one_there(&mut self) -> u32 {
        Population::draw(&self.population.there, &mut self.random)
    }

    /// Returns the object that a GET or HEAD reads, and whether it is a shared one.
    fn read(&mut self) -> Option<(u32, bool)> {
        if self.options.shared {
            return Some((self.random.below(self.options.objects), true));
        }
        (!self.population.there.is_empty()).then(|| (self.one_there(), false))
    }

    fn make(&mut self, kind: Kind) -> Option<ObjectOp> {
        let there = self.population.there.len();
        Some(match kind {
            Kind::Put => ObjectOp::Put {
                object: self.target(),
                bytes: self.options.size.draw(&mut self.random),
            },
            Kind::Get => {
                let (object, shared) = self.read()?;
                ObjectOp::Get { object, shared }
            }
            Kind::Head => {
                let (object, shared) = self.read()?;
                ObjectOp::Head { object, shared }
            }
            Kind::GetRange => {
                let (object, shared) = self.read()?;
                let mut part = [0; 8];
                self.random.fill(&mut part);
                ObjectOp::GetRange {
                    object,
                    shared,
                    part: u64::from_le_bytes(part),
                }
            }
            Kind::List => ObjectOp::List {
                prefix: self.random.below(self.options.prefixes()),
            },
            Kind::Delete if there > 1 => ObjectOp::Delete {
                object: self.one_there(),
            },
            Kind::Copy if there > 1 => {
                let from = self.one_there();
                let to = loop {
                    let to = self.target();
                    if to != from {
                        break to;
                    }
                };
                ObjectOp::Copy { from, to }
            }
            Kind::DeleteMany if there > 1 => self.several(OBJECTS_PER_DELETE_MANY.min(there - 1)),
            Kind::Delete | Kind::Copy | Kind::DeleteMany => return None,
        })
    }

    /// Returns the deletion of `count` different objects.
    fn several(&mut self, count: usize) -> ObjectOp {
        let mut objects = [0; OBJECTS_PER_DELETE_MANY];
        for place in 0..count {
            objects[place] = loop {
                let object = self.one_there();
                if !objects[..place].contains(&object) {
                    break object;
                }
            };
        }
        ObjectOp::DeleteMany {
            objects,
            count: u8::try_from(count).unwrap_or(0),
        }
    }
}

impl Workload for Objects {
    type Op = ObjectOp;

    fn next(&mut self, last: &Outcome) -> ObjectOp {
        self.follow(last.ok);
        let kind = self.draw_kind();
        let op = self.make(kind).unwrap_or_else(|| ObjectOp::Put {
            object: self.target(),
            bytes: self.options.size.draw(&mut self.random),
        });
        self.last = Some(op);
        op
    }
}
