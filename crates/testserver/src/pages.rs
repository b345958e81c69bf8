//! Contents of a file: pages of 64 KiB, which exist only once they are written. All files share a memory
//! limit.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE_BYTES: usize = 65_536;
/// Unit of memory allocation.
const BLOCK_BYTES: usize = 4096;
/// Maximum file size, as in ext4 with 4 KiB blocks.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 44;

/// The memory limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Memory limit and use of all files of a server.
#[derive(Debug)]
pub(crate) struct Space {
    capacity: u64,
    used: AtomicU64,
}

impl Space {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            used: AtomicU64::new(0),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(crate) fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    pub(crate) fn take(&self, bytes: u64) -> Result<(), Full> {
        let enough = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.capacity);
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough);
        taken.map(|_| ()).map_err(|_| Full)
    }

    pub(crate) fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Contents of a file. Gaps between its pages, and unwritten parts of pages, are zero.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    pages: BTreeMap<u64, Vec<u8>>,
    end: u64,
}

impl Pages {
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Appends up to `most` bytes, starting at `offset`, to `out`. Returns the number of bytes appended.
    pub(crate) fn read(&self, offset: u64, most: usize, out: &mut Vec<u8>) -> usize {
        let there = usize::try_from(self.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = most.min(there);
        let mut left = count;
        let mut at = offset;
        while left > 0 {
            let (number, start) = place(at);
            let length = left.min(PAGE_BYTES - start);
            let page = self.pages.get(&number).map_or(&[][..], Vec::as_slice);
            let written = page.get(start..).unwrap_or(&[]);
            let written = &written[..written.len().min(length)];
            out.extend_from_slice(written);
            out.resize(out.len() + length - written.len(), 0);
            left -= length;
            at += length as u64;
        }
        count
    }

    /// Writes data. If the memory limit is reached, writes only the pages before the first that does not fit.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8], space: &Space) -> Result<(), Full> {
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > MAX_FILE_BYTES) {
            return Err(Full);
        }
        let (mut rest, mut at) = (data, offset);
        while !rest.is_empty() {
            let (number, start) = place(at);
            let (now, later) = rest.split_at(rest.len().min(PAGE_BYTES - start));
            let page = self.pages.entry(number).or_default();
            make_room(page, start + now.len(), space)?;
            if page.len() < start {
                page.resize(start, 0);
            }
            let over = now.len().min(page.len() - start);
            page[start..start + over].copy_from_slice(&now[..over]);
            page.extend_from_slice(&now[over..]);
            at += now.len() as u64;
            rest = later;
            self.end = self.end.max(at);
        }
        Ok(())
    }

    pub(crate) fn set_end(&mut self, end: u64, space: &Space) -> Result<(), Full> {
        if end > MAX_FILE_BYTES {
            return Err(Full);
        }
        if end < self.end {
            let (number, start) = place(end);
            let mut gone = self.pages.split_off(&number);
            if let Some(mut page) = gone.remove(&number) {
                if start > 0 {
                    page.truncate(start);
                    self.pages.insert(number, page);
                } else {
                    gone.insert(number, page);
                }
            }
            space.give(held(&gone));
        }
        self.end = end;
        Ok(())
    }

    /// Returns a copy of a page, which counts as additional memory. Returns None if the page does not exist.
    pub(crate) fn copy(&self, number: u64, space: &Space) -> Result<Option<Vec<u8>>, Full> {
        let Some(page) = self.pages.get(&number) else {
            return Ok(None);
        };
        space.take(page.len() as u64)?;
        let mut copy = Vec::new();
        copy.reserve_exact(page.len());
        copy.extend_from_slice(page);
        Ok(Some(copy))
    }

    /// Replaces or removes a page and frees the memory of the old one. Sets the file's end to `end`.
    pub(crate) fn put_back(&mut self, number: u64, page: Option<Vec<u8>>, end: u64, space: &Space) {
        let other = match page {
            Some(page) => self.pages.insert(number, page),
            None => self.pages.remove(&number),
        };
        space.give(other.map_or(0, |other| other.capacity() as u64));
        self.end = end;
    }

    pub(crate) fn discard(&mut self, space: &Space) {
        space.give(held(&self.pages));
        self.pages.clear();
        self.end = 0;
    }
}

/// Returns the numbers of the pages that contain `bytes` bytes, starting at `offset`.
pub(crate) fn numbers(offset: u64, bytes: usize) -> Range<u64> {
    let page_bytes = PAGE_BYTES as u64;
    offset / page_bytes..offset.saturating_add(bytes as u64).div_ceil(page_bytes)
}

fn held(pages: &BTreeMap<u64, Vec<u8>>) -> u64 {
    pages.values().map(|page| page.capacity() as u64).sum()
}

fn place(offset: u64) -> (u64, usize) {
    let page_bytes = PAGE_BYTES as u64;
    // Does not truncate: the remainder is below 64 KiB.
    (offset / page_bytes, (offset % page_bytes) as usize)
}

/// Grows a page by doubling, so that appending in small pieces does not copy it each time.
fn make_room(page: &mut Vec<u8>, wanted: usize, space: &Space) -> Result<(), Full> {
    let before = page.capacity();
    if wanted <= before {
        return Ok(());
    }
    let target = wanted
        .next_multiple_of(BLOCK_BYTES)
        .max(2 * before)
        .min(PAGE_BYTES);
    space.take((target - before) as u64)?;
    page.reserve_exact(target - page.len());
    debug_assert_eq!(page.capacity(), target);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pages: &Pages, offset: u64, most: usize) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(pages.read(offset, most, &mut out), out.len());
        out
    }

    #[test]
    fn contents_equal_those_of_a_plain_buffer_after_any_writes_and_truncations() {
        let space = Space::new(16 << 20);
        let (mut pages, mut plain) = (Pages::default(), Vec::<u8>::new());
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (state >> 33) % below
        };
        for round in 0..2000 {
            let (offset, length) = (random(300_000) as usize, random(100_000) as usize);
            if round % 5 == 0 {
                pages.set_end(offset as u64, &space).expect("small");
                plain.resize(offset, 0);
            } else if length > 0 {
                let data: Vec<u8> = (0..length).map(|at| (at + round) as u8).collect();
                pages.write(offset as u64, &data, &space).expect("room");
                plain.resize(plain.len().max(offset + length), 0);
                plain[offset..offset + length].copy_from_slice(&data);
            }
            assert_eq!(pages.end(), plain.len() as u64);
            let from = (random(300_000) as usize).min(plain.len());
            let to = (from + 70_000).min(plain.len());
            assert_eq!(read(&pages, from as u64, 70_000), plain[from..to]);
            assert_eq!(space.capacity() - space.free(), held(&pages.pages));
        }
        pages.discard(&space);
        assert_eq!(space.free(), space.capacity());
    }

    #[test]
    fn a_full_server_accepts_no_more_data_and_keeps_its_contents() {
        let space = Space::new(128 << 10);
        let mut pages = Pages::default();
        pages.write(0, &[7; 100_000], &space).expect("it fits");
        assert_eq!(pages.write(1 << 20, &[8; 65_536], &space), Err(Full));
        assert_eq!(pages.end(), 100_000);
        assert_eq!(read(&pages, 99_999, 10), [7]);
        assert_eq!(pages.write(u64::MAX, &[1], &space), Err(Full));
        assert_eq!(pages.set_end(MAX_FILE_BYTES + 1, &space), Err(Full));
    }
}
