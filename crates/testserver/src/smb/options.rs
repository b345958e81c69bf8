//! Options of an SMB server.

use super::fault::Fault;
use crate::common::usual;
use dyno_measure::NS_PER_S;
use dyno_smb::wire::Dialect;
use serde::{de, Deserialize, Deserializer};
use std::net::SocketAddr;

/// Time in which the holder of an oplock or a lease must acknowledge a break. MS-SMB2 3.3.2.1 leaves it to
/// the implementation; Windows uses 35 s.
const BREAK_TIMEOUT_NS: u64 = 35 * NS_PER_S;

/// When messages are signed. Every SMB 2 or 3 server supports signing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signing {
    /// If the client requires signing.
    Auto,
    /// Always. Guests are refused.
    Required,
}

/// When messages are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encryption {
    Off,
    /// If the client requests encryption.
    Auto,
    /// Always. Clients without encryption are refused.
    Required,
}

/// Options of a server, as the control plane defines them: `python/serverdyno/servers/reference_model.py`.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Listening address; port 0 for any free port.
    pub bind: SocketAddr,
    pub threads: usize,
    /// Names of the shares. Each has its own tree, which is initially empty.
    pub shares: Vec<String>,
    /// The only user; None: every client is a guest.
    pub user: Option<String>,
    pub password: String,
    /// The oldest dialect to accept.
    #[serde(deserialize_with = "dialect")]
    pub min_dialect: Dialect,
    #[serde(deserialize_with = "dialect")]
    pub max_dialect: Dialect,
    pub signing: Signing,
    pub encryption: Encryption,
    /// Whether to grant oplocks and leases.
    pub oplocks: bool,
    /// Whether to grant leases. Has an effect only with `oplocks`.
    pub leases: bool,
    /// Whether to grant directory leases. Has an effect only with `leases`.
    pub directory_leases: bool,
    /// Whether to grant durable handles.
    pub durable_handles: bool,
    /// Whether to grant persistent handles, which survive a restart of the server, as on a continuously
    /// available share.
    pub continuously_available: bool,
    /// Memory limit for all files together. Beyond it, the disk is full.
    pub capacity_bytes: u64,
    /// Time in which a client must acknowledge a break.
    #[serde(skip, default = "break_timeout_ns")]
    pub break_timeout_ns: u64,
    /// Initial files in the root of every share.
    #[serde(skip)]
    pub files: Vec<(String, Vec<u8>)>,
    pub fault: Option<Fault>,
}

fn dialect<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Dialect, D::Error> {
    let name = String::deserialize(deserializer)?;
    Dialect::of_name(&name).ok_or_else(|| de::Error::custom(format!("unknown dialect {name:?}")))
}

fn break_timeout_ns() -> u64 {
    BREAK_TIMEOUT_NS
}

impl Options {
    /// Returns the default options with one share.
    pub fn on_loopback(share: &str) -> Self {
        Self {
            shares: vec![share.to_owned()],
            ..usual(include_str!("../../usual/smb.json"))
        }
    }

    /// Returns why the options are invalid, or None if they are valid.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let plain = |name: &String| !name.is_empty() && !name.contains(['\\', '/', '\0']);
        if self.shares.is_empty() || !self.shares.iter().all(plain) {
            Some("a server needs at least one share, and each share needs a name without / and \\")
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
