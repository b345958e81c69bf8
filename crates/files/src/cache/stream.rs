//! Keeping the server busy while an application reads or writes a file in order: what it will want next is asked for
//! while it reads, and waited for only when it comes to it; what it has written goes out while it writes on, and is made
//! durable in the background (`durable.rs`). Not for:
//! XP, whose redirector fetched what was asked for, and wrote when it had to; nor for what is read in any other order.
//!
//! Nothing but a read of the same file may find pages on their way from the server, and nothing but a write into the
//! same file pages on their way to it. Every other call, a wait for breaks, a break that is obeyed and a handle that is
//! closed begin with [`Cache::land`]: what comes after a lease was given back, a file was written or a handle was
//! closed would otherwise be put into pages as if it were of now. Breaks that come meanwhile stand in the queue, as
//! with any transfer.

use super::exchange::{Wanted, MOST_TRANSFERS};
use super::options::Redirector;
use super::pages::{pages_of, FileId, PAGE_BYTES};
use super::tables::OpenHandle;
use super::{Cache, Trouble};
use crate::call::Call;
use crate::client::FileClient;
use std::ops::Range;

/// Of the room, so that what is read ahead pushes out neither what is being read nor itself, with dirty pages in half.
const PART_OF_ROOM: u64 = 4;
/// What is read ahead is asked for in no fewer pieces than this: the next is begun when one has been used.
const PIECES: u64 = 4;

impl<C: FileClient> Cache<C> {
    /// Whether pages are fetched ahead while others are used.
    pub(super) fn streams(&self) -> bool {
        self.options.redirector == Redirector::Plain && self.options.read_ahead_bytes > 0
    }

    /// Whether a call reads or writes the file that pages may be on their way of, in the same direction.
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

    /// Waits until nothing is on its way that no call waits for.
    pub(super) async fn land(&mut self) -> Result<(), Trouble> {
        let Some(file) = self.exchange.ahead.take() else {
            return Ok(());
        };
        self.drain(file).await?;
        self.ask_if_doubtful(file).await
    }

    /// Begins to write back what lies before page `before`, where much is dirty, in whole runs, and to make durable what was
    /// written so, where much of that is answered.
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

    /// Fetches what is missing of a window and begins with what lies behind it; waits for the window alone.
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

    /// Begins to fetch what lies behind `end`, in whole pieces but for the file's last. `anew`: what was asked for
    /// before has not stayed.
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

    /// False: there is no room for all of it now.
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
