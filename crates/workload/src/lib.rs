//! What a client does: pure, seeded generators of operations, and the tree of files that they ask for.
//!
//! The same seed gives the same operations on every machine, in every version and whatever the protocol;
//! golden digests in the tests hold that. Re-created from published parameters, not the original programs.
//!
//! Not for: sockets, time, counting. Nothing here waits, measures or knows how an operation is carried out.

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
    /// The class that the operation is counted under.
    pub class: ClassId,
    /// Index into [`Catalogue::entries`].
    pub path: u32,
}

/// What a workload may know of how its last operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The operation ended as a success. The right answer to a missing file is a success.
    pub ok: bool,
    /// Application bytes that came back.
    pub bytes_read: u64,
    /// The session with the server ended, and every open file with it.
    pub session_lost: bool,
}

impl Outcome {
    /// What a client thread hands in before its first operation.
    pub const START: Self = Self {
        ok: true,
        bytes_read: 0,
        session_lost: false,
    };
}

/// The operations of one client thread, without end.
///
/// An implementation is pure: what it returns depends on its seed and on the outcomes handed in, on nothing else.
/// It is called once an operation, so it allocates nothing.
#[warn(missing_docs)]
pub trait Workload: Send {
    /// What it asks for. Its hash stands for it in the digest of what a client did.
    type Op: Hash + std::fmt::Debug;

    /// The next operation; `last` is how the one before it ended ([`Outcome::START`] at first).
    fn next(&mut self, last: &Outcome) -> Self::Op;

    /// Whether the operation that `next` gave last begins a piece of work: think time comes before these alone.
    fn begins_piece(&self) -> bool {
        true
    }

    /// How long the client waits before the operation that `next` gave last, beyond the think time of its mix.
    fn pause_ns(&self) -> u64 {
        0
    }
}
