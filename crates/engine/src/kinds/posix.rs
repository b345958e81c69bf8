//! A local directory as a kind of work: document sections, target and sessions. `files/` has the work.

use crate::files::{KeptBy, Place, Requests, Sessions};
use crate::kind::{Kind, OpenError, Secrets, Target};
use crate::problems::Problems;
use dyno_files::posix::{DirectoryTarget, FlushCall, Options, Session};
use dyno_measure::Failure;
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

pub(crate) struct Posix;

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FlushName {
    Fsync,
    Fdatasync,
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetSection {
    url: String,
    direct: bool,
    flush: FlushName,
}

impl Kind for Posix {
    fn name(&self) -> &'static str {
        "posix"
    }

    fn open(&self, section: &Value, secrets: &Secrets) -> Result<Box<dyn Target>, OpenError> {
        let mut problems = Problems::default();
        let section: Option<TargetSection> = problems.section("target", section);
        let section = problems.none_or(section).map_err(OpenError::Section)?;
        let options = Options {
            direct: section.direct,
            flush: match section.flush {
                FlushName::Fsync => FlushCall::Fsync,
                FlushName::Fdatasync => FlushCall::Fdatasync,
                FlushName::None => FlushCall::Nothing,
            },
        };
        let target = DirectoryTarget::open_url(&section.url, options, secrets.consent_token.as_deref());
        Ok(Box::new(DirectorySessions(target.map_err(OpenError::Target)?)))
    }
}

/// Sessions below a directory: the only part of it that work on files uses.
#[derive(Debug, Clone)]
struct DirectorySessions(DirectoryTarget);

impl Sessions for DirectorySessions {
    type Client = Session;

    const CLIENTS_BLOCK: bool = true;

    /// Unused: there is no socket.
    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    fn location(&self) -> String {
        self.0.path().display().to_string()
    }

    fn is_local(&self) -> bool {
        self.0.is_local()
    }

    fn enter(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn shares(&self) -> &[String] {
        self.0.shares()
    }

    fn base_path(&self) -> &str {
        ""
    }

    fn session(&self, place: Place<'_>, _identity: u64, _client: u32, _share: &str) -> Session {
        self.0.session(place.executor)
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
        dyno_files::posix::advice(failure, &self.0)
    }
}
