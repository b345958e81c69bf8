//! Settings that all file protocols share in a level document's `client` section: cache and workspace.

use super::client::CachedClient;
use super::sessions::KeptBy;
use crate::problems::Problems;
use crate::spec::nanoseconds;
use dyno_files::{
    AttributeAges, Cache, CacheOptions, Caching, Counted, FileClient, Policy, Redirector, Uncached,
};
use dyno_measure::NS_PER_S;
use serde::Deserialize;
use serde_json::{json, Value};

const MAX_DORMANT_FILES: u32 = 100_000;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum CacheName {
    None,
    Oplocks,
    Leases,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientSection {
    cache: CacheName,
    redirector: Redirector,
    dormant_files: u32,
    dormant_s: f64,
    directory_leases: bool,
    keep_workspace: bool,
}

/// Options of clients that use files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilesOptions {
    /// None: operations go directly to the server.
    cache: Option<CacheOptions>,
    /// Whether writes stay unstable until the workload flushes them; only without a cache.
    as_sent: bool,
    /// Whether to keep the workspaces for the next level.
    pub keep_workspace: bool,
}

impl FilesOptions {
    /// Reads the section `client` of a level document.
    pub(crate) fn read(section: &Value, problems: &mut Problems) -> Option<Self> {
        let section: ClientSection = problems.section("client", section)?;
        problems.bounded(section.dormant_files <= MAX_DORMANT_FILES, "client.dormant_files");
        problems.bounded((0.0..=3600.0).contains(&section.dormant_s), "client.dormant_s");
        Some(Self {
            cache: section.cache_options(),
            as_sent: false,
            keep_workspace: section.keep_workspace,
        })
    }

    pub(crate) fn usual() -> Self {
        Self {
            cache: Some(CacheOptions::modern()),
            as_sent: false,
            keep_workspace: false,
        }
    }

    /// Returns the options, restricted to the caching that the protocol permits.
    pub(crate) fn kept_by(self, kept_by: KeptBy) -> Self {
        let cache = match kept_by {
            KeptBy::Grants => self.cache,
            KeptBy::Rules { delegations } => self
                .cache
                .filter(|cache| cache.policy != Policy::Nothing)
                .map(|cache| close_to_open(cache, delegations)),
            KeptBy::Kernel => None,
        };
        Self { cache, ..self }
    }

    /// Returns whether a client's writes may reach the server only at its close.
    pub(super) fn is_close_to_open(self) -> bool {
        self.cache
            .is_some_and(|cache| matches!(cache.policy, Policy::CloseToOpen(_)))
    }

    /// Returns the options for a workload that flushes its writes, or None if there is a client cache.
    pub(super) fn as_sent(self) -> Option<Self> {
        self.cache.is_none().then_some(self.without_cache())
    }

    /// Returns the options for a program that flushes its writes.
    pub(super) fn without_cache(self) -> Self {
        Self {
            cache: None,
            as_sent: true,
            ..self
        }
    }

    pub(crate) fn client<C: FileClient>(&self, session: C) -> CachedClient<C> {
        let counted = Counted::new(session);
        match self.cache {
            None if self.as_sent => CachedClient::Uncached(Box::new(Uncached::as_sent(counted))),
            None => CachedClient::Uncached(Box::new(Uncached::new(counted))),
            Some(options) => CachedClient::Cached(Box::new(Cache::new(counted, options))),
        }
    }

    /// Returns the effective cache options, or None without a cache.
    pub(crate) fn disclosed(&self) -> Option<Value> {
        let options = self.cache?;
        let asks_for = match options.policy {
            Policy::Nothing => None,
            Policy::CloseToOpen(_) if options.delegations => Some("close-to-open rules and read delegations"),
            Policy::CloseToOpen(_) => Some("close-to-open rules"),
            Policy::Oplock(_) => Some("oplocks"),
            Policy::Lease(_) if options.lease_directories => Some("leases of files and directories"),
            Policy::Lease(_) => Some("leases"),
        };
        Some(json!({
            "asks_for": asks_for,
            "redirector": options.redirector,
            "most_bytes": options.most_bytes.max(CacheOptions::LEAST_BYTES),
            "page_bytes": CacheOptions::PAGE_BYTES,
            "read_run_bytes": options.read_run_bytes,
            "write_run_bytes": options.write_run_bytes,
            "read_ahead_bytes": options.read_ahead_bytes,
            "most_deferred": options.most_deferred,
            "deferred_age_s": options.deferred_age_ns as f64 / NS_PER_S as f64,
        }))
    }
}

/// Returns the options for an NFS client. Handles are kept only under a delegation.
fn close_to_open(cache: CacheOptions, delegations: bool) -> CacheOptions {
    let delegations = delegations && matches!(cache.policy, Policy::Lease(_));
    CacheOptions {
        policy: Policy::CloseToOpen(AttributeAges::default()),
        redirector: Redirector::Plain,
        most_deferred: if delegations { cache.most_deferred } else { 0 },
        delegations,
        ..cache
    }
}

impl ClientSection {
    fn cache_options(&self) -> Option<CacheOptions> {
        let like = match self.redirector {
            Redirector::Xp => CacheOptions::default(),
            Redirector::Plain => CacheOptions::modern(),
        };
        let policy = match self.cache {
            // Without a cache, Windows XP's handling of deletes and renames still applies.
            CacheName::None if like.redirector == Redirector::Xp => Policy::Nothing,
            CacheName::None => return None,
            CacheName::Oplocks => Policy::Oplock(Caching::ALL),
            CacheName::Leases => Policy::Lease(Caching::ALL),
        };
        let asks = policy != Policy::Nothing;
        let lease_directories = self.directory_leases && matches!(policy, Policy::Lease(_));
        Some(CacheOptions {
            policy,
            lease_directories,
            most_deferred: if asks {
                self.dormant_files
            } else {
                like.most_deferred
            },
            deferred_age_ns: if asks {
                nanoseconds(self.dormant_s)
            } else {
                like.deferred_age_ns
            },
            ..like
        })
    }
}
