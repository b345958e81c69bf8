//! Blocks that several clients write in turn. Each contains its writer, its version number and a checksum, so
//! that a reader can check whether the block is intact and how new it is.
//!
//! A writer holds a lock on the block and has read it under that lock, so the version numbers of a block
//! increase by one. The rules: each read returns one intact version. No client reads a version older than one
//! that it has read or written. No two versions have the same number. This module does not know what other
//! clients have read.
//!
//! For files of one client, whose bytes are all known, see `ledger.rs`.

use crate::file_content::{content_of, Writing, MOST_BYTES_AT_ONCE};
use crate::PathId;
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"dynoblk1";
/// Magic, offset, version number, writer, path, checksum.
const HEADER_BYTES: usize = 40;
/// Minimum size of a block: its header and some data.
pub const LEAST_BLOCK_BYTES: u32 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub writer: u32,
    /// Version number: 0 for the new file, then incremented by each write.
    pub number: u64,
}

/// Fault of a block that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockFault {
    /// The block is not an intact version, or belongs to another file or offset.
    Torn,
    /// The block is older than a version that this client has seen.
    Stale,
    /// Two clients have written a version with this number, so one of the writes is lost.
    LostUpdate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    pub path: PathId,
    /// Offset of the block in its file.
    pub offset: u64,
}

/// The newest version of each block that a client has seen.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    seen: HashMap<Block, Version>,
}

impl Versions {
    /// Checks the data of a block against the rules, and returns its version.
    ///
    /// # Errors
    /// The rule that the block violates.
    pub fn check(&mut self, block: Block, data: &[u8]) -> Result<Version, BlockFault> {
        let version = version_of(block, data).ok_or(BlockFault::Torn)?;
        if let Some(seen) = self.seen.get(&block) {
            if version.number < seen.number {
                return Err(BlockFault::Stale);
            }
            if version.number == seen.number && version.writer != seen.writer {
                return Err(BlockFault::LostUpdate);
            }
        }
        self.seen.insert(block, version);
        Ok(version)
    }

    /// Returns the version that `writer` must write next. Its number follows the newest number seen of the block, or is
    /// 0 if none was seen.
    pub fn next(&self, block: Block, writer: u32) -> Version {
        let number = self.seen.get(&block).map_or(0, |seen| seen.number + 1);
        Version { writer, number }
    }

    /// Accepts the data even if it is older than the newest version seen. Returns its version if it is intact.
    pub fn put_back(&mut self, block: Block, data: &[u8]) -> Option<Version> {
        let version = version_of(block, data)?;
        self.seen.insert(block, version);
        Some(version)
    }

    /// Returns the number of the newest version seen of a block.
    pub fn newest(&self, block: Block) -> Option<u64> {
        self.seen.get(&block).map(|seen| seen.number)
    }

    /// Records that the server has acknowledged a write of this version.
    pub fn written(&mut self, block: Block, version: Version) {
        self.seen.insert(block, version);
    }
}

/// Fills `into` with a block of `bytes` bytes, clamped to [`LEAST_BLOCK_BYTES`] to [`MOST_BYTES_AT_ONCE`].
pub fn write_block(into: &mut Vec<u8>, block: Block, version: Version, bytes: u32) {
    let bytes = (bytes.max(LEAST_BLOCK_BYTES) as usize).min(MOST_BYTES_AT_ONCE);
    let body = Writing {
        client: version.writer,
        level: 0,
        file: block.path.0,
        generation: (version.number % (u64::from(u32::MAX) + 1)) as u32,
    };
    into.clear();
    into.extend_from_slice(&MAGIC);
    into.extend_from_slice(&block.offset.to_le_bytes());
    into.extend_from_slice(&version.number.to_le_bytes());
    into.extend_from_slice(&version.writer.to_le_bytes());
    into.extend_from_slice(&block.path.0.to_le_bytes());
    into.extend_from_slice(&[0; 8]);
    into.extend_from_slice(content_of(body, block.offset, bytes - HEADER_BYTES));
    let checksum = xxh3_64(into);
    into[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns the version of a block, or None if the block is damaged or belongs elsewhere.
fn version_of(block: Block, data: &[u8]) -> Option<Version> {
    let word = |at: usize| Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?));
    let version = Version {
        number: word(16)?,
        writer: half(24)?,
    };
    let mut expected = Vec::with_capacity(data.len());
    let bytes = u32::try_from(data.len()).ok()?;
    write_block(&mut expected, block, version, bytes);
    (expected == data).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Block = Block {
        path: PathId(3),
        offset: 8192,
    };

    fn block(writer: u32, number: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_block(&mut bytes, BLOCK, Version { writer, number }, 4096);
        bytes
    }

    #[test]
    fn a_version_is_recognised_and_any_changed_byte_or_other_offset_is_torn() {
        let whole = block(7, 9);
        let version = Version { writer: 7, number: 9 };
        assert_eq!(Versions::default().check(BLOCK, &whole), Ok(version));
        for place in 0..whole.len() {
            let mut torn = whole.clone();
            torn[place] ^= 1;
            assert_eq!(
                Versions::default().check(BLOCK, &torn),
                Err(BlockFault::Torn),
                "{place}"
            );
        }
        for place in [
            Block { offset: 0, ..BLOCK },
            Block {
                path: PathId(4),
                ..BLOCK
            },
        ] {
            assert_eq!(Versions::default().check(place, &whole), Err(BlockFault::Torn));
        }
        for bytes in [0, 1, 39, 40, 4095] {
            assert_eq!(
                Versions::default().check(BLOCK, &whole[..bytes]),
                Err(BlockFault::Torn)
            );
        }
    }

    #[test]
    fn halves_of_two_versions_are_torn_wherever_they_are_joined() {
        let (old, new) = (block(1, 4), block(2, 5));
        for cut in [17, 24, 40, 512, 2048, 4095] {
            let mixed = [&new[..cut], &old[cut..]].concat();
            assert_eq!(
                Versions::default().check(BLOCK, &mixed),
                Err(BlockFault::Torn),
                "{cut}"
            );
        }
    }

    #[test]
    fn an_older_version_and_a_second_version_of_a_number_are_faults() {
        let mut versions = Versions::default();
        assert_eq!(versions.next(BLOCK, 1), Version { writer: 1, number: 0 });
        assert!(versions.check(BLOCK, &block(1, 4)).is_ok());
        assert!(versions.check(BLOCK, &block(1, 4)).is_ok());
        assert_eq!(versions.check(BLOCK, &block(1, 3)), Err(BlockFault::Stale));
        assert_eq!(versions.check(BLOCK, &block(2, 4)), Err(BlockFault::LostUpdate));
        let mine = versions.next(BLOCK, 2);
        assert_eq!(mine, Version { writer: 2, number: 5 });
        versions.written(BLOCK, mine);
        assert_eq!(versions.check(BLOCK, &block(1, 4)), Err(BlockFault::Stale));
        assert_eq!(versions.check(BLOCK, &block(1, 5)), Err(BlockFault::LostUpdate));
        assert!(versions.check(BLOCK, &block(9, 12)).is_ok());
    }
}
