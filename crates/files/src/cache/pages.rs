//! Pages in memory: which pages exist, which are dirty, and the order of their last use. Callers ensure that bytes
//! beyond the end of a file are zero.

pub(super) use super::page_set::FileId;
use super::page_set::PageSet;
use super::places::Places;
use crate::page_run::{Page, PageRun, PAGE};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Page size, as in the captures.
pub(super) const PAGE_BYTES: u64 = PAGE as u64;
/// Marks the end of the LRU list.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The server has the data, and could lose it only together with the session. Only clean pages are in the LRU list.
    Clean,
    Dirty,
    /// Written to a server that may still lose the data.
    Unstable,
}

#[derive(Debug)]
struct Slot {
    file: FileId,
    page: u64,
    bytes: Page,
    state: State,
    /// Number of the run in which the page was last sent.
    sent: u64,
    /// Bytes of the page written since it was last clean.
    written: Range<usize>,
    /// Neighbours in the LRU list.
    newer: u32,
    older: u32,
}

/// Pages of all files of one client.
#[derive(Debug)]
pub(super) struct Pages {
    slots: Vec<Slot>,
    free: Vec<u32>,
    places: Places,
    dirty: PageSet,
    unstable: PageSet,
    last_sent: u64,
    /// Whether only the written bytes of a page are sent, not the whole page.
    exact: bool,
    newest: u32,
    oldest: u32,
    most: usize,
}

pub(super) fn page_of(offset: u64) -> u64 {
    offset / PAGE_BYTES
}

pub(super) fn pages_of(from: u64, to: u64) -> Range<u64> {
    if from >= to {
        return page_of(from)..page_of(from);
    }
    page_of(from)..to.div_ceil(PAGE_BYTES)
}

impl Pages {
    pub(super) fn new(bytes: u64, exact: bool) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            places: Places::default(),
            dirty: PageSet::default(),
            unstable: PageSet::default(),
            last_sent: 0,
            exact,
            newest: NONE,
            oldest: NONE,
            most: usize::try_from(bytes / PAGE_BYTES).unwrap_or(usize::MAX),
        }
    }

    pub(super) fn holds(&self, file: FileId, page: u64) -> bool {
        self.places.get(file, page).is_some()
    }

    /// Returns a page and marks it as most recently used.
    pub(super) fn get(&mut self, file: FileId, page: u64) -> Option<&[u8; PAGE]> {
        let place = self.places.get(file, page)?;
        self.touch(place);
        Some(&self.slots[place as usize].bytes)
    }

    pub(super) fn fill(&mut self, file: FileId, page: u64, bytes: &[u8]) {
        let (place, _) = self.place(file, page);
        let slot = &mut self.slots[place as usize];
        if slot.state == State::Clean {
            let own = Rc::make_mut(&mut slot.bytes);
            own[..bytes.len()].copy_from_slice(bytes);
            own[bytes.len()..].fill(0);
        }
    }

    /// Writes into pages, starting at `offset`, and makes them dirty. New pages start as zeros.
    pub(super) fn write(&mut self, file: FileId, offset: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let within = (at % PAGE_BYTES) as usize;
            let (piece, later) = rest.split_at(rest.len().min(PAGE - within));
            self.write_page(file, page_of(at), within, piece);
            at += piece.len() as u64;
            rest = later;
        }
        let pages = pages_of(offset, at);
        self.unstable.remove(file, pages.clone());
        self.dirty.insert(file, pages);
    }

    fn write_page(&mut self, file: FileId, page: u64, at: usize, bytes: &[u8]) {
        let (place, made) = self.place(file, page);
        let slot = &mut self.slots[place as usize];
        let own = Rc::make_mut(&mut slot.bytes);
        if made && bytes.len() < PAGE {
            own.fill(0);
        }
        own[at..at + bytes.len()].copy_from_slice(bytes);
        let written = if self.exact { at..at + bytes.len() } else { 0..PAGE };
        let before = std::mem::replace(&mut slot.state, State::Dirty);
        if before == State::Clean {
            slot.written = written;
            self.unlink(place);
        } else {
            slot.written = slot.written.start.min(written.start)..slot.written.end.max(written.end);
        }
    }

    /// Returns whether writing `from..to` leaves no gap between the written parts of any page. A gap would also be
    /// sent.
    pub(super) fn joins(&self, file: FileId, from: u64, to: u64) -> bool {
        !self.exact
            || pages_of(from, to).all(|page| {
                let start = page * PAGE_BYTES;
                let Some(place) = self.places.get(file, page) else {
                    return true;
                };
                let slot = &self.slots[place as usize];
                let written = start + slot.written.start as u64..start + slot.written.end as u64;
                slot.state == State::Clean || (from <= written.end && to >= written.start)
            })
    }

    /// Returns the first run of dirty pages of a file whose written bytes have no gap. It has at most `most` pages.
    pub(super) fn dirty_run(&self, file: FileId, most: u64) -> Option<Range<u64>> {
        let Range { start, end } = self.dirty.first_run(file)?;
        let end = end.min(start.saturating_add(most));
        let mut to_its_end = self.written(file, start).end == PAGE;
        let gap = (start + 1..end).find(|&page| {
            let written = self.written(file, page);
            let goes_on = to_its_end && written.start == 0;
            to_its_end = written.end == PAGE;
            !goes_on
        });
        Some(start..gap.unwrap_or(end))
    }

    /// Returns the slot of an existing page.
    fn place_of(&self, file: FileId, page: u64) -> u32 {
        self.places
            .get(file, page)
            .expect("dirty and unstable pages are kept")
    }

    fn written(&self, file: FileId, page: u64) -> Range<usize> {
        let place = self.places.get(file, page);
        place.map_or(0..0, |place| self.slots[place as usize].written.clone())
    }

    /// Returns the written bytes of a run of dirty pages.
    pub(super) fn written_bytes(&self, file: FileId, run: &Range<u64>) -> Range<u64> {
        let last = run.end - 1;
        let start = run.start * PAGE_BYTES + self.written(file, run.start).start as u64;
        start..last * PAGE_BYTES + self.written(file, last).end as u64
    }

    /// Returns the range `bytes` of a run of pages, counted from the run's start, without a copy.
    pub(super) fn run(&self, file: FileId, pages: Range<u64>, bytes: Range<usize>) -> PageRun {
        let page = |page| self.slots[self.place_of(file, page) as usize].bytes.clone();
        PageRun::new(pages.map(page).collect(), bytes)
    }

    /// Returns an eighth of the memory, in pages: a quarter of the maximum of dirty and unstable pages.
    pub(super) fn many(&self) -> usize {
        self.most / 8
    }

    pub(super) fn many_dirty(&self) -> bool {
        self.dirty.len() >= self.many()
    }

    pub(super) fn many_unstable(&self) -> bool {
        self.unstable.len() >= self.many()
    }

    pub(super) fn any_dirty(&self, file: FileId) -> bool {
        self.dirty.first_run(file).is_some()
    }

    /// Marks pages as clean, because they are being written.
    pub(super) fn set_clean(&mut self, file: FileId, pages: Range<u64>) {
        self.dirty.remove(file, pages.clone());
        pages.for_each(|page| self.release(file, page));
    }

    /// Marks pages as unstable, because they are being written to a server that may lose them. Returns the
    /// number of this run.
    pub(super) fn set_unstable(&mut self, file: FileId, pages: Range<u64>) -> u64 {
        self.last_sent += 1;
        for page in pages.clone() {
            let place = self.place_of(file, page);
            let slot = &mut self.slots[place as usize];
            (slot.state, slot.sent) = (State::Unstable, self.last_sent);
        }
        self.dirty.remove(file, pages.clone());
        self.unstable.insert(file, pages);
        self.last_sent
    }

    /// Returns the pages of run `number` that have not changed since the run was sent.
    fn as_sent(&self, file: FileId, pages: Range<u64>, number: u64) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for page in pages {
            let slot = self
                .places
                .get(file, page)
                .map(|place| &self.slots[place as usize]);
            if slot.is_none_or(|slot| slot.state != State::Unstable || slot.sent != number) {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => runs.push(page..page + 1),
            }
        }
        runs
    }

    /// Marks the data of run `number` as durable.
    pub(super) fn set_stable(&mut self, file: FileId, pages: Range<u64>, number: u64) {
        for run in self.as_sent(file, pages, number) {
            self.unstable.remove(file, run.clone());
            run.for_each(|page| self.release(file, page));
        }
    }

    /// Marks the data of run `number` as dirty, because the server lost it.
    pub(super) fn set_dirty_again(&mut self, file: FileId, pages: Range<u64>, number: u64) {
        for run in self.as_sent(file, pages, number) {
            for page in run.clone() {
                let place = self.place_of(file, page);
                self.slots[place as usize].state = State::Dirty;
            }
            self.unstable.remove(file, run.clone());
            self.dirty.insert(file, run);
        }
    }

    /// Drops the data of run `number`, because the server lost it.
    pub(super) fn forget_sent(&mut self, file: FileId, pages: Range<u64>, number: u64) {
        for run in self.as_sent(file, pages, number) {
            self.forget(file, run);
        }
    }

    pub(super) fn any_unstable(&self, file: FileId) -> bool {
        self.unstable.first_run(file).is_some()
    }

    /// Returns whether a file has data that is not durable yet.
    pub(super) fn any_held(&self, file: FileId) -> bool {
        self.any_dirty(file) || self.any_unstable(file)
    }

    fn release(&mut self, file: FileId, page: u64) {
        let place = self.place_of(file, page);
        self.slots[place as usize].state = State::Clean;
        self.link(place);
    }

    pub(super) fn takes_dirty(&self, more: usize) -> bool {
        self.dirty.len() + self.unstable.len() + more <= self.most / 2
    }

    /// Returns the number of dirty and unstable pages per file.
    fn held_by_file(&self) -> BTreeMap<FileId, usize> {
        let mut held = BTreeMap::new();
        for (file, pages) in self.dirty.files().chain(self.unstable.files()) {
            *held.entry(file).or_default() += pages;
        }
        held
    }

    pub(super) fn dirtiest(&self) -> Option<FileId> {
        let held = self.held_by_file().into_iter();
        held.max_by_key(|&(file, pages)| (pages, file))
            .map(|(file, _)| file)
    }

    /// Returns the files with dirty or unstable pages.
    pub(super) fn dirty_files(&self) -> Vec<FileId> {
        self.held_by_file().into_keys().collect()
    }

    /// Drops pages, dirty or not.
    pub(super) fn forget(&mut self, file: FileId, pages: Range<u64>) {
        if pages.end - pages.start.min(pages.end) > self.places.len() as u64 {
            // For a range larger than the cache, iterate over the existing pages instead.
            let found = self.places.pages_in(file, &pages);
            return found.into_iter().for_each(|page| self.drop_page(file, page));
        }
        for page in pages {
            self.drop_page(file, page);
        }
    }

    pub(super) fn forget_file(&mut self, file: FileId) {
        self.forget(file, 0..u64::MAX);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new(self.most as u64 * PAGE_BYTES, self.exact);
    }

    fn drop_page(&mut self, file: FileId, page: u64) {
        if let Some(place) = self.places.remove(file, page) {
            match std::mem::replace(&mut self.slots[place as usize].state, State::Clean) {
                State::Clean => self.unlink(place),
                State::Dirty => self.dirty.remove(file, page..page + 1),
                State::Unstable => self.unstable.remove(file, page..page + 1),
            }
            self.free.push(place);
        }
    }

    /// Returns the slot of a page, and whether the page was created. Marks the page as most recently used.
    fn place(&mut self, file: FileId, page: u64) -> (u32, bool) {
        match self.places.get(file, page) {
            Some(place) => {
                self.touch(place);
                (place, false)
            }
            None => (self.make(file, page), true),
        }
    }

    /// Creates a page. It contains the bytes of the slot's previous page until the caller overwrites them.
    fn make(&mut self, file: FileId, page: u64) -> u32 {
        if self.places.len() >= self.most && self.oldest != NONE {
            let slot = &self.slots[self.oldest as usize];
            self.drop_page(slot.file, slot.page);
        }
        let place = match self.free.pop() {
            Some(place) => {
                let slot = &mut self.slots[place as usize];
                (slot.file, slot.page) = (file, page);
                place
            }
            None => {
                let place = u32::try_from(self.slots.len()).expect(
                    "the number of pages is bounded far \
                    below this",
                );
                self.slots.push(Slot {
                    file,
                    page,
                    bytes: Rc::new([0; PAGE]),
                    state: State::Clean,
                    sent: 0,
                    written: 0..0,
                    newer: NONE,
                    older: NONE,
                });
                place
            }
        };
        self.places.insert(file, page, place);
        self.link(place);
        place
    }

    fn touch(&mut self, place: u32) {
        if self.newest != place && self.slots[place as usize].state == State::Clean {
            self.unlink(place);
            self.link(place);
        }
    }

    fn link(&mut self, place: u32) {
        let older = self.newest;
        let slot = &mut self.slots[place as usize];
        (slot.newer, slot.older) = (NONE, older);
        match older {
            NONE => self.oldest = place,
            older => self.slots[older as usize].newer = place,
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: u32) {
        let (newer, older) = {
            let slot = &self.slots[place as usize];
            (slot.newer, slot.older)
        };
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_page_is_evicted_first_but_dirty_pages_stay() {
        let mut pages = Pages::new(3 * PAGE_BYTES, false);
        pages.write(0, 0, b"dirty");
        pages.fill(0, 1, b"one");
        pages.fill(0, 2, b"two");
        assert!(pages.get(0, 1).is_some());
        pages.fill(0, 3, b"three");
        assert!(pages.holds(0, 0) && pages.holds(0, 1) && pages.holds(0, 3) && !pages.holds(0, 2));
        pages.set_clean(0, 0..1);
        for page in 4..7 {
            pages.fill(0, page, b"later");
        }
        assert!(!pages.holds(0, 0));
    }

    #[test]
    fn a_page_created_in_a_reused_slot_starts_as_zeros() {
        let mut pages = Pages::new(PAGE_BYTES, false);
        pages.fill(0, 0, &[7; PAGE]);
        pages.forget(0, 0..1);
        pages.write(1, 5 * PAGE_BYTES + 10, b"x");
        let page = pages.get(1, 5).unwrap();
        assert_eq!((page[9], page[10], page[11]), (0, b'x', 0));
    }

    #[test]
    fn dirty_runs_end_at_gaps_files_and_the_maximum_length() {
        let mut pages = Pages::new(100 * PAGE_BYTES, false);
        for page in [2, 3, 4, 6] {
            pages.write(1, page * PAGE_BYTES, b"x");
        }
        pages.write(2, 7 * PAGE_BYTES, b"x");
        assert_eq!(pages.dirty_run(1, 2), Some(2..4));
        pages.set_clean(1, 2..4);
        assert_eq!(pages.dirty_run(1, 16), Some(4..5));
        pages.set_clean(1, 4..5);
        assert_eq!(pages.dirty_run(1, 16), Some(6..7));
        pages.set_clean(1, 6..7);
        assert_eq!(pages.dirty_run(1, 16), None);
        assert_eq!(pages.dirty_files(), [2]);
    }

    #[test]
    fn dirty_data_is_not_overwritten_by_data_from_the_server() {
        let mut pages = Pages::new(PAGE_BYTES, false);
        pages.write(0, 0, b"mine");
        pages.fill(0, 0, b"theirs");
        assert_eq!(&pages.get(0, 0).unwrap()[..5], b"mine\0");
    }

    #[test]
    fn forgetting_an_open_range_drops_all_later_pages_of_that_file() {
        let mut pages = Pages::new(100 * PAGE_BYTES, false);
        for page in 0..5 {
            pages.fill(0, page, b"a");
            pages.write(1, page * PAGE_BYTES, b"b");
        }
        pages.forget(0, 3..u64::MAX);
        pages.forget_file(1);
        assert_eq!((0..5).filter(|&page| pages.holds(0, page)).count(), 3);
        assert!((0..5).all(|page| !pages.holds(1, page)) && !pages.any_dirty(1));
    }

    #[test]
    fn exact_pages_send_no_byte_that_was_not_written() {
        let mut pages = Pages::new(100 * PAGE_BYTES, true);
        pages.write(0, 100, &[1; PAGE - 100]);
        pages.write(0, PAGE_BYTES, &[1; 10]);
        pages.write(0, 2 * PAGE_BYTES + 5, b"x");
        assert_eq!(pages.dirty_run(0, 16), Some(0..2));
        assert_eq!(pages.written_bytes(0, &(0..2)), 100..PAGE_BYTES + 10);
        assert!(pages.joins(0, PAGE_BYTES + 10, PAGE_BYTES + 20));
        assert!(!pages.joins(0, PAGE_BYTES + 11, PAGE_BYTES + 20));
        pages.set_clean(0, 0..2);
        assert!(pages.joins(0, PAGE_BYTES + 11, PAGE_BYTES + 20));
        assert_eq!(
            pages.written_bytes(0, &(2..3)),
            2 * PAGE_BYTES + 5..2 * PAGE_BYTES + 6
        );
    }

    #[test]
    fn pages_stay_until_the_server_can_no_longer_lose_them() {
        let mut pages = Pages::new(3 * PAGE_BYTES, false);
        pages.write(0, 0, b"one");
        pages.write(0, PAGE_BYTES, b"two");
        let first = pages.set_unstable(0, 0..2);
        assert!(pages.any_unstable(0) && !pages.any_dirty(0) && !pages.takes_dirty(1));
        for page in 2..9 {
            pages.fill(0, page, b"others");
        }
        pages.fill(0, 1, b"theirs");
        assert_eq!(&pages.get(0, 1).unwrap()[..3], b"two");
        pages.write(0, PAGE_BYTES, b"new");
        pages.set_stable(0, 0..2, first);
        assert_eq!(pages.dirty_run(0, 16), Some(1..2));
        let second = pages.set_unstable(0, 1..2);
        pages.set_dirty_again(0, 1..2, second);
        assert_eq!(pages.dirty_run(0, 16), Some(1..2));
    }

    #[test]
    fn the_result_of_an_earlier_run_does_not_affect_a_later_one() {
        let mut pages = Pages::new(100 * PAGE_BYTES, true);
        pages.write(0, 0, &[1; 3 * PAGE]);
        let first = pages.set_unstable(0, 0..3);
        pages.write(0, PAGE_BYTES, &[2; PAGE]);
        let second = pages.set_unstable(0, 1..2);
        pages.set_stable(0, 0..3, first);
        assert!(pages.any_unstable(0), "page 1 was sent again");
        pages.forget_sent(0, 0..3, first);
        assert!((0..3).all(|page| pages.holds(0, page)));
        pages.set_dirty_again(0, 0..3, first);
        assert!(!pages.any_dirty(0));
        pages.set_dirty_again(0, 1..2, second);
        assert_eq!(pages.dirty_run(0, 16), Some(1..2));
    }

    #[test]
    fn a_page_that_is_written_while_it_is_sent_is_sent_as_it_was() {
        let mut pages = Pages::new(100 * PAGE_BYTES, true);
        pages.write(0, 0, &[1; 2 * PAGE]);
        let run = pages.run(0, 0..2, 10..PAGE + 10);
        pages.write(0, 0, &[2; PAGE]);
        assert_eq!(run.pieces().collect::<Vec<_>>().concat(), vec![1; PAGE]);
        assert_eq!(pages.get(0, 0), Some(&[2; PAGE]));
    }
}
