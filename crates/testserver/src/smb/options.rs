//! What a server of files is to be.

use super::fault::Fault;
use crate::common::usual;
use dyno_measure::NS_PER_S;
use dyno_smb::wire::Dialect;
use serde::{de, Deserialize, Deserializer};
use std::net::SocketAddr;

/// What the holder of an oplock or a lease has for giving it back. MS-SMB2 3.3.2.1: implementation-specific; Windows
/// takes 35 s.
const BREAK_TIMEOUT_NS: u64 = 35 * NS_PER_S;

/// When messages are signed. SMB 2 and 3 know no server that can't.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signing {
    /// Where the client wishes it.
    Auto,
    /// Always; guests are not let in.
    Required,
}

/// When messages are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encryption {
    Off,
    /// Where the client wishes it.
    Auto,
    /// Always; who can't is not let in.
    Required,
}

/// What a server is to be, as the control plane states it: `python/serverdyno/servers/reference_model.py`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Where it listens; port 0 for any that is free.
    pub bind: SocketAddr,
    pub threads: usize,
    /// Names of the shares; each has a tree of its own, empty at first.
    pub shares: Vec<String>,
    /// The one user; without one, everybody is let in as a guest.
    pub user: Option<String>,
    pub password: String,
    /// The oldest version that is spoken.
    #[serde(deserialize_with = "dialect")]
    pub min_dialect: Dialect,
    #[serde(deserialize_with = "dialect")]
    pub max_dialect: Dialect,
    /// When messages are signed.
    pub signing: Signing,
    /// When messages are encrypted.
    pub encryption: Encryption,
    /// Whether oplocks, and leases, are given.
    pub oplocks: bool,
    /// Whether leases are; without oplocks there are none either.
    pub leases: bool,
    /// Whether directories are leased, too; only where files are.
    pub directory_leases: bool,
    /// Whether handles may outlive their connection.
    pub durable_handles: bool,
    /// Whether they may outlive a restart of the server, as on a share that is continuously available.
    pub continuously_available: bool,
    /// The memory that all files may have together; what does not fit is refused as by a full disk.
    pub capacity_bytes: u64,
    /// How long whoever is asked to give up caching may take to answer.
    #[serde(skip, default = "break_timeout_ns")]
    pub break_timeout_ns: u64,
    /// Files that are there from the beginning, in the root of every share.
    #[serde(skip)]
    pub files: Vec<(String, Vec<u8>)>,
    /// What it does wrong.
    pub fault: Option<Fault>,
}

fn dialect<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Dialect, D::Error> {
    let name = String::deserialize(deserializer)?;
    Dialect::of_name(&name).ok_or_else(|| de::Error::custom(format!("there is no dialect {name:?}")))
}

fn break_timeout_ns() -> u64 {
    BREAK_TIMEOUT_NS
}

impl Options {
    /// The usual options, with one share.
    #[must_use]
    pub fn on_loopback(share: &str) -> Self {
        Self {
            shares: vec![share.to_owned()],
            ..usual(include_str!("../../usual/smb.json"))
        }
    }

    /// All that can't be, in words.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let plain = |name: &String| !name.is_empty() && !name.contains(['\\', '/', '\0']);
        if self.shares.is_empty() || !self.shares.iter().all(plain) {
            Some("a server needs at least one share, and each a name without / and \\")
        } else if self.user.is_none() && self.protects() {
            Some("guests have no keys: signing and encryption need a user")
        } else {
            None
        }
    }

    fn protects(&self) -> bool {
        self.signing == Signing::Required || self.encryption == Encryption::Required
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Options")
            .field("bind", &self.bind)
            .field("shares", &self.shares)
            .field("user", &self.user)
            .field("signing", &self.signing)
            .field("encryption", &self.encryption)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}
