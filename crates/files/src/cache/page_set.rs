//! A set of pages stored as runs, because files are read and written in long runs.

use std::collections::BTreeMap;
use std::ops::Range;

/// Identifies a file in the table of files.
pub(super) type FileId = u32;

/// Set of pages of one client's files.
#[derive(Debug, Default)]
pub(super) struct PageSet {
    /// End of each run by file and first page. Runs of one file do not overlap or touch.
    runs: BTreeMap<(FileId, u64), u64>,
    pages: usize,
}

fn count(first: u64, end: u64) -> usize {
    usize::try_from(end - first).unwrap_or(usize::MAX)
}

impl PageSet {
    pub(super) fn len(&self) -> usize {
        self.pages
    }

    pub(super) fn insert(&mut self, file: FileId, pages: Range<u64>) {
        let Range { mut start, mut end } = pages;
        if start >= end {
            return;
        }
        if let Some((&(of, first), last)) = self.runs.range_mut(..=(file, start)).next_back() {
            if of == file && *last >= end {
                return;
            }
            if of == file && *last >= start {
                start = first;
            }
        }
        while let Some((&(_, first), &last)) = self.runs.range((file, start)..=(file, end)).next() {
            self.runs.remove(&(file, first));
            self.pages -= count(first, last);
            end = end.max(last);
        }
        self.runs.insert((file, start), end);
        self.pages += count(start, end);
    }

    pub(super) fn remove(&mut self, file: FileId, pages: Range<u64>) {
        let Range { start, end } = pages;
        if start >= end {
            return;
        }
        let before = self.runs.range_mut(..(file, start)).next_back();
        let before = before.filter(|((of, _), last)| *of == file && **last > start);
        if let Some((_, last)) = before {
            let old_last = std::mem::replace(last, start);
            self.pages -= count(start, old_last);
            self.put_back(file, end, old_last);
        }
        while let Some((&(_, first), &last)) = self.runs.range((file, start)..(file, end)).next() {
            self.runs.remove(&(file, first));
            self.pages -= count(first, last);
            self.put_back(file, end, last);
        }
    }

    fn put_back(&mut self, file: FileId, start: u64, end: u64) {
        if start < end {
            self.runs.insert((file, start), end);
            self.pages += count(start, end);
        }
    }

    pub(super) fn first_run(&self, file: FileId) -> Option<Range<u64>> {
        let (&(_, first), &end) = self.runs.range((file, 0)..=(file, u64::MAX)).next()?;
        Some(first..end)
    }

    /// Returns the number of pages of each run, with the run's file. A file may occur several times.
    pub(super) fn files(&self) -> impl Iterator<Item = (FileId, usize)> + '_ {
        self.runs
            .iter()
            .map(|(&(file, first), &end)| (file, count(first, end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn check(set: &PageSet, model: &BTreeSet<(FileId, u64)>) -> Result<(), TestCaseError> {
        prop_assert_eq!(set.len(), model.len());
        let runs = set.runs.iter();
        let pages = runs.flat_map(|(&(file, first), &end)| (first..end).map(move |page| (file, page)));
        prop_assert_eq!(
            pages.collect::<Vec<_>>(),
            model.iter().copied().collect::<Vec<_>>()
        );
        for file in 0..3 {
            let first = model.range((file, 0)..=(file, u64::MAX)).next();
            prop_assert_eq!(set.first_run(file).map(|run| (file, run.start)), first.copied());
        }
        let mut runs = set.runs.iter().peekable();
        while let (Some((&(file, _), &end)), Some((&(next_file, next), _))) = (runs.next(), runs.peek()) {
            prop_assert!(file != next_file || end < next, "runs touch");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn a_set_has_the_same_pages_as_a_set_of_single_pages(
            steps in prop::collection::vec((any::<bool>(), 0..3_u32, 0..40_u64, 0..12_u64), 1..60),
        ) {
            let (mut set, mut model) = (PageSet::default(), BTreeSet::new());
            for (inserts, file, start, pages) in steps {
                let run = start..start + pages;
                let pages = run.clone().map(|page| (file, page));
                if inserts {
                    set.insert(file, run);
                    model.extend(pages);
                } else {
                    set.remove(file, run);
                    pages.for_each(|page| {
                        model.remove(&page);
                    });
                }
                check(&set, &model)?;
            }
        }
    }

    #[test]
    fn an_open_ended_range_takes_all_existing_pages() {
        let mut set = PageSet::default();
        set.insert(1, 3..9);
        set.insert(2, 0..4);
        set.remove(1, 5..u64::MAX);
        assert_eq!((set.first_run(1), set.len()), (Some(3..5), 6));
    }
}
