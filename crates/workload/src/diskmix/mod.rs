//! The office application mix: eight applications of a file-server client, with bulk work between them.
//!
//! A pass consists of pieces: eight applications, and finally a sweep that deletes the rest. A seed phase,
//! which writes or reads three large files in turn, follows each of the first seven applications. The
//! operations of each piece are fixed. The order of the applications is drawn per client and stays the same
//! throughout a run.
//!
//! Modules, from figures to operations: `facts` has the counts. `apps` with `routines` has each application's
//! operations, as a `draft`. `share` determines the number of requests per burst. `sizes`, `fill` and
//! `exchange` choose the requests, and `positions` classifies their offsets. `script` is the result, and
//! `play` a client's order. `accept` compares the result with the counts.
//!
//! The mix contains no name or sequence of the original, and figures measured with it are not figures of the
//! original.

mod accept;
mod apps;
mod count;
mod draft;
mod exchange;
mod facts;
mod fill;
mod phases;
mod play;
mod positions;
mod routines;
mod script;
mod share;
mod sizes;
mod upkeep;
mod workspace;

pub use accept::Line;
pub use play::DiskMix;
pub use script::Script;

/// Minimum size of a workspace: one without fillers.
pub const LEAST_WORKSPACE_BYTES: u64 = 15 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskMixOptions {
    /// Size of each client's workspace in bytes, at least [`LEAST_WORKSPACE_BYTES`]. Files that are never
    /// used fill the rest.
    pub workspace_bytes: u64,
    /// Whether seed phases read only as much as in the original's version 5.
    pub legacy_seed_reads: bool,
    /// Whether to use offsets throughout documents instead of the original's three-digit offsets. The figures
    /// are then not comparable with others.
    pub true_offsets: bool,
}

impl Default for DiskMixOptions {
    fn default() -> Self {
        Self {
            workspace_bytes: 20 << 20,
            legacy_seed_reads: false,
            true_offsets: false,
        }
    }
}
