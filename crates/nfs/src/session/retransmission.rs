//! How long an answer over UDP may take, and how many requests may be under way.
//!
//! As Linux's client does it (net/sunrpc: `timer.c`, `xprt_adjust_cwnd`): a time-out is estimated from the answers before
//! (RFC 6298), apart for requests that take apart long; a window grows by one request a round trip and is halved by a
//! loss. Knows times and no clock. What is sent again: `resending.rs`.

use crate::wire::{Procedure, Transport};
use std::cmp::min;

/// `timeo` of nfs(5) for UDP: until there is a measure.
pub(super) const FIRST_TIMEOUT_NS: u64 = 1_100_000_000;
const LEAST_TIMEOUT_NS: u64 = 100_000_000;
/// Each further time-out of a request is twice as long, up to this.
pub(super) const MOST_TIMEOUT_NS: u64 = 60_000_000_000;
/// Requests under way at once (`udp_slot_table_entries`).
const MOST_REQUESTS: u32 = 16;
/// Of the window, for one request.
const SCALE: u32 = 256;
/// The kernel counts a datagram with the memory that it lies in, which on loopback is twice as much; and as much again.
const BUFFER_SHARE: usize = 4;

/// How long answers take.
#[derive(Debug, Clone, Copy, Default)]
struct Timer {
    /// Mean and deviation; None: nothing was measured.
    measured: Option<(u64, u64)>,
}

impl Timer {
    fn timeout_ns(self) -> u64 {
        self.measured.map_or(FIRST_TIMEOUT_NS, |(mean, deviation)| {
            (mean + 4 * deviation).clamp(LEAST_TIMEOUT_NS, MOST_TIMEOUT_NS)
        })
    }

    fn measure(&mut self, taken_ns: u64) {
        self.measured = Some(match self.measured {
            None => (taken_ns, taken_ns / 2),
            Some((mean, deviation)) => (
                mean - mean / 8 + taken_ns / 8,
                deviation - deviation / 4 + mean.abs_diff(taken_ns) / 4,
            ),
        });
    }
}

/// Requests that take apart long: of names and attributes, listings and reads, writes, and what may wait for a disk.
const CLASSES: usize = 4;

fn class_of(procedure: usize) -> usize {
    let is = |one: Procedure| procedure == one as usize;
    if [
        Procedure::Read,
        Procedure::ReadDirectory,
        Procedure::ReadDirectoryPlus,
    ]
    .into_iter()
    .any(is)
    {
        1
    } else if is(Procedure::Write) {
        2
    } else if [Procedure::GetAttributes, Procedure::Lookup, Procedure::Access]
        .into_iter()
        .any(is)
    {
        0
    } else {
        3
    }
}

/// The state of one session over UDP.
#[derive(Debug)]
pub(super) struct Retransmission {
    /// In parts of a request.
    window: u32,
    receive_buffer_bytes: usize,
    timers: [Timer; CLASSES],
}

impl Retransmission {
    /// None over TCP, which does all this itself.
    pub(super) fn of(transport: Transport) -> Option<Self> {
        (transport == Transport::Udp).then(|| Self {
            window: SCALE,
            receive_buffer_bytes: usize::MAX,
            timers: [Timer::default(); CLASSES],
        })
    }

    /// Requests that may be under way at once.
    pub(super) fn limit(&self) -> usize {
        (self.window / SCALE) as usize
    }

    /// When a request is to be sent again that is sent now, after so many time-outs.
    pub(super) fn due_ns(&self, procedure: usize, timeouts: u32, now_ns: u64) -> u64 {
        let timeout_ns = self.timers[class_of(procedure)].timeout_ns() << min(timeouts, 10);
        now_ns.saturating_add(timeout_ns.min(MOST_TIMEOUT_NS))
    }

    /// An answer came, with so many requests under way. `taken_ns`: how long it took; None where it is not known to which
    /// sending it is the answer (Karn).
    pub(super) fn answered(&mut self, procedure: usize, taken_ns: Option<u64>, under_way: usize) {
        if let Some(taken_ns) = taken_ns {
            self.timers[class_of(procedure)].measure(taken_ns);
        }
        if under_way >= self.limit() {
            let grown = self.window + (SCALE * SCALE + self.window / 2) / self.window;
            self.window = grown.min(MOST_REQUESTS * SCALE);
        }
    }

    /// Requests were not answered in time.
    pub(super) fn lost(&mut self) {
        self.window = (self.window / 2).max(SCALE);
    }

    /// What the socket keeps until it is received bounds what is asked for at once.
    pub(super) fn set_receive_buffer(&mut self, bytes: usize) {
        self.receive_buffer_bytes = bytes;
    }

    /// Whether answers of so many bytes have room until they are received.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.receive_buffer_bytes / BUFFER_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_by_one_a_round_trip_and_is_halved_by_a_loss() {
        let mut retransmission = Retransmission::of(Transport::Udp).expect("over UDP");
        assert_eq!(retransmission.limit(), 1);
        let mut trips = 0;
        while retransmission.limit() < MOST_REQUESTS as usize {
            let limit = retransmission.limit();
            (0..limit).for_each(|_| retransmission.answered(0, None, limit));
            assert!(retransmission.limit() <= limit + 1);
            trips += 1;
        }
        assert!((15..=32).contains(&trips), "{trips}");
        // Who does not fill it does not widen it.
        retransmission.lost();
        (0..100).for_each(|_| retransmission.answered(0, None, 1));
        assert_eq!(retransmission.limit(), 8);
        (0..10).for_each(|_| retransmission.lost());
        assert_eq!(retransmission.limit(), 1);
        assert!(Retransmission::of(Transport::Tcp).is_none());
    }

    #[test]
    fn a_time_out_follows_what_answers_take_and_doubles_up_to_its_bound() {
        let mut retransmission = Retransmission::of(Transport::Udp).expect("over UDP");
        let (read, commit) = (Procedure::Read as usize, Procedure::Commit as usize);
        assert_eq!(retransmission.due_ns(read, 0, 7), 7 + FIRST_TIMEOUT_NS);
        (0..100).for_each(|_| retransmission.answered(read, Some(1_000_000), 1));
        assert_eq!(retransmission.due_ns(read, 0, 0), LEAST_TIMEOUT_NS);
        assert_eq!(retransmission.due_ns(read, 3, 0), 8 * LEAST_TIMEOUT_NS);
        assert_eq!(retransmission.due_ns(read, u32::MAX, 0), MOST_TIMEOUT_NS);
        assert_eq!(
            retransmission.due_ns(commit, 0, 0),
            FIRST_TIMEOUT_NS,
            "others take longer"
        );
        (0..100).for_each(|_| retransmission.answered(read, Some(2_000_000_000), 1));
        assert!(retransmission.due_ns(read, 0, 0) >= 1_900_000_000);
    }
}
