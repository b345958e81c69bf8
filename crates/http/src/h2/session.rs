//! The client's side of one HTTP/2 connection: bytes in, finished streams and bytes out. Uses no sockets and
//! no clock. `state.rs` contains the state.

use super::frame::{self, ErrorCode};
use super::reader::Reader;
use super::request::Request;
use super::state::{State, CONNECTION_WINDOW, STREAM_WINDOW};
use super::violation::Violation;
use crate::conversation::{Conversation, Ended};
use crate::response::{Body, Limits};
use dyno_measure::{Failure, Fault};

/// Maximum number of consecutive frames that belong to no response.
const MAX_IDLE_FRAMES: u32 = 1000;
/// Maximum bytes of unsent SETTINGS and PING acknowledgements. They accumulate if the server does not read.
const MAX_UNSENT_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub struct Session<B> {
    reader: Reader,
    state: State<B>,
}

impl<B: Body> Session<B> {
    fn feed_pieces(&mut self, bytes: &mut &[u8]) -> Result<(), Violation> {
        if self.state.outgoing.is_empty() {
            self.state.flushed();
        }
        while let Some(piece) = self.reader.next(bytes).map_err(|violation| {
            // An invalid frame before the first SETTINGS suggests that the server speaks another protocol.
            match self.state.peer.has_spoken {
                true => violation,
                false => Violation::NoPreface,
            }
        })? {
            self.state.take(piece)?;
            if self.state.idle_frames > MAX_IDLE_FRAMES {
                return Err(Violation::IdleFrames);
            }
            if self.state.unsent_answer_bytes > MAX_UNSENT_BYTES {
                return Err(Violation::Unread);
            }
        }
        Ok(())
    }
}

impl<B: Body> Conversation for Session<B> {
    type Request = Request;
    type Body = B;
    const HAS_STREAMS: bool = true;

    /// Creates a connection whose preface is in `outgoing`.
    fn new(limits: Limits) -> Self {
        let mut outgoing = frame::PREFACE.to_vec();
        let settings = [
            (frame::setting::ENABLE_PUSH, 0),
            (frame::setting::INITIAL_WINDOW_SIZE, STREAM_WINDOW as u32),
            (
                frame::setting::MAX_HEADER_LIST_SIZE,
                u32::try_from(limits.head_bytes).unwrap_or(u32::MAX),
            ),
        ];
        frame::write_settings(&mut outgoing, &settings);
        frame::write_window_update(&mut outgoing, 0, (CONNECTION_WINDOW - frame::FIRST_WINDOW) as u32);
        Self {
            reader: Reader::default(),
            state: State::new(limits, outgoing),
        }
    }

    /// Returns false after the server's GOAWAY, and when all stream identifiers are used.
    fn is_open(&self) -> bool {
        self.state.peer.goaway.is_none() && self.state.next_id < 1 << 30
    }

    fn has_room(&self) -> bool {
        self.is_open() && self.state.active < self.state.peer.stream_limit()
    }

    fn announced_room(&self) -> Option<u32> {
        let peer = &self.state.peer;
        peer.has_spoken.then(|| peer.stream_limit())
    }

    fn expect_room(&mut self, room: u32) {
        self.state.peer.first_streams = room;
    }

    fn has_taken_some(&self) -> bool {
        self.state.peer.goaway.is_some_and(|last| last > 0)
    }

    fn has_unprocessed(&self) -> bool {
        let mut all = self.state.streams.iter().flatten();
        all.any(|stream| matches!(stream.outcome, Some((_, true))))
    }

    fn active(&self) -> u32 {
        self.state.active
    }

    fn opened(&self) -> u32 {
        self.state.next_id / 2
    }

    fn open(&mut self, request: &Request, body: B) -> usize {
        self.state.open(request, body)
    }

    fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        let result = self.feed_pieces(&mut bytes);
        result.map_err(|violation| {
            frame::write_goaway(&mut self.state.outgoing, violation.code());
            match violation {
                Violation::NoPreface => Fault::NotHttp2.into(),
                _ => violation.into(),
            }
        })
    }

    fn take_finished(&mut self, into: &mut Vec<usize>) {
        into.clear();
        std::mem::swap(into, &mut self.state.finished);
    }

    fn has_ended(&self, place: usize) -> bool {
        matches!(self.state.streams.get(place), Some(Some(stream)) if stream.outcome.is_some())
    }

    fn take(&mut self, place: usize) -> Option<Ended<B>> {
        if !self.has_ended(place) {
            return None;
        }
        let state = &mut self.state;
        let stream = state.streams[place].take()?;
        state.free.push(place);
        let (result, unprocessed) = stream.outcome?;
        Some(Ended {
            result,
            unprocessed,
            body: stream.body,
            received_bytes: stream.received_bytes + std::mem::take(&mut state.overhead_in),
            sent_bytes: stream.sent_bytes + std::mem::take(&mut state.overhead_out),
            body_bytes: stream.body_bytes,
        })
    }

    /// Ends the stream in slot `place` with `failure` and resets it.
    fn cancel(&mut self, place: usize, failure: Failure) {
        self.state.reset(place, ErrorCode::Cancel, failure);
    }

    fn fail_all(&mut self, failure: Failure) {
        // The GOAWAY says why the server has ended the connection.
        let ended = matches!(
            failure.fault,
            Fault::ClosedEarly | Fault::ConnectionReset | Fault::Truncated
        );
        let peer = &self.state.peer;
        let failure = match peer.declared {
            Some(declared) if ended => declared,
            None if ended && peer.has_spoken => frame::ended(failure, peer.goaway.is_some()),
            _ => failure,
        };
        for place in 0..self.state.ids.len() {
            if self.state.ids[place] != 0 {
                self.state.finish(place, Err(failure), false);
            }
        }
    }

    fn say_goodbye(&mut self) {
        frame::write_goaway(&mut self.state.outgoing, ErrorCode::NoError);
    }

    fn all_sent(&mut self) {
        self.state.flushed();
        self.state.send_bodies();
    }

    fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.state.outgoing
    }
}
