//! SMB as a kind of work: document sections, target and sessions. `files/` performs it.

use crate::files::{KeptBy, Place, Requests, Sessions};
use crate::kind::{OpenError, Secrets, Target};
use crate::problems::{Problems, CONTRADICTS};
use dyno_measure::{Detail, Failure};
use dyno_net::{Pace, TargetError};
use dyno_smb::auth::{ServiceTicket, TicketError};
use dyno_smb::{
    Authentication, Cipher, Dialect, Encryption, NegotiatedSession, Options, Refusal, Session, Signing,
    SigningAlgorithm, SmbTarget,
};
use rustix::io::Errno;
use serde::{de, Deserialize, Deserializer};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum connections per session. Servers allow no more by default.
const MOST_CHANNELS: u16 = 32;

fn dialect<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Dialect, D::Error> {
    let name = String::deserialize(deserializer)?;
    Dialect::of_name(&name).ok_or_else(|| {
        let [older @ .., newest] = Dialect::ALL.map(Dialect::name);
        let older = older.join(", ");
        de::Error::custom(format!("unknown dialect {name:?}; expected {older} or {newest}"))
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetSection {
    url: String,
    shares: Vec<String>,
    user: Option<String>,
    network_namespace: Option<PathBuf>,
    #[serde(deserialize_with = "dialect")]
    min_dialect: Dialect,
    #[serde(deserialize_with = "dialect")]
    max_dialect: Dialect,
    signing: Signing,
    encryption: Encryption,
    durable_handles: bool,
    channels: u16,
}

impl TargetSection {
    fn options(&self, secrets: &Secrets, ticket: Option<Arc<ServiceTicket>>) -> Options {
        // An account name contains neither slash nor backslash.
        let user = self.user.as_deref().unwrap_or_default();
        let (domain, user) = user.split_once(['\\', '/']).unwrap_or(("", user));
        Options {
            guest: self.user.is_none() && ticket.is_none(),
            ticket,
            user: user.to_owned(),
            password: secrets.password.clone().unwrap_or_default(),
            domain: domain.to_owned(),
            min_dialect: self.min_dialect,
            max_dialect: self.max_dialect,
            signing: self.signing,
            encryption: self.encryption,
            durable_handles: self.durable_handles,
            channels: self.channels,
            ..Options::default()
        }
    }
}

/// Parses the ticket with which clients log on.
fn ticket(hexadecimal: &str) -> Result<Arc<ServiceTicket>, TargetError> {
    let cache: Option<Vec<u8>> = hexadecimal
        .as_bytes()
        .chunks(2)
        .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
        .collect();
    let ticket = cache
        .ok_or(TicketError::Malformed)
        .and_then(|cache| ServiceTicket::of_cache(&cache));
    ticket.map(Arc::new).map_err(|why| TargetError::Session {
        why: why.to_string(),
        advice: Some(
            "Let the KDC issue AES tickets for the server: on a domain controller, change the supported encryption \
             types of the server's account.",
        ),
    })
}

pub(super) fn open(section: &Value, secrets: &Secrets) -> Result<Box<dyn Target>, OpenError> {
    let mut problems = Problems::default();
    let section: Option<TargetSection> = problems.section("target", section);
    if let Some(section) = &section {
        problems.unless(
            section.min_dialect <= section.max_dialect,
            "target.min_dialect",
            CONTRADICTS,
        );
        problems.bounded((1..=MOST_CHANNELS).contains(&section.channels), "target.channels");
    }
    let section = problems.none_or(section).map_err(OpenError::Section)?;
    let ticket = secrets.ticket.as_deref().map(ticket).transpose();
    let ticket = ticket.map_err(OpenError::Target)?;
    let options = section.options(secrets, ticket);
    let target = SmbTarget::open(
        &section.url,
        section.shares,
        options,
        section.network_namespace.as_deref(),
        secrets.before_load.clone(),
    );
    Ok(Box::new(target.map_err(OpenError::Target)?))
}

impl Sessions for SmbTarget {
    type Client = Session;

    fn address(&self) -> SocketAddr {
        SmbTarget::address(self)
    }

    fn is_local(&self) -> bool {
        self.is_loopback()
    }

    fn enter(&self) -> Result<(), Errno> {
        SmbTarget::enter(self)
    }

    fn shares(&self) -> &[String] {
        SmbTarget::shares(self)
    }

    fn base_path(&self) -> &str {
        &self.options().base_path
    }

    fn paced(&self, pace: Option<Pace>) -> Self {
        SmbTarget::paced(self, pace)
    }

    fn pace(&self) -> Option<&Pace> {
        SmbTarget::pace(self)
    }

    fn at_roots(&self) -> Option<Self> {
        (!self.base_path().is_empty()).then(|| SmbTarget::at_roots(self))
    }

    /// `identity` changes the client GUIDs from level to level. Samba (multichannel) passes a connection with a known
    /// GUID to the process of the previous connection. If that process is exiting, the new connection hangs or fails.
    fn session(&self, place: Place<'_>, identity: u64, client: u32, share: &str) -> Session {
        let options = Options {
            guid_seed: identity,
            ..self.options().clone()
        };
        let (executor, dialer) = (place.executor.clone(), place.dialer.clone());
        Session::new(executor, dialer, Rc::new(options), client, share)
    }

    fn agreed(client: &Session) -> Option<BTreeMap<String, Value>> {
        client.agreed().map(session_facts)
    }

    /// SMB listings always include attributes.
    fn brought_attributes(_before: &Requests, _after: &Requests) -> bool {
        true
    }

    fn kept_by(&self) -> KeptBy {
        KeptBy::Grants
    }

    fn channels(&self) -> usize {
        self.options().channels.into()
    }

    fn refuses_user(failure: &Failure) -> bool {
        let Detail::Refused { step, .. } = failure.detail else {
            return false;
        };
        Refusal::of(step) == Some(Refusal::LogOn)
    }

    fn advice(&self, failure: &Failure) -> Option<&'static str> {
        dyno_smb::advice(failure, self.options())
    }
}

/// Returns the negotiated parameters that affect the comparison of figures.
fn session_facts(agreed: &NegotiatedSession) -> BTreeMap<String, Value> {
    let facts = [
        ("dialect", json!(agreed.dialect.name())),
        ("signing", json!(agreed.signing.map(SigningAlgorithm::name))),
        ("encryption", json!(agreed.cipher.map(Cipher::name))),
        ("guest", json!(agreed.guest)),
        (
            "authentication",
            json!(agreed.authentication.map(Authentication::name)),
        ),
        ("max_read_bytes", json!(agreed.max_read_bytes)),
        ("max_write_bytes", json!(agreed.max_write_bytes)),
        ("leases", json!(agreed.leases)),
        ("directory_leases", json!(agreed.directory_leases)),
    ];
    let channels = ("channels", json!(agreed.channels));
    let facts = facts.into_iter().chain((agreed.channels > 1).then_some(channels));
    facts.map(|(name, value)| (name.to_owned(), value)).collect()
}
