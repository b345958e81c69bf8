//! Where a request lies: its row in the tables of offsets and of relations, and what its offset is a multiple of.
//!
//! Not for: choosing offsets (`fill.rs`, `exchange.rs`).

use super::facts::OCTAVES;

/// Rows of the tables of relations.
const FIRST_AT_ZERO: usize = 0;
const FIRST_ELSEWHERE: usize = 1;
pub(super) const SEQUENTIAL: usize = 2;
const BEYOND: usize = 3;
pub(super) const OVERLAPPING: usize = 4;
const SAME: usize = 5;
pub(super) const BACKWARD: usize = 6;

/// Row of a table of offsets for a request that does not continue the one before.
pub(super) fn octave(offset: u64) -> usize {
    OCTAVES.partition_point(|&begin| begin <= offset)
}

/// Row of a table of relations.
pub(super) fn relation(before: Option<(u64, u64)>, offset: u64) -> usize {
    match before {
        None if offset == 0 => FIRST_AT_ZERO,
        None => FIRST_ELSEWHERE,
        Some((_, end)) if offset == end => SEQUENTIAL,
        Some((_, end)) if offset > end => BEYOND,
        Some((start, _)) if offset > start => OVERLAPPING,
        Some((start, _)) if offset == start => SAME,
        Some(_) => BACKWARD,
    }
}

/// Offsets keep the alignment that their originals had before all but three digits were lost: 2,048 bytes for pages
/// and 512 for sectors, divided by 256.
pub(super) fn alignment(bytes: u32) -> u64 {
    match bytes {
        2048.. => 8,
        512.. => 2,
        _ => 1,
    }
}
