//! State of each socket as the kernel reported it, and the tasks that wait for it.
//!
//! The kernel reports each arrival once. A report is therefore kept until a task consumes it, separately for
//! reading and writing.

use crate::wake::Waiter;
use rustix::event::epoll::EventFlags;

const END: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
/// Events that a reader waits for.
const ARRIVAL: EventFlags = END.union(EventFlags::IN);
/// Events that a writer, or a connecting task, waits for.
const ROOM: EventFlags = EventFlags::OUT.union(EventFlags::HUP).union(EventFlags::ERR);

/// One direction of a socket: reading or writing.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    /// Whether the kernel reported an event in this direction that no task has consumed yet.
    reported: bool,
    waiter: Option<Waiter>,
}

impl Direction {
    /// Returns whether the kernel reported an event since the last call.
    pub(crate) fn take(&mut self) -> bool {
        std::mem::take(&mut self.reported)
    }

    /// Sets the waiter for the next report and returns the previous one.
    pub(crate) fn await_report(&mut self, waiter: Waiter) -> Option<Waiter> {
        self.waiter.replace(waiter)
    }

    fn report(&mut self) -> Option<Waiter> {
        self.reported = true;
        self.waiter.take()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) reading: Direction,
    pub(crate) writing: Direction,
    /// The peer will send nothing more.
    pub(crate) ended: bool,
}

impl Readiness {
    /// Stores a report and returns the waiters to wake.
    pub(crate) fn report(&mut self, flags: EventFlags) -> [Option<Waiter>; 2] {
        self.ended |= flags.intersects(END);
        let reader = flags.intersects(ARRIVAL).then(|| self.reading.report());
        let writer = flags.intersects(ROOM).then(|| self.writing.report());
        [reader.flatten(), writer.flatten()]
    }

    /// Clears all reports of a connection that has ended.
    pub(crate) fn forget(&mut self) {
        self.reading.reported = false;
        self.writing.reported = false;
        self.ended = false;
    }
}

/// Key of a socket in epoll: its slot and the number of earlier uses of the slot. A late report about a
/// closed socket therefore does not match the slot's next socket. If a forked process still has the file
/// open, a report can come long after the close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    generation: u32,
    place: u32,
}

impl From<Key> for u64 {
    fn from(key: Key) -> Self {
        Self::from(key.generation) << u32::BITS | Self::from(key.place)
    }
}

impl From<u64> for Key {
    fn from(data: u64) -> Self {
        Self {
            generation: (data >> u32::BITS) as u32,
            place: data as u32,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Entry {
    generation: u32,
    readiness: Readiness,
}

impl Registry {
    pub(crate) fn insert(&mut self) -> Key {
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            u32::try_from(self.entries.len() - 1).expect("fewer sockets than there can be file descriptors")
        });
        Key {
            generation: self.entries[place as usize].generation,
            place,
        }
    }

    /// Removes a socket and returns its last state.
    pub(crate) fn remove(&mut self, key: Key) -> Readiness {
        let entry = &mut self.entries[key.place as usize];
        debug_assert_eq!(entry.generation, key.generation, "removed once");
        entry.generation = key.generation.wrapping_add(1);
        self.free.push(key.place);
        std::mem::take(&mut entry.readiness)
    }

    pub(crate) fn get(&mut self, key: Key) -> Option<&mut Readiness> {
        let entry = self.entries.get_mut(key.place as usize)?;
        (entry.generation == key.generation).then_some(&mut entry.readiness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_report_about_a_closed_socket_does_not_reach_the_next_in_its_slot() {
        let mut registry = Registry::default();
        let old = registry.insert();
        registry.remove(old);
        let key = registry.insert();
        assert!(key != old && key.place == old.place);
        assert!(registry.get(old).is_none());
        let next = registry.get(key).expect("it is there");
        let _ = next.report(EventFlags::IN | EventFlags::RDHUP);
        assert!(next.reading.take() && next.ended && !next.writing.take());
    }

    #[test]
    fn a_key_is_unchanged_after_a_round_trip_through_the_kernel() {
        let key = Key {
            generation: 7,
            place: u32::MAX,
        };
        assert_eq!(Key::from(u64::from(key)), key);
    }

    #[test]
    fn an_end_is_reported_to_readers_and_writers() {
        let mut readiness = Readiness::default();
        readiness.reading.await_report(Waiter::Task(1));
        readiness.writing.await_report(Waiter::Task(2));
        let called = readiness.report(EventFlags::HUP);
        assert!(matches!(called, [Some(Waiter::Task(1)), Some(Waiter::Task(2))]));
        assert!(readiness.reading.take());
        assert!(readiness.writing.take());
        assert!(!readiness.reading.take());
    }
}
