//! Contents of files: incompressible and seeded, so that any reader can compute them.
//!
//! Contents are slices of one pool of random bytes, so that a write needs no copy and a check is one
//! comparison. The pool's period is a prime number of bytes. No two blocks of a file are therefore equal, at
//! the block sizes that servers inspect for duplicates.

use crate::random::RandomStream;
use std::sync::OnceLock;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Period of the pool: the largest prime below 1 MiB.
const PERIOD: usize = 1_048_573;
/// Maximum size of one piece.
pub const MOST_BYTES_AT_ONCE: usize = 1 << 20;
const FILE_SEED: u64 = u64::from_le_bytes(*b"shifts01");

fn pool() -> &'static [u8] {
    static POOL: OnceLock<Box<[u8]>> = OnceLock::new();
    POOL.get_or_init(|| {
        let mut pool = vec![0; PERIOD + MOST_BYTES_AT_ONCE];
        RandomStream::of_file("pool").fill(&mut pool[..PERIOD]);
        let (once, again) = pool.split_at_mut(PERIOD);
        again.copy_from_slice(&once[..MOST_BYTES_AT_ONCE.min(PERIOD)].repeat(2)[..MOST_BYTES_AT_ONCE]);
        pool.into_boxed_slice()
    })
}

/// Identity of a file's content: its owner, file and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writing {
    pub client: u32,
    /// The level that wrote the content, so that data left by an earlier level is not mistaken for it.
    pub level: u32,
    /// Number of the file. A rename keeps the number.
    pub file: u32,
    /// Incremented whenever the file, or a part of it, is rewritten.
    pub generation: u32,
}

/// Returns `bytes` bytes of the content, starting at `offset`. `bytes` is at most [`MOST_BYTES_AT_ONCE`].
pub fn content_of(writing: Writing, offset: u64, bytes: usize) -> &'static [u8] {
    let numbers = [writing.client, writing.level, writing.file, writing.generation];
    let mut key = [0; 16];
    for (place, number) in key.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    let shift = xxh3_64_with_seed(&key, FILE_SEED) % PERIOD as u64;
    let start = ((shift + offset % PERIOD as u64) % PERIOD as u64) as usize;
    &pool()[start..start + bytes]
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Writing = Writing {
        client: 1,
        level: 4,
        file: 2,
        generation: 3,
    };

    #[test]
    fn content_is_the_same_however_it_is_divided() {
        let whole = content_of(ONE, 5_000_000, 10_000);
        let pieces: Vec<u8> = (0..10)
            .flat_map(|piece| content_of(ONE, 5_000_000 + piece * 1000, 1000))
            .copied()
            .collect();
        assert_eq!(whole, pieces);
        assert_eq!(
            content_of(ONE, PERIOD as u64 - 1, MOST_BYTES_AT_ONCE).len(),
            MOST_BYTES_AT_ONCE
        );
    }

    #[test]
    fn content_differs_between_clients_levels_files_and_generations() {
        let others = [
            Writing { client: 5, ..ONE },
            Writing { level: 5, ..ONE },
            Writing { file: 5, ..ONE },
            Writing { generation: 5, ..ONE },
        ];
        for other in others {
            assert_ne!(content_of(other, 0, 64), content_of(ONE, 0, 64), "{other:?}");
        }
    }
}
