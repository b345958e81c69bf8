//! Digest of a client thread's first operations, to check that two levels performed the same operations.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Hashes a client thread's first operations in order.
#[derive(Debug)]
pub(crate) struct OperationsDigest {
    missing: u32,
    hasher: Option<DefaultHasher>,
}

impl OperationsDigest {
    /// Creates a digest of the first `operations` operations of one thread; 0: no digest.
    pub(crate) fn new(operations: u32, thread: usize) -> Self {
        let hasher = || {
            let mut hasher = DefaultHasher::new();
            hasher.write_usize(thread);
            hasher
        };
        Self {
            missing: operations,
            hasher: (operations > 0).then(hasher),
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, operation: &impl Hash) {
        if self.missing > 0 {
            self.missing -= 1;
            if let Some(hasher) = &mut self.hasher {
                operation.hash(hasher);
            }
        }
    }

    /// Returns the digest, or None if none was requested. Equal operations have equal digests.
    pub(crate) fn finish(&self) -> Option<u64> {
        self.hasher.as_ref().map(Hasher::finish)
    }
}
