//! Targets that were opened, and mixes that were prepared for them: what the control plane holds of the data plane.

use crate::job::{FileJob, JobControl, JobFailure, JobLevels};
use crate::journal::{Entry, Journal, JournalSpec, LeftOfFile};
use crate::kind::Look;
use crate::kind::{Answer, Material, OpenError, Secrets, Sections, Target, Work};
use crate::kinds;
use crate::mix::Mix;
use crate::problems::Problems;
use crate::removal::Removal;
use crate::spec::MixSpec;
use dyno_measure::Failure;
use serde_json::Value;
use std::sync::Arc;
use std::thread::available_parallelism;

/// A destination that load may go to. `open` is the only way to get one, and a mix takes nothing else.
#[derive(Debug)]
pub struct OpenTarget {
    protocol: String,
    section: Value,
    inner: Box<dyn Target>,
}

impl OpenTarget {
    /// Opens the target of a document: resolves its address once, and proves that load is welcome there.
    ///
    /// # Errors
    /// See `OpenError`.
    pub fn open(protocol: &str, section: Value, secrets: &Secrets) -> Result<Self, OpenError> {
        let Some(kind) = kinds::kind(protocol) else {
            let mut problems = Problems::default();
            problems.unless(false, "protocol", &kinds::unknown(protocol));
            return Err(OpenError::Section(problems));
        };
        Ok(Self {
            protocol: protocol.to_owned(),
            inner: kind.open(&section, secrets)?,
            section,
        })
    }

    /// The kind of work.
    #[must_use]
    pub fn protocol(&self) -> &str {
        &self.protocol
    }

    /// Its section of the document.
    #[must_use]
    pub fn section(&self) -> &Value {
        &self.section
    }

    /// The address that was checked and is used.
    #[must_use]
    pub fn address(&self) -> String {
        self.inner.address()
    }

    /// Whether it is this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.inner.is_loopback()
    }

    /// What else is to be known of it, by its kind.
    #[must_use]
    pub fn facts(&self) -> Value {
        self.inner.facts()
    }

    /// Asks for one document, until a moment of the monotonic clock, and reads no further than so many bytes. None of a
    /// target that has no documents.
    #[must_use]
    pub fn get(&self, path: &str, deadline_ns: u64, most_bytes: usize) -> Option<Result<Answer, Failure>> {
        self.inner.get(path, deadline_ns, most_bytes)
    }

    /// Makes a connection, until a moment of the monotonic clock, and asks nothing on it.
    ///
    /// # Errors
    /// Why there is none.
    pub fn connect(&self, deadline_ns: u64) -> Result<(), Failure> {
        self.inner.connect(deadline_ns)
    }

    /// Asks what can be asked without load; nothing is written. `nonce` and `sessions`: as of
    /// `Target::look`.
    #[must_use]
    pub fn look(&self, nonce: u64, sessions: u32) -> Vec<Look> {
        self.inner.look(nonce, sessions)
    }

    /// Run a job until `end` stops it. Return None for a target without files, and for one on another machine if
    /// nothing bounds the rate.
    #[must_use]
    pub fn carry_out(&self, job: &FileJob, end: &Arc<JobControl>) -> Option<Result<JobLevels, JobFailure>> {
        (self.is_loopback() || job.max_rate_per_s.is_some()).then(|| self.inner.carry_out(job, end))?
    }

    /// What to try against a failure of a job.
    #[must_use]
    pub fn advice_on(&self, failure: &Failure) -> Option<&'static str> {
        self.inner.advice_on(failure)
    }

    /// Begins to write files until the server is gone. None of a target that has no files. `nonce`: as of `look`.
    #[must_use]
    pub fn begin_journal(&self, spec: JournalSpec, nonce: u64) -> Option<Journal> {
        self.inner.begin_journal(spec, nonce)
    }

    /// Reads what is left of a journal. None of a target that has no files.
    #[must_use]
    pub fn read_back(
        &self,
        spec: &JournalSpec,
        entries: &[Entry],
        nonce: u64,
    ) -> Option<Result<Vec<LeftOfFile>, Failure>> {
        self.inner.read_back(spec, entries, nonce)
    }
}

/// A mix that was checked, with everything built that can be before the clock runs.
#[derive(Debug, Clone)]
pub struct PreparedMix {
    mix: Arc<Mix>,
    work: Arc<dyn Work>,
}

impl PreparedMix {
    /// Checks a document that was read, and prepares its work for a target that was opened.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn new(spec: &MixSpec, target: &OpenTarget, material: &Material) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        problems.unless(
            spec.protocol == target.protocol && spec.target == target.section,
            "target",
            "is not the one that was opened",
        );
        problems.unless(
            target.is_loopback() || spec.max_rate_per_s.is_some(),
            "max_rate_per_s",
            "a target that is not loopback needs max_rate_per_s",
        );
        let cpus = match spec.engine.cpus.len() {
            0 => available_parallelism().map_or(1, usize::from),
            named => named,
        };
        problems.unless(
            spec.engine.threads <= cpus,
            "engine.threads",
            &format!(
                "{} threads on {cpus} CPU(s) would take each other's time",
                spec.engine.threads
            ),
        );
        spec.check(&mut problems);
        let mut mix = Mix::of(spec);
        if target.inner.clients_block() {
            // They wait for a disk most of the time: which CPU each gets is left to the kernel.
            (mix.engine_threads, mix.cpus) = (mix.part.clients, Vec::new());
            mix.clients_block = true;
        }
        let mix = Arc::new(mix);
        let sections = Sections {
            workload: &spec.workload,
            client: &spec.client,
        };
        let work = target.inner.prepare(&mix, sections, material, &mut problems);
        problems.none_or(work.map(|work| Self { mix, work }))
    }

    pub(crate) fn mix(&self) -> &Arc<Mix> {
        &self.mix
    }

    pub(crate) fn work(&self) -> &Arc<dyn Work> {
        &self.work
    }

    /// The room that one client's files need at least; None of work that makes none.
    #[must_use]
    pub fn workspace_bytes(&self) -> Option<u64> {
        self.work.workspace_bytes()
    }

    /// Begins to take away every workspace that stands, for `most_ns` at most; None of work that makes none.
    #[must_use]
    pub fn remove_workspaces(&self, most_ns: u64) -> Option<Removal> {
        self.work.remove_workspaces(most_ns)
    }
}
