//! Workloads for a user's own server: one path repeatedly, or several paths by weight.
//!
//! The target has the URL's host and port, and checks whether load is permitted.

use crate::random::RandomStream;
use crate::{ClassId, Get, Outcome, Workload};
use std::sync::Arc;

/// Always requests the only path of [`crate::Catalogue::single_url`].
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

/// Requests the paths of [`crate::Catalogue::urls`] in proportion to their weights.
#[derive(Clone, Debug)]
pub struct WeightedUrls {
    /// Cumulative weights.
    sums: Arc<[u32]>,
    random: RandomStream,
}

impl WeightedUrls {
    /// Returns the request stream of one thread of one client. At least one weight must not be zero, and
    /// their sum must fit into 32 bits.
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
