//! Live response times of a level, counted in buckets whose width is an eighth of their value.
//!
//! There is one writer and no lock. Final results use HDR histograms of the window instead.

use std::sync::atomic::{AtomicU64, Ordering};

const PARTS_LOG2: u32 = 3;
/// Buckets per power of two.
const PARTS: u64 = 1 << PARTS_LOG2;
const BUCKETS: usize = ((u64::BITS - PARTS_LOG2 + 1) << PARTS_LOG2) as usize;
/// Minimum number of answers for a 99th percentile: with fewer, it depends on single answers.
const FEWEST: u64 = 1000;

/// Counts of one engine thread.
#[derive(Debug)]
pub(crate) struct ResponseTimes(Box<[AtomicU64]>);

impl Default for ResponseTimes {
    fn default() -> Self {
        Self((0..BUCKETS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl ResponseTimes {
    /// Counts one response. Only the single writer may call it.
    pub(crate) fn record(&self, ns: u64) {
        let count = &self.0[bucket(ns)];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Returns the 99th percentile over all engine threads in nanoseconds, at most an eighth too high; None if there are
/// too few answers.
pub(crate) fn p99_ns<'a>(of: impl Iterator<Item = &'a ResponseTimes>) -> Option<u64> {
    let mut counts = vec![0u64; BUCKETS];
    for times in of {
        for (sum, count) in counts.iter_mut().zip(&times.0) {
            *sum += count.load(Ordering::Relaxed);
        }
    }
    let total: u64 = counts.iter().sum();
    if total < FEWEST {
        return None;
    }
    let mut beyond = total / 100;
    let highest = counts.iter().rposition(|count| {
        let here = *count > beyond;
        beyond = beyond.saturating_sub(*count);
        here
    });
    highest.map(upper_ns)
}

fn bucket(ns: u64) -> usize {
    let bucket = match ns.checked_ilog2() {
        Some(log2) if log2 >= PARTS_LOG2 => {
            let shift = log2 - PARTS_LOG2;
            u64::from(shift + 1) * PARTS + (ns >> shift) % PARTS
        }
        _ => ns,
    };
    bucket as usize
}

/// Returns the largest value of a bucket.
fn upper_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    match (bucket / PARTS).checked_sub(1) {
        None => bucket,
        Some(shift) => ((u128::from(PARTS + bucket % PARTS + 1) << shift) - 1) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_at_most_an_eighth_below_the_end_of_its_bucket() {
        let edges = (0..64).flat_map(|log2| {
            let power = 1u64 << log2;
            [power - 1, power, power + power / 8, power + power / 2]
        });
        for ns in edges.chain([u64::MAX]) {
            let upper = upper_ns(bucket(ns));
            assert!(ns <= upper && upper - ns <= ns / 8, "{ns} is told as {upper}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_99th_percentile_covers_all_threads_and_needs_enough_responses() {
        let (one, other) = (ResponseTimes::default(), ResponseTimes::default());
        for _ in 0..495 {
            one.record(1_000);
            other.record(2_000);
        }
        assert_eq!(p99_ns([&one, &other].into_iter()), None);
        for _ in 0..10 {
            other.record(1_000_000);
        }
        assert_eq!(p99_ns([&one, &other].into_iter()), Some(2_047));
        other.record(1_000_000);
        assert_eq!(
            p99_ns([&one, &other].into_iter()).map(|ns| ns / 100_000),
            Some(10)
        );
    }
}
