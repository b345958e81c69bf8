//! Repeated requests: after a delay by the server, as a new call; over UDP after a timeout, with the same
//! XID. `retransmission.rs` determines the timeout; `conversation.rs` handles lost connections.

use super::conversation::{Conversation, Outstanding, State, SLOTS};
use super::retransmission::Retransmission;
use crate::v4::State as State4;

/// Pause after the first JUKEBOX to a request; each further pause is twice as long. Linux's client always
/// waits 5 s.
const JUKEBOX_LEAST_NS: u64 = 50_000_000;
const JUKEBOX_MOST_NS: u64 = 5_000_000_000;

impl Outstanding {
    /// Returns whether the request awaits an answer. A request that is queued for retransmission may still
    /// be answered.
    pub(super) fn is_out(&self, resends: bool) -> bool {
        match self.state {
            State::Sent => true,
            State::Queued => resends && self.times_sent > self.put_off,
            State::Delayed(_) => false,
        }
    }
}

impl Conversation {
    /// Records the size of the socket's receive buffer, which limits the outstanding answers.
    pub fn set_receive_buffer(&mut self, bytes: usize) {
        if let Some(retransmission) = &mut self.retransmission {
            retransmission.set_receive_buffer(bytes);
        }
    }

    /// Delays the repetition of a request, as the server asked.
    pub(super) fn put_off(&mut self, position: usize, in_grace: bool) {
        self.note_postponed(in_grace);
        let request = &mut self.outstanding[position];
        let pause_ns = JUKEBOX_LEAST_NS << request.put_off.min(10);
        request.put_off = request.times_sent;
        request.state = State::Delayed(self.now_ns.saturating_add(pause_ns.min(JUKEBOX_MOST_NS)));
        self.sent -= 1;
        self.delayed += 1;
        self.counts.jukeboxes += 1;
    }

    /// Counts an answer that asked to wait.
    pub(super) fn note_postponed(&mut self, in_grace: bool) {
        self.is_in_grace = in_grace;
        self.postponed.add(in_grace);
    }

    /// Queues delayed requests that are due, as new calls: the server may have cached the old answer for
    /// the old XID.
    pub(super) fn wake(&mut self, now_ns: u64) {
        if self.delayed == 0 {
            return;
        }
        for position in 0..self.outstanding.len() {
            if matches!(self.outstanding[position].state, State::Delayed(due_ns) if due_ns <= now_ns) {
                let xid = self.number();
                let request = &mut self.outstanding[position];
                request.xid = xid;
                request.message.renumber(xid);
                request.timeouts = 0;
                request.state = State::Queued;
                self.queue.push_back(xid);
                self.delayed -= 1;
            }
        }
    }

    /// Returns whether a message may be sent now.
    pub fn may_depart(&mut self, now_ns: u64) -> bool {
        self.wake(now_ns);
        self.expire(now_ns);
        self.first_due().is_some()
    }

    /// Returns the place of the first request in the queue, if it may be sent now.
    pub(super) fn first_due(&self) -> Option<usize> {
        if self.sent >= self.most_sent() || self.needs_session() {
            return None;
        }
        let xid = *self.queue.front()?;
        let position = self.outstanding.iter().rposition(|request| request.xid == xid)?;
        self.answer_has_room(&self.outstanding[position])
            .then_some(position)
    }

    pub(super) fn most_sent(&self) -> usize {
        let of_udp = self.retransmission.as_ref().map_or(SLOTS, Retransmission::limit);
        self.four.as_ref().map_or(of_udp, State4::limit)
    }

    /// Extends the timeouts of all outstanding requests by the time for which the rate limit delayed another request,
    /// because no answers were read during that time.
    pub(super) fn postpone_resending(&mut self, postponed_ns: u64) {
        for request in &mut self.outstanding {
            request.resend_ns = request.resend_ns.saturating_add(postponed_ns);
            request.sent_ns = request.sent_ns.saturating_add(postponed_ns);
        }
    }

    /// Queues every request that has timed out for retransmission.
    pub(super) fn expire(&mut self, now_ns: u64) {
        let Some(retransmission) = &mut self.retransmission else {
            return;
        };
        let mut any = false;
        for request in &mut self.outstanding {
            if request.state == State::Sent && request.resend_ns <= now_ns {
                request.state = State::Queued;
                request.timeouts += 1;
                request.is_late = true;
                self.sent -= 1;
                // Retransmissions go before requests that were never sent.
                self.queue.push_front(request.xid);
                any = true;
            }
        }
        if any {
            retransmission.lost();
        }
    }

    /// Returns whether the socket's buffer has room for the answer to `request` in addition to the
    /// outstanding answers.
    pub(super) fn answer_has_room(&self, request: &Outstanding) -> bool {
        self.retransmission.as_ref().is_none_or(|retransmission| {
            let sent = self.outstanding.iter().filter(|one| one.state == State::Sent);
            let under_way: usize = sent.map(|one| one.expected_bytes).sum();
            self.sent == 0 || retransmission.has_room(under_way + request.expected_bytes)
        })
    }

    /// Records an answer to a request, and cancels its pending retransmission.
    pub(super) fn heard_of(&mut self, position: usize, now_ns: u64) {
        let Some(retransmission) = &mut self.retransmission else {
            return;
        };
        let request = &mut self.outstanding[position];
        if request.state == State::Queued {
            self.queue.retain(|xid| *xid != request.xid);
            request.state = State::Sent;
            self.sent += 1;
        }
        let taken_ns = (request.timeouts == 0).then(|| now_ns.saturating_sub(request.sent_ns));
        retransmission.answered(request.procedure, taken_ns, self.sent);
    }
}
