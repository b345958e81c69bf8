//! What an NFS server is to be.

use super::fault::Fault;
use crate::common::usual;
use dyno_measure::NS_PER_S;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;

/// READ and WRITE of 1 MiB: what Linux's client takes at most (nfs(5), `rsize`).
const TRANSFER_BYTES: std::ops::RangeInclusive<u32> = 4096..=1 << 20;

/// Linux's server has 90; a third makes tests of clients that vanish shorter.
pub(super) const LEASE_S: u32 = 30;

/// What COMMIT does, and a WRITE that asks for stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flush {
    /// It makes the file stable: a restart does not lose it.
    Honour,
    /// It is answered as if it did, as by a server that exports with `async`.
    Ignore,
}

/// What a server is to be, as the control plane states it: `python/serverdyno/servers/reference_model.py`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Where it listens, for NFS and MOUNT alike; port 0 for any that is free.
    pub bind: SocketAddr,
    /// Where it listens as a portmapper besides; None: nowhere.
    pub portmapper: Option<SocketAddr>,
    /// NFSv3, MOUNT and the portmapper are answered over UDP as well, at the same ports.
    pub udp: bool,
    pub threads: usize,
    /// Paths of the exports; each has a tree of its own, in memory, empty at first.
    pub exports: Vec<String>,
    pub flush: Flush,
    /// The most of one READ or WRITE, which it also prefers.
    pub max_transfer_bytes: u32,
    /// The memory that all files may have together; what does not fit is refused as by a full disk.
    pub capacity_bytes: u64,
    /// Files that are there from the beginning, in the root of every export.
    #[serde(skip)]
    pub files: Vec<(String, Vec<u8>)>,
    /// Files are delegated to clients of NFSv4.1 that read them, and a delegation that is not given back so many
    /// nanoseconds after its recall is revoked; None: no file is delegated.
    #[serde(deserialize_with = "recall_ns")]
    pub delegations: Option<u64>,
    /// What it does wrong.
    pub fault: Option<Fault>,
}

fn recall_ns<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(bool::deserialize(deserializer)?.then_some(Options::RECALL_NS))
}

impl Options {
    /// What a client has for giving a delegation back, by default: its lease, which is the least (RFC 8881, 10.4.6).
    pub const RECALL_NS: u64 = LEASE_S as u64 * NS_PER_S;

    /// The usual options, with one export.
    #[must_use]
    pub fn on_loopback(export: &str) -> Self {
        Self {
            exports: vec![export.to_owned()],
            ..usual(include_str!("../../usual/nfs.json"))
        }
    }

    /// All that can't be, in words.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let is_path = |path: &String| {
            path.strip_prefix('/').is_some_and(|rest| {
                rest.split('/').all(|part| !matches!(part, "" | "." | "..")) && !rest.contains('\0')
            })
        };
        let repeated = |(place, path): (usize, &String)| self.exports[..place].contains(path);
        if self.exports.is_empty() || !self.exports.iter().all(is_path) {
            Some("a server needs at least one export, and each a path such as /volume1")
        } else if self.exports.iter().enumerate().any(repeated) {
            Some("an export is named twice")
        } else if !TRANSFER_BYTES.contains(&self.max_transfer_bytes) {
            Some("a transfer has between 4096 and 1048576 bytes")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_is_told_in_words() {
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
