//! Work on files of a server, for all protocols.
//!
//! `workload` generates operations; `sessions`, `target` and `cache` configure clients. `client_task` runs a
//! client, `client` performs its operations, `names` maps its files to paths. `look` checks a server before
//! load, `bonnie` and `scenario` are jobs (`job`, `program`, `bounded`), `removal` cleans up, `journal` is
//! for power cuts.

mod alone;
mod bonnie;
mod bonnie_contents;
mod bounded;
mod cache;
mod client;
mod client_task;
mod job;
mod journal;
mod look;
mod measured;
mod names;
mod program;
mod removal;
mod scenario;
mod sessions;
mod target;
#[cfg(test)]
mod tests;
mod workload;

use cache::FilesOptions;
pub(crate) use sessions::{KeptBy, Place, Requests, Sessions};

use crate::engine_thread::{EngineThread, FirstAnswer};
use crate::kind::Work;
use crate::level::Level;
use crate::removal::Removal;
use crate::sampling::{Sampling, SAMPLING_STREAM};
use crate::workspaces::Workspaces;
use client::FilesClient;
use client_task::{ClientTask, Queue};
use dyno_measure::Failure;
use dyno_net::{Dialer, Executor};
use dyno_workload::FileCatalogue;
use rustix::io::Errno;
use serde_json::Value;
use std::rc::Rc;
use std::sync::Arc;
use workload::FilesWorkload;

/// Maximum concurrent log-ons. Servers have short accept queues (Samba: 50), and the kernel drops further
/// connections, which appear as resets a minute later.
const LOGGING_ON: usize = 32;
/// Usual number of requests that start and end a session, including those for the directories above the workspace.
const REQUESTS_PER_SESSION: usize = 16;
/// Usual maximum number of requests per call outside of the measured load.
const REQUESTS_PER_CALL: usize = 4;
/// Size of the largest usual write.
const WRITE_BYTES: u64 = 1 << 20;

/// Work on files of one level.
#[derive(Debug)]
pub(crate) struct FilesWork<S> {
    sessions: S,
    workload: FilesWorkload,
    options: FilesOptions,
    workspaces: Workspaces,
    identity: u64,
    timeout_ns: u64,
    classes: Vec<String>,
}

impl<S: Sessions> FilesWork<S> {
    pub(crate) fn new(
        level: &Level,
        sessions: S,
        workload: FilesWorkload,
        options: FilesOptions,
        workspaces: Workspaces,
    ) -> Self {
        Self {
            classes: workload.of_client(0, 0).as_files().catalogue().classes.clone(),
            sessions,
            workload,
            options,
            workspaces,
            identity: level.identity(),
            timeout_ns: level.timeout_ns,
        }
    }

    /// Estimates how long the rate limit makes sessions with this number of calls take, in nanoseconds; 0
    /// without a limit.
    fn paced_ns(&self, sessions: usize, calls: usize) -> u64 {
        let requests = sessions * REQUESTS_PER_SESSION + calls * REQUESTS_PER_CALL;
        let pace = self.sessions.pace();
        pace.map_or(0, |pace| pace.length_ns(requests))
    }

    /// Estimates how long the rate limit makes the preparation of a level's clients take, in nanoseconds.
    fn preparation_ns(&self, level: &Level) -> u64 {
        if self.sessions.pace().is_none() {
            return 0;
        }
        let clients = level.part.clients;
        let actions = (0..clients).map(|place| {
            let workload = self.workload.of_client(level.seed, level.part.client(place));
            workload.as_files().preparation(false).len()
        });
        let writes = self.workload.footprint_bytes() / WRITE_BYTES;
        self.paced_ns(clients, actions.sum::<usize>() + clients * writes as usize)
    }

    /// Estimates how long the rate limit makes the removal of all workspaces take, in nanoseconds.
    fn removal_ns(&self) -> u64 {
        if self.sessions.pace().is_none() {
            return 0;
        }
        let standing = self.workspaces.standing();
        let calls = standing.iter().map(|number| {
            let workload = self.workload.of_client(0, *number);
            let files = workload.as_files();
            files.preparation(true).len() + files.removal().len()
        });
        self.paced_ns(standing.len() + self.sessions.shares().len(), calls.sum())
    }

    /// Returns a mark that distinguishes this level's writes from all others, even those with the same seed.
    fn mark(&self) -> u32 {
        (self.identity >> 32) as u32
    }

    /// Returns the directory for a client's paths. Clients that share files all use one share and directory.
    fn directory_of(&self, number: usize) -> String {
        match self.workload.shares_files() {
            true => self.workspaces.directory().to_owned(),
            false => self.workspaces.directory_of(number),
        }
    }

    fn share_of(&self, number: usize) -> &str {
        let dealt = if self.workload.shares_files() { 0 } else { number };
        self.sessions.share_of(dealt)
    }

    /// Returns a client with its own session. The session is not connected yet.
    fn client(
        &self,
        place: Place<'_>,
        number: usize,
        names: &FileCatalogue,
        sampling: Sampling,
    ) -> FilesClient<S> {
        let client = u32::try_from(number).unwrap_or(u32::MAX);
        let share = self.share_of(number);
        let session = self.sessions.session(place, self.identity, client, share);
        let mut client_of_files = FilesClient::new(
            self.options.client(session),
            names::Names::new(names, &self.directory_of(number)),
            client,
            sampling,
            place.executor.clone(),
            self.timeout_ns,
        );
        if self.workload.goes_on_over_outages() {
            client_of_files.go_on_over_outages();
        }
        client_of_files
    }
}

#[derive(Debug)]
struct SharedFilesWork<S>(Arc<FilesWork<S>>);

impl<S: Sessions> Work for SharedFilesWork<S> {
    fn classes(&self) -> &[String] {
        &self.0.classes
    }

    fn enter(&self) -> Result<(), Errno> {
        self.0.sessions.enter()
    }

    fn connections(&self, clients: usize, _threads: usize) -> usize {
        clients * self.0.sessions.channels()
    }

    /// Gives each client its own session.
    fn spawn_clients(&self, thread: &Rc<EngineThread>) {
        let dialer = dialer(&thread.executor, &self.0.sessions, thread.dialer_number());
        thread
            .dialer
            .set(dialer.clone())
            .expect("clients are spawned once");
        let place = Place {
            executor: &thread.executor,
            dialer: &dialer,
        };
        let level = &thread.level;
        let tasks = thread.clients().enumerate().map(|(row, number)| {
            let workload = self.0.workload.of_client(level.seed, number);
            let sampling = Sampling::new(level.verify_share, level.random(SAMPLING_STREAM, number, 0));
            let client = self
                .0
                .client(place, number, workload.as_files().catalogue(), sampling);
            ClientTask::new(thread.clone(), self.0.clone(), (row, number), client, workload)
        });
        let queue = Rc::new(Queue::new(tasks.collect()));
        for _ in 0..(LOGGING_ON / level.threads_here()).max(1) {
            queue.admit(thread);
        }
    }

    fn advice(&self, failure: &Failure, first: &FirstAnswer) -> Option<String> {
        let hint = client::hint(&self.0.sessions, failure, first.others_succeed.get());
        hint.map(str::to_owned)
    }

    fn client_cache(&self) -> Option<Value> {
        self.0.options.disclosed()
    }

    fn workspace_bytes(&self) -> Option<u64> {
        Some(self.0.workload.footprint_bytes())
    }

    fn preparation_ns(&self, level: &Level) -> u64 {
        self.0.preparation_ns(level)
    }

    fn remove_workspaces(&self, most_ns: u64) -> Option<Removal> {
        Some(removal::start(&self.0, most_ns))
    }
}

fn dialer<S: Sessions>(executor: &Executor, sessions: &S, number: u8) -> Rc<Dialer> {
    let dialer = Dialer::new(executor.clone(), sessions.address(), number);
    Rc::new(dialer.paced(sessions.pace().cloned()))
}
