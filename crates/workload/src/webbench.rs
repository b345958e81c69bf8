//! The WebBench static workload: selects a client thread's next file.
//!
//! For each request, a class is drawn by its weight, then a file of the class, with equal probability. That
//! the original also drew files with equal probability is remembered, not confirmed.

use std::sync::Arc;

use crate::random::RandomStream;
use crate::{Get, Outcome, Tree, Workload};

#[derive(Clone, Debug)]
pub struct WebbenchStatic {
    tree: Arc<Tree>,
    random: RandomStream,
}

impl WebbenchStatic {
    /// Returns the request stream of one thread of one client. Each (seed, client, thread) has its own
    /// stream.
    pub fn new(tree: Arc<Tree>, seed: u64, client: u32, thread: u32) -> Self {
        Self {
            tree,
            random: RandomStream::of_thread(seed, client, thread),
        }
    }
}

impl Workload for WebbenchStatic {
    type Op = Get;

    fn next(&mut self, _last: &Outcome) -> Get {
        draw(&self.tree, &mut self.random)
    }
}

/// Draws the next document of the tree: its class by weight, then one path of the class.
pub(crate) fn draw(tree: &Tree, random: &mut RandomStream) -> Get {
    let percents = tree.percents();
    let drawn = random.below(percents.len() as u32);
    let stretch = percents[drawn as usize];
    Get {
        class: stretch.class,
        path: stretch.first + random.below(stretch.count),
    }
}
