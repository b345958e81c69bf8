//! Timeouts and the number of concurrent requests over UDP.
//!
//! Follows Linux's client (net/sunrpc: `timer.c`, `xprt_adjust_cwnd`). A timeout is estimated from earlier answers (RFC
//! 6298), separately for classes of requests with different durations. A window grows by one request per round trip and
//! is halved by a loss. The times are arguments. `resending.rs` sends the requests.

use crate::wire::{Procedure, Transport};
use std::cmp::min;

/// `timeo` of nfs(5) for UDP: the timeout before the first measurement.
pub(super) const FIRST_TIMEOUT_NS: u64 = 1_100_000_000;
const LEAST_TIMEOUT_NS: u64 = 100_000_000;
/// Maximum timeout. Each timeout of a request doubles the next one, up to this value.
pub(super) const MOST_TIMEOUT_NS: u64 = 60_000_000_000;
/// Maximum number of concurrent requests (`udp_slot_table_entries`).
const MOST_REQUESTS: u32 = 16;
/// Window units per request.
const SCALE: u32 = 256;
/// Safety factor. The kernel counts each datagram with its memory overhead, which doubles the size on loopback.
const BUFFER_SHARE: usize = 4;

/// Estimate of the response time.
#[derive(Debug, Clone, Copy, Default)]
struct Timer {
    /// Mean and deviation, in ns; None before the first measurement.
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

/// Number of classes of requests with different durations: names and attributes, listings and reads,
/// writes, and requests that may wait for a disk.
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

/// State of a session over UDP.
#[derive(Debug)]
pub(super) struct Retransmission {
    /// Number of requests that may be outstanding, in units of 1/`SCALE`.
    window: u32,
    receive_buffer_bytes: usize,
    timers: [Timer; CLASSES],
}

impl Retransmission {
    /// Creates the state of a session over UDP; returns None for TCP, which retransmits by itself.
    pub(super) fn of(transport: Transport) -> Option<Self> {
        (transport == Transport::Udp).then(|| Self {
            window: SCALE,
            receive_buffer_bytes: usize::MAX,
            timers: [Timer::default(); CLASSES],
        })
    }

    /// Returns the maximum number of concurrent requests.
    pub(super) fn limit(&self) -> usize {
        (self.window / SCALE) as usize
    }

    /// Returns the time at which a request that is sent now, after `timeouts` timeouts, must be sent again.
    pub(super) fn due_ns(&self, procedure: usize, timeouts: u32, now_ns: u64) -> u64 {
        let timeout_ns = self.timers[class_of(procedure)].timeout_ns() << min(timeouts, 10);
        now_ns.saturating_add(timeout_ns.min(MOST_TIMEOUT_NS))
    }

    /// Records an answer that arrived while `under_way` requests were outstanding. `taken_ns`: the response
    /// time; None if it is unknown which transmission was answered (Karn).
    pub(super) fn answered(&mut self, procedure: usize, taken_ns: Option<u64>, under_way: usize) {
        if let Some(taken_ns) = taken_ns {
            self.timers[class_of(procedure)].measure(taken_ns);
        }
        if under_way >= self.limit() {
            let grown = self.window + (SCALE * SCALE + self.window / 2) / self.window;
            self.window = grown.min(MOST_REQUESTS * SCALE);
        }
    }

    /// Records that requests were lost, and halves the window.
    pub(super) fn lost(&mut self) {
        self.window = (self.window / 2).max(SCALE);
    }

    /// Records the size of the socket's receive buffer, which limits the outstanding answers.
    pub(super) fn set_receive_buffer(&mut self, bytes: usize) {
        self.receive_buffer_bytes = bytes;
    }

    /// Returns whether the socket can buffer answers of `bytes` bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.receive_buffer_bytes / BUFFER_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_by_one_per_round_trip_and_is_halved_by_a_loss() {
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
        // A window that is not filled does not grow.
        retransmission.lost();
        (0..100).for_each(|_| retransmission.answered(0, None, 1));
        assert_eq!(retransmission.limit(), 8);
        (0..10).for_each(|_| retransmission.lost());
        assert_eq!(retransmission.limit(), 1);
        assert!(Retransmission::of(Transport::Tcp).is_none());
    }

    #[test]
    fn the_timeout_follows_the_response_times_and_doubles_up_to_its_maximum() {
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
