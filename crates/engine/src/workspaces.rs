//! The workspaces on a server, from mix to mix: which there are, so that they can be taken away whatever happens, and
//! what their files should contain, so that what an earlier mix wrote can be checked. Knows no protocol.

use dyno_workload::Ledger;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Those of one load. Processes that share a load give each other its `name`.
#[derive(Debug, Clone)]
pub struct Workspaces {
    directory: Arc<str>,
    known: Arc<Mutex<Known>>,
}

impl Default for Workspaces {
    /// Those of a load that has yet to begin, under a name that the system's randomness gives.
    fn default() -> Self {
        Self::named((RandomState::new().build_hasher().finish() >> 32) as u32)
    }
}

#[derive(Debug, Default)]
struct Known {
    ledgers: HashMap<usize, Ledger>,
    /// Clients that have begun to make one, which has not been taken away as a whole.
    standing: BTreeSet<usize>,
    begun: bool,
}

impl Workspaces {
    /// How the directory begins that each load makes in a share, with one directory a client in it. The rest of its
    /// name is the load's own: two that meet on a share, or one after another that was killed, don't touch each other's
    /// files.
    pub const DIRECTORY: &str = "serverdyno-clients";

    /// Those of the load of that name.
    #[must_use]
    pub fn named(name: u32) -> Self {
        Self {
            directory: format!("{}-{name:08x}", Self::DIRECTORY).into(),
            known: Arc::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of all clients, from the target's directory in its share.
    pub(crate) fn directory(&self) -> &str {
        &self.directory
    }

    /// A client's workspace, from the target's directory in its share.
    pub(crate) fn directory_of(&self, client: usize) -> String {
        format!("{}/{client}", self.directory)
    }

    /// What a client's files should contain after its last mix; None where nobody knows.
    #[must_use]
    pub fn ledger_of(&self, client: usize) -> Option<Ledger> {
        self.known().ledgers.get(&client).cloned()
    }

    /// The clients whose workspaces stand on the server, whole or in part.
    #[must_use]
    pub fn standing(&self) -> Vec<usize> {
        self.known().standing.iter().copied().collect()
    }

    /// Whether any was ever begun, also where it is gone by now.
    #[must_use]
    pub fn begun(&self) -> bool {
        self.known().begun
    }

    /// Clients of this load may have workspaces that whoever carried them can't tell of any more.
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

    pub(crate) fn begin(&self, client: usize) {
        let mut known = self.known();
        known.begun = true;
        known.standing.insert(client);
    }

    pub(crate) fn gone(&self, client: usize) {
        let mut known = self.known();
        known.standing.remove(&client);
        known.ledgers.remove(&client);
    }
}
