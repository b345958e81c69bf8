//! The bodies of requests, as far as the server's windows have room for them.

use super::frame::{self, flag, kind, LARGEST_WINDOW, PAYLOAD_BYTES};
use super::state::State;
use super::violation::Violation;
use crate::response::Body;

/// What a server may answer a DATA frame of ours by, beside a response: windows, of the stream and of the connection, and
/// pings that time the way. Many answer each read of a handler, so long frames count by their bytes.
const ANSWERS_PER_FRAME: u32 = 2;
const BYTES_PER_ANSWER: usize = 256;
/// The most that may be due at a time: a server that answers in larger steps does not save up a flood.
const MOST_DUE_ANSWERS: u32 = 1 << 18;

impl<B: Body> State<B> {
    /// Sends of a request's body what both windows have room for.
    pub(super) fn send_body(&mut self, place: usize) {
        let Some(stream) = &mut self.streams[place] else {
            return;
        };
        let Some((body, mut sent)) = stream.unsent.take() else {
            return;
        };
        loop {
            let room = self.peer.window.min(stream.send_window);
            let size = (body.len() - sent).min(self.peer.frame_bytes).min(PAYLOAD_BYTES);
            let size = size.min(usize::try_from(room).unwrap_or(0));
            if size == 0 && sent < body.len() {
                stream.unsent = Some((body, sent));
                return;
            }
            let last = sent + size == body.len();
            let flags = if last { flag::END_STREAM } else { 0 };
            frame::write(
                &mut self.outgoing,
                kind::DATA,
                flags,
                stream.id,
                &body[sent..sent + size],
            );
            stream.sent_bytes += (frame::HEAD_BYTES + size) as u64;
            sent += size;
            self.peer.window -= size as i64;
            stream.send_window -= size as i64;
            let answers = ANSWERS_PER_FRAME + (size / BYTES_PER_ANSWER) as u32;
            self.due_answers = (self.due_answers + answers).min(MOST_DUE_ANSWERS);
            if last {
                return;
            }
        }
    }

    /// Goes on with bodies that waited for a window.
    pub(super) fn send_bodies(&mut self) {
        for place in 0..self.streams.len() {
            self.send_body(place);
        }
    }

    /// Room to send grows for one stream.
    pub(super) fn widen(&mut self, place: usize, increment: i64) {
        let Some(stream) = self.stream_at(place) else {
            return;
        };
        stream.send_window += increment;
        if stream.send_window > LARGEST_WINDOW {
            let violation = Violation::WindowOverflow;
            return self.reset(place, violation.code(), violation.into());
        }
        self.send_body(place);
    }
}
