//! Requested and negotiated properties of a session.

use crate::auth::ServiceTicket;
use crate::wire::{Cipher, Dialect, SigningAlgorithm};
use serde::Deserialize;
use std::fmt;
use std::sync::Arc;

/// When messages are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signing {
    /// Never. A server that requires signing is refused. (SMB 3.1.1 still signs one message, TREE_CONNECT.)
    Off,
    /// If the server requires it: the default of clients.
    #[default]
    #[serde(rename = "auto")]
    WhenRequired,
    /// Always. A server that does not support signing is refused.
    Required,
}

/// When messages are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encryption {
    /// Never. A server that requires encryption is refused.
    Off,
    /// If the server or the share requires it: the default of clients.
    #[default]
    #[serde(rename = "auto")]
    WhenRequired,
    /// Always, after the log-on. A server that does not support encryption is refused.
    Required,
}

/// How the user is authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    /// NTLMv2, with a password.
    Ntlm,
    /// Kerberos, with a ticket.
    Kerberos,
}

impl Authentication {
    /// Returns the name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ntlm => "NTLMv2",
            Self::Kerberos => "Kerberos",
        }
    }
}

/// Properties of sessions, for all clients of a load level.
#[derive(Clone)]
pub struct Options {
    /// Name of the server in share paths (`\\server\share`).
    pub server: String,
    pub user: String,
    pub password: String,
    /// Domain of the user; empty: the server's own domain.
    pub domain: String,
    /// Log on by Kerberos with this ticket; user, password and domain are then unused, and NTLM is not
    /// tried.
    pub ticket: Option<Arc<ServiceTicket>>,
    /// Log on as `guest` without a password, and accept a guest session. Otherwise a guest session is refused: it is
    /// never signed, and the user may not want to measure it.
    pub guest: bool,
    pub min_dialect: Dialect,
    pub max_dialect: Dialect,
    pub signing: Signing,
    /// Signing algorithms to offer with SMB 3.1.1, by preference.
    pub signing_algorithms: Vec<SigningAlgorithm>,
    pub encryption: Encryption,
    /// Ciphers to offer with SMB 3.1.1, by preference.
    pub ciphers: Vec<Cipher>,
    /// Maximum size of a read or write, even if the server allows more.
    pub max_transfer_bytes: u32,
    /// Seed of the clients' GUIDs, which also depend on the client numbers. Servers assign processes and
    /// leases by GUID, so generators that run at the same time need different seeds.
    pub guid_seed: u64,
    /// Prefix of all paths: components separated by `/`, without a trailing `/`.
    pub base_path: String,
    /// Request durable handles, and reconnect when a connection is lost.
    pub durable_handles: bool,
    /// Number of connections per session, at least one. The session is refused if the server allows fewer.
    pub channels: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            server: "localhost".to_owned(),
            user: String::new(),
            password: String::new(),
            domain: String::new(),
            ticket: None,
            guest: false,
            min_dialect: Dialect::Smb202,
            max_dialect: Dialect::Smb311,
            signing: Signing::default(),
            signing_algorithms: SigningAlgorithm::ALL.to_vec(),
            encryption: Encryption::default(),
            ciphers: Cipher::ALL.to_vec(),
            max_transfer_bytes: 1 << 20,
            guid_seed: 0,
            base_path: String::new(),
            durable_handles: false,
            channels: 1,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("server", &self.server)
            .field("user", &self.user)
            .field("domain", &self.domain)
            .field("ticket", &self.ticket)
            .field("guest", &self.guest)
            .field("dialects", &(self.min_dialect, self.max_dialect))
            .field("signing", &self.signing)
            .field("encryption", &self.encryption)
            .field("max_transfer_bytes", &self.max_transfer_bytes)
            .field("guid_seed", &self.guid_seed)
            .field("base_path", &self.base_path)
            .field("durable_handles", &self.durable_handles)
            .field("channels", &self.channels)
            .finish_non_exhaustive()
    }
}

/// Negotiated properties, for the disclosure in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NegotiatedSession {
    pub dialect: Dialect,
    /// Algorithm that signs every message; None if they are unsigned, for example because they are
    /// encrypted.
    pub signing: Option<SigningAlgorithm>,
    /// Cipher that encrypts every message.
    pub cipher: Option<Cipher>,
    /// Whether the user became a guest or anonymous.
    pub guest: bool,
    /// How the user was authenticated; None for a guest.
    pub authentication: Option<Authentication>,
    /// The server's capabilities (MS-SMB2 2.2.4).
    pub capabilities: u32,
    /// Whether the server grants leases with this dialect.
    pub leases: bool,
    /// Whether the server also grants directory leases.
    pub directory_leases: bool,
    /// Whether handles of the share may survive a restart of the server.
    pub continuously_available: bool,
    /// The server's MaxTransactSize, which limits the size of a listing.
    pub max_transact_bytes: u32,
    /// Maximum size of the client's reads, limited by the server, the option and the credits.
    pub max_read_bytes: u32,
    /// Maximum size of the client's writes.
    pub max_write_bytes: u32,
    /// Number of connections at the start of the session.
    pub channels: u16,
}
