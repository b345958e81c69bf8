//! Making durable what was written: to a server that may lose an unstable write and keep the session, data are kept
//! until it has answered a flush under the verifier of the write (RFC 1813, 3.3.21), and written once more where the
//! verifier is another. While an application writes on, the flush goes out in the background. Not for: servers that lose
//! data together with the session, where the ledger knows; nor for what a flush speaks for (`sent.rs`).

use super::exchange::{give_up, Purpose};
use super::pages::FileId;
use super::{Cache, Trouble};
use crate::call::Call;
use crate::client::FileClient;
use dyno_measure::Fault;

/// A server that restarts more often than this between a write and its flush keeps nothing.
const MOST_TRIES: u32 = 4;

impl<C: FileClient> Cache<C> {
    /// Writes back all that was written of a file, and makes it durable where the server may lose it and go on. What is
    /// refused is kept for the file's next call.
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
            // A flush has found that the server has lost some of it.
            self.write_out(id).await?;
        }
        if self.tables.pages.any_unstable(id) {
            let runs = self.tables.file_mut(id).sent.take_all();
            give_up(&mut self.tables, id, runs, Fault::ErrorStatus.into());
        }
        Ok(())
    }

    /// Begins a flush where an application writes on and much was answered that the server may still lose.
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
            .expect("was written through one that is still open");
        self.begin(&Call::Flush { handle }, Purpose::Flush { file: id })
            .await?;
        let file = self.tables.file_mut(id);
        file.transfers += 1;
        file.sent.begin_flush();
        Ok(())
    }
}
