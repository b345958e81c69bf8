//! What a session shall be, and what was agreed.

use crate::wire::{Credential, FsInfo, Transport};

/// The most that is asked for at once, by default: what Linux's client takes at most (nfs(5), `rsize`).
const USUAL_MOST_BYTES: u32 = 1 << 20;
/// Of one part of a listing, where the server prefers no more: as much as Linux's server prefers, and each may send less
/// (RFC 1813, 3.3.17). Ganesha prefers 16 KiB, which makes four times as many requests of a listing.
pub(super) const LISTING_BYTES: u32 = 65_536;
/// Of one transfer over UDP: Linux's server takes as much (`RPCSVC_MAXPAYLOAD_UDP`), and its client asks for no more.
pub const MOST_UDP_BYTES: u32 = 32_768;
const LEAST_LISTING_BYTES: u32 = 4096;
/// A server that takes less is none (RFC 1094 has had 8192 bytes since 1989).
const LEAST_BYTES: u32 = 512;

/// The version of NFS that a session speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// NFSv3, with MOUNT.
    #[default]
    V3,
    /// NFSv4.1.
    V4_1,
    /// NFSv4.2 (RFC 7862); NFSv4.1 where the server has no more.
    V4_2,
}

impl Version {
    /// Returns the one that a mount's option `vers` names so.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "3" => Some(Self::V3),
            "4.1" => Some(Self::V4_1),
            "4.2" => Some(Self::V4_2),
            _ => None,
        }
    }

    /// Returns its name, as in that option.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V3 => "3",
            Self::V4_1 => "4.1",
            Self::V4_2 => "4.2",
        }
    }

    /// Whether it has sessions and compounds.
    #[must_use]
    pub fn is_four(self) -> bool {
        self != Self::V3
    }

    /// Returns the minor version.
    pub(crate) fn minor(self) -> u32 {
        match self {
            Self::V3 => 0,
            Self::V4_1 => 1,
            Self::V4_2 => 2,
        }
    }
}

/// How sessions are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub version: Version,
    /// What carries it, MOUNT too; UDP for NFSv3 alone.
    pub transport: Transport,
    /// As whom files are used.
    pub credential: Credential,
    /// `rsize`: the most bytes of one READ.
    pub max_read_bytes: u32,
    /// `wsize`: the most bytes of one WRITE.
    pub max_write_bytes: u32,
    /// Listings with attributes, READDIRPLUS; else READDIR.
    pub attributes_in_listings: bool,
    /// Delegations for reading are asked for where somebody wants a lease, with NFSv4.1.
    pub delegations: bool,
}

impl Default for Options {
    /// As the user that runs this process.
    fn default() -> Self {
        Self {
            version: Version::default(),
            transport: Transport::default(),
            credential: Credential {
                machine: "serverdyno".to_owned(),
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
            },
            max_read_bytes: USUAL_MOST_BYTES,
            max_write_bytes: USUAL_MOST_BYTES,
            attributes_in_listings: true,
            delegations: false,
        }
    }
}

/// The sizes of transfers that client and server have agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferSizes {
    /// The most of one READ.
    pub max_read_bytes: u32,
    /// The most of one WRITE.
    pub max_write_bytes: u32,
    /// Of one part of a listing.
    pub listing_bytes: u32,
}

impl TransferSizes {
    /// Settles the sizes; None where the server's are unusable. What a server prefers counts, as in Linux's client, where
    /// it says anything.
    #[must_use]
    pub fn of(options: &Options, server: &FsInfo) -> Option<Self> {
        let most_bytes = match options.transport {
            Transport::Tcp => u32::MAX,
            Transport::Udp => MOST_UDP_BYTES,
        };
        let (max_read_bytes, max_write_bytes) = (
            options.max_read_bytes.min(most_bytes),
            options.max_write_bytes.min(most_bytes),
        );
        let settle = |most: u32, preferred: u32, ours: u32| match preferred {
            0 => most.min(ours),
            preferred => preferred.min(most).min(ours),
        };
        let agreed = Self {
            max_read_bytes: settle(server.max_read_bytes, server.preferred_read_bytes, max_read_bytes),
            max_write_bytes: settle(
                server.max_write_bytes,
                server.preferred_write_bytes,
                max_write_bytes,
            ),
            listing_bytes: server
                .preferred_listing_bytes
                .max(LISTING_BYTES)
                .min(max_read_bytes)
                .max(LEAST_LISTING_BYTES),
        };
        (agreed.max_read_bytes.min(agreed.max_write_bytes) >= LEAST_BYTES).then_some(agreed)
    }
}
