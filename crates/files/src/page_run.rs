//! Bytes in cache pages that are sent without a copy.

use std::ops::Range;
use std::rc::Rc;

/// Page size in bytes.
pub(crate) const PAGE: usize = 4096;

pub(crate) type Page = Rc<[u8; PAGE]>;

/// A run of pages, and the range of bytes in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageRun {
    pages: Vec<Page>,
    bytes: Range<usize>,
}

impl PageRun {
    /// Creates a run from the range `bytes` of consecutive pages.
    pub(crate) fn new(pages: Vec<Page>, bytes: Range<usize>) -> Self {
        let bytes = bytes.start.min(bytes.end)..bytes.end.min(pages.len() * PAGE);
        Self { pages, bytes }
    }

    /// Copies bytes into new pages.
    pub fn of(data: &[u8]) -> Self {
        let page = |piece: &[u8]| {
            let mut page = [0; PAGE];
            page[..piece.len()].copy_from_slice(piece);
            Rc::new(page)
        };
        Self::new(data.chunks(PAGE).map(page).collect(), 0..data.len())
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes in contiguous parts.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let Range { start, end } = self.bytes;
        let within = move |at: usize| start.saturating_sub(at).min(PAGE)..end.saturating_sub(at).min(PAGE);
        let pages = self.pages.iter().enumerate();
        pages
            .map(move |(place, page)| &page[within(place * PAGE)])
            .filter(|piece| !piece.is_empty())
    }

    pub fn part(&self, part: Range<usize>) -> Self {
        let Range { start, end } = self.bytes;
        let bytes = (start + part.start).min(end)..(start + part.end).min(end);
        let pages = bytes.start / PAGE..bytes.end.div_ceil(PAGE);
        let skipped = pages.start * PAGE;
        let within = bytes.start - skipped..bytes.end - skipped;
        Self::new(self.pages[pages].to_vec(), within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes: Range<usize>) -> PageRun {
        PageRun::new((1..4).map(|page| Rc::new([page; PAGE])).collect(), bytes)
    }

    #[test]
    fn the_pieces_contain_the_bytes_of_the_range() {
        let all: Vec<u8> = (1..4).flat_map(|page| [page; PAGE]).collect();
        for bytes in [
            0..3 * PAGE,
            10..3 * PAGE - 10,
            100..200,
            PAGE..2 * PAGE,
            0..0,
            PAGE - 1..PAGE + 1,
        ] {
            let run = run(bytes.clone());
            assert_eq!(
                run.pieces().collect::<Vec<_>>().concat(),
                all[bytes.clone()],
                "{bytes:?}"
            );
            assert_eq!((run.len(), run.is_empty()), (bytes.len(), bytes.is_empty()));
            for taken in [0, 1, PAGE, 5 * PAGE] {
                let part = run.part(taken..taken + 5000);
                let wanted = bytes.len().min(taken)..bytes.len().min(taken + 5000);
                assert_eq!(
                    part.pieces().collect::<Vec<_>>().concat(),
                    all[bytes.clone()][wanted]
                );
            }
        }
    }
}
