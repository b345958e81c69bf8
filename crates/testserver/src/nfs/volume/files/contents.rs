//! Current and stable contents of a file. A restart of the server reverts to the stable ones.

use crate::nfs::options::Flush;
use crate::pages::{numbers, Full, Pages, Space};
use std::collections::btree_map::{BTreeMap, Entry};

#[derive(Debug, Default)]
pub(crate) struct Contents {
    pages: Pages,
    before: Option<Before>,
}

/// The stable contents, as a difference from the current contents: each page as it was before its first
/// unstable write.
#[derive(Debug)]
struct Before {
    end: u64,
    pages: BTreeMap<u64, Option<Vec<u8>>>,
}

impl Contents {
    pub(crate) fn end(&self) -> u64 {
        self.pages.end()
    }

    /// Appends up to `most` bytes, starting at `offset`, to `out`. Returns the number of bytes appended.
    pub(crate) fn read(&self, offset: u64, most: usize, out: &mut Vec<u8>) -> usize {
        self.pages.read(offset, most, out)
    }

    /// Writes data that a restart loses unless the file is made stable first.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8], space: &Space) -> Result<(), Full> {
        let before = self.before.get_or_insert_with(|| Before {
            end: self.pages.end(),
            pages: BTreeMap::new(),
        });
        for number in numbers(offset, data.len()) {
            if let Entry::Vacant(place) = before.pages.entry(number) {
                place.insert(self.pages.copy(number, space)?);
            }
        }
        self.pages.write(offset, data, space)
    }

    /// Changes the end of the file permanently. This also makes all earlier writes stable.
    pub(crate) fn set_end(&mut self, end: u64, space: &Space) -> Result<(), Full> {
        self.make_stable(space);
        self.pages.set_end(end, space)
    }

    /// Makes the file stable, as COMMIT and stable writes do.
    pub(crate) fn flush(&mut self, flush: Flush, space: &Space) {
        if flush == Flush::Honour {
            self.make_stable(space);
        }
    }

    fn make_stable(&mut self, space: &Space) {
        let copies = self.before.take().into_iter().flat_map(|before| before.pages);
        space.give(
            copies
                .flat_map(|(_, page)| page)
                .map(|page| page.capacity() as u64)
                .sum(),
        );
    }

    /// Discards unstable data. Returns whether there was any.
    pub(crate) fn lose_unstable(&mut self, space: &Space) -> bool {
        let Some(before) = self.before.take() else {
            return false;
        };
        for (number, page) in before.pages {
            self.pages.put_back(number, page, before.end, space);
        }
        true
    }

    /// Frees all memory.
    pub(crate) fn discard(&mut self, space: &Space) {
        self.make_stable(space);
        self.pages.discard(space);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(contents: &Contents) -> Vec<u8> {
        let mut out = Vec::new();
        contents.read(0, 1 << 20, &mut out);
        out
    }

    #[test]
    fn a_restart_leaves_the_stable_contents() {
        let space = Space::new(64 << 20);
        let (mut contents, mut now) = (Contents::default(), Vec::<u8>::new());
        let mut stable = now.clone();
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (state >> 33) % below
        };
        for round in 0..2000_u64 {
            match random(10) {
                0 => {
                    contents.flush(Flush::Honour, &space);
                    stable.clone_from(&now);
                }
                1 => {
                    contents.lose_unstable(&space);
                    now.clone_from(&stable);
                }
                2 => {
                    let end = random(300_000);
                    contents.set_end(end, &space).expect("room");
                    now.resize(end as usize, 0);
                    stable.clone_from(&now);
                }
                _ => {
                    let (offset, length) = (random(300_000) as usize, random(100_000) as usize + 1);
                    let data: Vec<u8> = (0..length as u64).map(|at| (at + round) as u8).collect();
                    contents.write(offset as u64, &data, &space).expect("room");
                    now.resize(now.len().max(offset + length), 0);
                    now[offset..offset + length].copy_from_slice(&data);
                }
            }
            assert!(read(&contents) == now, "round {round}");
        }
        contents.discard(&space);
        assert_eq!(space.free(), space.capacity());
    }

    #[test]
    fn if_flushes_are_ignored_a_restart_loses_flushed_data() {
        let space = Space::new(1 << 20);
        let mut contents = Contents::default();
        contents.write(0, b"12345", &space).expect("room");
        contents.flush(Flush::Ignore, &space);
        assert_eq!(read(&contents), b"12345");
        assert!(contents.lose_unstable(&space));
        assert_eq!((read(&contents), contents.end()), (vec![], 0));
        assert!(!contents.lose_unstable(&space));
        assert_eq!(space.free(), space.capacity());
    }
}
