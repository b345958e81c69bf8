//! The WebBench workloads with dynamic content: static documents and the dynamic page, some of both over TLS.
//!
//! For each request, two draws with published shares decide whether to use TLS and whether the request is
//! dynamic. For a static request, a document is drawn as in the static workload. The crate `dyno-page`
//! contains the page.

use std::sync::Arc;

use crate::random::RandomStream;
use crate::webbench::draw;
use crate::{ClassId, Get, Outcome, Tree, Workload};

/// Unit of shares: 1 / `PARTS`.
pub const PARTS: u32 = 10_000;

/// Shares of the requests, in ten-thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// Share of all requests that use TLS.
    pub secure: u32,
    /// Share of requests over TLS that are for the dynamic page.
    pub dynamic_of_secure: u32,
    /// Share of requests without TLS that are for the dynamic page.
    pub dynamic_of_clear: u32,
}

impl Shares {
    /// Converts shares between 0 and 1. `secure` and `dynamic` are shares of all requests; `dynamic` counts only
    /// dynamic requests without TLS. Returns None if a share is out of range or `secure` and `dynamic` exceed 1
    /// together.
    pub fn new(dynamic: f64, secure: f64, dynamic_of_secure: f64) -> Option<Self> {
        let sound = |share: f64| (0.0..=1.0).contains(&share);
        if ![dynamic, secure, dynamic_of_secure].into_iter().all(sound) || dynamic + secure > 1.0 + 1e-9 {
            return None;
        }
        let parts = |share: f64| (share * f64::from(PARTS)).round() as u32;
        let clear = 1.0 - secure;
        Some(Self {
            secure: parts(secure),
            dynamic_of_secure: parts(dynamic_of_secure),
            dynamic_of_clear: if clear > 0.0 {
                parts((dynamic / clear).min(1.0))
            } else {
                0
            },
        })
    }
}

#[derive(Clone, Debug)]
pub struct WebbenchDynamic {
    tree: Arc<Tree>,
    shares: Shares,
    random: RandomStream,
}

impl WebbenchDynamic {
    /// Returns the request stream of one thread of one client. Each (seed, client, thread) has its own
    /// stream.
    pub fn new(tree: Arc<Tree>, shares: Shares, seed: u64, client: u32, thread: u32) -> Self {
        Self {
            tree,
            shares,
            random: RandomStream::of_thread(seed, client, thread),
        }
    }
}

impl Workload for WebbenchDynamic {
    type Op = Get;

    fn next(&mut self, _last: &Outcome) -> Get {
        let tree = &self.tree;
        let page = u32::try_from(tree.files().len() + tree.missing().len()).unwrap_or(u32::MAX);
        let page_class = u8::try_from(tree.classes().len()).unwrap_or(u8::MAX);
        let secure = self.random.below(PARTS) < self.shares.secure;
        let dynamic = if secure {
            self.shares.dynamic_of_secure
        } else {
            self.shares.dynamic_of_clear
        };
        let (class, path) = if self.random.below(PARTS) < dynamic {
            (page_class, page)
        } else {
            let document = draw(tree, &mut self.random);
            (document.class.0, document.path)
        };
        let again = u8::from(secure);
        Get {
            class: ClassId(class + again * (page_class + 1)),
            path: path + u32::from(again) * (page + 1),
        }
    }
}
