//! Options and counters of the cache.

use super::pages;
use super::policy::{AttributeAges, Policy};
use crate::call::Caching;
use serde::{Deserialize, Serialize};

/// Client implementation whose calls the cache imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redirector {
    /// Windows XP, as in the captures of 2004. It extends a file by writing the new last byte, then queries the file's
    /// size. Before a delete, it looks up the path. Before a rename, it looks up both paths, and opens and closes the
    /// old one. A delete or rename first performs all deferred closes on the share. An open for attributes performs
    /// the deferred closes of its file. Closing a handle through which a file was created or extended is not deferred.
    Xp,
    Plain,
}

/// Options of the cache. The defaults model the client of the disk mix of 2004: Windows XP on a server that grants
/// batch oplocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheOptions {
    /// Policy of caching. Default: batch oplocks.
    pub policy: Policy,
    pub redirector: Redirector,
    /// Memory for data, in bytes; at least [`CacheOptions::LEAST_BYTES`]. Clean pages are evicted in order of last
    /// use. Dirty pages use at most half, and are written before they are evicted. `Redirector::Plain` with read-ahead
    /// starts to write whole runs when an eighth is dirty. It starts a flush when the server has answered that much
    /// and may still lose it. Default: 8 MiB.
    pub most_bytes: u64,
    /// Maximum number of handles with a deferred close (`DormantFileLimit`). Default: 45.
    pub most_deferred: u32,
    /// Time for which closes are deferred (`ScavengerTimeLimit`). Default: 10 s.
    pub deferred_age_ns: u64,
    /// Maximum size of a read sent to the server, in whole pages. Default: 61,440, so that a bulk read of 65,534 bytes
    /// becomes 61,440 + 4,096.
    pub read_run_bytes: u32,
    /// Maximum size of a write sent to the server. Default: 65,536.
    pub write_run_bytes: u32,
    /// Read-ahead for sequential reads. `Redirector::Plain` keeps this much in flight, at most a quarter of the
    /// memory. Default: 0, because the client in the captures fetched only the requested pages.
    pub read_ahead_bytes: u32,
    /// Keep locks of read-only files locally, without disabling caching
    /// (`DisableByteRangeLockingOnReadOnlyFiles`). Default: no.
    pub lock_free_read_only: bool,
    /// With `Policy::CloseToOpen`, request a lease when a file is opened for reading, as Linux's NFS client requests a
    /// read delegation. Under the lease, cached data of the file does not expire. Default: no.
    pub delegations: bool,
    /// With file leases, also lease directories if the server supports it, to cache listings and look-ups.
    /// Default: no.
    pub lease_directories: bool,
}

impl CacheOptions {
    pub const PAGE_BYTES: u64 = pages::PAGE_BYTES;

    pub const LEAST_BYTES: u64 = 1 << 20;

    /// Returns the options of a present-day client without leases: close-to-open with Linux's attribute ages,
    /// transfers of 1 MiB, read-ahead.
    pub fn close_to_open() -> Self {
        Self {
            policy: Policy::CloseToOpen(AttributeAges::default()),
            ..Self::modern()
        }
    }

    /// Returns the options of a present-day client: leases, transfers of 1 MiB, read-ahead, no imitation of
    /// Windows XP. The sizes are a choice, not measured from one system.
    pub fn modern() -> Self {
        Self {
            policy: Policy::Lease(Caching::ALL),
            redirector: Redirector::Plain,
            read_run_bytes: 1 << 20,
            write_run_bytes: 1 << 20,
            read_ahead_bytes: 1 << 20,
            ..Self::default()
        }
    }
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            policy: Policy::Oplock(Caching::ALL),
            redirector: Redirector::Xp,
            most_bytes: 8 << 20,
            most_deferred: 45,
            deferred_age_ns: 10_000_000_000,
            read_run_bytes: 61_440,
            write_run_bytes: 65_536,
            read_ahead_bytes: 0,
            lock_free_read_only: false,
            delegations: false,
            lease_directories: false,
        }
    }
}

/// Counters of the cache over all its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounts {
    pub opens_joined: u64,
    pub closes_deferred: u64,
    /// Reads answered from pages.
    pub reads_hit: u64,
    /// Reads that fetched pages, or waited for pages that were being fetched.
    pub reads_missed: u64,
    /// Reads without caching, because the server does not allow caching of that file.
    pub reads_through: u64,
    pub writes_kept: u64,
    /// Writes sent without caching.
    pub writes_through: u64,
    /// Pages fetched by reads, read-ahead and partial overwrites.
    pub pages_fetched: u64,
    pub breaks: u64,
    /// Breaks of directory leases, also counted in `breaks`.
    pub directory_breaks: u64,
    /// Listings answered from the cache.
    pub listings_kept: u64,
    /// Look-ups answered from the cache, also for opens of missing files.
    pub look_ups_kept: u64,
}
