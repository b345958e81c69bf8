//! Requested and negotiated properties of a session.

use crate::wire::{Credential, FsInfo, Transport};

/// Default maximum size of a transfer: the maximum of Linux's client (nfs(5), `rsize`).
const USUAL_MOST_BYTES: u32 = 1 << 20;
/// Requested size of a part of a listing if the server prefers less: the preference of Linux's server.
/// Servers may send less (RFC 1813, 3.3.17). Ganesha prefers 16 KiB, which means four times as many requests
/// per listing.
pub(super) const LISTING_BYTES: u32 = 65_536;
/// Maximum size of a transfer over UDP: Linux's server accepts this much (`RPCSVC_MAXPAYLOAD_UDP`), and its
/// client requests no more.
pub const MOST_UDP_BYTES: u32 = 32_768;
const LEAST_LISTING_BYTES: u32 = 4096;
/// Minimum transfer size that a server must allow (RFC 1094 already required 8192 bytes in 1989).
const LEAST_BYTES: u32 = 512;

/// NFS version of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// NFSv3, with MOUNT.
    #[default]
    V3,
    V4_1,
    /// NFSv4.2 (RFC 7862), or NFSv4.1 if the server does not support it.
    V4_2,
}

impl Version {
    /// Returns the version with this name in the mount option `vers`. `4` means 4.2, or 4.1 if the server does not
    /// support 4.2.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "3" => Some(Self::V3),
            "4.1" => Some(Self::V4_1),
            "4" | "4.2" => Some(Self::V4_2),
            _ => None,
        }
    }

    /// Returns the version's name in the mount option `vers`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V3 => "3",
            Self::V4_1 => "4.1",
            Self::V4_2 => "4.2",
        }
    }

    /// Returns whether the version has sessions and compounds.
    pub fn is_four(self) -> bool {
        self != Self::V3
    }

    pub(crate) fn minor(self) -> u32 {
        match self {
            Self::V3 => 0,
            Self::V4_1 => 1,
            Self::V4_2 => 2,
        }
    }
}

/// Properties of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub version: Version,
    /// Transport of NFS and MOUNT; UDP only for NFSv3.
    pub transport: Transport,
    /// User and group of all requests.
    pub credential: Credential,
    /// `rsize`: maximum size of a READ.
    pub max_read_bytes: u32,
    /// `wsize`: maximum size of a WRITE.
    pub max_write_bytes: u32,
    /// Whether to list with attributes (READDIRPLUS) or without (READDIR).
    pub attributes_in_listings: bool,
    /// Whether to request read delegations for leases, with NFSv4.1.
    pub delegations: bool,
}

impl Default for Options {
    /// Returns default options with the user of this process.
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

/// Negotiated transfer sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferSizes {
    /// Maximum size of a READ.
    pub max_read_bytes: u32,
    /// Maximum size of a WRITE.
    pub max_write_bytes: u32,
    /// Maximum size of a part of a listing.
    pub listing_bytes: u32,
}

impl TransferSizes {
    /// Negotiates the sizes; returns None if the server's sizes are too small. The server's preferred sizes
    /// apply, if given, as in Linux's client.
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
