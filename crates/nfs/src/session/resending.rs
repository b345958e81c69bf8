//! When a request is sent again: where the server has put it off, as another call; over UDP, where no answer came in time,
//! with its number. How long that is: `retransmission.rs`. After a lost connection: `conversation.rs`.

use super::conversation::{Conversation, Outstanding, State};

/// After the first JUKEBOX to a request; each further pause is twice as long. Linux's client waits for 5 s at once.
const JUKEBOX_LEAST_NS: u64 = 50_000_000;
const JUKEBOX_MOST_NS: u64 = 5_000_000_000;

impl Outstanding {
    /// Whether it waits for an answer. What is to be sent again may be answered before it is.
    pub(super) fn is_out(&self, resends: bool) -> bool {
        match self.state {
            State::Sent => true,
            State::Queued => resends && self.times_sent > self.put_off,
            State::Delayed(_) => false,
        }
    }
}

impl Conversation {
    /// What the socket keeps until it is received bounds what is asked for at once.
    pub fn set_receive_buffer(&mut self, bytes: usize) {
        if let Some(retransmission) = &mut self.retransmission {
            retransmission.set_receive_buffer(bytes);
        }
    }

    /// The server asks to be left alone with a request.
    pub(super) fn put_off(&mut self, position: usize) {
        let request = &mut self.outstanding[position];
        let pause_ns = JUKEBOX_LEAST_NS << request.put_off.min(10);
        request.put_off = request.times_sent;
        request.state = State::Delayed(self.now_ns.saturating_add(pause_ns.min(JUKEBOX_MOST_NS)));
        self.sent -= 1;
        self.delayed += 1;
        self.counts.jukeboxes += 1;
    }

    /// What was put off until now is sent as another call: to its old number the server may remember the old answer.
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

    /// Has every request sent again that was not answered in time.
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
                // Before what was never sent.
                self.queue.push_front(request.xid);
                any = true;
            }
        }
        if any {
            retransmission.lost();
        }
    }

    /// Whether the answer to that request has room in the socket, next to those that are under way.
    pub(super) fn answer_has_room(&self, request: &Outstanding) -> bool {
        self.retransmission.as_ref().is_none_or(|retransmission| {
            let sent = self.outstanding.iter().filter(|one| one.state == State::Sent);
            let under_way: usize = sent.map(|one| one.expected_bytes).sum();
            self.sent == 0 || retransmission.has_room(under_way + request.expected_bytes)
        })
    }

    /// An answer has come to that request. One that was just to be sent again need not be.
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
