//! The workloads of somebody's own server: the same path again and again, or several by their weights.
//!
//! Not for: the URL's host and port, which belong to the target, nor for whether load may go there.

use crate::random::RandomStream;
use crate::{ClassId, Get, Outcome, Workload};
use std::sync::Arc;

/// Asks for the one path of [`crate::Catalogue::single_url`], always.
#[derive(Clone, Copy, Debug)]
pub struct SingleUrl;

impl Workload for SingleUrl {
    type Op = Get;

    fn next(&mut self, _last: &Outcome) -> Get {
        Get {
            class: ClassId(0),
            path: 0,
        }
    }
}

/// Asks for the paths of [`crate::Catalogue::urls`], each as often as its weight says.
#[derive(Clone, Debug)]
pub struct WeightedUrls {
    /// The sum of the weights up to each path and with it.
    sums: Arc<[u32]>,
    random: RandomStream,
}

impl WeightedUrls {
    /// The stream of one thread of one client, over paths with these weights; at least one must not be zero, and together
    /// they must fit into 32 bits.
    #[must_use]
    pub fn new(weights: &[u32], seed: u64, client: u32, thread: u32) -> Self {
        let sums = weights.iter().scan(0_u32, |sum, weight| {
            *sum = sum.saturating_add(*weight);
            Some(*sum)
        });
        Self {
            sums: sums.collect(),
            random: RandomStream::of_thread(seed, client, thread),
        }
    }
}

impl Workload for WeightedUrls {
    type Op = Get;

    fn next(&mut self, _last: &Outcome) -> Get {
        let all = self.sums.last().copied().unwrap_or(1).max(1);
        let drawn = self.random.below(all);
        let place = self.sums.partition_point(|sum| *sum <= drawn);
        Get {
            class: ClassId(u8::try_from(place).unwrap_or(u8::MAX)),
            path: u32::try_from(place).unwrap_or(u32::MAX),
        }
    }
}
