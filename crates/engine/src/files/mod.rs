//! Work on files of a server, whatever the protocol: what is asked for, and the clients that ask.
//!
//! `workload` is what they do, `sessions` what a protocol gives, `target` what load may go to by that, `cache` what they keep; `client_task` is a client from its
//! log-on to its leaving, `client` carries out its operations and judges them, `names` are its files' names; `look` asks a
//! server before its load, `bonnie` is that program's six phases, `scenario` a step of a user's commands (both are a
//! `job` with the calls of `program`), `removal` takes away what clients have left, `journal` is that of a power cut.

mod alone;
mod bonnie;
mod bonnie_contents;
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

use crate::engine_thread::EngineThread;
use crate::kind::Work;
use crate::mix::Mix;
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

/// How many clients log on at the same time. A server's queue of new connections is short (Samba's has 50 places), and
/// whoever finds it full is forgotten by the kernel, which shows as a reset a minute later.
const LOGGING_ON: usize = 32;

/// Work on files of one mix.
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
        mix: &Mix,
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
            identity: mix.identity(),
            timeout_ns: mix.timeout_ns,
        }
    }

    /// Tells what this mix writes from what any other wrote, one of the same seed too: a mix that is measured again, or
    /// the same mix of another configuration on a server that was not started for it.
    fn mark(&self) -> u32 {
        (self.identity >> 32) as u32
    }

    /// Where a client's paths begin: clients that share files have all of theirs in one share, below one directory.
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

    /// One client with a session of its own, which it has yet to make.
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

/// The work as its own tasks hold it.
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

    /// Each client has a session of its own.
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
        let mix = &thread.mix;
        let tasks = thread.clients().enumerate().map(|(row, number)| {
            let workload = self.0.workload.of_client(mix.seed, number);
            let sampling = Sampling::new(mix.verify_share, mix.random(SAMPLING_STREAM, number, 0));
            let client = self
                .0
                .client(place, number, workload.as_files().catalogue(), sampling);
            ClientTask::new(thread.clone(), self.0.clone(), (row, number), client, workload)
        });
        let queue = Rc::new(Queue::new(tasks.collect()));
        for _ in 0..(LOGGING_ON / mix.threads_here()).max(1) {
            queue.admit(thread);
        }
    }

    fn advice(&self, failure: &Failure) -> Option<&'static str> {
        self.0.sessions.advice(failure)
    }

    fn client_cache(&self) -> Option<Value> {
        self.0.options.disclosed()
    }

    fn workspace_bytes(&self) -> Option<u64> {
        Some(self.0.workload.footprint_bytes())
    }

    fn remove_workspaces(&self, most_ns: u64) -> Option<Removal> {
        Some(removal::start(&self.0, most_ns))
    }
}

fn dialer<S: Sessions>(executor: &Executor, sessions: &S, number: u8) -> Rc<Dialer> {
    Rc::new(Dialer::new(executor.clone(), sessions.address(), number))
}
