//! Random numbers of workloads: Xoshiro256++, and functions on it. They never change.
//!
//! Seeding and range reduction are written out here, because a seed must give the same operations even if a
//! library changes. Do not use them for secrets: whoever knows the seed can predict every number.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Seed word that distinguishes streams of file contents from streams of requests. Changing it changes every
/// content.
const CONTENT_SEED: u64 = u64::from_le_bytes(*b"content1");
/// Seed word that distinguishes streams of requests from streams of contents. Changing it changes every
/// request.
const REQUEST_SEED: u64 = u64::from_le_bytes(*b"request1");

#[derive(Clone, Debug)]
pub(crate) struct RandomStream(Xoshiro256PlusPlus);

impl RandomStream {
    /// Returns the stream of one client thread.
    ///
    /// Its state is four outputs of SplitMix64, seeded with XXH3-64 over the three numbers (8, 4 and 4 bytes,
    /// little endian). The probability that two of a million streams coincide is 3 in 10^8.
    pub(crate) fn of_thread(suite_seed: u64, client: u32, thread: u32) -> Self {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&suite_seed.to_le_bytes());
        key[8..12].copy_from_slice(&client.to_le_bytes());
        key[12..].copy_from_slice(&thread.to_le_bytes());
        Self::from_word(xxh3_64_with_seed(&key, REQUEST_SEED))
    }

    /// Returns the stream for the content of the file at `path`.
    pub(crate) fn of_file(path: &str) -> Self {
        Self::from_word(xxh3_64(path.as_bytes()) ^ CONTENT_SEED)
    }

    /// Seeds the generator with SplitMix64, as its authors recommend (Blackman and Vigna, prng.di.unimi.it).
    fn from_word(word: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(word))
    }

    /// Returns a number from 0 to `bound` - 1: the upper half of the 128-bit product of a draw and `bound`.
    ///
    /// Takes one draw per number. The relative bias of any value is at most `bound` / 2^64.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let product = u128::from(self.0.next_u64()) * u128::from(bound);
        u32::try_from(product >> 64).expect("the upper half is less than the bound")
    }

    /// Fills `bytes`, eight per draw, little endian. A remainder of one to four bytes takes the upper half of a draw.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::RandomStream;

    #[test]
    fn the_generator_is_xoshiro256_plus_plus_seeded_by_splitmix64() {
        // Calculate the two published algorithms independently, so that a change of the library's seeding
        // fails this test.
        let mut word = 42_u64;
        let mut state = [0_u64; 4].map(|_| {
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        });
        let mut stream = RandomStream::from_word(42);
        for _ in 0..1000 {
            let sum = state[0].wrapping_add(state[3]);
            let expected = sum.rotate_left(23).wrapping_add(state[0]);
            let shifted = state[1] << 17;
            state[2] ^= state[0];
            state[3] ^= state[1];
            state[1] ^= state[2];
            state[0] ^= state[3];
            state[2] ^= shifted;
            state[3] = state[3].rotate_left(45);
            let mut drawn = [0; 8];
            stream.fill(&mut drawn);
            assert_eq!(u64::from_le_bytes(drawn), expected);
        }
    }

    #[test]
    fn range_reduction_reaches_both_ends_and_never_the_bound() {
        let mut stream = RandomStream::of_thread(1, 0, 0);
        let mut counts = [0; 3];
        for _ in 0..1000 {
            counts[stream.below(3) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| count > 250), "{counts:?}");
    }
}
