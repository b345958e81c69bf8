//! The workspaces on a server across levels, independent of the protocol. This module records which
//! workspaces exist, so that they can always be removed, and the expected contents of their files, so that
//! data of earlier levels can be checked.

use dyno_workload::{Ledger, ObjectLedger};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Workspaces of one load. Processes that share a load use the same `name`.
#[derive(Debug, Clone)]
pub struct Workspaces {
    directory: Arc<str>,
    known: Arc<Mutex<Known>>,
}

impl Default for Workspaces {
    /// Returns the workspaces of a new load, with a random name.
    fn default() -> Self {
        Self::named((RandomState::new().build_hasher().finish() >> 32) as u32)
    }
}

#[derive(Debug, Default)]
struct Known {
    ledgers: HashMap<usize, Ledger>,
    /// Ledgers of objects, by client and thread.
    objects: HashMap<(usize, usize), ObjectLedger>,
    /// Whether a client has begun to put the objects that all clients share.
    shared_begun: bool,
    /// Clients whose workspaces were started and have not been removed completely.
    standing: BTreeSet<usize>,
    begun: bool,
}

impl Workspaces {
    /// Prefix of the directory that each load creates in a share, with one directory per client. The rest of the name
    /// is unique to the load, so that loads on the same share don't touch each other's files. Such loads may run at the
    /// same time, or one may have been killed.
    pub const DIRECTORY: &str = "serverdyno-clients";

    /// Returns the workspaces of the load with this name.
    pub fn named(name: u32) -> Self {
        Self {
            directory: format!("{}-{name:08x}", Self::DIRECTORY).into(),
            known: Arc::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the directory of all clients, relative to the target's directory in its share.
    pub(crate) fn directory(&self) -> &str {
        &self.directory
    }

    /// Returns a client's workspace, relative to the target's directory in its share.
    pub(crate) fn directory_of(&self, client: usize) -> String {
        format!("{}/{client}", self.directory)
    }

    /// Returns the expected contents of a client's files after its last level, or None if unknown.
    pub fn ledger_of(&self, client: usize) -> Option<Ledger> {
        self.known().ledgers.get(&client).cloned()
    }

    /// Returns the clients whose workspaces exist on the server, in whole or in part.
    pub fn standing(&self) -> Vec<usize> {
        self.known().standing.iter().copied().collect()
    }

    /// Returns whether any workspace was ever started, even if all have been removed.
    pub fn begun(&self) -> bool {
        self.known().begun
    }

    /// Marks workspaces that may exist because the process of their clients can no longer report them.
    pub fn assume_standing(&self, clients: &[usize]) {
        clients.iter().for_each(|client| self.begin(*client));
    }

    pub(crate) fn stands(&self, client: usize) -> bool {
        self.known().standing.contains(&client)
    }

    pub(crate) fn take(&self, client: usize) -> Option<Ledger> {
        self.known().ledgers.remove(&client)
    }

    pub(crate) fn keep(&self, client: usize, ledger: Ledger) {
        self.known().ledgers.insert(client, ledger);
    }

    pub(crate) fn take_objects(&self, client: usize, thread: usize) -> Option<ObjectLedger> {
        self.known().objects.remove(&(client, thread))
    }

    pub(crate) fn keep_objects(&self, client: usize, thread: usize, ledger: ObjectLedger) {
        self.known().objects.insert((client, thread), ledger);
    }

    /// Records that a client begins to put the shared objects. Returns whether this is the first time.
    pub(crate) fn begin_shared(&self) -> bool {
        !std::mem::replace(&mut self.known().shared_begun, true)
    }

    pub(crate) fn begin(&self, client: usize) {
        let mut known = self.known();
        known.begun = true;
        known.standing.insert(client);
    }

    pub(crate) fn gone(&self, client: usize) {
        let mut known = self.known();
        known.standing.remove(&client);
        known.ledgers.remove(&client);
        // A cache in front of the server may answer with objects of an earlier level.
        let ledgers = known.objects.iter_mut();
        let own = ledgers.filter(|((owner, _), _)| *owner == client);
        own.for_each(|(_, ledger)| ledger.clear());
    }
}
