//! What Bonnie is asked to do, and what came of it. Not for: doing it (`files/bonnie.rs`).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is to be done.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BonnieSpec {
    /// So many Bonnies at once, each with a session and a file of its own, which begin each phase together.
    pub clients: u32,
    /// The file, below the target's root. It must not be there. The second Bonnie adds `.2`, and so on.
    pub file: String,
    /// Its size, a multiple of the chunk.
    pub bytes: u64,
    /// Of one read or write.
    pub chunk_bytes: u32,
    /// What characters are collected in, as stdio does.
    pub stdio_bytes: u32,
    /// Of one Bonnie, in all.
    pub seeks: u32,
    /// Of one Bonnie, at the same time.
    pub seekers: u32,
    pub seed: u64,
    /// Whether what is read is compared with what was written.
    pub check: bool,
    /// The longest that it may all take.
    pub most_ns: u64,
}

/// What one phase came to, all clients together.
#[derive(Debug, Clone, Serialize)]
pub struct BonniePhase {
    /// By the original's name.
    pub phase: &'static str,
    /// Bytes read or written, the larger of both; of seeks, those read.
    pub bytes: u64,
    /// Reads and writes as the program makes them.
    pub calls: u64,
    /// From the first open's end, as the original takes it, to the last close's; of several from the first client's
    /// begin to the last one's end.
    pub elapsed_s: f64,
    /// CPU time in user space of the threads that did it.
    pub user_s: f64,
    /// Their CPU time in the kernel.
    pub system_s: f64,
    /// Median time of a call.
    pub p50_us: f64,
    /// Its 99th percentile.
    pub p99_us: f64,
    pub max_us: f64,
    /// Bytes that were read and found to be what was written.
    pub bytes_checked: u64,
    /// Bytes that were read while another seeker wrote them, and are neither what was there before nor what came after.
    pub bytes_unknown: u64,
    /// Requests to the server by the protocol's own names.
    pub requests: BTreeMap<&'static str, u64>,
}
