//! What a server of files is to be.

use super::fault::Fault;
use dyno_smb::wire::Dialect;
use std::net::{Ipv4Addr, SocketAddr};

/// When messages are signed. SMB 2 and 3 know no server that can't.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signing {
    /// Where the client wishes it.
    #[default]
    Auto,
    /// Always; guests are not let in.
    Required,
}

/// When messages are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encryption {
    Off,
    /// Where the client wishes it.
    #[default]
    Auto,
    /// Always; who can't is not let in.
    Required,
}

/// What a server is to be.
#[derive(Clone)]
pub struct Options {
    /// Where it listens; port 0 for any that is free.
    pub bind: SocketAddr,
    pub threads: usize,
    /// CPUs that the threads are pinned to, in turn; where there are none, the scheduler decides.
    pub cpus: Vec<usize>,
    /// Names of the shares; each has a tree of its own, empty at first.
    pub shares: Vec<String>,
    /// The one user; without one, everybody is let in as a guest.
    pub user: Option<String>,
    pub password: String,
    /// The oldest version that is spoken.
    pub min_dialect: Dialect,
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
    pub break_timeout_ns: u64,
    /// Files that are there from the beginning, in the root of every share.
    pub files: Vec<(String, Vec<u8>)>,
    /// What it does wrong.
    pub fault: Option<Fault>,
}

impl Options {
    /// One thread on a free port of 127.0.0.1 and one share, for guests.
    #[must_use]
    pub fn on_loopback(share: &str) -> Self {
        Self {
            bind: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            threads: 1,
            cpus: Vec::new(),
            shares: vec![share.to_owned()],
            user: None,
            password: String::new(),
            min_dialect: Dialect::Smb202,
            max_dialect: Dialect::Smb311,
            signing: Signing::default(),
            encryption: Encryption::default(),
            oplocks: true,
            leases: true,
            directory_leases: true,
            durable_handles: true,
            continuously_available: false,
            capacity_bytes: 1 << 30,
            // MS-SMB2 3.3.2.1: implementation-specific; Windows takes 35 s.
            break_timeout_ns: 35_000_000_000,
            files: Vec::new(),
            fault: None,
        }
    }

    /// All that can't be, in words.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        let plain = |name: &String| !name.is_empty() && !name.contains(['\\', '/', '\0']);
        if self.threads == 0 {
            Some("a server needs at least one thread")
        } else if self.shares.is_empty() || !self.shares.iter().all(plain) {
            Some("a server needs at least one share, and each a name without / and \\")
        } else if self.min_dialect > self.max_dialect {
            Some("the oldest dialect is newer than the newest")
        } else if self.encryption == Encryption::Required && self.max_dialect < Dialect::Smb300 {
            Some("there is no encryption before SMB 3.0")
        } else if self.continuously_available && !self.durable_handles {
            Some("handles can't outlive a restart of the server where they don't outlive a connection")
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
