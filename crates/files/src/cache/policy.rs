//! Who says what a client may keep of its files, and for how long: the server, by oplocks and leases that it grants and
//! takes back; or rules that client and server need not talk about, close-to-open (RFC 1813, 4.11).
//!
//! Not for: carrying a policy out. Grants are obeyed in `breaks.rs` and used in `handles.rs`; the rules are followed in
//! `close_to_open.rs`.

use crate::call::{Ask, Caching, LeaseKey};

/// Who says what may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Nothing is: the calls go through as they come, and only closing and renaming have the redirector's manners.
    Nothing,
    /// What an oplock allows: `Caching::ALL` asks for batch, `READ_WRITE` exclusive, `READ` level II.
    Oplock(Caching),
    /// What a lease allows, one key a file.
    Lease(Caching),
    /// Close-to-open: an open sees what was written before the close of any other client; a close sends all that was
    /// written. In between, what is kept may be as old as its attributes may be.
    CloseToOpen(AttributeAges),
}

/// How long what the server said of a file counts. The defaults are those of Linux's NFS client (nfs(5): `acregmin`,
/// `acregmax`, `acdirmin`, `acdirmax`): 3 to 60 s for files, 30 to 60 s for directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeAges {
    /// Attributes of a file that has just changed.
    pub file_least_ns: u64,
    /// The most, which they come to by doubling each time they are asked for and have not changed.
    pub file_most_ns: u64,
    /// That a name leads to a file, after it was last looked up.
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
    /// Whether files are opened under leases.
    pub(super) fn leases(self) -> bool {
        matches!(self, Self::Lease(_))
    }

    /// Returns what an open asks for.
    pub(super) fn ask(self, lease: Option<LeaseKey>) -> Ask {
        match (self, lease) {
            (Self::Oplock(caching), _) => Ask::Oplock(caching),
            (Self::Lease(caching), Some(key)) => Ask::Lease(key, caching),
            _ => Ask::Nothing,
        }
    }

    /// Returns the ages, where rules say what may be kept.
    pub(super) fn rules(self) -> Option<AttributeAges> {
        match self {
            Self::CloseToOpen(ages) => Some(ages),
            _ => None,
        }
    }
}
