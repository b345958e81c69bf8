//! Options of an S3 server.

use super::fault::Fault;
use crate::common::usual;
use crate::http::Tls;
use serde::Deserialize;
use std::net::SocketAddr;

/// The only access key. Its secret is not shown in debug output.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessKey {
    pub id: String,
    pub secret: String,
}

impl std::fmt::Debug for AccessKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "AccessKey({})", self.id)
    }
}

/// What an acknowledged PUT promises. Objects exist only in memory, so the promise ends with the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flush {
    /// A restart of the service does not lose the object.
    Honour,
    /// A restart of the service loses every object, as a power cut would on a server that never syncs.
    Ignore,
}

/// Options of a server, as the control plane defines them: `python/serverdyno/servers/reference_model.py`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Listening address; port 0 for any free port.
    pub bind: SocketAddr,
    pub threads: usize,
    /// Names of the buckets, which are initially empty.
    pub buckets: Vec<String>,
    pub region: String,
    /// The key that must sign all requests. None: anyone may do everything.
    pub access_key: Option<AccessKey>,
    pub flush: Flush,
    /// Memory limit for all objects together.
    pub capacity_bytes: u64,
    /// TLS settings; None: unencrypted.
    pub tls: Option<Tls>,
    /// Initial objects of every bucket. Faults don't affect them.
    #[serde(skip)]
    pub objects: Vec<(String, Vec<u8>)>,
    pub fault: Option<Fault>,
}

impl Options {
    /// Returns the default options with one bucket.
    pub fn on_loopback(bucket: &str) -> Self {
        Self {
            buckets: vec![bucket.to_owned()],
            ..usual(include_str!("../../usual/s3.json"))
        }
    }

    /// Returns why the options are invalid, or None if they are valid.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let repeated = |(place, name): (usize, &String)| self.buckets[..place].contains(name);
        if self.buckets.is_empty() || !self.buckets.iter().all(|name| is_bucket_name(name)) {
            Some("a server needs at least one bucket, each with a name of 3 to 63 letters, digits, dots and hyphens")
        } else if self.buckets.iter().enumerate().any(repeated) {
            Some("a bucket is named twice")
        } else {
            None
        }
    }
}

fn is_bucket_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    let ends_plain = [name.bytes().next(), name.bytes().last()]
        .iter()
        .all(|byte| byte.is_some_and(|byte| byte.is_ascii_alphanumeric()));
    (3..=63).contains(&name.len()) && name.bytes().all(plain) && ends_plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_refused_with_a_reason() {
        assert_eq!(Options::on_loopback("volume1").problem(), None);
        for wrong in ["", "ab", "Volume1", "-volume", "a/b", &"a".repeat(64)] {
            let problem = Options::on_loopback(wrong).problem();
            assert!(
                problem.is_some_and(|problem| problem.contains("bucket")),
                "{wrong}"
            );
        }
        let twice = Options {
            buckets: vec!["volume1".into(), "volume1".into()],
            ..Options::on_loopback("volume1")
        };
        assert!(twice.problem().is_some_and(|problem| problem.contains("twice")));
    }

    #[test]
    fn the_secret_is_not_shown() {
        let key = AccessKey {
            id: "name".into(),
            secret: "hidden".into(),
        };
        assert_eq!(format!("{key:?}"), "AccessKey(name)");
    }
}
