//! Handles breaks: writes dirty data, drops what may not be kept, then acknowledges. `exchange.rs` receives
//! them.

use super::pages::FileId;
use super::{Cache, Trouble};
use crate::call::Caching;
use crate::client::{Break, FileClient};

pub(super) fn both(one: Caching, other: Caching) -> Caching {
    Caching {
        read: one.read && other.read,
        write: one.write && other.write,
        handle: one.handle && other.handle,
    }
}

impl<C: FileClient> Cache<C> {
    /// Handles one break. A failure is reported by the file's next call. The break is acknowledged even after a
    /// failure, because another client is blocked until then.
    pub(super) async fn obey(&mut self, broken: Break) -> Result<(), Trouble> {
        self.land().await?;
        let Some(id) = self.concerned(broken.grant) else {
            return Ok(());
        };
        self.counts.breaks += 1;
        let file = self.tables.file_mut(id);
        file.breaks += 1;
        self.counts.directory_breaks += u64::from(file.names.is_some());
        if file.validity.is_some() {
            return self.obey_by_rules(id, broken).await;
        }
        let left = both(file.caching, broken.to);
        self.lower(id, left).await?;
        // Closing the last handle counts as an acknowledgement.
        if broken.acknowledge && self.concerned(broken.grant).is_some() {
            if let Err(failure) = self.client.acknowledge(broken.grant, left).await {
                return Err(self.lost(failure));
            }
        }
        Ok(())
    }

    /// Writes back or drops the cached state of a file that `left` does not allow. If this closes the file's last
    /// handle, its entry is removed.
    pub(super) async fn lower(&mut self, id: FileId, left: Caching) -> Result<(), Trouble> {
        if left.write {
            self.drain(id).await?;
        } else {
            self.write_back(id).await?;
        }
        self.tables.file_mut(id).caching = left;
        if !left.read {
            self.tables.pages.forget_file(id);
            if let Some(names) = self.tables.names_mut(id) {
                names.forget();
            }
        }
        if !left.handle {
            let deferred = self.tables.deferred_of(id);
            self.close_wires(&deferred).await?;
        }
        Ok(())
    }
}
