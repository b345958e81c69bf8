//! Opened targets, and levels prepared for them: the control plane's handles on the data plane.

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

/// A destination for load. `open` is the only way to get one, and a level accepts nothing else.
#[derive(Debug)]
pub struct OpenTarget {
    protocol: String,
    section: Value,
    inner: Box<dyn Target>,
}

impl OpenTarget {
    /// Opens the target of a document: resolves its address once, and verifies that the target permits load.
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

    /// Returns the protocol.
    #[must_use]
    pub fn protocol(&self) -> &str {
        &self.protocol
    }

    /// Returns the target's section of the document.
    #[must_use]
    pub fn section(&self) -> &Value {
        &self.section
    }

    /// Returns the address that was checked and is used.
    #[must_use]
    pub fn address(&self) -> String {
        self.inner.address()
    }

    /// Returns whether the target is on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.inner.is_loopback()
    }

    /// Returns further facts about the target, which depend on its kind.
    #[must_use]
    pub fn facts(&self) -> Value {
        self.inner.facts()
    }

    /// Requests one document, by `deadline_ns` of the monotonic clock, and reads `most_bytes` at most.
    /// Returns None if the target has no documents.
    #[must_use]
    pub fn get(&self, path: &str, deadline_ns: u64, most_bytes: usize) -> Option<Result<Answer, Failure>> {
        self.inner.get(path, deadline_ns, most_bytes)
    }

    /// Connects by `deadline_ns` of the monotonic clock and sends no request.
    ///
    /// # Errors
    /// Why the connection failed.
    pub fn connect(&self, deadline_ns: u64) -> Result<(), Failure> {
        self.inner.connect(deadline_ns)
    }

    /// Returns how many answers so far asked clients to wait for the end of the server's grace period.
    #[must_use]
    pub fn answers_in_grace(&self) -> u64 {
        self.inner.answers_in_grace()
    }

    /// Inspects the target without load; writes nothing. `nonce` and `sessions`: as for `Target::look`.
    #[must_use]
    pub fn look(&self, nonce: u64, sessions: u32) -> Vec<Look> {
        self.inner.look(nonce, sessions)
    }

    /// Runs a job until `end` stops it. Returns None for a target without files, and for a remote target without a rate
    /// limit.
    #[must_use]
    pub fn carry_out(&self, job: &FileJob, end: &Arc<JobControl>) -> Option<Result<JobLevels, JobFailure>> {
        (self.is_loopback() || job.max_rate_per_s.is_some()).then(|| self.inner.carry_out(job, end))?
    }

    /// Returns a hint for a failure of a job.
    #[must_use]
    pub fn advice_on(&self, failure: &Failure) -> Option<&'static str> {
        self.inner.advice_on(failure)
    }

    /// Starts to write files until the server is gone. Returns None if the target has no files. `nonce`: as for `look`.
    #[must_use]
    pub fn begin_journal(&self, spec: JournalSpec, nonce: u64) -> Option<Journal> {
        self.inner.begin_journal(spec, nonce)
    }

    /// Reads the remains of a journal. Returns None if the target has no files.
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

/// A valid level, with everything prepared that can be prepared in advance.
#[derive(Debug, Clone)]
pub struct PreparedMix {
    mix: Arc<Mix>,
    is_loopback: bool,
    work: Arc<dyn Work>,
}

impl PreparedMix {
    /// Checks a document, and prepares its work for an open target.
    ///
    /// # Errors
    /// Every problem of the document.
    pub fn new(spec: &MixSpec, target: &OpenTarget, material: &Material) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        problems.unless(
            spec.protocol == target.protocol && spec.target == target.section,
            "target",
            "is not the target that was opened",
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
                "{} threads on {cpus} CPU(s) would compete for CPU time",
                spec.engine.threads
            ),
        );
        spec.check(&mut problems);
        let mut mix = Mix::of(spec);
        if target.inner.clients_block() {
            // These threads mostly wait for a disk, so the kernel chooses their CPUs.
            (mix.engine_threads, mix.cpus) = (mix.part.clients, Vec::new());
            mix.clients_block = true;
        }
        let mix = Arc::new(mix);
        let sections = Sections {
            workload: &spec.workload,
            client: &spec.client,
        };
        let work = target.inner.prepare(&mix, sections, material, &mut problems);
        let is_loopback = target.is_loopback();
        problems.none_or(work.map(|work| Self {
            mix,
            is_loopback,
            work,
        }))
    }

    /// Returns whether the target is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    pub(crate) fn mix(&self) -> &Arc<Mix> {
        &self.mix
    }

    pub(crate) fn work(&self) -> &Arc<dyn Work> {
        &self.work
    }

    /// Returns the minimum space in bytes of one client's files at the end of its workload, or None if the
    /// work creates no files.
    #[must_use]
    pub fn workspace_bytes(&self) -> Option<u64> {
        self.work.workspace_bytes()
    }

    /// Starts to remove all workspaces, within `most_ns`. Returns None if the work creates none.
    #[must_use]
    pub fn remove_workspaces(&self, most_ns: u64) -> Option<Removal> {
        self.work.remove_workspaces(most_ns)
    }
}
