//! Opens and closes files: joins open handles, defers closes, and performs deferred closes.

use super::breaks::both;
use super::options::Redirector;
use super::pages::FileId;
use super::tables::{folded, Deferred, File, OpenHandle};
use super::{Cache, Trouble};
use crate::call::{Access, Ask, Caching, Call, Disposition, Handle, Info, LeaseKey, Open, Reply};
use crate::client::FileClient;
use dyno_measure::Failure;

/// A file that is open under a lease and is opened again under the same key.
#[derive(Debug, Clone, Copy)]
struct Leased {
    file: FileId,
    key: LeaseKey,
    /// Number of the file's breaks before the open.
    breaks: u64,
}

/// Returns whether an open is plain: nothing is cached under its handle, and its close is not deferred.
pub(super) fn is_plain(open: &Open<'_>) -> bool {
    open.directory || open.delete_on_close || matches!(open.access, Access::Attributes | Access::Delete)
}

pub(super) fn empties(disposition: Disposition) -> bool {
    matches!(disposition, Disposition::Overwrite | Disposition::OverwriteIf)
}

impl<C: FileClient> Cache<C> {
    pub(super) async fn open(&mut self, open: &Open<'_>) -> Result<Reply, Trouble> {
        if let Some(ages) = self.options.policy.rules() {
            return self.open_by_rules(open, ages).await;
        }
        let key = folded(open.path);
        let must_be_there = matches!(open.disposition, Disposition::Open | Disposition::Overwrite);
        if must_be_there && self.is_known_absent(&key) {
            self.counts.look_ups_kept += 1;
            return Ok(Reply::NotThere);
        }
        if let Some(reply) = self.join(open, &key).await? {
            return Ok(reply);
        }
        let asked = self.asked_in_parent_of(&key);
        let leased = self.make_way(open, &key).await?;
        let lease = match leased {
            _ if is_plain(open) || !self.options.policy.leases() => None,
            Some(leased) => Some(leased.key),
            None => Some(self.tables.new_lease()),
        };
        let ask = match is_plain(open) {
            true => Ask::Nothing,
            false => self.options.policy.ask(lease),
        };
        self.exchange.opening += 1;
        if let Some(leased) = leased {
            self.tables.begin_opening(leased.file);
        }
        let reply = self.ask(&Call::Open(Open { ask, ..*open })).await;
        if matches!(reply, Err(Trouble::Lost(_))) {
            return reply;
        }
        let opened = match reply {
            Ok(Reply::Opened {
                handle,
                granted,
                created,
                info,
            }) => Some((handle, granted, created, info)),
            _ => None,
        };
        let Some((wire, granted, created, info)) = opened else {
            self.exchange.opening -= 1;
            if let Some(leased) = leased {
                self.tables.end_opening(leased.file);
            }
            if let (Ok(Reply::NotThere), true) = (&reply, must_be_there) {
                self.learn_name(asked, &key, Reply::NotThere);
            }
            return reply;
        };
        let granted = if is_plain(open) { Caching::NONE } else { granted };
        let handle = self.adopt(open, key, wire, granted, &info, lease, leased).await?;
        if created {
            self.tables.set_extended(wire);
        }
        Ok(Reply::Opened {
            handle,
            granted,
            created,
            info,
        })
    }

    /// Joins an open handle of the file, if its access suffices. Returns None if the open can't join.
    pub(super) async fn join(&mut self, open: &Open<'_>, key: &str) -> Result<Option<Reply>, Trouble> {
        let keeps = matches!(open.disposition, Disposition::Open | Disposition::OpenIf);
        let looks = open.access == Access::Attributes;
        let may =
            !is_plain(open) || (looks && self.options.redirector == Redirector::Plain && !open.directory);
        if !keeps || !may || open.delete_on_close {
            return Ok(None);
        }
        let Some(id) = self.tables.file_at(key) else {
            return Ok(None);
        };
        let Some(wire) = self.tables.fitting_wire(id, open.access) else {
            return Ok(None);
        };
        let handle = self.tables.add_open_handle(wire, open.access);
        self.counts.opens_joined += 1;
        let granted = self.tables.file(id).caching;
        // If the lease allows caching only the handle, others may have changed the file.
        let info = match self.query_handle(handle).await {
            Ok(Reply::Info(info)) => info,
            Ok(other) => return Ok(Some(other)),
            Err(trouble) => {
                self.tables.remove_open_handle(handle);
                return Err(trouble);
            }
        };
        Ok(Some(Reply::Opened {
            handle,
            granted,
            created: false,
            info,
        }))
    }

    /// Closes cached handles of the file with which an open would conflict. Under a lease, the open shares the key
    /// instead.
    async fn make_way(&mut self, open: &Open<'_>, key: &str) -> Result<Option<Leased>, Trouble> {
        let Some(id) = self.tables.file_once_at(key) else {
            return Ok(None);
        };
        let file = self.tables.file(id);
        let shared = match file.lease {
            Some(key) if !is_plain(open) && file.is_at_its_path() => Some(Leased {
                file: id,
                key,
                breaks: file.breaks,
            }),
            _ => None,
        };
        let looks = open.access == Access::Attributes && self.options.redirector == Redirector::Plain;
        if open.delete_on_close {
            self.tables.file_mut(id).doomed = true;
        }
        if empties(open.disposition) {
            // Earlier writes must not be lost if the open fails.
            self.write_back(id).await?;
        }
        // An open that requires a new file fails without causing a break.
        if shared.is_none() && !looks && open.disposition != Disposition::Create {
            let deferred = self.tables.deferred_of(id);
            self.close_wires(&deferred).await?;
        }
        Ok(shared)
    }

    /// Registers a new handle from the server. Returns the application's handle.
    #[allow(clippy::too_many_arguments)] // Passes everything known about an open at once.
    async fn adopt(
        &mut self,
        open: &Open<'_>,
        key: String,
        wire: Handle,
        granted: Caching,
        info: &Info,
        lease: Option<LeaseKey>,
        leased: Option<Leased>,
    ) -> Result<Handle, Trouble> {
        self.exchange.opening -= 1;
        let Some(shared) = leased else {
            let mut file = File::new(key, info, granted, lease);
            file.plain = is_plain(open);
            let id = self.tables.add_file(file);
            self.tables.add_wire(wire, id, open.access);
            if empties(open.disposition) {
                self.forget_written(id, 0, u64::MAX);
            }
            return Ok(self.tables.add_open_handle(wire, open.access));
        };
        let id = shared.file;
        self.tables.add_wire(wire, id, open.access);
        self.tables.end_opening(id);
        let handle = self.tables.add_open_handle(wire, open.access);
        let file = self.tables.file_mut(id);
        let (kept, breaks) = (file.caching, file.breaks);
        let stands = if breaks == shared.breaks {
            granted
        } else {
            both(granted, kept)
        };
        if empties(open.disposition) {
            self.drain(id).await?;
            self.tables.pages.forget_file(id);
        }
        if both(stands, kept) != kept {
            self.lower(id, both(stands, kept)).await?;
        }
        let file = self.tables.file_mut(id);
        file.caching = stands;
        if !kept.read || empties(open.disposition) {
            self.tables.pages.forget_file(id);
            self.tables.file_mut(id).learn(info);
        }
        Ok(handle)
    }

    /// Closes an application's handle after sending the file's writes. The server's handle may stay open.
    pub(super) async fn close(&mut self, handle: Handle) -> Result<Reply, Trouble> {
        let open = self.tables.open_handle_of(handle)?;
        let mut failure: Option<Failure> = None;
        if matches!(open.access, Access::ReadWrite | Access::Write) {
            self.write_back(open.file).await?;
        }
        if let Err(trouble) = self.unlock_all(handle, &open).await {
            failure = Some(trouble.call()?);
        }
        failure = self.tables.file_mut(open.file).failed.take().or(failure);
        self.tables.remove_open_handle(handle);
        let unused = self.tables.wire(open.wire).is_some_and(|wire| wire.users == 0);
        if unused && self.may_defer(&open) {
            self.counts.closes_deferred += 1;
            let since_ns = (self.now)();
            self.tables.deferred.push(Deferred {
                wire: open.wire,
                since_ns,
            });
            self.close_beyond_limit().await?;
        } else if unused {
            self.close_wires(&[open.wire]).await?;
        }
        match failure.or(self.stray.take()) {
            Some(failure) => Err(failure.into()),
            None => Ok(Reply::Done),
        }
    }

    fn may_defer(&self, open: &OpenHandle) -> bool {
        let file = self.tables.file(open.file);
        // Windows XP keeps no handle through which a file was created or extended (KB 811169). In the captures, such
        // handles are closed at once, and the file is opened and read again.
        let extended = self.tables.wire(open.wire).is_some_and(|wire| wire.extended);
        let kept = self.options.redirector == Redirector::Plain || !extended;
        // By close-to-open rules, a handle is kept under a read lease. A handle for writing would conflict with that
        // lease.
        let only_reads = || {
            self.tables
                .wire(open.wire)
                .is_some_and(|wire| wire.access == Access::Read)
        };
        let kept = kept && (file.validity.is_none() || only_reads());
        kept && file.caching.handle && !file.plain && !file.doomed && self.options.most_deferred > 0
    }

    pub(super) async fn close_beyond_limit(&mut self) -> Result<(), Trouble> {
        let most = self.options.most_deferred as usize;
        let beyond = self.tables.deferred.len().saturating_sub(most);
        let mut oldest = self.tables.all_deferred();
        oldest.truncate(beyond);
        self.close_wires(&oldest).await
    }

    /// Closes handles whose close was deferred for too long.
    pub(super) async fn scavenge(&mut self) -> Result<(), Trouble> {
        if self.tables.deferred.is_empty() {
            return Ok(());
        }
        let now_ns = (self.now)();
        let old =
            |deferred: &&Deferred| now_ns.saturating_sub(deferred.since_ns) >= self.options.deferred_age_ns;
        let old: Vec<Handle> = self
            .tables
            .deferred
            .iter()
            .filter(old)
            .map(|old| old.wire)
            .collect();
        self.close_wires(&old).await
    }

    /// Returns the time at which the next deferred close is due.
    pub(super) fn next_scavenging_ns(&self) -> Option<u64> {
        let oldest = self.tables.deferred.first()?;
        Some(oldest.since_ns.saturating_add(self.options.deferred_age_ns))
    }

    /// Returns the state of an application's handle for a call. An earlier write failure is reported first.
    pub(super) fn open_handle_for(&mut self, handle: Handle) -> Result<OpenHandle, Trouble> {
        let open = self.tables.open_handle_of(handle)?;
        match self.tables.file_mut(open.file).failed.take() {
            Some(failure) => Err(failure.into()),
            None => Ok(open),
        }
    }

    pub(super) async fn flush(&mut self, handle: Handle) -> Result<Reply, Trouble> {
        let open = self.open_handle_for(handle)?;
        self.write_back(open.file).await?;
        // If the server may lose unstable writes, the write-back has already flushed them.
        let reply = match self.client.loses_unstable_writes() {
            true => Reply::Done,
            false => self.ask(&Call::Flush { handle: open.wire }).await?,
        };
        match self.tables.file_mut(open.file).failed.take() {
            Some(failure) => Err(failure.into()),
            None => Ok(reply),
        }
    }

    pub(super) async fn query_handle(&mut self, handle: Handle) -> Result<Reply, Trouble> {
        let open = self.open_handle_for(handle)?;
        self.revalidate(&open).await?;
        let file = self.tables.file(open.file);
        if file.keeps_reads() {
            return Ok(Reply::Info(file.info()));
        }
        let reply = self.ask(&Call::QueryHandle { handle: open.wire }).await?;
        let key = self.tables.file(open.file).key.clone();
        Ok(self.as_written(reply, &key))
    }

    /// Queries times, which are never cached, from the server. In the captures of 2004, every query of a file under an
    /// oplock requests times (FileBasicInformation), except after an extension. Unsent writes are sent first, as in
    /// Linux, because they change the times.
    pub(super) async fn query_times(&mut self, handle: Handle) -> Result<Reply, Trouble> {
        let open = self.open_handle_for(handle)?;
        self.write_back(open.file).await?;
        let reply = self.ask(&Call::QueryTimes { handle: open.wire }).await?;
        let file = self.tables.file(open.file);
        Ok(match reply {
            // After local writes, the client's size and allocation are more recent than the server's.
            Reply::Info(info) if file.keeps_reads() => Reply::Info(Info {
                read_only: info.read_only,
                ..file.info()
            }),
            other => other,
        })
    }

    /// Updates the server's reply about a path with local writes that the server does not have yet.
    pub(super) fn as_written(&self, reply: Reply, key: &str) -> Reply {
        let Reply::Info(info) = reply else {
            return reply;
        };
        let id = match info.file_id {
            0 => self.tables.file_at(key),
            number => self.tables.file_of_number(number),
        };
        match id.map(|id| (id, self.tables.file(id))) {
            Some((id, file)) if file.keeps_writes() && self.knows_better(id) => {
                let bytes = file.bytes;
                Reply::Info(Info { bytes, ..info })
            }
            _ => reply,
        }
    }

    /// Returns whether the local size is newer than the server's: no other client may write, or there are
    /// unsent writes.
    fn knows_better(&self, id: FileId) -> bool {
        self.tables.file(id).validity.is_none() || self.tables.pages.any_held(id)
    }

    pub(super) async fn set_end(&mut self, handle: Handle, bytes: u64) -> Result<Reply, Trouble> {
        let open = self.open_handle_for(handle)?;
        self.write_back(open.file).await?;
        let call = Call::SetEnd {
            handle: open.wire,
            bytes,
        };
        let reply = self.ask_changing(open.file, &call).await?;
        let file = self.tables.file_mut(open.file);
        let shorter = bytes.min(file.bytes);
        file.bytes = bytes;
        file.server_end = bytes;
        file.allocated_bytes = bytes;
        let failed = file.failed.take();
        // Include the page that contains the end: its bytes beyond the end must be zero.
        self.forget_written(open.file, shorter, u64::MAX);
        match failed {
            Some(failure) => Err(failure.into()),
            None => Ok(reply),
        }
    }

    /// Sets times, which are not cached. Later write-backs do not change them: a server stops updating times that were
    /// set through the same handle (MS-FSA, FileBasicInformation).
    pub(super) async fn set_times(&mut self, handle: Handle) -> Result<Reply, Trouble> {
        let open = self.open_handle_for(handle)?;
        self.ask_changing(open.file, &Call::SetTimes { handle: open.wire })
            .await
    }

    /// Before a delete or rename, performs the deferred closes of files at or below these paths. The imitation of
    /// Windows XP performs all deferred closes.
    pub(super) async fn clear_way(&mut self, keys: &[&str]) -> Result<(), Trouble> {
        let handles = match self.options.redirector {
            Redirector::Xp => self.tables.all_deferred(),
            Redirector::Plain => self.tables.deferred_within(keys),
        };
        self.close_wires(&handles).await
    }
}
