//! One HTTP/2 connection as a client sees it: bytes in, ended streams and bytes out. Pure: no sockets, no clock.
//!
//! `state.rs` has what is known of it, frame by frame.

use super::frame::{self, ErrorCode};
use super::reader::Reader;
use super::request::Request;
use super::state::{State, CONNECTION_WINDOW, STREAM_WINDOW};
use super::stream::Ended;
use super::violation::Violation;
use crate::response::{Body, Limits};
use dyno_measure::{Failure, Fault};

/// Frames in a row that carry nothing of a response.
const MAX_IDLE_FRAMES: u32 = 1000;
/// Answers to the server that can't be sent because it does not read.
const MAX_UNSENT_BYTES: usize = 256 * 1024;

/// A connection.
#[derive(Debug)]
pub struct Session<B> {
    reader: Reader,
    state: State<B>,
}

impl<B: Body> Session<B> {
    /// A connection that has sent its preface, as far as `outgoing` shows.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
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

    /// Whether new streams can be opened at all: not once the server has said that it takes no more.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state.peer.goaway.is_none() && self.state.next_id < 1 << 30
    }

    /// Whether another stream may be opened now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.is_open() && self.state.active < self.state.peer.max_streams
    }

    /// Streams without an end yet.
    #[must_use]
    pub fn active(&self) -> u32 {
        self.state.active
    }

    /// Streams opened so far.
    #[must_use]
    pub fn opened(&self) -> u32 {
        self.state.next_id / 2
    }

    /// Begins a stream where `has_room` says so; gives its place, to be taken once it has ended.
    pub fn open(&mut self, request: &Request, body: B) -> usize {
        self.state.open(request, body)
    }

    /// Takes what the server has sent. Streams that end are added to those that `take_finished` gives.
    ///
    /// # Errors
    /// What it broke. The connection can't be used any more; what it is to be told lies in `outgoing`.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        let result = self.feed_pieces(&mut bytes);
        result.map_err(|violation| {
            frame::write_goaway(&mut self.state.outgoing, violation.code());
            match violation {
                Violation::NoPreface => Fault::NotHttp2.into(),
                _ => violation.into(),
            }
        })
    }

    fn feed_pieces(&mut self, bytes: &mut &[u8]) -> Result<(), Violation> {
        if self.state.outgoing.is_empty() {
            self.state.unsent_answer_bytes = 0;
            self.state.flushes += 1;
        }
        while let Some(piece) = self.reader.next(bytes).map_err(|violation| {
            // A frame without bounds is what the answer of another protocol looks like.
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

    /// Moves the places of the streams that have ended to `into`.
    pub fn take_finished(&mut self, into: &mut Vec<usize>) {
        into.append(&mut self.state.finished);
    }

    /// Whether the stream at `place` has ended.
    #[must_use]
    pub fn has_ended(&self, place: usize) -> bool {
        matches!(self.state.streams.get(place), Some(Some(stream)) if stream.outcome.is_some())
    }

    /// Gives what became of the stream at `place`, where it has ended; the place is free then.
    pub fn take(&mut self, place: usize) -> Option<Ended<B>> {
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

    /// Ends the stream at `place` with `failure`, and tells the server.
    pub fn cancel(&mut self, place: usize, failure: Failure) {
        self.state.reset(place, ErrorCode::Cancel, failure);
    }

    /// Ends every stream with `failure`: the connection is lost.
    pub fn fail_all(&mut self, failure: Failure) {
        for place in 0..self.state.ids.len() {
            if self.state.ids[place] != 0 {
                self.state.finish(place, Err(failure), false);
            }
        }
    }

    /// Says that the connection will be closed.
    pub fn say_goodbye(&mut self) {
        frame::write_goaway(&mut self.state.outgoing, ErrorCode::NoError);
    }

    /// What is to be sent. Who sends it takes it away.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.state.outgoing
    }
}
