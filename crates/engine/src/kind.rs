//! The contract of a kind of work: a protocol together with the workloads that it carries out.
//!
//! A kind opens a target, once load is proven to be welcome there; the target prepares the work of a mix; the work puts
//! its clients on the engine's threads. One kind, one file in `kinds/` and one line in its table. Operations are not
//! dispatched here: a client's loop is built for its workload and protocol alone (`client.rs`).

use crate::engine_thread::EngineThread;
use crate::job::{FileJob, JobControl, JobFailure, JobLevels};
use crate::journal::{Entry, Journal, JournalSpec, LeftOfFile};
use crate::mix::Mix;
use crate::problems::Problems;
use crate::removal::Removal;
use crate::workspaces::Workspaces;
use dyno_measure::Failure;
use dyno_net::tls::Identity;
use dyno_net::TargetError;
use dyno_workload::LoadFile;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::{self, Debug};
use std::rc::Rc;
use std::sync::Arc;

/// What opens a target and stands in no record.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Secrets {
    /// The user's token that asks for consent.
    pub consent_token: Option<String>,
    /// Of the user that clients log on as.
    pub password: Option<String>,
    /// The certificate that web clients show to a server that asks for one.
    pub identity: Option<Identity>,
    /// A credential cache of MIT Kerberos with the ticket that clients log on by, in hexadecimal.
    pub ticket: Option<String>,
}

impl Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Secrets").finish_non_exhaustive()
    }
}

/// Why a target was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// Its section of the document is wrong.
    Section(Problems),
    /// The kind itself said so.
    Target(TargetError),
}

/// What a mix needs that is not in its document.
#[derive(Debug, Clone, Default)]
pub struct Material {
    /// The workspaces of the clients, from mix to mix.
    pub workspaces: Workspaces,
    /// A load file to replay.
    pub load_file: Option<Arc<LoadFile>>,
}

/// The sections of a document that a target's kind reads itself.
#[derive(Debug, Clone, Copy)]
pub struct Sections<'a> {
    pub workload: &'a Value,
    /// How they use the protocol.
    pub client: &'a Value,
}

/// One share, export or other part of a server as it is before its load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Look {
    pub share: String,
    /// Room for us, where the server says so in a way that can be believed.
    pub free_bytes: Option<u64>,
    /// There are directories of the clients of earlier loads, or of some that go on.
    pub is_used: bool,
    /// A directory to which the server may move what clients delete.
    pub recycle_bin: Option<String>,
    /// What is in it.
    pub recycled_entries: u32,
    /// Why it can't be used.
    pub why: Option<String>,
    /// What to try then.
    pub advice: Option<String>,
}

/// What came of one plain question for a document, outside of load.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// What the server calls itself.
    pub server: Option<String>,
    /// The body, or its beginning.
    pub body: Vec<u8>,
    /// Whether it is all of the body.
    pub whole: bool,
}

/// A kind of work.
pub(crate) trait Kind: Sync {
    /// As the document's `protocol` names it.
    fn name(&self) -> &'static str;

    /// Opens a target: resolves its address once, and proves that load is welcome there.
    fn open(&self, section: &Value, secrets: &Secrets) -> Result<Box<dyn Target>, OpenError>;
}

/// A destination that load may go to.
#[warn(missing_docs)]
pub trait Target: Send + Sync + Debug {
    /// The address that was checked and is used.
    fn address(&self) -> String;

    /// Whether it is this machine.
    fn is_loopback(&self) -> bool;

    /// What else is to be known of it.
    fn facts(&self) -> Value;

    /// Asks what can be asked without load; nothing is written. `nonce`: another each time. `sessions`: so many, those of
    /// the shares included, must be possible at once; the others than one per share are on the first.
    fn look(&self, _nonce: u64, _sessions: u32) -> Vec<Look> {
        Vec::new()
    }

    /// Begins to write files until the server is gone. None of a target that has no files. `nonce`: as of `look`.
    fn begin_journal(&self, _spec: JournalSpec, _nonce: u64) -> Option<Journal> {
        None
    }

    /// Reads what is left of a journal. None of a target that has no files.
    fn read_back(
        &self,
        _spec: &JournalSpec,
        _entries: &[Entry],
        _nonce: u64,
    ) -> Option<Result<Vec<LeftOfFile>, Failure>> {
        None
    }

    /// Whether its clients wait in system calls, so that each needs a thread of its own.
    fn clients_block(&self) -> bool {
        false
    }

    /// Run a job until `end` stops it. Return None for a target without files.
    fn carry_out(&self, _job: &FileJob, _end: &Arc<JobControl>) -> Option<Result<JobLevels, JobFailure>> {
        None
    }

    /// What to try against a failure of a job.
    fn advice_on(&self, _failure: &Failure) -> Option<&'static str> {
        None
    }

    /// Asks for one document, until a moment of the monotonic clock, and reads no further than so many bytes. None of a
    /// target that has no documents.
    fn get(&self, _path: &str, _deadline_ns: u64, _most_bytes: usize) -> Option<Result<Answer, Failure>> {
        None
    }

    /// Makes a connection, until a moment of the monotonic clock, and asks nothing on it.
    fn connect(&self, _deadline_ns: u64) -> Result<(), Failure> {
        Ok(())
    }

    /// Everything of a mix that can be built before the clock runs. What is wrong goes to `problems`.
    fn prepare(
        &self,
        mix: &Arc<Mix>,
        sections: Sections<'_>,
        material: &Material,
        problems: &mut Problems,
    ) -> Option<Arc<dyn Work>>;
}

/// The work of one mix, ready to start.
pub(crate) trait Work: Send + Sync + Debug {
    /// Names of the operation classes, by id.
    fn classes(&self) -> &[String];

    /// What a thread must do before it makes a socket.
    fn enter(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// The connections that so many clients with so many threads each have at once, at most.
    fn connections(&self, clients: usize, threads: usize) -> usize {
        clients * threads
    }

    /// Puts the clients of one engine thread on its loop. Each of them arrives at the thread's start.
    fn spawn_clients(&self, thread: &Rc<EngineThread>);

    /// What to try against a failure.
    fn advice(&self, _failure: &Failure) -> Option<&'static str> {
        None
    }

    /// What each client keeps, for the record.
    fn client_cache(&self) -> Option<Value> {
        None
    }

    /// The room that one client's files need at least, once it has gone through its workload.
    fn workspace_bytes(&self) -> Option<u64> {
        None
    }

    /// Begins to take away every workspace that stands, for `most_ns` at most; None of work without workspaces.
    fn remove_workspaces(&self, _most_ns: u64) -> Option<Removal> {
        None
    }
}
