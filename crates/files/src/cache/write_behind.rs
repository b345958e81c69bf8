//! Writes into pages if the server allows it, otherwise directly. Pages are written back in long runs on close, flush,
//! break or lack of memory. `stream.rs` has write-behind.

use super::exchange::{short, Purpose};
use super::options::Redirector;
use super::pages::{page_of, pages_of, FileId, PAGE_BYTES};
use super::tables::OpenHandle;
use super::{Cache, Trouble};
use crate::call::{Access, Call, Handle, Reply, Stability};
use crate::client::FileClient;
use crate::page_run::PageRun;
use dyno_measure::Fault;
use std::collections::VecDeque;
use std::ops::Range;

/// Maximum amount of data put into pages at once. Larger writes are cached in parts.
const WINDOW_BYTES: usize = 256 << 10;
/// Number of attempts to fetch the pages at a write's edges before the write is sent directly. A break may make each
/// fetch useless.
const MOST_TRIES: usize = 2;

impl<C: FileClient> Cache<C> {
    pub(super) async fn write(
        &mut self,
        handle: Handle,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Result<Reply, Trouble> {
        let written = self.write_into(handle, offset, data).await?;
        if stability > Stability::Unstable {
            self.flush(handle).await?;
        }
        Ok(written)
    }

    async fn write_into(&mut self, handle: Handle, offset: u64, data: &[u8]) -> Result<Reply, Trouble> {
        let open = self.open_handle_for(handle)?;
        let sent = u32::try_from(data.len()).map_err(|_| Fault::OtherIo)?;
        self.check_locks(handle, &open, offset, u64::from(sent))?;
        let written = Reply::Written { bytes: sent };
        if data.is_empty() {
            return Ok(written);
        }
        if offset + u64::from(sent) > self.tables.file(open.file).bytes {
            self.tables.set_extended(open.wire);
        }
        self.extend(&open, offset, data).await?;
        let mut at = offset;
        for window in data.chunks(WINDOW_BYTES) {
            if !self.keep(&open, at, window).await? {
                self.counts.writes_through += 1;
                let rest = &data[usize::try_from(at - offset).unwrap_or(data.len())..];
                self.write_through(&open, at, rest).await?;
                return Ok(written);
            }
            at += window.len() as u64;
        }
        self.counts.writes_kept += 1;
        Ok(written)
    }

    /// Returns whether writes through a handle may be cached. By close-to-open rules, this includes write-only handles,
    /// as in Linux.
    fn keeps_writes_of(&self, open: &OpenHandle) -> bool {
        let may = match open.access {
            Access::ReadWrite => true,
            Access::Write => self.options.policy.rules().is_some(),
            _ => false,
        };
        may && self.tables.file(open.file).keeps_writes()
    }

    /// Extends a file as Windows XP does: writes one byte at the new end, then queries the allocation. This way, a full
    /// volume is detected here, not at the close.
    async fn extend(&mut self, open: &OpenHandle, offset: u64, data: &[u8]) -> Result<(), Trouble> {
        let end = offset + data.len() as u64;
        let file = self.tables.file(open.file);
        let grows = end > file.bytes && end > file.allocated_bytes;
        if self.options.redirector == Redirector::Plain || !grows || !self.keeps_writes_of(open) {
            return Ok(());
        }
        let call = Call::Write {
            handle: open.wire,
            offset: end - 1,
            data: &data[data.len() - 1..],
            stability: Stability::Unstable,
        };
        match self.ask(&call).await? {
            Reply::Written { bytes: 1 } => {}
            Reply::Written { bytes } => return Err(short(1, bytes).into()),
            _ => return Err(Fault::MalformedMessage.into()),
        }
        let file = self.tables.file_mut(open.file);
        file.bytes = file.bytes.max(end);
        file.server_end = file.server_end.max(end);
        let Reply::Info(info) = self.ask(&Call::QueryHandle { handle: open.wire }).await? else {
            return Err(Fault::MalformedMessage.into());
        };
        let file = self.tables.file_mut(open.file);
        file.allocated_bytes = info.allocated_bytes.max(end);
        Ok(())
    }

    /// Caches a write. Returns false if the server does not allow caching, or has revoked the permission in the
    /// meantime.
    async fn keep(&mut self, open: &OpenHandle, offset: u64, data: &[u8]) -> Result<bool, Trouble> {
        let end = offset + data.len() as u64;
        if self.tables.file(open.file).goes(&pages_of(offset, end)) {
            // Pages that are being sent may have been evicted before the server has their data.
            self.land().await?;
            self.settle().await?;
        }
        if !self.tables.pages.joins(open.file, offset, end) {
            self.write_back(open.file).await?;
            self.settle().await?;
        }
        for _ in 0..=MOST_TRIES {
            if !self.keeps_writes_of(open) {
                return Ok(false);
            }
            let pages = pages_of(offset, end);
            if self.make_room(pages.end - pages.start).await? {
                self.settle().await?;
                continue;
            }
            let edges = self.missing_edges(open.file, offset, end);
            if edges.is_empty() {
                self.put(open.file, offset, data);
                self.write_behind(open.file, page_of(end)).await?;
                return Ok(true);
            }
            if open.access == Access::Write {
                // A partially written page must be read first, which this handle does not allow.
                return Ok(false);
            }
            self.fetch(open.wire, open.file, &edges).await?;
            self.settle().await?;
        }
        Ok(false)
    }

    /// Returns the partially overwritten pages that are missing and have data at the server. Marks the present ones as
    /// most recently used, so that the write does not evict them.
    fn missing_edges(&mut self, id: FileId, offset: u64, end: u64) -> Vec<Range<u64>> {
        let server_end = self.tables.file(id).server_end;
        let (first, last) = (page_of(offset), page_of(end - 1));
        let mut edges = Vec::new();
        for page in [first, last] {
            let start = page * PAGE_BYTES;
            let has = server_end.min(start + PAGE_BYTES);
            let covered = offset <= start && end >= has;
            if start < has && !covered && self.tables.pages.get(id, page).is_none() {
                edges.push(page..page + 1);
            }
        }
        edges.dedup();
        edges
    }

    fn put(&mut self, id: FileId, offset: u64, data: &[u8]) {
        self.tables.pages.write(id, offset, data);
        let file = self.tables.file_mut(id);
        file.bytes = file.bytes.max(offset + data.len() as u64);
    }

    /// Writes back data, or waits for transfers, until memory is free. Returns true if the client has waited: breaks
    /// may have arrived meanwhile.
    async fn make_room(&mut self, pages: u64) -> Result<bool, Trouble> {
        let pages = usize::try_from(pages).unwrap_or(usize::MAX);
        let mut waited = false;
        while !self.tables.pages.takes_dirty(pages) {
            let Some(file) = self.tables.pages.dirtiest() else {
                break;
            };
            waited = true;
            // Wait for one answer at a time: each may free memory.
            if self.tables.file(file).transfers > 0 && self.tables.pages.any_unstable(file) {
                self.take_event().await?;
                self.flush_behind(file).await?;
            } else {
                self.write_back(file).await?;
            }
        }
        Ok(waited)
    }

    async fn write_through(&mut self, open: &OpenHandle, offset: u64, data: &[u8]) -> Result<(), Trouble> {
        let end = offset + data.len() as u64;
        self.write_back(open.file).await?;
        self.forget_written(open.file, offset, end);
        let most = (self.client.max_write_bytes().max(1)) as usize;
        // Request durable writes: no copy of the data is kept that could be sent again.
        let stability = match self.client.loses_unstable_writes() {
            true => Stability::File,
            false => Stability::Unstable,
        };
        let mut begun = VecDeque::new();
        let mut at = offset;
        let mut failure = None;
        let mut pieces = data.chunks(most);
        loop {
            let piece = if failure.is_none() && begun.len() < 8 {
                pieces.next()
            } else {
                None
            };
            if let Some(piece) = piece {
                let call = Call::Write {
                    handle: open.wire,
                    offset: at,
                    data: piece,
                    stability,
                };
                let sent = u32::try_from(piece.len()).unwrap_or(u32::MAX);
                begun.push_back((self.begin(&call, Purpose::Answer).await?, sent));
                at += piece.len() as u64;
                continue;
            }
            let Some((id, sent)) = begun.pop_front() else {
                break;
            };
            let ended = self.end_of(id).await?;
            self.tables.file_mut(open.file).changed_by_us(&ended.piggyback);
            self.exchange.spare(ended.data);
            match ended.result {
                Ok(Reply::Written { bytes }) if bytes == sent => {}
                Ok(Reply::Written { bytes }) => failure = failure.or(Some(short(sent, bytes))),
                Ok(_) => failure = failure.or(Some(Fault::MalformedMessage.into())),
                Err(refused) => failure = failure.or(Some(refused)),
            }
        }
        // The handle is still open, so the file still exists even after breaks.
        if let Some(failure) = failure {
            self.refresh(open.file, open.wire).await?;
            return Err(failure.into());
        }
        let file = self.tables.file_mut(open.file);
        file.bytes = file.bytes.max(end);
        file.server_end = file.server_end.max(end);
        Ok(())
    }

    /// Drops the pages of this range, because the server's data has changed. Also drops all pages of other entries with
    /// the same path, and disables caching for them. Such an entry may be the same file under an oplock whose break has
    /// not arrived yet. Entries that may cache writes are unchanged.
    pub(super) fn forget_written(&mut self, id: FileId, offset: u64, end: u64) {
        self.tables.pages.forget(id, pages_of(offset, end));
        for sibling in self.tables.siblings(id) {
            let file = self.tables.file_mut(sibling);
            if !file.caching.write {
                file.caching.read = false;
                self.tables.pages.forget_file(sibling);
            }
        }
    }

    /// Writes all dirty data of a file. A failure is reported by the file's next call.
    pub(super) async fn write_out(&mut self, id: FileId) -> Result<(), Trouble> {
        let most = u64::from(self.options.write_run_bytes.min(self.client.max_write_bytes()));
        while let Some(pages) = self.tables.pages.dirty_run(id, (most / PAGE_BYTES).max(1)) {
            self.room_for_transfer(id).await?;
            self.send_run(id, pages).await?;
        }
        self.drain(id).await?;
        self.ask_if_doubtful(id).await
    }

    /// Queries a file's size after a failed write-back.
    pub(super) async fn ask_if_doubtful(&mut self, id: FileId) -> Result<(), Trouble> {
        if self.tables.file(id).doubtful {
            if let Some(&wire) = self.tables.file(id).wires.first() {
                self.refresh(id, wire).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn send_run(&mut self, id: FileId, pages: Range<u64>) -> Result<(), Trouble> {
        let Range { start: offset, end } = self.tables.pages.written_bytes(id, &pages);
        let end = end.min(self.tables.file(id).bytes);
        let first = pages.start * PAGE_BYTES;
        let within = (offset - first) as usize..end.saturating_sub(first) as usize;
        let run = self.tables.pages.run(id, pages.clone(), within);
        let most = self.client.max_write_bytes().max(1) as usize;
        let number = if self.client.loses_unstable_writes() {
            let number = self.tables.pages.set_unstable(id, pages.clone());
            let file = self.tables.file_mut(id);
            file.sent.add(number, pages, run.len().div_ceil(most));
            Some(number)
        } else {
            self.tables.pages.set_clean(id, pages);
            None
        };
        let handle = self
            .tables
            .writing_wire(id)
            .expect("a written file has an open handle");
        let mut sent = 0;
        while sent < run.len() {
            let piece = run.part(sent..sent + most);
            let at = offset + sent as u64;
            sent += piece.len();
            let bytes = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            let purpose = Purpose::WriteBack {
                file: id,
                offset: at,
                bytes,
                number,
            };
            self.begin_write(handle, at, &piece, purpose).await?;
            let file = self.tables.file_mut(id);
            file.transfers += 1;
            file.going.push(at..at + u64::from(bytes));
        }
        Ok(())
    }

    /// Starts an unstable write of pages, without a copy if the client supports it.
    async fn begin_write(
        &mut self,
        handle: Handle,
        offset: u64,
        pages: &PageRun,
        purpose: Purpose,
    ) -> Result<(), Trouble> {
        let stability = Stability::Unstable;
        match self.client.begin_write(handle, offset, pages, stability).await {
            Some(begun) => self.begun(begun, purpose).map(drop),
            None => {
                let mut data = std::mem::take(&mut self.exchange.run);
                data.clear();
                pages.pieces().for_each(|piece| data.extend_from_slice(piece));
                let call = Call::Write {
                    handle,
                    offset,
                    data: &data,
                    stability,
                };
                self.begin(&call, purpose).await?;
                self.exchange.run = data;
                Ok(())
            }
        }
    }

    /// Queries a file's size if it is uncertain. If the query fails, the assumed size stays: the failure that made it
    /// uncertain is reported anyway.
    pub(super) async fn refresh(&mut self, id: FileId, wire: Handle) -> Result<(), Trouble> {
        match self.ask_at_once(&Call::QueryHandle { handle: wire }).await {
            Ok(Reply::Info(info)) if self.tables.pages.any_dirty(id) => {
                let file = self.tables.file_mut(id);
                (file.server_end, file.doubtful) = (info.bytes, false);
            }
            Ok(Reply::Info(info)) => self.tables.file_mut(id).learn(&info),
            Err(lost @ Trouble::Lost(_)) => return Err(lost),
            _ => self.tables.file_mut(id).doubtful = false,
        }
        Ok(())
    }
}
