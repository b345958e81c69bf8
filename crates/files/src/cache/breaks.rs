//! Obeying the server when it takes caching back: what is dirty goes out first, then what may not be kept is dropped,
//! then the server is told. Not for: noticing breaks (`exchange.rs`).

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
    /// Obeys one break. A failure of a call on the way is kept for the file's next call: the server is answered all the
    /// same, because another client stands still until then.
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
        // Closing the last handle has told the server already.
        if broken.acknowledge && self.concerned(broken.grant).is_some() {
            if let Err(failure) = self.client.acknowledge(broken.grant, left).await {
                return Err(self.lost(failure));
            }
        }
        Ok(())
    }

    /// Brings what is kept of a file down to what `left` allows. With its last handle the file may go.
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
