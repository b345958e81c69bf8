//! Position of a request: its row in the tables of offsets and of relations, and the alignment of its offset.
//!
//! `fill.rs` and `exchange.rs` choose offsets.

use super::facts::OCTAVES;

/// Rows of the tables of relations.
const FIRST_AT_ZERO: usize = 0;
const FIRST_ELSEWHERE: usize = 1;
pub(super) const SEQUENTIAL: usize = 2;
const BEYOND: usize = 3;
pub(super) const OVERLAPPING: usize = 4;
const SAME: usize = 5;
pub(super) const BACKWARD: usize = 6;

/// Returns the row in a table of offsets for a seeking request.
pub(super) fn octave(offset: u64) -> usize {
    OCTAVES.partition_point(|&begin| begin <= offset)
}

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

/// Returns the alignment of an offset: 2,048 bytes for pages and 512 for sectors, both divided by 256,
/// because the original has lost all but three digits of its offsets.
pub(super) fn alignment(bytes: u32) -> u64 {
    match bytes {
        2048.. => 8,
        512.. => 2,
        _ => 1,
    }
}
