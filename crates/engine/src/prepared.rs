//! Opened targets, and levels prepared for them: the control plane's handles on the data plane.

use crate::kind::{Material, OpenError, Secrets, Sections, Target, Work};
use crate::kinds;
use crate::level::Level;
use crate::problems::Problems;
use crate::removal::Removal;
use crate::spec::LevelSpec;
use serde_json::Value;
use std::ops::Deref;
use std::sync::Arc;
use std::thread::available_parallelism;

/// A destination for load. Only `open` creates one, and a level accepts nothing else.
#[derive(Debug)]
pub struct OpenTarget {
    protocol: String,
    section: Value,
    inner: Box<dyn Target>,
}

impl OpenTarget {
    /// Opens the target of a document: resolves its address once, and verifies that the target permits load.
    pub fn open(protocol: &str, section: Value, secrets: &Secrets) -> Result<Self, OpenError> {
        let Some(open) = kinds::open(protocol) else {
            let mut problems = Problems::default();
            problems.unless(false, "protocol", &kinds::unknown(protocol));
            return Err(OpenError::Section(problems));
        };
        Ok(Self {
            protocol: protocol.to_owned(),
            inner: open(&section, secrets)?,
            section,
        })
    }

    pub fn protocol(&self) -> &str {
        &self.protocol
    }

    /// Returns the target's section of the document.
    pub fn section(&self) -> &Value {
        &self.section
    }
}

/// Dereferences to the target of its kind.
impl Deref for OpenTarget {
    type Target = dyn Target;

    fn deref(&self) -> &(dyn Target + 'static) {
        &*self.inner
    }
}

/// A valid level, prepared as far as possible in advance.
#[derive(Debug, Clone)]
pub struct PreparedLevel {
    level: Arc<Level>,
    is_loopback: bool,
    work: Arc<dyn Work>,
}

impl PreparedLevel {
    /// Checks a document and prepares its work for an open target.
    pub fn new(spec: &LevelSpec, target: &OpenTarget, material: &Material) -> Result<Self, Problems> {
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
        let mut level = Level::of(spec);
        if target.clients_block() {
            // These threads mostly wait for a disk, so the kernel chooses their CPUs.
            (level.engine_threads, level.cpus) = (level.part.clients, Vec::new());
            level.clients_block = true;
        }
        let level = Arc::new(level);
        let sections = Sections {
            workload: &spec.workload,
            client: &spec.client,
        };
        let work = target.prepare(&level, sections, material, &mut problems);
        let is_loopback = target.is_loopback();
        problems.none_or(work.map(|work| Self {
            level,
            is_loopback,
            work,
        }))
    }

    /// Returns whether the target is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    pub(crate) fn level(&self) -> &Arc<Level> {
        &self.level
    }

    pub(crate) fn work(&self) -> &Arc<dyn Work> {
        &self.work
    }

    /// Returns the minimum space in bytes of one client's files at the end of its workload, or None if the
    /// work creates no files.
    pub fn workspace_bytes(&self) -> Option<u64> {
        self.work.workspace_bytes()
    }

    /// Estimates how long the rate limit makes the preparation of all clients' files take, in nanoseconds; 0
    /// without files or limit.
    pub fn preparation_ns(&self) -> u64 {
        self.work.preparation_ns(&self.level)
    }

    /// Starts to remove all workspaces, within `most_ns`. Returns None if the work creates none.
    pub fn remove_workspaces(&self, most_ns: u64) -> Option<Removal> {
        self.work.remove_workspaces(most_ns)
    }
}
