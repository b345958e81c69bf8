//! Read-ahead and write-behind for sequential access: reads are started early, writes are sent and made durable in the
//! background (`durable.rs`). Not used for Windows XP.
//!
//! Only a read or write of the same file in the same direction may run while pages are being transferred. Every other
//! call, wait for breaks, handled break and close begins with [`Cache::land`]. Otherwise old data could enter the pages
//! after a lease was returned, a file was written or a handle was closed. Breaks that arrive meanwhile stay queued.

use super::exchange::{Wanted, MOST_TRANSFERS};
use super::options::Redirector;
use super::pages::{pages_of, FileId, PAGE_BYTES};
use super::tables::OpenHandle;
use super::{Cache, Trouble};
use crate::call::Call;
use crate::client::FileClient;
use std::ops::Range;

/// Read-ahead may use the memory divided by this number, so that it evicts neither its own pages nor those being read,
/// even if half of the pages are dirty.
const PART_OF_ROOM: u64 = 4;
/// Minimum number of transfers into which read-ahead is split. The next one starts when the application has read one.
const PIECES: u64 = 4;

impl<C: FileClient> Cache<C> {
    /// Returns whether read-ahead and write-behind are enabled.
    pub(super) fn streams(&self) -> bool {
        self.options.redirector == Redirector::Plain && self.options.read_ahead_bytes > 0
    }

    /// Returns whether a call reads or writes the file with transfers in progress, in the direction of these transfers.
    pub(super) fn goes_along(&self, call: &Call<'_>) -> bool {
        let (Call::Read { handle, .. } | Call::Write { handle, .. }) = *call else {
            return false;
        };
        let Ok(open) = self.tables.open_handle_of(handle) else {
            return false;
        };
        let file = self.tables.file(open.file);
        let against = match call {
            Call::Read { .. } => &file.going,
            _ => &file.coming,
        };
        self.exchange.ahead == Some(open.file) && against.is_empty() && !file.doubtful
    }

    /// Waits for all transfers that no call waits for.
    pub(super) async fn land(&mut self) -> Result<(), Trouble> {
        let Some(file) = self.exchange.ahead.take() else {
            return Ok(());
        };
        self.drain(file).await?;
        self.ask_if_doubtful(file).await
    }

    /// Starts to write back whole runs before page `before` if many pages are dirty. Starts to flush if the
    /// server has answered many of these writes.
    pub(super) async fn write_behind(&mut self, id: FileId, before: u64) -> Result<(), Trouble> {
        let most = u64::from(self.options.write_run_bytes.min(self.client.max_write_bytes()));
        let whole = (most / PAGE_BYTES).max(1);
        while self.streams() && self.tables.pages.many_dirty() {
            let run = self.tables.pages.dirty_run(id, whole);
            let Some(run) = run.filter(|run| run.end - run.start == whole && run.end <= before) else {
                break;
            };
            self.exchange.ahead = Some(id);
            self.room_for_transfer(id).await?;
            self.send_run(id, run).await?;
        }
        self.flush_behind(id).await
    }

    /// Fetches the missing part of a window, starts read-ahead, and waits only for the window.
    pub(super) async fn fetch_along(
        &mut self,
        open: &OpenHandle,
        missing: &[Range<u64>],
        window: Range<u64>,
        reads_on: bool,
    ) -> Result<(), Trouble> {
        self.begin_fetching(open.wire, open.file, missing).await?;
        if reads_on {
            self.look_ahead(open, window.end, !missing.is_empty()).await?;
        }
        self.wait_for(open.file, &pages_of(window.start, window.end))
            .await?;
        self.fetching_ended(open.wire, open.file).await
    }

    async fn wait_for(&mut self, id: FileId, pages: &Range<u64>) -> Result<(), Trouble> {
        while self.tables.file(id).comes(pages) {
            self.take_event().await?;
        }
        Ok(())
    }

    /// Starts read-ahead after `end`, in whole transfers except for the file's last one. `anew`: earlier read-ahead was
    /// evicted.
    pub(super) async fn look_ahead(
        &mut self,
        open: &OpenHandle,
        end: u64,
        anew: bool,
    ) -> Result<(), Trouble> {
        let id = open.file;
        let ahead = u64::from(self.options.read_ahead_bytes);
        let file = self.tables.file(id);
        let first = end.div_ceil(PAGE_BYTES);
        let file_end = file.server_end.div_ceil(PAGE_BYTES);
        let last = file_end.min((end + ahead.min(self.options.most_bytes / PART_OF_ROOM)) / PAGE_BYTES);
        let most = self.options.read_run_bytes.min(self.client.max_read_bytes());
        let piece = (u64::from(most).min(ahead / PIECES) / PAGE_BYTES).max(1);
        let mut from = match file.ahead_to {
            to if !anew && (first..=last).contains(&to) => to,
            _ => first,
        };
        while from < last {
            let to = last.min(from + piece);
            if to - from < piece && to < file_end {
                break;
            }
            if !self.fetch_ahead(open, from..to).await? {
                break;
            }
            from = to;
        }
        self.tables.file_mut(id).ahead_to = from;
        Ok(())
    }

    /// Starts to fetch missing pages. Returns false if too many transfers are in progress to start all of them.
    async fn fetch_ahead(&mut self, open: &OpenHandle, pages: Range<u64>) -> Result<bool, Trouble> {
        let bytes = pages.start * PAGE_BYTES..pages.end * PAGE_BYTES;
        for run in self.missing(open.file, bytes) {
            if self.tables.file(open.file).transfers >= MOST_TRANSFERS {
                return Ok(false);
            }
            self.exchange.ahead = Some(open.file);
            self.fetch_run(open.wire, open.file, run, Wanted::Later).await?;
        }
        Ok(true)
    }
}
