//! Helpers shared by the servers of all protocols.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::rand::{getrandom, GetRandomFlags};
use serde::de::DeserializeOwned;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) const NS_PER_MS: u64 = 1_000_000;

/// Returns incompressible bytes. The same length gives the same bytes on every machine.
pub(crate) fn incompressible(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Xoshiro256PlusPlus::seed_from_u64(0).fill_bytes(&mut bytes);
    bytes
}

/// Returns `N` random bytes from the kernel; `N` is at most 256.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let got = getrandom(&mut bytes[..], GetRandomFlags::empty());
    got.expect("the kernel returns this many bytes at once");
    bytes
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // If the mutex is poisoned, the panic has already been printed to standard error. The other threads continue with
    // the current data.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A named tree of files: an SMB share or an NFS export.
#[derive(Debug)]
pub(crate) struct Share<Volume> {
    pub(crate) name: String,
    volume: Mutex<Volume>,
}

impl<Volume> Share<Volume> {
    pub(crate) fn new(name: &str, volume: Volume) -> Self {
        Self {
            name: name.to_owned(),
            volume: Mutex::new(volume),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Volume> {
        lock(&self.volume)
    }
}

/// Parses the default options in a file that `tools/complete_documents.py` generates from the control plane's
/// models.
pub(crate) fn usual<T: DeserializeOwned>(document: &str) -> T {
    serde_json::from_str(document).expect("the generated file is valid")
}
