//! Work on objects of a bucket: each client thread has a prefix, and a ledger of its objects.
//!
//! `client` performs and checks operations, `transfer` moves contents, `client_task` runs a client from start
//! to end, `removal` removes what clients left.

mod client;
mod client_task;
mod listing;
mod names;
mod removal;
mod transfer;

use crate::engine_thread::{EngineThread, FirstAnswer};
use crate::kind::{later_silence, Work};
use crate::level::Level;
use crate::removal::Removal;
use crate::workspaces::Workspaces;
use client_task::Queue;
use dyno_measure::{Failure, Fault};
use dyno_net::{Dialer, Executor, Pace};
use dyno_s3::{Place, S3Target};
use dyno_workload::{ObjectLedger, ObjectsOptions};
use names::Names;
use std::rc::Rc;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Enough requests to remove a few thousand objects of one thread.
const REQUESTS_PER_REMOVAL: usize = 16;

/// How a client stores its objects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObjectsClientOptions {
    /// Size above which a PUT is a multipart upload with parts of this size; 0: never.
    pub part_bytes: u64,
    /// Number of parts that are sent at the same time.
    pub parts_in_flight: usize,
    pub receive_buffer_bytes: usize,
    /// Whether objects stay after the level.
    pub keep: bool,
}

impl ObjectsClientOptions {
    /// Returns the maximum number of connections of a client thread.
    fn connections(&self) -> usize {
        match self.part_bytes {
            0 => 1,
            _ => self.parts_in_flight,
        }
    }
}

/// Work on objects of one level.
#[derive(Debug)]
pub(crate) struct ObjectsWork {
    target: S3Target,
    workload: Arc<ObjectsOptions>,
    options: ObjectsClientOptions,
    workspaces: Workspaces,
    threads: usize,
    timeout_ns: u64,
    identity: u64,
    /// This process's share of the level's rate limit.
    pace: Option<Pace>,
    classes: Vec<String>,
}

impl ObjectsWork {
    pub(crate) fn new(
        level: &Level,
        target: S3Target,
        workload: ObjectsOptions,
        options: ObjectsClientOptions,
        workspaces: Workspaces,
    ) -> Self {
        Self {
            classes: workload.classes(),
            pace: level.pace_to(target.address()),
            target,
            workload: Arc::new(workload),
            options,
            workspaces,
            threads: level.threads,
            timeout_ns: level.timeout_ns,
            identity: level.identity(),
        }
    }

    /// Returns a mark that distinguishes this level's contents from all others, even those with the same
    /// seed.
    fn mark(&self) -> u32 {
        (self.identity >> 32) as u32
    }

    /// Returns a number that is the same in all processes and levels of the load.
    fn load_number(&self) -> u64 {
        xxh3_64(self.workspaces.directory().as_bytes())
    }

    /// Returns the prefix of a client's keys.
    fn prefix_of(&self, client: usize) -> String {
        format!(
            "{}{}/",
            self.target.prefix(),
            self.workspaces.directory_of(client)
        )
    }

    /// Returns the shared state of clients on one event loop.
    fn place(&self, executor: &Executor, dialer: Rc<Dialer>) -> Place {
        let limits = (self.options.receive_buffer_bytes, self.timeout_ns);
        self.target
            .place(executor, dialer, limits)
            .paced(self.pace.clone())
    }

    /// Estimates how long the rate limit makes the removal of this many threads' objects take, in
    /// nanoseconds.
    fn removal_ns(&self, threads: usize) -> u64 {
        let requests = threads.saturating_mul(REQUESTS_PER_REMOVAL);
        self.pace.as_ref().map_or(0, |pace| pace.length_ns(requests))
    }

    fn names_of(&self, client: usize, thread: usize) -> Names {
        let prefix = format!("{}{thread}/", self.prefix_of(client));
        Names::new(prefix, self.workload.objects_per_prefix)
    }

    /// Returns the prefix of the objects that all clients share.
    fn shared_prefix(&self) -> String {
        format!("{}{}/shared/", self.target.prefix(), self.workspaces.directory())
    }

    fn shared_names(&self) -> Names {
        Names::new(self.shared_prefix(), self.workload.objects_per_prefix)
    }

    fn shared_ledger(&self) -> ObjectLedger {
        let number = self.load_number();
        let sizes = self.workload.sizes(number, u32::MAX, 0);
        ObjectLedger::shared((number >> 32) as u32, &sizes)
    }
}

#[derive(Debug)]
pub(crate) struct SharedObjectsWork(pub Arc<ObjectsWork>);

impl Work for SharedObjectsWork {
    fn classes(&self) -> &[String] {
        &self.0.classes
    }

    fn connections(&self, clients: usize, threads: usize) -> usize {
        clients * threads * self.0.options.connections()
    }

    fn spawn_clients(&self, thread: &Rc<EngineThread>) {
        let dialer = Rc::new(self.0.target.dialer(&thread.executor, thread.dialer_number()));
        thread
            .dialer
            .set(dialer.clone())
            .expect("clients are spawned once");
        let place = self.0.place(&thread.executor, dialer);
        match self.0.target.tls().cloned() {
            None => {
                let connect = move || place.plain();
                Queue::start(thread, &self.0, connect);
            }
            Some(tls) => {
                let connect = move || place.secure(&tls);
                Queue::start(thread, &self.0, connect);
            }
        }
    }

    fn advice(&self, failure: &Failure, first: &FirstAnswer) -> Option<String> {
        let advice = later_silence(failure, first.others_succeed.get());
        advice
            .or_else(|| self.0.target.advice(failure))
            .map(str::to_owned)
    }

    fn workspace_bytes(&self) -> Option<u64> {
        let objects = u64::from(self.0.workload.objects) * self.0.threads as u64;
        Some(objects * self.0.workload.size.most_bytes())
    }

    fn remove_workspaces(&self, most_ns: u64) -> Option<Removal> {
        Some(removal::start(&self.0, most_ns))
    }
}

/// Returns whether to repeat a request outside of the measured load after this failure. A server with a rate
/// limit refuses some requests.
fn may_pass(failure: &Failure) -> bool {
    match failure.fault {
        Fault::SlowDown | Fault::ClosedEarly | Fault::IdleClose | Fault::ConnectionReset => true,
        Fault::ErrorStatus => dyno_s3::is_of_server(failure),
        _ => false,
    }
}
