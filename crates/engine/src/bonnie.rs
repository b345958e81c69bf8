//! Parameters of Bonnie, which `files/bonnie.rs` performs.

use serde::Deserialize;

/// Parameters of a Bonnie level.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BonnieSpec {
    /// Number of concurrent Bonnie clients. Each has its own session and file. They start each phase together.
    pub clients: u32,
    pub file: String,
    /// File size, a multiple of the chunk.
    pub bytes: u64,
    /// Size of a read or write.
    pub chunk_bytes: u32,
    /// Buffer size for single characters, as in stdio.
    pub stdio_bytes: u32,
    /// Total seeks per client.
    pub seeks: u32,
    /// Concurrent seekers per client.
    pub seekers: u32,
    pub seed: u64,
    /// Whether to compare read data with written data.
    pub check: bool,
}
