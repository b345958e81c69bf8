//! Maps pages to slots in groups of consecutive pages, so that a run needs one look-up per group.

use super::page_set::FileId;
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::ops::Range;

/// Pages per group.
const GROUP: usize = 16;
/// Value for a page without a slot.
const NOWHERE: u32 = u32::MAX;

/// A file and the number of a group.
type Key = (FileId, u64);

#[derive(Debug)]
struct Group {
    places: [u32; GROUP],
    pages: usize,
}

#[derive(Debug, Default)]
pub(super) struct Places {
    groups: Vec<Group>,
    free: Vec<u32>,
    by_key: FxHashMap<Key, u32>,
    /// The last group looked up.
    last: Cell<Option<(Key, u32)>>,
    pages: usize,
}

fn split(page: u64) -> (u64, usize) {
    (page / GROUP as u64, (page % GROUP as u64) as usize)
}

impl Places {
    /// Returns the number of pages with a slot.
    pub(super) fn len(&self) -> usize {
        self.pages
    }

    /// Returns a page's slot.
    pub(super) fn get(&self, file: FileId, page: u64) -> Option<u32> {
        let (group, within) = split(page);
        let place = self.groups[self.group((file, group))? as usize].places[within];
        (place != NOWHERE).then_some(place)
    }

    fn group(&self, key: Key) -> Option<u32> {
        match self.last.get() {
            Some((last, group)) if last == key => Some(group),
            _ => {
                let group = *self.by_key.get(&key)?;
                self.last.set(Some((key, group)));
                Some(group)
            }
        }
    }

    /// Assigns a slot to a page that has none.
    pub(super) fn insert(&mut self, file: FileId, page: u64, place: u32) {
        let (group, within) = split(page);
        let key = (file, group);
        let group = self.group(key).unwrap_or_else(|| self.add(key));
        let group = &mut self.groups[group as usize];
        debug_assert_eq!(group.places[within], NOWHERE);
        group.places[within] = place;
        group.pages += 1;
        self.pages += 1;
    }

    fn add(&mut self, key: Key) -> u32 {
        let group = self.free.pop().unwrap_or_else(|| {
            self.groups.push(Group {
                places: [NOWHERE; GROUP],
                pages: 0,
            });
            u32::try_from(self.groups.len() - 1).expect("there are fewer places than pages")
        });
        self.by_key.insert(key, group);
        self.last.set(Some((key, group)));
        group
    }

    /// Removes and returns a page's slot.
    pub(super) fn remove(&mut self, file: FileId, page: u64) -> Option<u32> {
        let (group, within) = split(page);
        let key = (file, group);
        // Do not use `last`: pages are evicted between pages of a run being read.
        let number = *self.by_key.get(&key)?;
        let group = &mut self.groups[number as usize];
        let place = std::mem::replace(&mut group.places[within], NOWHERE);
        if place == NOWHERE {
            return None;
        }
        group.pages -= 1;
        self.pages -= 1;
        if group.pages == 0 {
            self.by_key.remove(&key);
            self.free.push(number);
            self.last.set(self.last.get().filter(|&(last, _)| last != key));
        }
        Some(place)
    }

    /// Returns the pages of a range that have a slot, in no particular order.
    pub(super) fn pages_in(&self, file: FileId, range: &Range<u64>) -> Vec<u64> {
        let of_file = self.by_key.iter().filter(|((of, _), _)| *of == file);
        of_file
            .flat_map(|(&(_, group), &number)| {
                let places = self.groups[number as usize].places.iter().enumerate();
                places
                    .filter(|(_, &place)| place != NOWHERE)
                    .map(move |(within, _)| group * GROUP as u64 + within as u64)
            })
            .filter(|page| range.contains(page))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_finds_the_same_pages_as_a_map_of_single_pages(
            steps in prop::collection::vec((any::<bool>(), 0..3_u32, 0..70_u64), 1..300),
        ) {
            let (mut places, mut model) = (Places::default(), BTreeMap::new());
            for (number, (inserts, file, page)) in (0..).zip(steps) {
                prop_assert_eq!(places.get(file, page), model.get(&(file, page)).copied());
                if inserts && !model.contains_key(&(file, page)) {
                    places.insert(file, page, number);
                    model.insert((file, page), number);
                } else {
                    prop_assert_eq!(places.remove(file, page), model.remove(&(file, page)));
                }
                prop_assert_eq!(places.len(), model.len());
            }
            for file in 0..3 {
                let mut found = places.pages_in(file, &(5..60));
                found.sort_unstable();
                let wanted: Vec<_> = model.range((file, 5)..(file, 60)).map(|(&(_, page), _)| page).collect();
                prop_assert_eq!(found, wanted);
            }
            prop_assert_eq!(places.groups.len() - places.free.len(), places.by_key.len());
        }
    }
}
