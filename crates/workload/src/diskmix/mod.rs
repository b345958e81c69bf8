//! The office application mix that clients of a file server play: eight applications, with bulk work between them.
//!
//! A pass is made of pieces: eight applications, after each of the first seven a seed phase that writes or reads three
//! large files by turns, and at last a sweep that deletes what is left. What each piece does is fixed for good; the
//! order of the applications is drawn for each client and stays the same through a run.
//!
//! The way from figures to operations is the way through the files: `facts` (what was counted), `apps` with `routines`
//! (who does what in which order, as a `draft`), `share` (how many requests each burst has), `sizes`, `fill` and
//! `exchange` (which ones; `positions` names where they lie), `script` (the outcome), `play` (a client's order of them),
//! `accept` (the outcome against the figures).
//!
//! Not for: carrying operations out, nor what a client's cache makes of them. No name and no sequence of the original
//! is in here, and no figure that is measured with it is a figure of the original.

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

/// The least that a workspace can be: without fillers.
pub const LEAST_WORKSPACE_BYTES: u64 = 15 << 20;

/// What can be chosen of the disk mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskMixOptions {
    /// Size of each client's workspace, in bytes; [`LEAST_WORKSPACE_BYTES`] at least. What is beyond them stands in
    /// fillers that are never used again.
    pub workspace_bytes: u64,
    /// Seed phases read as little as those of the original's version 5 did.
    pub legacy_seed_reads: bool,
    /// Offsets over whole documents, instead of the three digits that are left of them in the original. Not comparable
    /// with figures of either.
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
