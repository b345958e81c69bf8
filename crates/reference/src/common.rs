//! What both servers have, and is neither's protocol.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::de::DeserializeOwned;

pub(crate) const NS_PER_MS: u64 = 1_000_000;

/// The same bytes for the same length, on every machine.
pub(crate) fn incompressible(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Xoshiro256PlusPlus::seed_from_u64(0).fill_bytes(&mut bytes);
    bytes
}

/// The options of a file that `tools/complete_documents.py` makes from the control plane's models.
pub(crate) fn usual<T: DeserializeOwned>(document: &str) -> T {
    serde_json::from_str(document).expect("the file is as made")
}
