//! A local directory as a kind of work: document sections, target and sessions. `files/` performs it.

use crate::files::{KeptBy, Place, Requests, Sessions};
use crate::kind::{OpenError, Secrets, Target};
use crate::problems::Problems;
use dyno_files::posix::{DirectoryTarget, FlushCall, Options, Session};
use dyno_measure::Failure;
use dyno_net::Pace;
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetSection {
    url: String,
    direct: bool,
    flush: FlushCall,
}

pub(super) fn open(section: &Value, secrets: &Secrets) -> Result<Box<dyn Target>, OpenError> {
    let mut problems = Problems::default();
    let section: Option<TargetSection> = problems.section("target", section);
    let section = problems.none_or(section).map_err(OpenError::Section)?;
    let options = Options {
        direct: section.direct,
        flush: section.flush,
    };
    let target = DirectoryTarget::open_url(&section.url, options, secrets.before_load.token.as_deref());
    Ok(Box::new(target.map_err(OpenError::Target)?))
}

impl Sessions for DirectoryTarget {
    type Client = Session;

    const CLIENTS_BLOCK: bool = true;

    /// Returns an unused address: there is no socket.
    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    fn location(&self) -> String {
        self.path().display().to_string()
    }

    fn is_local(&self) -> bool {
        DirectoryTarget::is_local(self)
    }

    fn enter(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn shares(&self) -> &[String] {
        DirectoryTarget::shares(self)
    }

    fn base_path(&self) -> &str {
        ""
    }

    fn paced(&self, pace: Option<Pace>) -> Self {
        DirectoryTarget::paced(self, pace)
    }

    fn pace(&self) -> Option<&Pace> {
        DirectoryTarget::pace(self)
    }

    fn session(&self, place: Place<'_>, _identity: u64, _client: u32, _share: &str) -> Session {
        DirectoryTarget::session(self, place.executor)
    }

    fn agreed(_client: &Session) -> Option<BTreeMap<String, Value>> {
        None
    }

    /// getdents(2) returns only names.
    fn brought_attributes(_before: &Requests, _after: &Requests) -> bool {
        false
    }

    fn kept_by(&self) -> KeptBy {
        KeptBy::Kernel
    }

    fn advice(&self, failure: &Failure) -> Option<&'static str> {
        dyno_files::posix::advice(failure, self)
    }
}
