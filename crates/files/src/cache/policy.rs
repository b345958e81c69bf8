//! Policy of caching: either the server grants and revokes caching (oplocks, leases), or fixed rules apply
//! (close-to-open, RFC 1813, 4.11). `breaks.rs` and `handles.rs` apply grants, `close_to_open.rs` the rules.

use crate::call::{Ask, Caching, LeaseKey};

/// Decides what may be cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// No caching. Calls pass through. Only closes and renames imitate the redirector.
    Nothing,
    /// Caching as an oplock allows: `Caching::ALL` requests batch, `READ_WRITE` exclusive, `READ` level II.
    Oplock(Caching),
    /// Caching as a lease allows, with one key per file.
    Lease(Caching),
    /// Close-to-open: an open shows all data that another client wrote before its close, and a close sends all writes.
    /// In between, cached data may be as old as its attributes.
    CloseToOpen(AttributeAges),
}

/// Validity times of attributes. The defaults are those of Linux's NFS client (nfs(5): `acregmin`, `acregmax`,
/// `acdirmin`, `acdirmax`): 3 to 60 s for files, 30 to 60 s for directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeAges {
    /// Minimum validity, for a file that has just changed.
    pub file_least_ns: u64,
    /// Maximum validity, reached by doubling whenever a query finds the attributes unchanged.
    pub file_most_ns: u64,
    /// Minimum time for which a look-up is valid.
    pub name_least_ns: u64,
    pub name_most_ns: u64,
}

impl Default for AttributeAges {
    fn default() -> Self {
        const S: u64 = 1_000_000_000;
        Self {
            file_least_ns: 3 * S,
            file_most_ns: 60 * S,
            name_least_ns: 30 * S,
            name_most_ns: 60 * S,
        }
    }
}

impl Policy {
    /// Returns whether opens request leases.
    pub(super) fn leases(self) -> bool {
        matches!(self, Self::Lease(_))
    }

    /// Returns the caching that an open requests.
    pub(super) fn ask(self, lease: Option<LeaseKey>) -> Ask {
        match (self, lease) {
            (Self::Oplock(caching), _) => Ask::Oplock(caching),
            (Self::Lease(caching), Some(key)) => Ask::Lease(key, caching),
            _ => Ask::Nothing,
        }
    }

    /// Returns the validity times for close-to-open rules; None under any other policy.
    pub(super) fn rules(self) -> Option<AttributeAges> {
        match self {
            Self::CloseToOpen(ages) => Some(ages),
            _ => None,
        }
    }
}
