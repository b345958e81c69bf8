//! Sends request bodies within the server's windows.

use super::frame::{self, flag, kind, LARGEST_WINDOW, PAYLOAD_BYTES};
use super::state::State;
use super::violation::Violation;
use crate::response::Body;

/// Frames that a server may send for each DATA frame of ours: window updates for the stream and the
/// connection, and pings that measure the round trip. Many servers send a window update whenever a handler
/// reads, so bytes count as well.
const ANSWERS_PER_FRAME: u32 = 2;
const BYTES_PER_ANSWER: usize = 256;
/// Upper bound of `due_answers`, so that a server can't accumulate credit for a flood of frames.
const MOST_DUE_ANSWERS: u32 = 1 << 18;

/// Maximum bytes of request bodies in the output buffer, because other frames are sent after them.
const MOST_WAITING_BYTES: usize = 256 * 1024;

enum Part {
    Sent,
    /// The stream's window is exhausted.
    Blocked,
    /// The body was sent, or there is none.
    Ended,
}

impl<B: Body> State<B> {
    /// Sends bodies while there is room, one frame per stream in turn.
    pub(super) fn send_bodies(&mut self) {
        let mut blocked = 0;
        while blocked < self.senders.len() && self.waiting_bytes < MOST_WAITING_BYTES && self.peer.window > 0
        {
            let Some(place) = self.senders.pop_front() else {
                return;
            };
            match self.send_part(place) {
                Part::Ended => continue,
                Part::Sent => blocked = 0,
                Part::Blocked => blocked += 1,
            }
            self.senders.push_back(place);
        }
    }

    fn send_part(&mut self, place: usize) -> Part {
        let Some(stream) = &mut self.streams[place] else {
            return Part::Ended;
        };
        let Some((body, sent)) = &mut stream.unsent else {
            return Part::Ended;
        };
        let room = usize::try_from(self.peer.window.min(stream.send_window)).unwrap_or(0);
        let most = self.peer.frame_bytes.min(PAYLOAD_BYTES).min(room);
        let part = &body[*sent..][..most.min(body.len() - *sent)];
        if part.is_empty() {
            return Part::Blocked;
        }
        let size = part.len();
        let last = *sent + size == body.len();
        let flags = if last { flag::END_STREAM } else { 0 };
        frame::write(&mut self.outgoing, kind::DATA, flags, stream.id, part);
        *sent += size;
        stream.sent_bytes += (frame::HEAD_BYTES + size) as u64;
        self.waiting_bytes += size;
        self.peer.window -= size as i64;
        stream.send_window -= size as i64;
        let answers = ANSWERS_PER_FRAME + (size / BYTES_PER_ANSWER) as u32;
        self.due_answers = (self.due_answers + answers).min(MOST_DUE_ANSWERS);
        if last {
            stream.unsent = None;
            return Part::Ended;
        }
        Part::Sent
    }

    /// Increases the send window of one stream.
    pub(super) fn widen(&mut self, place: usize, increment: i64) {
        let Some(stream) = self.stream_at(place) else {
            return;
        };
        stream.send_window += increment;
        if stream.send_window > LARGEST_WINDOW {
            let violation = Violation::WindowOverflow;
            return self.reset(place, violation.code(), violation.into());
        }
        self.send_bodies();
    }
}
