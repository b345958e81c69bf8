//! How the cache behaves, and what it counts. Data alone.

use super::pages;
use super::policy::{AttributeAges, Policy};
use crate::call::Caching;

/// Whose manners the calls below the cache have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirector {
    /// Those of Windows XP, as the captures of 2004 show them: a growing file is extended by writing its last byte and
    /// asked for its size; a delete looks the path up before, a rename looks both up and opens and closes the old one; a
    /// delete or rename closes every handle that is kept on the share (in the captures no handle of the seed files lives
    /// through an application's deletes elsewhere); an open for attributes alone closes the one that is kept of that
    /// file; the close of a handle through which a file was made or has grown isn't put off.
    Xp,
    /// None beyond what caching needs.
    Plain,
}

/// How the cache behaves. The defaults are the model of the disk mix's client of 2004: Windows XP on a server that
/// grants batch oplocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheOptions {
    /// Who says what may be kept. Default: batch oplocks.
    pub policy: Policy,
    pub redirector: Redirector,
    /// Room for data, in bytes; at least [`CacheOptions::LEAST_BYTES`] is used. Clean pages leave it in the order of
    /// their last use; dirty ones are written out first, and never take more than half of it. A plain redirector that
    /// reads ahead begins with whole runs once they take an eighth, while more is written, and flushes them once the server
    /// has answered as much and may still lose it. Default: 8 MiB.
    pub most_bytes: u64,
    /// Handles kept open after their application has closed them (`DormantFileLimit`). Default: 45.
    pub most_deferred: u32,
    /// How long one is kept (`ScavengerTimeLimit`). Default: 10 s.
    pub deferred_age_ns: u64,
    /// The most that one read below the cache asks for, in whole pages. Default: 61,440, so that the 65,534 bytes that
    /// bulk readers ask for become 61,440 + 4,096.
    pub read_run_bytes: u32,
    /// The most that one write below the cache carries. Default: 65,536.
    pub write_run_bytes: u32,
    /// How much more is fetched where an application reads on from where it stopped; by a plain redirector while it
    /// reads, so that as much as this is on its way ahead of it, and at most a quarter of the room. Default: nothing:
    /// the captures' client fetched what was asked for, in whole pages, and no more.
    pub read_ahead_bytes: u32,
    /// Locks of files that may not be written are kept here instead of going to the server and stopping caching
    /// (`DisableByteRangeLockingOnReadOnlyFiles`). Default: no.
    pub lock_free_read_only: bool,
    /// By close-to-open rules, files that are opened to be read are asked a lease for all the same, as Linux's NFS client
    /// asks for a read delegation: while the server grants one, nothing of the file ages, and it is opened again without
    /// asking. Default: no.
    pub delegations: bool,
    /// Under leases of files, directories are leased, too, where the server does that: listings and look-ups are kept.
    /// Default: no.
    pub lease_directories: bool,
}

impl CacheOptions {
    /// Of a page: what is fetched and kept at once.
    pub const PAGE_BYTES: u64 = pages::PAGE_BYTES;

    /// Less room than this is not kept to: a large read and a large write need it at once.
    pub const LEAST_BYTES: u64 = 1 << 20;

    /// A client of today of a protocol without grants: close-to-open with Linux's ages, transfers of 1 MiB, read-ahead.
    #[must_use]
    pub fn close_to_open() -> Self {
        Self {
            policy: Policy::CloseToOpen(AttributeAges::default()),
            ..Self::modern()
        }
    }

    /// A client of today: leases, transfers of 1 MiB, read-ahead, and no manners of 2004. Its sizes are a choice, not
    /// measured from any one system.
    #[must_use]
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

/// What the cache has done so far, over all its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounts {
    /// Opens answered with a handle that was open already.
    pub opens_joined: u64,
    pub closes_deferred: u64,
    /// Reads answered from pages alone.
    pub reads_hit: u64,
    /// Reads for which pages were fetched, or which waited for pages that were on their way.
    pub reads_missed: u64,
    /// Reads that went through, because the server lets nothing be kept of that file.
    pub reads_through: u64,
    pub writes_kept: u64,
    /// Writes that went through.
    pub writes_through: u64,
    /// Pages fetched, by reads, by what was fetched ahead of them, and to be overwritten in part.
    pub pages_fetched: u64,
    pub breaks: u64,
    /// Of them, those of leases of directories.
    pub directory_breaks: u64,
    /// Listings answered from what is kept of a directory.
    pub listings_kept: u64,
    /// Look-ups of names answered so, also by opens of what is not there.
    pub look_ups_kept: u64,
}
