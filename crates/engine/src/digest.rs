//! The digest of what a client thread did first: whether two mixes made the same operations, whoever carried them.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Takes note of a client thread's first operations, in their order.
#[derive(Debug)]
pub(crate) struct OperationsDigest {
    missing: u32,
    hasher: Option<DefaultHasher>,
}

impl OperationsDigest {
    /// Of so many operations of one thread of a client; of none there is no digest.
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

    /// The same for the same operations of the same number.
    pub(crate) fn finish(&self) -> Option<u64> {
        self.hasher.as_ref().map(Hasher::finish)
    }
}
