//! Serves reads from pages if present. Otherwise reads runs of whole pages, all started before the first is awaited,
//! or reads without caching. `stream.rs` has read-ahead.

use super::exchange::{Ended, Purpose, Wanted};
use super::pages::{page_of, pages_of, FileId, PAGE_BYTES};
use super::tables::OpenHandle;
use super::{Cache, Trouble};
use crate::call::{Access, Call, Handle, Reply};
use crate::client::FileClient;
use dyno_measure::Fault;
use std::collections::VecDeque;
use std::ops::Range;

/// Maximum amount of data brought into pages at once. It must fit into the minimum memory.
const WINDOW_BYTES: u64 = 256 << 10;
/// Maximum number of concurrent reads without caching.
const MOST_READS: usize = 8;

enum Source {
    /// The data is in pages, up to this offset.
    Pages(u64),
    /// The data must be read from the server.
    Server,
}

impl<C: FileClient> Cache<C> {
    pub(super) async fn read(
        &mut self,
        handle: Handle,
        offset: u64,
        bytes: u32,
        data: &mut impl FnMut(&[u8]),
    ) -> Result<Reply, Trouble> {
        let open = self.open_handle_for(handle)?;
        self.check_locks(handle, &open, offset, u64::from(bytes))?;
        self.revalidate(&open).await?;
        let end = offset + u64::from(bytes);
        let mut at = offset;
        let mut fetched = false;
        let reads_on = open.read_to == Some(offset) && offset > 0;
        while at < end {
            let window = at..end.min((at + WINDOW_BYTES) / PAGE_BYTES * PAGE_BYTES);
            match self.bring(&open, window.clone(), reads_on, &mut fetched).await? {
                Source::Pages(to) => {
                    self.copy_out(open.file, at..to, data);
                    at = to;
                    if to < window.end {
                        break;
                    }
                }
                Source::Server => {
                    self.counts.reads_through += 1;
                    at = self.read_through(&open, at..end, data).await?;
                    self.tables.set_read_to(handle, at);
                    return Ok(read_reply(offset, at));
                }
            }
        }
        if fetched {
            self.counts.reads_missed += 1;
        } else {
            self.counts.reads_hit += 1;
        }
        self.tables.set_read_to(handle, at);
        Ok(read_reply(offset, at))
    }

    /// Brings part of a file into pages.
    async fn bring(
        &mut self,
        open: &OpenHandle,
        window: Range<u64>,
        reads_on: bool,
        fetched: &mut bool,
    ) -> Result<Source, Trouble> {
        let streams = self.streams();
        // If a read-ahead in progress fails, request the pages again.
        for may_fetch in [true, streams, false] {
            let file = self.tables.file(open.file);
            if !file.keeps_reads() || !matches!(open.access, Access::Read | Access::ReadWrite) {
                return Ok(Source::Server);
            }
            let end = window.end.min(file.bytes);
            if window.start >= end {
                return Ok(Source::Pages(window.start));
            }
            let mut missing = self.missing(open.file, window.start..end);
            let comes = streams && self.tables.file(open.file).comes(&pages_of(window.start, end));
            if missing.is_empty() && !comes {
                if streams && reads_on {
                    self.look_ahead(open, end, false).await?;
                }
                return Ok(Source::Pages(end));
            }
            if !may_fetch {
                continue;
            }
            *fetched = true;
            if streams {
                self.fetch_along(open, &missing, window.start..end, reads_on)
                    .await?;
            } else {
                self.read_ahead(open, window.start, end, &mut missing);
                self.fetch(open.wire, open.file, &missing).await?;
            }
            self.settle().await?;
        }
        Ok(Source::Server)
    }

    /// Returns the runs of pages that are neither present nor being fetched. Creates pages beyond the end of the file
    /// at the server as zeros.
    pub(super) fn missing(&mut self, id: FileId, bytes: Range<u64>) -> Vec<Range<u64>> {
        let server_end = self.tables.file(id).server_end;
        let mut runs: Vec<Range<u64>> = Vec::new();
        for page in pages_of(bytes.start, bytes.end) {
            if self.tables.pages.holds(id, page) || self.tables.file(id).comes(&(page..page + 1)) {
                continue;
            }
            if page * PAGE_BYTES >= server_end {
                self.tables.pages.fill(id, page, &[]);
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        runs
    }

    /// Extends a sequential read by the read-ahead.
    fn read_ahead(&mut self, open: &OpenHandle, start: u64, end: u64, missing: &mut Vec<Range<u64>>) {
        let reads_on = open.read_to.is_some_and(|at| at == start) && start > 0;
        if self.options.read_ahead_bytes == 0 || !reads_on {
            return;
        }
        // At most half of the memory, so that read-ahead does not evict the pages being read.
        let most = u64::from(self.options.read_ahead_bytes).min(self.options.most_bytes / 2);
        let file_end = self.tables.file(open.file).server_end;
        let ahead = end.div_ceil(PAGE_BYTES) * PAGE_BYTES..(end + most).min(file_end);
        for run in self.missing(open.file, ahead) {
            match missing.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => missing.push(run),
            }
        }
    }

    /// Fetches runs of pages and starts as many calls as allowed before it waits for the first.
    pub(super) async fn fetch(
        &mut self,
        wire: Handle,
        id: FileId,
        runs: &[Range<u64>],
    ) -> Result<(), Trouble> {
        self.begin_fetching(wire, id, runs).await?;
        self.drain(id).await?;
        self.fetching_ended(wire, id).await
    }

    /// Starts to fetch pages for which a caller will wait.
    pub(super) async fn begin_fetching(
        &mut self,
        wire: Handle,
        id: FileId,
        runs: &[Range<u64>],
    ) -> Result<(), Trouble> {
        let most = u64::from(self.options.read_run_bytes.min(self.client.max_read_bytes()));
        let most_pages = (most / PAGE_BYTES).max(1);
        self.tables.file_mut(id).fetch_failed = None;
        for run in runs {
            let mut first = run.start;
            while first < run.end {
                let end = run.end.min(first + most_pages);
                self.room_for_transfer(id).await?;
                self.fetch_run(wire, id, first..end, Wanted::Now).await?;
                first = end;
            }
        }
        Ok(())
    }

    /// Returns the result of the finished fetches. If the size is uncertain, first waits for all transfers and asks the
    /// server.
    pub(super) async fn fetching_ended(&mut self, wire: Handle, id: FileId) -> Result<(), Trouble> {
        if self.tables.file(id).doubtful {
            self.drain(id).await?;
            self.refresh(id, wire).await?;
        }
        match self.tables.file_mut(id).fetch_failed.take() {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    pub(super) async fn fetch_run(
        &mut self,
        wire: Handle,
        id: FileId,
        pages: Range<u64>,
        wanted: Wanted,
    ) -> Result<(), Trouble> {
        self.counts.pages_fetched += pages.end - pages.start;
        let offset = pages.start * PAGE_BYTES;
        // Read only up to the end of the file: none of the 124,199 reads in the captures returned less than requested.
        let end = self.tables.file(id).server_end.min(pages.end * PAGE_BYTES);
        let bytes = u32::try_from(end.saturating_sub(offset)).unwrap_or(u32::MAX);
        let call = Call::Read {
            handle: wire,
            offset,
            bytes,
        };
        let purpose = Purpose::Fetch {
            file: id,
            offset,
            bytes,
            wanted,
        };
        self.begin(&call, purpose).await?;
        let file = self.tables.file_mut(id);
        file.transfers += 1;
        file.coming.push(pages);
        Ok(())
    }

    fn copy_out(&mut self, id: FileId, bytes: Range<u64>, data: &mut impl FnMut(&[u8])) {
        let mut at = bytes.start;
        while at < bytes.end {
            let within = (at % PAGE_BYTES) as usize;
            let end = bytes.end.min((page_of(at) + 1) * PAGE_BYTES);
            let page = self.tables.pages.get(id, page_of(at)).expect("was brought");
            data(&page[within..within + (end - at) as usize]);
            at = end;
        }
    }

    /// Reads without caching. Returns the end of the data.
    async fn read_through(
        &mut self,
        open: &OpenHandle,
        bytes: Range<u64>,
        data: &mut impl FnMut(&[u8]),
    ) -> Result<u64, Trouble> {
        self.write_back(open.file).await?;
        let most = u64::from(self.client.max_read_bytes().max(1));
        let mut begun = VecDeque::new();
        let (mut at, mut asked_to, mut ended) = (bytes.start, bytes.start, false);
        let mut failure = None;
        loop {
            if asked_to < bytes.end && begun.len() < MOST_READS && !ended {
                let piece = u32::try_from((bytes.end - asked_to).min(most)).unwrap_or(u32::MAX);
                let call = Call::Read {
                    handle: open.wire,
                    offset: asked_to,
                    bytes: piece,
                };
                begun.push_back((self.begin(&call, Purpose::Answer).await?, piece));
                asked_to += u64::from(piece);
                continue;
            }
            let Some((id, asked)) = begun.pop_front() else {
                break;
            };
            let Ended {
                result, data: buffer, ..
            } = self.end_of(id).await?;
            match result {
                // A short read shows the end of the file: ignore the results of later reads.
                Ok(Reply::Read { .. }) if !ended && failure.is_none() => {
                    if !buffer.is_empty() {
                        data(&buffer);
                    }
                    at += buffer.len() as u64;
                    ended = buffer.len() < asked as usize;
                }
                Ok(Reply::Read { .. }) => {}
                Ok(_) => failure = failure.or(Some(Fault::MalformedMessage.into())),
                Err(refused) => (failure, ended) = (failure.or(Some(refused)), true),
            }
            self.exchange.spare(buffer);
        }
        match failure {
            Some(failure) => Err(failure.into()),
            None => Ok(at),
        }
    }
}

fn read_reply(from: u64, to: u64) -> Reply {
    Reply::Read {
        bytes: u32::try_from(to - from).unwrap_or(u32::MAX),
    }
}
