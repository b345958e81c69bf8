//! What Bonnie is asked to do. Not for: doing it (`files/bonnie.rs`).

use serde::Deserialize;

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
}
