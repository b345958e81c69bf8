//! Files below a directory of this machine as a kind of work: its sections of the document, its target and its sessions.
//! The work itself is in `files/`.

use crate::files::{
    begin_journal, carry_out, look, prepare, read_back, FilesOptions, Place, Requests, Sessions,
};
use crate::job::{FileJob, FileJobOutcome};
use crate::journal::{Entry, Journal, JournalSpec, LeftOfFile};
use crate::kind::{Kind, Look, Material, OpenError, Secrets, Sections, Target, Work};
use crate::mix::Mix;
use crate::problems::Problems;
use dyno_measure::Failure;
use dyno_posix::{DirectoryTarget, FlushCall, Options, Session};
use rustix::io::Errno;
use serde::Deserialize;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// Each is a thread.
const MOST_CLIENTS: usize = 1000;

/// Its line in the table of kinds.
pub(crate) struct Posix;

#[derive(Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum FlushName {
    #[default]
    Fsync,
    Fdatasync,
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetSection {
    url: String,
    #[serde(default)]
    direct: bool,
    #[serde(default)]
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

/// The sessions below a directory, which are all that the work on files knows of it.
#[derive(Debug, Clone)]
struct DirectorySessions(DirectoryTarget);

impl Target for DirectorySessions {
    fn address(&self) -> String {
        self.0.path().display().to_string()
    }

    fn is_loopback(&self) -> bool {
        self.0.is_local()
    }

    fn facts(&self) -> Value {
        json!({"shares": self.0.shares()})
    }

    fn look(&self, nonce: u64) -> Vec<Look> {
        look(self, nonce)
    }

    fn clients_block(&self) -> bool {
        true
    }

    fn begin_journal(&self, spec: JournalSpec, nonce: u64) -> Option<Journal> {
        Some(begin_journal(self, nonce, spec))
    }

    fn read_back(
        &self,
        spec: &JournalSpec,
        entries: &[Entry],
        nonce: u64,
    ) -> Option<Result<Vec<LeftOfFile>, Failure>> {
        Some(read_back(self, nonce, spec, entries))
    }

    fn carry_out(
        &self,
        job: &FileJob,
        nonce: u64,
        stop: &Arc<AtomicBool>,
    ) -> Option<Result<FileJobOutcome, Failure>> {
        Some(carry_out(
            self,
            FilesOptions::usual().uncached(),
            nonce,
            job,
            stop,
        ))
    }

    fn prepare(
        &self,
        mix: &Arc<Mix>,
        sections: Sections<'_>,
        material: &Material,
        problems: &mut Problems,
    ) -> Option<Arc<dyn Work>> {
        problems.unless(
            mix.part.clients <= MOST_CLIENTS,
            "clients",
            "must lie between 1 and 1,000 where each client is a thread",
        );
        prepare(self, mix, sections, material, problems, FilesOptions::uncached)
    }
}

impl Sessions for DirectorySessions {
    type Client = Session;

    /// No socket is made.
    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
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

    /// getdents(2) brings names alone.
    fn brought_attributes(_before: &Requests, _after: &Requests) -> bool {
        false
    }

    fn advice(failure: &Failure) -> Option<&'static str> {
        dyno_posix::advice(failure)
    }
}
