//! NFSv3 and NFSv4 as a kind of work: document sections, target and sessions. `files/` performs it.

use crate::files::{KeptBy, Place, Requests, Sessions};
use crate::kind::{OpenError, Secrets, Target};
use crate::problems::Problems;
use dyno_files::Postponed;
use dyno_measure::Failure;
use dyno_net::Pace;
use dyno_nfs::wire::Transport;
use dyno_nfs::{NfsTarget, Options, Session, Version};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Permitted transfer sizes in bytes, as in Linux's client (nfs(5), `rsize`).
const SIZES: std::ops::RangeInclusive<u32> = 1024..=1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetSection {
    url: String,
    shares: Vec<String>,
    network_namespace: Option<PathBuf>,
    /// For tests, like the fields below. None: the server's preferred size, and both switches on.
    max_read_bytes: Option<u32>,
    max_write_bytes: Option<u32>,
    readdirplus: Option<bool>,
    /// Whether to request delegations: only over NFSv4.1, and if the client cache asks for leases.
    delegations: Option<bool>,
}

impl TargetSection {
    fn options(&self) -> Options {
        let usual = Options::default();
        Options {
            max_read_bytes: self.max_read_bytes.unwrap_or(usual.max_read_bytes),
            max_write_bytes: self.max_write_bytes.unwrap_or(usual.max_write_bytes),
            attributes_in_listings: self.readdirplus.unwrap_or(true),
            delegations: self.delegations.unwrap_or(true),
            ..usual
        }
    }
}

pub(super) fn open(section: &Value, secrets: &Secrets) -> Result<Box<dyn Target>, OpenError> {
    let mut problems = Problems::default();
    let section: Option<TargetSection> = problems.section("target", section);
    for (bytes, place) in section.iter().flat_map(|section| {
        [
            (section.max_read_bytes, "target.max_read_bytes"),
            (section.max_write_bytes, "target.max_write_bytes"),
        ]
    }) {
        problems.bounded(bytes.is_none_or(|bytes| SIZES.contains(&bytes)), place);
    }
    let section = problems.none_or(section).map_err(OpenError::Section)?;
    let options = section.options();
    let target = NfsTarget::open(
        &section.url,
        section.shares,
        options,
        section.network_namespace.as_deref(),
        secrets.before_load.clone(),
    );
    Ok(Box::new(target.map_err(OpenError::Target)?))
}

impl Sessions for NfsTarget {
    type Client = Session;

    fn address(&self) -> SocketAddr {
        NfsTarget::address(self)
    }

    fn is_local(&self) -> bool {
        self.is_loopback()
    }

    fn enter(&self) -> Result<(), Errno> {
        NfsTarget::enter(self)
    }

    fn shares(&self) -> &[String] {
        self.exports()
    }

    /// Clients work in the mounted directory, which the URL names.
    fn base_path(&self) -> &str {
        ""
    }

    fn paced(&self, pace: Option<Pace>) -> Self {
        NfsTarget::paced(self, pace)
    }

    fn pace(&self) -> Option<&Pace> {
        NfsTarget::pace(self)
    }

    /// Numbers calls by `identity`: servers remember call numbers by connection and client, so levels must not reuse
    /// them.
    fn session(&self, place: Place<'_>, identity: u64, client: u32, share: &str) -> Session {
        let number = identity.rotate_left(32) ^ u64::from(client);
        NfsTarget::session(self, place.executor, place.dialer, share, number)
    }

    fn agreed(client: &Session) -> Option<BTreeMap<String, Value>> {
        client.agreed().map(|agreed| {
            let mut told = vec![
                ("protocol", json!("nfs")),
                ("dialect", json!(client.version().name())),
                ("max_read_bytes", json!(agreed.max_read_bytes)),
                ("max_write_bytes", json!(agreed.max_write_bytes)),
            ];
            if client.transport() == Transport::Udp {
                told.push(("transport", json!("udp")));
            }
            if let Some(agreed) = client.agreed4() {
                told.extend([("slots", json!(agreed.slots)), ("lease_s", json!(agreed.lease_s))]);
            }
            told.into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()
        })
    }

    /// READDIRPLUS returns attributes. READDIR returns them only in NFSv4.1, if the client requests them.
    fn brought_attributes(before: &Requests, after: &Requests) -> bool {
        let brings = ["READDIRPLUS", "READDIR with attributes"];
        brings.iter().any(|name| after.get(name) > before.get(name))
    }

    fn kept_by(&self) -> KeptBy {
        KeptBy::Rules {
            delegations: self.delegates(),
        }
    }

    /// Returns false over NFSv3, where locks are local to a client, as on a mount with `nolock`.
    fn locks_exclude(&self) -> bool {
        self.version() != Version::V3
    }

    fn postponed(&self) -> Arc<Postponed> {
        NfsTarget::postponed(self).clone()
    }

    fn advice(&self, failure: &Failure) -> Option<&'static str> {
        dyno_nfs::advice(failure, self.options())
    }
}
