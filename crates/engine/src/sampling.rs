//! Selects the reads whose content is checked.

use rand_xoshiro::rand_core::RngCore;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Distinguishes the random stream for sampling from those for operations and delays.
pub(crate) const SAMPLING_STREAM: u64 = 0x7361_6d70_6c69_6e67;

/// Selects a given share of all reads. It has its own random stream, so that checks never change the
/// workload.
#[derive(Debug)]
pub(crate) struct Sampling {
    below: u64,
    random: Xoshiro256PlusPlus,
}

impl Sampling {
    pub(crate) fn new(share: f64, random: Xoshiro256PlusPlus) -> Self {
        // A share of 1 must select every read: the conversion saturates at the largest integer.
        let below = (share * 2f64.powi(64)) as u64;
        Self { below, random }
    }

    pub(crate) fn draw(&mut self) -> bool {
        self.below == u64::MAX || self.random.next_u64() < self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    fn sampled(share: f64) -> usize {
        let mut sampling = Sampling::new(share, Xoshiro256PlusPlus::seed_from_u64(1));
        (0..10_000).filter(|_| sampling.draw()).count()
    }

    #[test]
    fn all_none_or_the_given_share_of_bodies_is_checked() {
        assert_eq!((sampled(1.0), sampled(0.0)), (10_000, 0));
        assert!((2_300..2_700).contains(&sampled(0.25)));
    }
}
