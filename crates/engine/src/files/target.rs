//! Target of file protocols: prepares levels in the same way for all of them.

use super::bounded::Limits;
use super::client::hint;
use super::job::Job;
use super::sessions::KeptBy;
use super::workload::FilesWorkload;
use super::{bonnie, journal, look, scenario, FilesOptions, FilesWork, Sessions, SharedFilesWork};
use crate::job::{FileJob, FileTask, JobControl, JobFailure, JobLevels};
use crate::journal::{Entry, Journal, JournalSpec, LeftOfFile};
use crate::kind::{Look, Material, Sections, Target, Work};
use crate::level::Level;
use crate::problems::Problems;
use dyno_measure::Failure;
use serde_json::{json, Value};
use std::sync::Arc;

/// Maximum number of clients that block, since each needs a thread.
const MOST_CLIENTS_THAT_BLOCK: usize = 1000;

impl<S: Sessions + Clone> Target for S {
    fn address(&self) -> String {
        self.location()
    }

    fn is_loopback(&self) -> bool {
        self.is_local()
    }

    fn facts(&self) -> Value {
        json!({"shares": self.shares()})
    }

    fn look(&self, nonce: u64, sessions: u32, timeout_ns: u64) -> Vec<Look> {
        look::look(self, nonce, sessions, timeout_ns)
    }

    fn begin_journal(&self, spec: JournalSpec, nonce: u64) -> Option<Journal> {
        Some(journal::begin(self, nonce, spec))
    }

    fn read_back(
        &self,
        spec: &JournalSpec,
        entries: &[Entry],
        nonce: u64,
    ) -> Option<Result<Vec<LeftOfFile>, Failure>> {
        Some(journal::read_back(self, nonce, spec, entries))
    }

    fn answers_in_grace(&self) -> u64 {
        self.postponed().in_grace()
    }

    fn clients_block(&self) -> bool {
        S::CLIENTS_BLOCK
    }

    fn carry_out(&self, job: &FileJob, end: &Arc<JobControl>) -> Option<Result<JobLevels, JobFailure>> {
        if !self.is_local() && job.max_rate_per_s.is_none() {
            return None;
        }
        let of_target = Job {
            sessions: self,
            options: FilesOptions::usual().kept_by(self.kept_by()),
            identity: job.nonce,
            limits: Limits {
                most_ns: job.most_ns,
                timeout_ns: job.timeout_ns,
            },
            max_rate_per_s: job.max_rate_per_s,
            end,
            part: job.part,
            first_gate: 0,
        };
        Some(match &job.task {
            FileTask::Bonnie(spec) => {
                bonnie::carry_out(&of_target, spec).map_err(|failure| JobFailure { step: 0, failure })
            }
            FileTask::Steps(all) => scenario::carry_out_all(&of_target, all),
        })
    }

    fn advice_on(&self, failure: &Failure, has_answered: bool) -> Option<&'static str> {
        hint(self, failure, has_answered)
    }

    /// Parses the document's sections on the work and prepares the clients.
    #[allow(private_interfaces)]
    fn prepare(
        &self,
        level: &Arc<Level>,
        sections: Sections<'_>,
        material: &Material,
        problems: &mut Problems,
    ) -> Option<Arc<dyn Work>> {
        problems.unless(
            !S::CLIENTS_BLOCK || level.part.clients <= MOST_CLIENTS_THAT_BLOCK,
            "clients",
            "must be between 1 and 1,000 if each client is a thread",
        );
        let workload = FilesWorkload::read(sections.workload, material.load_file.as_ref(), problems);
        let options =
            FilesOptions::read(sections.client, problems).map(|options| options.kept_by(self.kept_by()));
        let (workload, mut options) = (workload?, options?);
        check_arrivals::<S>(level, &workload, problems);
        if workload.goes_through() {
            let as_sent = options.as_sent();
            problems.unless(
                as_sent.is_some(),
                "client.cache",
                "must be none, and client.redirector must be plain, because every operation of this \
                workload goes to the server",
            );
            if workload.flushes() {
                options = as_sent?;
            }
        }
        if workload.goes_on_over_outages() {
            problems.unless(
                self.kept_by() != KeptBy::Kernel,
                "workload.name",
                "this workload needs a server that can have an outage, but a directory has no server",
            );
            options.keep_workspace = false;
        }
        if workload.shares_files() {
            problems.unless(
                self.locks_exclude(),
                "workload.name",
                "clients that share files need locks that exclude each other, so NFS requires vers=4.1",
            );
            // Other clients may still use shared files, so the files are removed after the last level.
            options.keep_workspace = true;
        }
        let workspaces = material.workspaces.clone();
        let sessions = self.paced(level.pace_to(Sessions::address(self)));
        let work = FilesWork::new(level, sessions, workload, options, workspaces);
        Some(Arc::new(SharedFilesWork(Arc::new(work))))
    }
}

/// Checks the number of concurrent operations per client and the arrivals.
fn check_arrivals<S: Sessions>(level: &Level, workload: &FilesWorkload, problems: &mut Problems) {
    problems.unless(
        level.open.is_none() || workload.is_independent(),
        "arrival",
        "this workload is not possible with a rate, because its clients wait for their answers",
    );
    if level.threads == 1 {
        return;
    }
    problems.unless(
        level.threads as u64 <= workload.most_depth(),
        "threads",
        "a client of this workload can have only one thread (with streams: fewer threads than its file has \
         blocks)",
    );
    problems.unless(
        !S::CLIENTS_BLOCK,
        "threads",
        "must be 1 for a directory, because system calls are synchronous",
    );
    problems.unless(
        level.open.is_none() && level.never_waits(),
        "threads",
        "must be 1 for files if operations are scheduled by think time, a pace, a rate or a bound",
    );
}
