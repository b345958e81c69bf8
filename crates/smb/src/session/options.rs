//! What a session is asked to be, and what the server agreed to.

use crate::auth::ServiceTicket;
use crate::wire::{Cipher, Dialect, SigningAlgorithm};
use std::fmt;
use std::sync::Arc;

/// When messages are signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Signing {
    /// Never; a server that requires it is refused. (SMB 3.1.1 has one signed message even so: TREE_CONNECT.)
    Off,
    /// Where the server requires it, as clients do by default.
    #[default]
    WhenRequired,
    /// Always; a server that can't is refused.
    Required,
}

/// When messages are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encryption {
    /// Never; a server that requires it is refused.
    Off,
    /// Where the server or the share requires it, as clients do by default.
    #[default]
    WhenRequired,
    /// Always, from the log-on onward; a server that can't is refused.
    Required,
}

/// How a user is proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authentication {
    /// By NTLMv2: a password.
    Ntlm,
    /// By Kerberos: a ticket.
    Kerberos,
}

impl Authentication {
    /// As reports have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ntlm => "NTLMv2",
            Self::Kerberos => "Kerberos",
        }
    }
}

/// How sessions are made. One set serves all clients of a mix.
#[derive(Clone)]
pub struct Options {
    /// What the server is called in the paths of shares (`\\server\share`).
    pub server: String,
    pub user: String,
    pub password: String,
    /// Of which domain; empty for the server's own.
    pub domain: String,
    /// Log on by Kerberos, with this; user, password and domain are of no use then, and NTLM is not tried.
    pub ticket: Option<Arc<ServiceTicket>>,
    /// Log on as `guest` without a password, and be content to be one. Without this, being let in as a guest is a
    /// refusal: a guest's session is never signed, and may not be the one that was meant to be measured.
    pub guest: bool,
    /// The oldest version that is offered.
    pub min_dialect: Dialect,
    pub max_dialect: Dialect,
    /// When messages are signed.
    pub signing: Signing,
    /// How, where SMB 3.1.1 lets choose; by preference.
    pub signing_algorithms: Vec<SigningAlgorithm>,
    /// When messages are encrypted.
    pub encryption: Encryption,
    /// How, where SMB 3.1.1 lets choose; by preference.
    pub ciphers: Vec<Cipher>,
    /// The most that one read or write may have, whatever the server allows.
    pub max_transfer_bytes: u32,
    /// Makes the clients' GUIDs, together with their numbers. Servers keep one process for each GUID, and a client's
    /// leases under it; so two generators that run at the same time need different seeds.
    pub guid_seed: u64,
    /// Put before all paths; parts separated by `/`, none at the end.
    pub base_path: String,
    /// Ask for handles that outlive their connection, and make another connection where one is lost.
    pub durable_handles: bool,
    /// Connections of one session, at least one; the session is refused where the server does not give so many.
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

/// What client and server agreed on, for the disclosure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NegotiatedSession {
    pub dialect: Dialect,
    /// How every message is signed; None where they aren't, also because they are encrypted instead.
    pub signing: Option<SigningAlgorithm>,
    /// How every message is encrypted.
    pub cipher: Option<Cipher>,
    /// We are a guest or nobody.
    pub guest: bool,
    /// How the user was proven; None of a guest.
    pub authentication: Option<Authentication>,
    /// Of the server, as MS-SMB2 2.2.4 numbers them.
    pub capabilities: u32,
    /// The server gives leases to this dialect.
    pub leases: bool,
    /// Directories are leased, too.
    pub directory_leases: bool,
    /// Handles of the share may outlive a restart of the server.
    pub continuously_available: bool,
    /// The most that a listing may have, as the server says.
    pub max_transact_bytes: u32,
    /// The most that a read of ours has: what the server allows, within the option and the credits.
    pub max_read_bytes: u32,
    /// The most that a write of ours has.
    pub max_write_bytes: u32,
    /// Connections that the session began with.
    pub channels: u16,
}
