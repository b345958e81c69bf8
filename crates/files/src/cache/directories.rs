//! Cache of leased directories: numbers of names that match a pattern, and results of look-ups, including negative
//! ones. The first listing or look-up in a directory opens it and requests a lease for read and handle caching. Cached
//! results are dropped on a break or a local change. The handle is closed on a break, or after `deferred_age_ns`
//! without use. A listing's entries are not cached: a look-up is answered only from an earlier look-up of the same
//! name.

use super::names::Names;
use super::pages::FileId;
use super::tables::{folded, Deferred, File, Tables};
use super::{Cache, Trouble};
use crate::call::{Access, Ask, Caching, Call, Disposition, Info, LeaseKey, Open, Reply};
use crate::client::FileClient;

/// A leased directory at the time of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    lease: LeaseKey,
    changes: u64,
}

/// Returns the parent directory of a path; None for the root of the share.
fn parent_of(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some((directory, _)) => Some(directory),
        None => (!path.is_empty()).then_some(""),
    }
}

impl Tables {
    pub(super) fn directory_at(&self, key: &str) -> Option<FileId> {
        self.directories.get(key).copied()
    }

    pub(super) fn names(&self, id: FileId) -> Option<&Names> {
        self.file(id).names.as_deref()
    }

    pub(super) fn names_mut(&mut self, id: FileId) -> Option<&mut Names> {
        self.file_mut(id).names.as_deref_mut()
    }

    /// Drops everything cached about a directory, because this client changed something in it.
    pub(super) fn forget_name(&mut self, key: &str) {
        let directory = parent_of(key).and_then(|parent| self.directory_at(parent));
        if let Some(names) = directory.and_then(|id| self.names_mut(id)) {
            names.forget();
        }
    }

    pub(super) fn forget_name_of(&mut self, id: FileId) {
        if !self.directories.is_empty() {
            let key = std::mem::take(&mut self.file_mut(id).key);
            self.forget_name(&key);
            self.file_mut(id).key = key;
        }
    }

    pub(super) fn use_deferred(&mut self, id: FileId, now_ns: u64) {
        let wires = &self.file(id).wires;
        let is_it = |deferred: &Deferred| wires.contains(&deferred.wire);
        if let Some(place) = self.deferred.iter().position(is_it) {
            let deferred = self.deferred.remove(place);
            self.deferred.push(Deferred {
                since_ns: now_ns,
                ..deferred
            });
        }
    }
}

impl<C: FileClient> Cache<C> {
    pub(super) fn leases_directories(&self) -> bool {
        let wanted = self.options.lease_directories && self.options.policy.leases();
        wanted && self.options.most_deferred > 0 && self.client.leases_directories()
    }

    /// Lists a directory, from the cache if possible.
    pub(super) async fn find(&mut self, directory: &str, pattern: &str) -> Result<Reply, Trouble> {
        let call = Call::Find { directory, pattern };
        let Some(id) = self.lease_directory(directory).await? else {
            return self.ask(&call).await;
        };
        let asked = self.asked_of(id);
        if let Some(entries) = self.tables.names(id).and_then(|names| names.listing(pattern)) {
            self.counts.listings_kept += 1;
            return Ok(Reply::Found { entries });
        }
        let reply = self.ask(&call).await?;
        if let (Some(names), Reply::Found { entries }) = (self.still_held(asked), reply) {
            names.keep_listing(pattern, entries);
        }
        Ok(reply)
    }

    /// Looks up a path, from the cache if possible.
    pub(super) async fn look_up(&mut self, path: &str) -> Result<Reply, Trouble> {
        let key = folded(path);
        let directory = parent_of(path);
        let id = match directory {
            Some(directory) => self.lease_directory(directory).await?,
            None => None,
        };
        let asked = id.and_then(|id| self.asked_of(id));
        if let Some(known) = self.known(&key) {
            self.counts.look_ups_kept += 1;
            return Ok(self.as_written(known.map_or(Reply::NotThere, Reply::Info), &key));
        }
        let reply = self.ask(&Call::QueryPath { path }).await?;
        self.learn_name(asked, &key, reply);
        Ok(self.as_written(reply, &key))
    }

    /// Returns the cached result of a look-up, if the directory is still leased.
    fn known(&self, key: &str) -> Option<Option<Info>> {
        let id = self.tables.directory_at(parent_of(key)?)?;
        self.tables.names(id)?.look_up(key)
    }

    /// Returns whether a path is known not to exist.
    pub(super) fn is_known_absent(&self, key: &str) -> bool {
        self.leases_directories() && self.known(key) == Some(None)
    }

    /// Returns the leased directory that contains a path. Call it before the request about the path is sent.
    pub(super) fn asked_in_parent_of(&self, key: &str) -> Option<Asked> {
        let id = self.tables.directory_at(parent_of(key)?)?;
        self.asked_of(id)
    }

    /// Stores the result of a look-up.
    pub(super) fn learn_name(&mut self, asked: Option<Asked>, key: &str, reply: Reply) {
        let known = match reply {
            Reply::Info(info) => Some(info),
            Reply::NotThere => None,
            _ => return,
        };
        if let Some(names) = self.still_held(asked) {
            names.keep_look_up(key, known);
        }
    }

    fn asked_of(&self, id: FileId) -> Option<Asked> {
        let changes = self.tables.names(id)?.changes();
        let lease = self.tables.file(id).lease?;
        Some(Asked { lease, changes })
    }

    /// Returns the cached names of a directory, unless its lease ended or something in it was changed locally since
    /// the request.
    fn still_held(&mut self, asked: Option<Asked>) -> Option<&mut Names> {
        let asked = asked?;
        let id = self.tables.file_of_lease(asked.lease)?;
        let names = self.tables.names_mut(id)?;
        (names.changes() == asked.changes).then_some(names)
    }

    /// Returns the leased directory at a path; requests a lease if needed. None: no lease was granted.
    async fn lease_directory(&mut self, path: &str) -> Result<Option<FileId>, Trouble> {
        if !self.leases_directories() {
            return Ok(None);
        }
        let key = folded(path);
        if let Some(id) = self.tables.directory_at(&key) {
            self.tables.use_deferred(id, (self.now)());
            return Ok(Some(id));
        }
        let lease = self.tables.new_lease();
        let open = Open {
            path,
            access: Access::Read,
            disposition: Disposition::Open,
            directory: true,
            delete_on_close: false,
            ask: Ask::Lease(lease, Caching::READ_HANDLE),
        };
        // A break of the new lease may arrive before the reply.
        self.exchange.opening += 1;
        let reply = self.ask(&Call::Open(open)).await;
        if matches!(reply, Err(Trouble::Lost(_))) {
            return reply.map(|_| None);
        }
        self.exchange.opening -= 1;
        let Ok(Reply::Opened {
            handle,
            granted,
            info,
            ..
        }) = reply
        else {
            // The application's own request will fail for the same reason and report the failure.
            return Ok(None);
        };
        if granted != Caching::READ_HANDLE {
            self.ask(&Call::Close { handle }).await?;
            return Ok(None);
        }
        let mut file = File::new(key.clone(), &info, granted, Some(lease));
        file.names = Some(Box::default());
        let id = self.tables.add_file(file);
        self.tables.add_wire(handle, id, open.access);
        self.tables.deferred.push(Deferred {
            wire: handle,
            since_ns: (self.now)(),
        });
        self.close_beyond_limit().await?;
        self.settle().await?;
        Ok(self.tables.directory_at(&key))
    }

    /// Returns the folded paths of names that a call may change. Changes by later write-backs are recorded when the
    /// write-backs end.
    pub(super) fn changed_by(&self, call: &Call<'_>) -> [Option<String>; 2] {
        let of_handle = |handle| {
            let open = self.tables.open_handle_of(handle).ok()?;
            Some(self.tables.file(open.file))
        };
        match *call {
            _ if !self.leases_directories() => [None, None],
            Call::Open(open) if open.disposition != Disposition::Open || open.delete_on_close => {
                [Some(folded(open.path)), None]
            }
            Call::Close { handle } => {
                let gone = of_handle(handle).filter(|file| file.doomed);
                [gone.map(|file| file.key.clone()), None]
            }
            Call::Write { handle, .. } | Call::SetEnd { handle, .. } | Call::SetTimes { handle } => {
                [of_handle(handle).map(|file| file.key.clone()), None]
            }
            Call::Rename { from, to } => [Some(folded(from)), Some(folded(to))],
            Call::Delete { path } | Call::MakeDirectory { path } | Call::RemoveDirectory { path } => {
                [Some(folded(path)), None]
            }
            _ => [None, None],
        }
    }
}
