//! The behaviour of a client: pure, seeded generators of operations, and the tree of files that the
//! operations request.
//!
//! The same seed gives the same operations on every machine, in every version and with every protocol; golden
//! digests in the tests verify this. The workloads are re-created from published parameters, not from the
//! original programs.
//!
//! This crate uses no sockets, never waits, and neither measures time nor counts.

use std::hash::Hash;

mod action_class;
mod catalogue;
mod content;
mod contention;
mod diskmix;
mod failover;
mod file_content;
mod file_op;
mod footprint;
mod ledger;
mod loadfile;
mod metadata;
mod object_ledger;
mod object_size;
mod objects;
mod played;
mod player;
mod random;
mod shares;
mod steps;
mod streams;
mod table;
mod tree;
mod tree_on_disk;
mod upkeep;
mod url;
mod versions;
mod webbench;

pub use catalogue::{Catalogue, Entry, Expect};
pub use content::Extension;
pub use contention::{Contention, ContentionOptions};
pub use diskmix::{DiskMix, DiskMixOptions, Line, Script, LEAST_WORKSPACE_BYTES};
pub use failover::{Failover, FailoverOptions};
pub use file_content::{content_of, Writing, MOST_BYTES_AT_ONCE};
pub use file_op::{FileAction, FileCatalogue, FileOp, FileWorkload, Intent, PathId, Presence, Slot};
pub use footprint::footprint_bytes;
pub use ledger::{Ledger, Mismatch};
pub use loadfile::{LineProblem, LoadFile, LoadFileError, LoadFileReplay};
pub use metadata::{Metadata, MetadataOptions};
pub use object_ledger::{ListCheck, ObjectFault, ObjectLedger, ObjectVersion};
pub use object_size::ObjectSize;
pub use objects::{part_of_object, ObjectOp, Objects, ObjectsOptions, OBJECTS_PER_DELETE_MANY, OBJECT_KINDS};
pub use played::played;
pub use shares::{Shares, WebbenchDynamic, PARTS};
pub use steps::Steps;
pub use streams::{block_offsets, Streams, StreamsOptions};
pub use table::{Class, ClassTable, Contents, Known, Number, TableError};
pub use tree::{File, Tree};
pub use tree_on_disk::{check_tree, write_tree, WriteError, MOST_PROBLEMS_REPORTED};
pub use url::{SingleUrl, WeightedUrls};
pub use versions::{write_block, Block, BlockFault, Version, Versions, LEAST_BLOCK_BYTES};
pub use webbench::WebbenchStatic;

/// Index of an operation class among the classes of its [`Catalogue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClassId(pub u8);

/// A request for one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Get {
    pub class: ClassId,
    /// Index into [`Catalogue::entries`].
    pub path: u32,
}

/// Result of a workload's last operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the operation succeeded. The correct answer for a missing file is a success.
    pub ok: bool,
    /// Application bytes received.
    pub bytes_read: u64,
    /// Whether the session with the server ended, and with it every open file.
    pub session_lost: bool,
}

impl Outcome {
    /// The outcome before a client thread's first operation.
    pub const START: Self = Self {
        ok: true,
        bytes_read: 0,
        session_lost: false,
    };
}

/// The endless operations of one client thread.
///
/// An implementation is pure: its results depend only on its seed and the outcomes passed to `next`. `next`
/// is called for every operation, so it must not allocate memory.
#[warn(missing_docs)]
pub trait Workload: Send {
    /// Type of the operations. Hashes of operations make up a client's digest.
    type Op: Hash + std::fmt::Debug;

    /// Returns the next operation. `last`: the outcome of the previous one, or [`Outcome::START`] at first.
    fn next(&mut self, last: &Outcome) -> Self::Op;

    /// Returns whether the last operation from `next` starts a piece of work. Only such operations have a
    /// think time before them.
    fn begins_piece(&self) -> bool {
        true
    }

    /// Returns the client's pause before the last operation from `next`, in addition to its level's think
    /// time.
    fn pause_ns(&self) -> u64 {
        0
    }
}
