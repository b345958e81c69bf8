//! Close-to-open consistency (RFC 1813, 4.11), which NFS clients use without delegations. Every open queries the
//! attributes and drops cached data of another version. A close sends all writes (`handles.rs`) and makes them durable
//! (`durable.rs`). Between open and close, cached data is used until its attributes expire.
//!
//! Files are identified by the server's file number, so pages survive the close. Handles survive only under a lease
//! (`CacheOptions::delegations`); until the lease is broken, cached data of the file does not expire.
//!
//! Attributes of directories are not cached: a name's entry stays valid for a fixed time, without a check whether the
//! directory has changed.

use super::handles::{empties, is_plain};
use super::pages::FileId;
use super::policy::AttributeAges;
use super::tables::{folded, File, OpenHandle};
use super::validity::Validity;
use super::{Cache, Trouble};
use crate::call::{Access, Ask, Caching, Call, Handle, Info, LeaseKey, Open, Reply};
use crate::client::{Break, FileClient};

impl<C: FileClient> Cache<C> {
    /// Opens a file by close-to-open rules: asks the server, unless a lease permits the open to join an open handle.
    pub(super) async fn open_by_rules(
        &mut self,
        open: &Open<'_>,
        ages: AttributeAges,
    ) -> Result<Reply, Trouble> {
        let key = folded(open.path);
        if self.is_held_at(&key) {
            if let Some(reply) = self.join(open, &key).await? {
                return Ok(reply);
            }
        }
        if let Some(id) = self
            .tables
            .file_once_at(&key)
            .filter(|_| empties(open.disposition))
        {
            // Earlier writes must not be lost if the open fails.
            self.write_back(id).await?;
        }
        let (asked_ns, lease) = ((self.now)(), self.wanted_lease(open));
        let (wire, granted, created, info) = match self.ask_for_lease(open, lease).await? {
            Reply::Opened {
                handle,
                granted,
                created,
                info,
            } => (handle, granted, created, info),
            other => {
                self.tables.leads_nowhere(&key);
                return Ok(other);
            }
        };
        let lease_granted = lease.filter(|_| granted.read);
        let id = match self
            .tables
            .file_of_number(info.file_id)
            .filter(|_| !is_plain(open))
        {
            Some(id) => {
                self.tables.leads_to(key, id);
                self.tables.add_wire(wire, id, open.access);
                if let Some(validity) = self.tables.file_mut(id).validity.as_mut() {
                    validity.named(asked_ns);
                }
                self.begin_to_hold(id, lease, lease_granted);
                self.validate(id, &info, asked_ns).await?;
                id
            }
            None => {
                let id = self.add_by_rules(open, key, wire, &info, asked_ns, ages);
                self.begin_to_hold(id, lease, lease_granted);
                id
            }
        };
        if empties(open.disposition) {
            self.tables.pages.forget_file(id);
            self.tables.file_mut(id).learn(&info);
        }
        let info = match is_plain(open) {
            true => info,
            false => self.tables.file(id).info(),
        };
        Ok(Reply::Opened {
            handle: self.tables.add_open_handle(wire, open.access),
            granted: Caching::NONE,
            created,
            info,
        })
    }

    /// Sends an open that requests `lease`. A break may arrive before the reply, so `opening` counts the open until
    /// `begin_to_hold`.
    async fn ask_for_lease(&mut self, open: &Open<'_>, lease: Option<LeaseKey>) -> Result<Reply, Trouble> {
        let ask = lease.map_or(Ask::Nothing, |key| Ask::Lease(key, Caching::READ_HANDLE));
        self.exchange.opening += u32::from(lease.is_some());
        let reply = self.ask(&Call::Open(Open { ask, ..*open })).await;
        let is_lost = matches!(reply, Err(Trouble::Lost(_)));
        if !is_lost && !matches!(reply, Ok(Reply::Opened { .. })) {
            self.exchange.opening -= u32::from(lease.is_some());
        }
        reply
    }

    /// Returns the key of a new read lease to request, if the open is for reading and `delegations` is set.
    fn wanted_lease(&mut self, open: &Open<'_>) -> Option<LeaseKey> {
        let reads = open.access == Access::Read && !is_plain(open);
        (self.options.delegations && reads).then(|| self.tables.new_lease())
    }

    /// Ends an open that requested a lease. `granted`: the key, if the server granted the lease.
    fn begin_to_hold(&mut self, id: FileId, asked: Option<LeaseKey>, granted: Option<LeaseKey>) {
        self.exchange.opening -= u32::from(asked.is_some());
        if let Some(key) = granted {
            self.tables.hold(id, key);
        }
    }

    /// Returns whether the path names a file under a lease. Leases do not cover the directories on the path, so the
    /// path's name entry expires as usual.
    fn is_held_at(&self, key: &str) -> bool {
        let Some(id) = self.tables.file_at(key).filter(|_| self.options.delegations) else {
            return false;
        };
        let validity = self.tables.file(id).validity.as_ref();
        validity.is_some_and(|validity| validity.is_held() && validity.is_name_fresh((self.now)()))
    }

    /// Handles the break of a lease that was granted in addition to the rules: drops everything that was cached under
    /// the lease, handles first. Writes follow the rules, because the lease was only for reading.
    pub(super) async fn obey_by_rules(&mut self, id: FileId, broken: Break) -> Result<(), Trouble> {
        let deferred = self.tables.deferred_of(id);
        self.close_wires(&deferred).await?;
        // Closing the last handle counts as an acknowledgement.
        let is_told = self.concerned(broken.grant).is_none();
        if !is_told {
            self.tables.release(id);
        }
        if broken.acknowledge && !is_told {
            let left = Caching::NONE;
            if let Err(failure) = self.client.acknowledge(broken.grant, left).await {
                return Err(self.lost(failure));
            }
        }
        Ok(())
    }

    fn add_by_rules(
        &mut self,
        open: &Open<'_>,
        key: String,
        wire: Handle,
        info: &Info,
        asked_ns: u64,
        ages: AttributeAges,
    ) -> FileId {
        let is_plain = is_plain(open);
        let caching = match is_plain {
            true => Caching::NONE,
            false => Caching::READ_WRITE,
        };
        let mut file = File::new(key, info, caching, None);
        file.plain = is_plain;
        file.validity = (!is_plain).then(|| Validity::new(info.change, asked_ns, ages));
        let id = self.tables.add_file(file);
        self.tables.add_wire(wire, id, open.access);
        id
    }

    /// Applies attributes that were requested at `asked_ns`. If they show another version of the file, writes back data
    /// that is not durable yet, then drops cached data.
    pub(super) async fn validate(&mut self, id: FileId, info: &Info, asked_ns: u64) -> Result<(), Trouble> {
        let Some(validity) = self.tables.file_mut(id).validity.as_mut() else {
            return Ok(());
        };
        if validity.confirm(info.change, asked_ns) {
            return Ok(());
        }
        let mut info = *info;
        let handle = self.tables.file(id).wires.first().copied();
        if let (true, Some(handle)) = (self.tables.pages.any_held(id), handle) {
            self.write_back(id).await?;
            let asked_ns = (self.now)();
            if let Reply::Info(since) = self.ask_at_once(&Call::QueryHandle { handle }).await? {
                info = since;
            }
            if let Some(validity) = self.tables.file_mut(id).validity.as_mut() {
                validity.confirm(info.change, asked_ns);
            }
        }
        self.tables.pages.forget_file(id);
        self.tables.file_mut(id).learn(&info);
        Ok(())
    }

    /// Asks the server for a file's attributes if they have expired.
    pub(super) async fn revalidate(&mut self, open: &OpenHandle) -> Result<(), Trouble> {
        let now_ns = (self.now)();
        let validity = self.tables.file(open.file).validity.as_ref();
        if validity.is_none_or(|validity| validity.is_fresh(now_ns)) {
            return Ok(());
        }
        self.land().await?;
        match self.ask(&Call::QueryHandle { handle: open.wire }).await? {
            Reply::Info(info) => self.validate(open.file, &info, now_ns).await,
            _ => Ok(()),
        }
    }

    /// Returns size and attributes by path, from the cache if both name and attributes are fresh.
    pub(super) async fn query_path_by_rules(&mut self, path: &str) -> Result<Reply, Trouble> {
        let (key, now_ns) = (folded(path), (self.now)());
        if let Some(id) = self.tables.file_at(&key) {
            let file = self.tables.file(id);
            let fresh = |validity: &Validity| validity.is_fresh(now_ns) && validity.is_name_fresh(now_ns);
            if file.validity.as_ref().is_some_and(fresh) {
                return Ok(Reply::Info(file.info()));
            }
        }
        let reply = self.ask(&Call::QueryPath { path }).await?;
        let Reply::Info(info) = reply else {
            self.tables.leads_nowhere(&key);
            return Ok(reply);
        };
        let Some(id) = self.tables.file_of_number(info.file_id) else {
            self.tables.leads_nowhere(&key);
            return Ok(reply);
        };
        self.tables.leads_to(key, id);
        self.validate(id, &info, now_ns).await?;
        let file = self.tables.file_mut(id);
        if let Some(validity) = file.validity.as_mut() {
            validity.named(now_ns);
        }
        Ok(Reply::Info(file.info()))
    }

    /// Drops cached data after a lock was granted, because other clients may have written before.
    pub(super) fn forget_before_lock(&mut self, id: FileId) {
        if let Some(validity) = self.tables.file_mut(id).validity.as_mut() {
            validity.doubt();
            self.tables.pages.forget_file(id);
        }
    }

    /// Performs a call that changes a file, and records the change as this client's own.
    pub(super) async fn ask_changing(&mut self, id: FileId, call: &Call<'_>) -> Result<Reply, Trouble> {
        let call_id = self.begin(call, super::exchange::Purpose::Answer).await?;
        let ended = self.end_of(call_id).await?;
        self.tables.file_mut(id).changed_by_us(&ended.piggyback);
        self.exchange.spare(ended.data);
        Ok(ended.result?)
    }
}
