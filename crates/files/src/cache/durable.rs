//! Durability of writes on a server that may lose unstable writes although the session continues. Data is kept until a
//! flush is answered under the write's verifier (RFC 1813, 3.3.21), and written again if the verifier differs. Flushes
//! run in the background while an application continues to write. `sent.rs` decides what a flush covers.

use super::exchange::{give_up, Purpose};
use super::pages::FileId;
use super::{Cache, Trouble};
use crate::call::Call;
use crate::client::FileClient;
use dyno_measure::Fault;

/// Gives up after this many server restarts between a write and its flush.
const MOST_TRIES: u32 = 4;

impl<C: FileClient> Cache<C> {
    /// Writes back a file's data, and makes it durable if the server may lose it although the session continues. A
    /// failure is reported by the file's next call.
    pub(super) async fn write_back(&mut self, id: FileId) -> Result<(), Trouble> {
        self.write_out(id).await?;
        for _ in 0..MOST_TRIES {
            if self.tables.pages.any_unstable(id) {
                self.begin_flush(id).await?;
                self.drain(id).await?;
            }
            if !self.tables.pages.any_held(id) {
                return Ok(());
            }
            // The flush showed that the server lost some of the data.
            self.write_out(id).await?;
        }
        if self.tables.pages.any_unstable(id) {
            let runs = self.tables.file_mut(id).sent.take_all();
            give_up(&mut self.tables, id, runs, Fault::ErrorStatus.into());
        }
        Ok(())
    }

    /// Starts a flush if the server may still lose many answered writes.
    pub(super) async fn flush_behind(&mut self, id: FileId) -> Result<(), Trouble> {
        if !self.streams() || !self.tables.pages.many_unstable() {
            return Ok(());
        }
        let sent = &self.tables.file(id).sent;
        if !sent.is_flushing() && sent.answered_pages() >= self.tables.pages.many() as u64 {
            self.exchange.ahead = Some(id);
            self.begin_flush(id).await?;
        }
        Ok(())
    }

    async fn begin_flush(&mut self, id: FileId) -> Result<(), Trouble> {
        let handle = self
            .tables
            .writing_wire(id)
            .expect("a written file has an open handle");
        self.begin(&Call::Flush { handle }, Purpose::Flush { file: id })
            .await?;
        let file = self.tables.file_mut(id);
        file.transfers += 1;
        file.sent.begin_flush();
        Ok(())
    }
}
