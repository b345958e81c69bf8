//! Calls in progress below the cache: starts them, receives their results in any order, and queues breaks.
//!
//! Two ways of waiting prevent deadlocks between clients. A server may hold back opens, renames, deletes and
//! locks until another client has answered a break, so [`Cache::ask`] handles breaks while it waits. Reads,
//! writes and closes of a handle are never held back, so write-backs wait without handling breaks, which stay
//! queued.

use super::breaks::both;
use super::pages::{page_of, pages_of, FileId, PAGE_BYTES};
use super::sent::SentRun;
use super::tables::Tables;
use super::{Cache, Trouble};
use crate::call::{Call, Handle, Reply};
use crate::client::{Break, CallId, Event, FileClient, Grant, Piggyback};
use dyno_measure::{Detail, Failure, Fault};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::Range;

/// Maximum number of unanswered breaks. A server sends at most one break per handle, and a client has fewer handles
/// than this.
pub(super) const MOST_BREAKS: usize = 4096;
/// Maximum number of concurrent page transfers per file.
pub(super) const MOST_TRANSFERS: u32 = 16;
const SPARE_BUFFERS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A read or write waits for the pages and reports an error.
    Now,
    /// Read-ahead. If it fails, a later read requests the pages again.
    Later,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// A caller waits for the result.
    Answer,
    Fetch {
        file: FileId,
        offset: u64,
        bytes: u32,
        wanted: Wanted,
    },
    /// Writes pages back. `number`: the number of the run, if the server may lose the data.
    WriteBack {
        file: FileId,
        offset: u64,
        bytes: u32,
        number: Option<u64>,
    },
    /// Makes written data durable.
    Flush {
        file: FileId,
    },
    Close {
        handle: Handle,
    },
}

/// Result of a call that a caller waits for.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) result: Result<Reply, Failure>,
    /// Data read. The caller gives the buffer back in `Exchange::spare` for reuse.
    pub(super) data: Vec<u8>,
    pub(super) piggyback: Piggyback,
}

/// Calls in progress, results not yet taken, and pending breaks.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    purposes: FxHashMap<CallId, Purpose>,
    ended: FxHashMap<CallId, Ended>,
    spare: Vec<Vec<u8>>,
    breaks: VecDeque<Break>,
    /// Opens whose results have not been taken.
    pub(super) opening: u32,
    closing: u32,
    /// File with page transfers that may continue between calls.
    pub(super) ahead: Option<FileId>,
    /// Buffer for a run of pages to send.
    pub(super) run: Vec<u8>,
}

impl Exchange {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn is_closing(&self, handle: Handle) -> bool {
        let closes =
            |purpose: &Purpose| matches!(purpose, Purpose::Close { handle: closing } if *closing == handle);
        self.closing > 0 && self.purposes.values().any(closes)
    }

    pub(super) fn spare(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    fn keep_end(&mut self, id: CallId, result: Result<Reply, Failure>, read: &[u8], piggyback: Piggyback) {
        let mut data = self.spare.pop().unwrap_or_default();
        data.extend_from_slice(read);
        let ended = Ended {
            result,
            data,
            piggyback,
        };
        self.ended.insert(id, ended);
    }

    /// Queues a break. If a grant has two breaks, the lower level applies.
    fn keep_break(&mut self, broken: Break) -> Result<(), Failure> {
        if let Some(kept) = self.breaks.iter_mut().find(|kept| kept.grant == broken.grant) {
            kept.to = both(kept.to, broken.to);
            kept.acknowledge |= broken.acknowledge;
            return Ok(());
        }
        if self.breaks.len() >= MOST_BREAKS {
            return Err(Fault::MalformedMessage.into());
        }
        self.breaks.push_back(broken);
        Ok(())
    }

    /// Drops the breaks of a handle that is being closed.
    pub(super) fn forget_breaks_of(&mut self, handle: Handle) {
        self.breaks.retain(|kept| kept.grant != Grant::Handle(handle));
    }
}

impl<C: FileClient> Cache<C> {
    /// Drops all cached state, because the session is lost.
    pub(super) fn lost(&mut self, failure: Failure) -> Trouble {
        self.tables.clear();
        self.exchange.clear();
        self.stray = None;
        Trouble::Lost(failure)
    }

    pub(super) async fn begin(&mut self, call: &Call<'_>, purpose: Purpose) -> Result<CallId, Trouble> {
        let begun = self.client.begin(call).await;
        self.begun(begun, purpose)
    }

    /// Registers the purpose of a call that was started, or handles the loss of the session.
    pub(super) fn begun(
        &mut self,
        begun: Result<CallId, Failure>,
        purpose: Purpose,
    ) -> Result<CallId, Trouble> {
        match begun {
            Ok(id) => {
                self.exchange.purposes.insert(id, purpose);
                Ok(id)
            }
            Err(failure) => Err(self.lost(failure)),
        }
    }

    /// Performs a call and handles breaks while it waits.
    pub(super) async fn ask(&mut self, call: &Call<'_>) -> Result<Reply, Trouble> {
        let id = self.begin(call, Purpose::Answer).await?;
        let ended = self.end_of(id).await?;
        self.exchange.spare(ended.data);
        Ok(ended.result?)
    }

    /// Performs a call without handling breaks: while a break is being handled, or if a server never holds the call
    /// back.
    pub(super) async fn ask_at_once(&mut self, call: &Call<'_>) -> Result<Reply, Trouble> {
        let ended = self.end_at_once(call).await?;
        self.exchange.spare(ended.data);
        Ok(ended.result?)
    }

    /// Like `ask_at_once`, for calls that read nothing. Returns everything that arrived with the result.
    pub(super) async fn end_at_once(&mut self, call: &Call<'_>) -> Result<Ended, Trouble> {
        let id = self.begin(call, Purpose::Answer).await?;
        loop {
            match self.exchange.ended.remove(&id) {
                Some(ended) => return Ok(ended),
                None => self.take_event().await?,
            }
        }
    }

    /// Waits for the result of a call with `Purpose::Answer`, and handles breaks meanwhile.
    pub(super) async fn end_of(&mut self, id: CallId) -> Result<Ended, Trouble> {
        loop {
            if let Some(ended) = self.exchange.ended.remove(&id) {
                return Ok(ended);
            }
            match self.next_break() {
                Some(broken) => self.obey(broken).await?,
                None => self.take_event().await?,
            }
        }
    }

    /// Handles all received breaks. Callers must re-read the state of files afterwards.
    pub(super) async fn settle(&mut self) -> Result<(), Trouble> {
        while let Some(broken) = self.next_break() {
            self.obey(broken).await?;
        }
        Ok(())
    }

    /// Returns the next break to handle. A break of an unknown handle stays queued until the handle's open has ended.
    fn next_break(&mut self) -> Option<Break> {
        let known = |broken: &Break| self.concerned(broken.grant).is_some();
        if let Some(place) = self.exchange.breaks.iter().position(known) {
            return self.exchange.breaks.remove(place);
        }
        if self.exchange.opening == 0 {
            self.exchange.breaks.clear();
        }
        None
    }

    /// Returns the file whose grant is broken.
    pub(super) fn concerned(&self, grant: Grant) -> Option<FileId> {
        match grant {
            Grant::Handle(handle) => Some(self.tables.wire(handle)?.file),
            Grant::Lease(key) => self.tables.file_of_lease(key),
        }
    }

    /// Queues a break, unless it concerns a handle that is closed or being closed.
    pub(super) fn note_break(&mut self, broken: Break) -> Result<(), Trouble> {
        let closing = matches!(broken.grant, Grant::Handle(handle) if self.exchange.is_closing(handle));
        let may_come = self.exchange.opening > 0 && !closing;
        if !may_come && self.concerned(broken.grant).is_none() {
            return Ok(());
        }
        self.exchange
            .keep_break(broken)
            .map_err(|failure| self.lost(failure))
    }

    /// Waits until all page transfers of a file have ended.
    pub(super) async fn drain(&mut self, file: FileId) -> Result<(), Trouble> {
        while self.tables.file(file).transfers > 0 {
            self.take_event().await?;
        }
        Ok(())
    }

    /// Waits until another page transfer of a file may start.
    pub(super) async fn room_for_transfer(&mut self, file: FileId) -> Result<(), Trouble> {
        while self.tables.file(file).transfers >= MOST_TRANSFERS {
            self.take_event().await?;
        }
        Ok(())
    }

    /// Closes handles concurrently and waits. A failure is reported by the next call.
    pub(super) async fn close_wires(&mut self, handles: &[Handle]) -> Result<(), Trouble> {
        if !handles.is_empty() {
            // Finish transfers first: closing the last handle removes the file.
            self.land().await?;
        }
        for &handle in handles {
            self.tables.remove_wire(handle);
            self.exchange.forget_breaks_of(handle);
            self.begin(&Call::Close { handle }, Purpose::Close { handle })
                .await?;
            self.exchange.closing += 1;
        }
        while self.exchange.closing > 0 {
            self.take_event().await?;
        }
        Ok(())
    }

    /// Processes the next event of the client.
    pub(super) async fn take_event(&mut self) -> Result<(), Trouble> {
        let (id, result, data, piggyback) = match self.client.next().await {
            Ok(Event::Ended {
                id,
                result,
                data,
                piggyback,
            }) => (id, result, data, piggyback),
            Ok(Event::Break(broken)) => return self.note_break(broken),
            Err(failure) => return Err(self.lost(failure)),
        };
        // A result without a call is a fault of the wrapped client. No caller waits for the result.
        match self.exchange.purposes.remove(&id) {
            None => {}
            Some(Purpose::Answer) => self.exchange.keep_end(id, result, data, piggyback),
            Some(Purpose::Close { .. }) => {
                self.exchange.closing -= 1;
                if let Err(failure) = result {
                    self.stray.get_or_insert(failure);
                }
            }
            Some(Purpose::Fetch {
                file,
                offset,
                bytes,
                wanted,
            }) => {
                self.tables.file_mut(file).seen(&piggyback);
                let come = result.map(|_| (data, data.len() == bytes as usize));
                fetched(&mut self.tables, file, offset, wanted, come);
            }
            Some(Purpose::WriteBack {
                file,
                offset,
                bytes,
                number,
            }) => {
                self.tables.file_mut(file).changed_by_us(&piggyback);
                self.tables.forget_name_of(file);
                let run = offset..offset + u64::from(bytes);
                written_back(&mut self.tables, file, run, number, result, &piggyback);
            }
            Some(Purpose::Flush { file }) => flushed(&mut self.tables, file, result, &piggyback),
        }
        Ok(())
    }
}

/// Stores fetched data in pages. `whole`: all requested data arrived. After a short read, stores only whole pages, and
/// none if no caller waits.
fn fetched(
    tables: &mut Tables,
    id: FileId,
    offset: u64,
    wanted: Wanted,
    come: Result<(&[u8], bool), Failure>,
) {
    let file = tables.file_mut(id);
    file.transfers -= 1;
    file.coming.retain(|run| run.start != page_of(offset));
    let (data, whole) = match come {
        Ok(come) => come,
        Err(failure) => {
            if wanted == Wanted::Now {
                file.fetch_failed.get_or_insert(failure);
            }
            return;
        }
    };
    if !whole {
        if wanted == Wanted::Later {
            return;
        }
        file.doubtful = true;
    }
    for (page, piece) in (page_of(offset)..).zip(data.chunks(PAGE_BYTES as usize)) {
        if whole || piece.len() as u64 == PAGE_BYTES {
            tables.pages.fill(id, page, piece);
        }
    }
}

/// Records the result of a write-back. If the write failed, its data is lost, and the next call on the file reports the
/// failure.
fn written_back(
    tables: &mut Tables,
    id: FileId,
    run: Range<u64>,
    number: Option<u64>,
    result: Result<Reply, Failure>,
    piggyback: &Piggyback,
) {
    let file = tables.file_mut(id);
    file.transfers -= 1;
    file.going.retain(|going| going.start != run.start);
    let durable = number.and_then(|number| Some((number, file.sent.answered(number, piggyback.stored)?)));
    if let Some((number, pages)) = durable {
        tables.pages.set_stable(id, pages, number);
    }
    let file = tables.file_mut(id);
    let bytes = u32::try_from(run.end - run.start).unwrap_or(u32::MAX);
    let failure = match result {
        Ok(Reply::Written { bytes: taken }) if taken == bytes => {
            file.server_end = file.server_end.max(run.end);
            return;
        }
        Ok(Reply::Written { bytes: taken }) => short(bytes, taken),
        Ok(_) => Fault::MalformedMessage.into(),
        Err(failure) => failure,
    };
    file.failed.get_or_insert(failure);
    file.doubtful = true;
    tables.pages.forget(id, pages_of(run.start, run.end));
}

/// Records the result of a flush: the covered data is durable, or must be written again if the server lost it.
fn flushed(tables: &mut Tables, id: FileId, result: Result<Reply, Failure>, piggyback: &Piggyback) {
    let file = tables.file_mut(id);
    file.transfers -= 1;
    let runs = file.sent.flushed(piggyback.stored);
    let failure = match result {
        Ok(Reply::Done) => {
            for (run, durable) in runs {
                match durable {
                    true => tables.pages.set_stable(id, run.pages, run.number),
                    false => tables.pages.set_dirty_again(id, run.pages, run.number),
                }
            }
            return;
        }
        Ok(_) => Fault::MalformedMessage.into(),
        Err(failure) => failure,
    };
    give_up(tables, id, runs.into_iter().map(|(run, _)| run), failure);
}

/// Treats data as lost because it could not be made durable. The next call on the file reports the failure.
pub(super) fn give_up(
    tables: &mut Tables,
    id: FileId,
    runs: impl IntoIterator<Item = SentRun>,
    failure: Failure,
) {
    for run in runs {
        tables.pages.forget_sent(id, run.pages, run.number);
    }
    let file = tables.file_mut(id);
    file.failed.get_or_insert(failure);
    file.doubtful = true;
    if let Some(validity) = file.validity.as_mut() {
        validity.doubt();
    }
}

pub(super) fn short(sent: u32, taken: u32) -> Failure {
    Failure {
        fault: Fault::WrongLength,
        detail: Detail::Length {
            expected: u64::from(sent),
            got: u64::from(taken),
        },
    }
}
