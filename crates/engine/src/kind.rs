//! The interface of a kind of work: a protocol with its workloads.
//!
//! A kind opens a target once consent is proven. The target prepares the work of a level, which starts its
//! clients on the engine threads. Each kind has one file in `kinds/` and one line in its table. A client's
//! loop is compiled for its workload and protocol, without dynamic dispatch per operation (`client.rs`).

use crate::engine_thread::{EngineThread, FirstAnswer};
use crate::job::{FileJob, JobControl, JobFailure, JobLevels};
use crate::journal::{Entry, Journal, JournalSpec, LeftOfFile};
use crate::level::Level;
use crate::problems::Problems;
use crate::removal::Removal;
use crate::workspaces::Workspaces;
use dyno_http::Answer;
use dyno_measure::{Detail, Failure, Fault};
use dyno_net::tls::Identity;
use dyno_net::{BeforeLoad, TargetError, SILENT_LATER};
use dyno_workload::LoadFile;
use rustix::io::Errno;
use serde::Serialize;
use serde_json::Value;
use std::fmt::{self, Debug};
use std::rc::Rc;
use std::sync::Arc;

/// Data that is needed to open a target and is not recorded.
#[derive(Clone, Default)]
pub struct Secrets {
    /// The user's consent token, and the limits that apply before load.
    pub before_load: BeforeLoad,
    /// Password of the user in the target's section.
    pub password: Option<String>,
    /// Client certificate for servers that ask for one.
    pub identity: Option<Identity>,
    /// MIT Kerberos credential cache with the clients' ticket, in hexadecimal.
    pub ticket: Option<String>,
    /// ID and secret of an access key, and its session token. None: requests are anonymous.
    pub access_key: Option<(String, String, Option<String>)>,
}

impl Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Why a target was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// The document's section is invalid.
    Section(Problems),
    /// The target refused.
    Target(TargetError),
}

/// Data for a level that is not in its document.
#[derive(Debug, Clone, Default)]
pub struct Material {
    /// Workspaces of the clients, kept from level to level.
    pub workspaces: Workspaces,
    /// A load file to replay.
    pub load_file: Option<Arc<LoadFile>>,
}

/// Document sections that the kind reads.
#[derive(Debug, Clone, Copy)]
pub struct Sections<'a> {
    pub workload: &'a Value,
    /// How clients use the protocol.
    pub client: &'a Value,
}

/// State of a share, export or directory before load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Look {
    pub share: String,
    /// Free space, if the server reports a plausible value.
    pub free_bytes: Option<u64>,
    /// Whether directories of earlier or current clients exist.
    pub is_used: bool,
    /// Whether the server retains what clients delete or replace, as versions.
    pub keeps_versions: bool,
    /// Directory to which the server may move deleted files.
    pub recycle_bin: Option<String>,
    /// Number of entries in the recycle bin.
    pub recycled_entries: u32,
    /// Why the share cannot be used. None: it can.
    pub why: Option<String>,
    /// Name of the fault in that case.
    pub fault: Option<&'static str>,
    pub advice: Option<String>,
}

/// A destination for load.
#[warn(missing_docs)]
pub trait Target: Send + Sync + Debug {
    fn address(&self) -> String;

    fn is_loopback(&self) -> bool;

    /// Returns further facts about the target.
    fn facts(&self) -> Value;

    /// Checks the target without load or writes, for at most `timeout_ns`. `nonce`: unique per call.
    /// `sessions`: minimum number of concurrent sessions. Each share gets one, and the first share gets the
    /// rest.
    fn look(&self, _nonce: u64, _sessions: u32, _timeout_ns: u64) -> Vec<Look> {
        Vec::new()
    }

    /// Starts to write files until the server is gone. Returns None for targets without files. `nonce`: as
    /// for `look`.
    fn begin_journal(&self, _spec: JournalSpec, _nonce: u64) -> Option<Journal> {
        None
    }

    /// Reads the remains of a journal. Returns None for targets without files.
    fn read_back(
        &self,
        _spec: &JournalSpec,
        _entries: &[Entry],
        _nonce: u64,
    ) -> Option<Result<Vec<LeftOfFile>, Failure>> {
        None
    }

    /// Returns how many answers so far asked clients to wait until the server's grace period ends.
    fn answers_in_grace(&self) -> u64 {
        0
    }

    /// Returns whether clients block in system calls, so that each needs a thread.
    fn clients_block(&self) -> bool {
        false
    }

    /// Runs a job until it is done or `end` stops it. Returns None for targets without files, and for remote
    /// targets without a rate limit.
    fn carry_out(&self, _job: &FileJob, _end: &Arc<JobControl>) -> Option<Result<JobLevels, JobFailure>> {
        None
    }

    /// Returns a hint for a failure of a job, or of a connection without load. `has_answered`: whether the server answered
    /// before.
    fn advice_on(&self, _failure: &Failure, _has_answered: bool) -> Option<&'static str> {
        None
    }

    /// Sends one GET and reads at most `most_bytes` of the answer until `deadline_ns` (monotonic clock).
    /// Returns None for targets without documents.
    fn get(&self, _path: &str, _deadline_ns: u64, _most_bytes: usize) -> Option<Result<Answer, Failure>> {
        None
    }

    /// Connects without sending a request. Gives up at `deadline_ns` (monotonic clock).
    fn connect(&self, _deadline_ns: u64) -> Result<(), Failure> {
        Ok(())
    }

    /// Prepares a level before the clock runs. Appends errors to `problems`.
    #[allow(private_interfaces)] // Only `PreparedLevel` calls it.
    fn prepare(
        &self,
        level: &Arc<Level>,
        sections: Sections<'_>,
        material: &Material,
        problems: &mut Problems,
    ) -> Option<Arc<dyn Work>>;
}

/// Work of one level, ready to start.
pub(crate) trait Work: Send + Sync + Debug {
    /// Returns the names of the operation classes, by id.
    fn classes(&self) -> &[String];

    /// Prepares a thread before it creates sockets.
    fn enter(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// Returns the maximum number of concurrent connections.
    fn connections(&self, clients: usize, threads: usize) -> usize {
        clients * threads
    }

    /// Starts the clients of an engine thread on the thread's loop. Each client reports when it is ready.
    fn spawn_clients(&self, thread: &Rc<EngineThread>);

    /// Returns a hint for a failure.
    fn advice(&self, _failure: &Failure, _first: &FirstAnswer) -> Option<String> {
        None
    }

    /// Returns the effective client cache, for the record.
    fn client_cache(&self) -> Option<Value> {
        None
    }

    /// Returns the minimum space of one client's files at the end of its workload.
    fn workspace_bytes(&self) -> Option<u64> {
        None
    }

    /// Estimates how long the rate limit makes the preparation of the clients' files take, in nanoseconds; 0
    /// without files or limit. For objects, `run/remarks.py` computes it from the number of requests.
    fn preparation_ns(&self, _level: &Level) -> u64 {
        0
    }

    /// Starts to remove all workspaces, for at most `most_ns`. Returns None without workspaces.
    fn remove_workspaces(&self, _most_ns: u64) -> Option<Removal> {
        None
    }
}

/// Returns the hint for a server that no longer answers, if it did before.
pub(crate) fn later_silence(failure: &Failure, has_answered: bool) -> Option<&'static str> {
    // A detail, such as NFS's grace period, names the cause.
    let is_silent = failure.fault == Fault::ResponseTimeout && failure.detail == Detail::None;
    (is_silent && has_answered).then_some(SILENT_LATER)
}
