//! What the kernel has reported of each socket, and who waits for it.
//!
//! The kernel reports each arrival once. So a report is kept until somebody takes note of it, by socket and by direction:
//! a task may have many sockets, and a socket a task that reads and another that writes.
//!
//! Not for: system calls on sockets (`socket.rs`).

use rustix::event::epoll::EventFlags;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

const END: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
/// What a reader waits for.
const ARRIVAL: EventFlags = END.union(EventFlags::IN);
/// What a writer waits for, and who connects.
const ROOM: EventFlags = EventFlags::OUT.union(EventFlags::HUP).union(EventFlags::ERR);

/// One of the two ways of a socket's bytes.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    /// Something was reported and has not ended a wait yet: it may have come while the task waited for something else.
    reported: Cell<bool>,
    awaited: Cell<bool>,
    /// Who waited last. It is kept after the wait: the next one to wait is mostly the same.
    waiter: RefCell<Option<Waker>>,
}

impl Direction {
    /// Whether anything was reported since this was last asked.
    pub(crate) fn take(&self) -> bool {
        self.reported.replace(false)
    }

    /// Calls `waker` at the next report, and nobody else.
    pub(crate) fn await_report(&self, waker: &Waker) {
        self.awaited.set(true);
        let mut waiter = self.waiter.borrow_mut();
        if !waiter.as_ref().is_some_and(|waiter| waiter.will_wake(waker)) {
            *waiter = Some(waker.clone());
        }
    }

    fn report(&self) {
        self.reported.set(true);
        if self.awaited.replace(false) {
            if let Some(waiter) = &*self.waiter.borrow() {
                waiter.wake_by_ref();
            }
        }
    }
}

/// What was reported of one socket.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) reading: Direction,
    pub(crate) writing: Direction,
    /// The peer will send nothing more.
    pub(crate) ended: Cell<bool>,
}

impl Readiness {
    pub(crate) fn report(&self, flags: EventFlags) {
        if flags.intersects(END) {
            self.ended.set(true);
        }
        if flags.intersects(ARRIVAL) {
            self.reading.report();
        }
        if flags.intersects(ROOM) {
            self.writing.report();
        }
    }

    /// Forgets all reports: they were of a connection that is over.
    pub(crate) fn forget(&self) {
        self.reading.reported.set(false);
        self.writing.reported.set(false);
        self.ended.set(false);
    }
}

/// The sockets of a loop by the key under which the kernel reports them.
///
/// A key is an index and how often it was given away before. What is still reported of a socket that is gone therefore
/// reaches nobody; while a process forks, that can be long after the close.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Entry {
    generation: u32,
    readiness: Option<Rc<Readiness>>,
}

impl Registry {
    pub(crate) fn insert(&mut self, readiness: Rc<Readiness>) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            u32::try_from(self.entries.len() - 1).expect("fewer sockets than there can be file descriptors")
        });
        let entry = &mut self.entries[index as usize];
        entry.readiness = Some(readiness);
        u64::from(entry.generation) << u32::BITS | u64::from(index)
    }

    pub(crate) fn remove(&mut self, key: u64) {
        let (generation, index) = parts(key);
        let entry = &mut self.entries[index as usize];
        debug_assert_eq!(entry.generation, generation, "removed once");
        entry.generation = generation.wrapping_add(1);
        entry.readiness = None;
        self.free.push(index);
    }

    pub(crate) fn get(&self, key: u64) -> Option<Rc<Readiness>> {
        let (generation, index) = parts(key);
        let entry = self.entries.get(index as usize)?;
        (entry.generation == generation)
            .then(|| entry.readiness.clone())
            .flatten()
    }
}

/// Generation and index.
fn parts(key: u64) -> (u32, u32) {
    ((key >> u32::BITS) as u32, key as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reported_of_a_socket_that_is_gone_does_not_reach_the_next_with_its_place() {
        let mut registry = Registry::default();
        let old = registry.insert(Rc::default());
        registry.remove(old);
        let next = Rc::new(Readiness::default());
        let key = registry.insert(next.clone());
        assert!(registry.get(old).is_none());
        registry
            .get(key)
            .expect("it is there")
            .report(EventFlags::IN | EventFlags::RDHUP);
        assert!(next.reading.take() && next.ended.get() && !next.writing.take());
    }

    #[test]
    fn an_end_is_told_to_who_reads_and_to_who_writes() {
        let readiness = Readiness::default();
        readiness.report(EventFlags::HUP);
        assert!(readiness.reading.take());
        assert!(readiness.writing.take());
        assert!(!readiness.reading.take());
    }
}
