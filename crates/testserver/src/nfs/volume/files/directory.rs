//! Names in a directory, in the order of their creation. A name keeps its cookie as long as it exists, so a
//! listing that continues after changes neither repeats nor skips a remaining name.

use super::PARENT_COOKIE;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Directory {
    /// Slot of the parent directory. The root is its own parent.
    pub(crate) parent: usize,
    cookies: HashMap<Arc<[u8]>, u64>,
    names: BTreeMap<u64, (Arc<[u8]>, usize)>,
    last_cookie: u64,
}

impl Directory {
    pub(crate) fn new(parent: usize) -> Self {
        Self {
            parent,
            cookies: HashMap::new(),
            names: BTreeMap::new(),
            last_cookie: PARENT_COOKIE,
        }
    }

    /// Returns the slot of the file with this name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<usize> {
        self.names.get(self.cookies.get(name)?).map(|(_, slot)| *slot)
    }

    /// Adds a name that does not exist.
    pub(crate) fn add(&mut self, name: &[u8], slot: usize) {
        let name: Arc<[u8]> = name.into();
        self.last_cookie += 1;
        self.names.insert(self.last_cookie, (name.clone(), slot));
        self.cookies.insert(name, self.last_cookie);
    }

    pub(crate) fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.cookies.remove(name) {
            self.names.remove(&cookie);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns cookie, name and slot of each entry after `cookie`.
    pub(crate) fn behind(&self, cookie: u64) -> impl Iterator<Item = (u64, &[u8], usize)> {
        let from = cookie.saturating_add(1);
        self.names
            .range(from..)
            .map(|(cookie, (name, slot))| (*cookie, &**name, *slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_continues_after_its_cookie_whatever_has_changed() {
        let mut directory = Directory::new(0);
        for slot in 1..=4 {
            directory.add(&[b'0' + slot], slot.into());
        }
        let first: Vec<(u64, usize)> = directory
            .behind(PARENT_COOKIE)
            .take(2)
            .map(|(at, _, slot)| (at, slot))
            .collect();
        let (cookie, slot) = first[1];
        assert_eq!(slot, 2);
        directory.remove(b"2");
        directory.remove(b"3");
        directory.add(b"3", 5);
        let rest: Vec<usize> = directory.behind(cookie).map(|(_, _, slot)| slot).collect();
        assert_eq!(rest, [4, 5]);
        assert_eq!((directory.get(b"2"), directory.get(b"3")), (None, Some(5)));
        assert_eq!(directory.behind(u64::MAX).count(), 0);
    }
}
