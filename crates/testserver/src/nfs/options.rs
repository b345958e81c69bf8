//! Options of an NFS server.

use super::fault::Fault;
use crate::common::usual;
use dyno_measure::NS_PER_S;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;

/// Permitted transfer sizes, up to 1 MiB, the maximum of Linux's client (nfs(5), `rsize`).
const TRANSFER_BYTES: std::ops::RangeInclusive<u32> = 4096..=1 << 20;

/// Lease time. Linux's server uses 90 s; a third of that shortens tests of clients that vanish.
pub(super) const LEASE_S: u32 = 30;

/// Effect of COMMIT, and of a WRITE that requests stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flush {
    /// The file becomes stable: a restart does not lose it.
    Honour,
    /// Answered as if the file were stable, as by a server that exports with `async`.
    Ignore,
}

/// Options of a server, as the control plane defines them: `python/serverdyno/servers/reference_model.py`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Listening address of NFS and MOUNT; port 0 for any free port.
    pub bind: SocketAddr,
    /// Additional listening address of the portmapper, if any.
    pub portmapper: Option<SocketAddr>,
    /// Whether to also answer NFSv3, MOUNT and the portmapper over UDP, on the same ports.
    pub udp: bool,
    pub threads: usize,
    /// Paths of the exports. Each has its own tree in memory, which is initially empty.
    pub exports: Vec<String>,
    pub flush: Flush,
    /// Maximum and preferred size of a READ or WRITE.
    pub max_transfer_bytes: u32,
    /// Memory limit for all files together. Beyond it, the disk is full.
    pub capacity_bytes: u64,
    /// Initial files in the root of every export.
    #[serde(skip)]
    pub files: Vec<(String, Vec<u8>)>,
    /// Whether to delegate files to NFSv4.1 clients that read them, and the time in nanoseconds after which a
    /// recalled but unreturned delegation is revoked. None: no delegations.
    #[serde(deserialize_with = "recall_ns")]
    pub delegations: Option<u64>,
    pub fault: Option<Fault>,
}

fn recall_ns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(bool::deserialize(deserializer)?.then_some(Options::RECALL_NS))
}

impl Options {
    /// Default time for returning a delegation: the lease time, which is the minimum (RFC 8881, 10.4.6).
    pub const RECALL_NS: u64 = LEASE_S as u64 * NS_PER_S;

    /// Returns the default options with one export.
    pub fn on_loopback(export: &str) -> Self {
        Self {
            exports: vec![export.to_owned()],
            ..usual(include_str!("../../usual/nfs.json"))
        }
    }

    /// Returns why the options are invalid, or None if they are valid.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let is_path = |path: &String| {
            path.strip_prefix('/').is_some_and(|rest| {
                rest.split('/').all(|part| !matches!(part, "" | "." | "..")) && !rest.contains('\0')
            })
        };
        let repeated = |(place, path): (usize, &String)| self.exports[..place].contains(path);
        if self.exports.is_empty() || !self.exports.iter().all(is_path) {
            Some("a server needs at least one export, and each export needs a path such as /volume1")
        } else if self.exports.iter().enumerate().any(repeated) {
            Some("an export is named twice")
        } else if !TRANSFER_BYTES.contains(&self.max_transfer_bytes) {
            Some("a transfer must have between 4096 and 1048576 bytes")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_refused_with_a_reason() {
        let usual = Options::on_loopback("/a/b");
        assert_eq!(usual.problem(), None);
        for (wrong, word) in [
            (
                Options {
                    exports: vec![],
                    ..usual.clone()
                },
                "export",
            ),
            (Options::on_loopback("a"), "path"),
            (Options::on_loopback("/"), "path"),
            (Options::on_loopback("/a/../b"), "path"),
            (
                Options {
                    exports: vec!["/a".into(), "/a".into()],
                    ..usual.clone()
                },
                "twice",
            ),
            (
                Options {
                    max_transfer_bytes: 1,
                    ..usual
                },
                "transfer",
            ),
        ] {
            assert!(
                wrong.problem().is_some_and(|problem| problem.contains(word)),
                "{word}"
            );
        }
    }
}
