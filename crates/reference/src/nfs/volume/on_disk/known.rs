//! Which files clients have handles of, by what they are (device and inode) and where they were found.

use rustix::fs::Stat;
use slab::Slab;
use std::collections::HashMap;

/// Of a file with more names the one that was found longest ago is forgotten.
const MOST_PLACES: usize = 8;

/// What a file is for as long as it exists: device and inode.
pub(super) type Identity = (u64, u64);

#[allow(clippy::unnecessary_cast, clippy::useless_conversion)] // Their types differ between machines.
pub(super) fn identity(stat: &Stat) -> Identity {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// A name: in which directory, and which.
pub(super) type Place = (usize, Box<[u8]>);

/// What is known of a file.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) serial: u64,
    pub(super) identity: Identity,
    /// Names that led to it, the last found last; none for the root. Others may have changed them since.
    pub(super) places: Vec<Place>,
    /// How often this server has changed it: the kernel's clock stands still between two changes.
    pub(super) changes: u64,
    /// Of the client, where it was made exclusively.
    pub(super) verifier: Option<u64>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Known {
    nodes: Slab<Node>,
    by_identity: HashMap<Identity, usize>,
    last_serial: u64,
}

impl Known {
    pub(super) fn get(&self, slot: usize) -> Option<&Node> {
        self.nodes.get(slot)
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Node> {
        self.nodes.get_mut(slot)
    }

    pub(super) fn slot_of(&self, identity: Identity) -> Option<usize> {
        self.by_identity.get(&identity).copied()
    }

    /// Remembers a file, and that it was found there.
    pub(super) fn found(&mut self, identity: Identity, place: Option<(usize, &[u8])>) -> usize {
        let slot = self.slot_of(identity).unwrap_or_else(|| self.add(identity));
        let places = &mut self.nodes[slot].places;
        if let Some((at, name)) = place {
            let is_last = places.last().is_some_and(|last| last.0 == at && &*last.1 == name);
            if !is_last {
                places.retain(|known| known.0 != at || &*known.1 != name);
                if places.len() == MOST_PLACES {
                    places.remove(0);
                }
                places.push((at, name.into()));
            }
        }
        slot
    }

    fn add(&mut self, identity: Identity) -> usize {
        self.last_serial += 1;
        let slot = self.nodes.insert(Node {
            serial: self.last_serial,
            identity,
            places: Vec::new(),
            changes: 0,
            verifier: None,
        });
        self.by_identity.insert(identity, slot);
        slot
    }

    /// A name is gone.
    pub(super) fn forget_place(&mut self, slot: usize, at: usize, name: &[u8]) {
        if let Some(node) = self.nodes.get_mut(slot) {
            node.places.retain(|known| known.0 != at || &*known.1 != name);
        }
    }

    /// A file is gone: its handles are stale.
    pub(super) fn forget(&mut self, slot: usize) {
        if let Some(node) = self.nodes.try_remove(slot) {
            self.by_identity.remove(&node.identity);
        }
    }

    /// Counts a change.
    pub(super) fn changed(&mut self, slot: usize) {
        if let Some(node) = self.nodes.get_mut(slot) {
            node.changes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_slot_whatever_its_names_and_a_serial_that_no_other_gets() {
        let mut known = Known::default();
        let slot = known.found((1, 7), Some((0, b"a")));
        assert_eq!(known.found((1, 7), Some((0, b"b"))), slot);
        let node = known.get(slot).expect("known");
        let serial = node.serial;
        assert_eq!(node.places.len(), 2);
        known.forget_place(slot, 0, b"a");
        assert_eq!(known.get(slot).expect("known").places, [(0, b"b"[..].into())]);
        known.forget(slot);
        assert_eq!(known.slot_of((1, 7)), None);
        let again = known.found((1, 7), None);
        assert!(known.get(again).expect("known").serial > serial);
    }

    #[test]
    fn of_many_names_the_last_found_are_kept() {
        let mut known = Known::default();
        for name in 0..100_u8 {
            known.found((1, 7), Some((0, &[name])));
        }
        let slot = known.slot_of((1, 7)).expect("known");
        let places = &known.get(slot).expect("known").places;
        assert_eq!(places.len(), MOST_PLACES);
        assert_eq!(places.last(), Some(&(0, [99][..].into())));
    }
}
