//! State of an HTTP/2 connection except the frame parser's: streams, windows, header blocks.
//!
//! Everything that a server can make this side store is limited: frames, header blocks, the dynamic table,
//! and unsent answers to SETTINGS and PING. `control.rs` processes control frames, `sending.rs` sends request
//! bodies.

use super::frame::{self, flag, kind, ErrorCode, Head};
use super::head::Fields;
use super::hpack::Decoder;
use super::peer::Peer;
use super::reader::Piece;
use super::request::Request;
use super::stream::Stream;
use super::violation::Violation;
use super::window::Window;
use crate::failures::begun_and_late;
use crate::response::{Body, Limits};
use dyno_measure::{Failure, Fault};
use std::collections::VecDeque;

/// Receive window announced per stream, and for the connection. Data is consumed at once, so it needs no
/// memory; the window only has to exceed the bandwidth-delay product.
pub(super) const STREAM_WINDOW: i64 = 1 << 22;
pub(super) const CONNECTION_WINDOW: i64 = 1 << 24;

/// Size of a WINDOW_UPDATE frame.
const WINDOW_UPDATE_BYTES: u64 = 13;

const MAX_CONTINUATIONS: u32 = 64;
/// Maximum number of reset streams whose receive windows are kept because the server may still send on them.
const MAX_CANCELLED: usize = 1024;

#[derive(Debug)]
struct OpenBlock {
    stream: u32,
    end_stream: bool,
    continuations: u32,
}

/// DATA frame being read.
#[derive(Debug, Clone, Copy)]
struct OpenData {
    /// None if this side has reset the stream.
    place: Option<usize>,
    end_stream: bool,
}

/// State of a connection, except the frame parser's.
#[derive(Debug)]
pub(super) struct State<B> {
    limits: Limits,
    decoder: Decoder,
    pub(super) peer: Peer,
    pub(super) outgoing: Vec<u8>,
    /// Streams by slot. A finished stream stays until it is taken.
    pub(super) streams: Vec<Option<Stream<B>>>,
    /// Identifier of the active stream in each slot; 0 if there is none.
    pub(super) ids: Vec<u32>,
    pub(super) free: Vec<usize>,
    pub(super) active: u32,
    pub(super) next_id: u32,
    pub(super) finished: Vec<usize>,
    /// Streams reset by this side, with the rest of their receive windows.
    cancelled: VecDeque<(u32, Window)>,
    /// Whether some reset streams no longer fit in `cancelled`.
    forgot: bool,
    window: Window,
    /// Number of times that all output was sent.
    pub(super) flushes: u64,
    block: Vec<u8>,
    open_block: Option<OpenBlock>,
    open_data: OpenData,
    pub(super) idle_frames: u32,
    /// Slots with unsent body data, in turn order.
    pub(super) senders: VecDeque<usize>,
    /// Body bytes in `outgoing`.
    pub(super) waiting_bytes: usize,
    /// Number of further frames that the server may send in answer to our data.
    pub(super) due_answers: u32,
    /// Bytes of connection frames, added to the next stream that ends.
    pub(super) overhead_in: u64,
    pub(super) overhead_out: u64,
    /// Bytes of unsent answers to SETTINGS and PING.
    pub(super) unsent_answer_bytes: usize,
}

impl<B: Body> State<B> {
    /// Creates the state. `outgoing`: the first bytes to send.
    pub(super) fn new(limits: Limits, outgoing: Vec<u8>) -> Self {
        Self {
            limits,
            decoder: Decoder::default(),
            peer: Peer::default(),
            overhead_out: outgoing.len() as u64,
            outgoing,
            streams: Vec::new(),
            ids: Vec::new(),
            free: Vec::new(),
            active: 0,
            next_id: 1,
            finished: Vec::new(),
            cancelled: VecDeque::new(),
            forgot: false,
            window: Window::new(CONNECTION_WINDOW),
            flushes: 0,
            block: Vec::new(),
            open_block: None,
            open_data: OpenData {
                place: None,
                end_stream: false,
            },
            idle_frames: 0,
            senders: VecDeque::new(),
            waiting_bytes: 0,
            due_answers: 0,
            overhead_in: 0,
            unsent_answer_bytes: 0,
        }
    }

    pub(super) fn flushed(&mut self) {
        self.flushes += 1;
        self.unsent_answer_bytes = 0;
        self.waiting_bytes = 0;
    }

    pub(super) fn open(&mut self, request: &Request, body: B) -> usize {
        let id = self.next_id;
        self.next_id += 2;
        let before = self.outgoing.len();
        self.peer.write_head(&mut self.outgoing, id, request);
        let (unsent, is_empty) = match &request.body {
            Some(body) => (
                Some((body.clone(), 0)).filter(|_| !body.is_empty()),
                body.is_empty(),
            ),
            None => (None, false),
        };
        if is_empty {
            frame::write(&mut self.outgoing, kind::DATA, flag::END_STREAM, id, &[]);
        }
        let stream = Stream {
            id,
            unannounced: if self.peer.has_spoken { 0 } else { self.active + 1 },
            body,
            status: None,
            length: None,
            body_bytes: 0,
            told_end: false,
            received_bytes: 0,
            sent_bytes: (self.outgoing.len() - before) as u64,
            window: Window::new(STREAM_WINDOW),
            send_window: self.peer.initial_window,
            unsent,
            outcome: None,
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.streams.push(None);
            self.ids.push(0);
            self.ids.len() - 1
        });
        self.ids[place] = id;
        self.active += 1;
        let has_body = stream.unsent.is_some();
        self.streams[place] = Some(stream);
        if has_body {
            self.senders.push_back(place);
            self.send_bodies();
        }
        place
    }

    pub(super) fn place_of(&self, stream: u32) -> Option<usize> {
        self.ids
            .iter()
            .position(|id| *id == stream)
            .filter(|_| stream != 0)
    }

    pub(super) fn stream_at(&mut self, place: usize) -> Option<&mut Stream<B>> {
        self.streams.get_mut(place)?.as_mut()
    }

    /// Ends a stream without a reset: the server ended it, or the connection is lost.
    pub(super) fn finish(&mut self, place: usize, result: Result<u16, Failure>, unprocessed: bool) {
        let Some(stream) = &mut self.streams[place] else {
            return;
        };
        if stream.outcome.is_none() {
            stream.outcome = Some((result, unprocessed));
            if stream.unsent.take().is_some() {
                self.senders.retain(|sender| *sender != place);
            }
            self.ids[place] = 0;
            self.active -= 1;
            if self.open_data.place == Some(place) {
                // The slot may be reused while a DATA frame of this stream is still arriving.
                self.open_data.place = None;
            }
            self.finished.push(place);
        }
    }

    /// Ends a stream and sends RST_STREAM.
    pub(super) fn reset(&mut self, place: usize, code: ErrorCode, failure: Failure) {
        let Some(stream) = self.stream_at(place).filter(|stream| stream.outcome.is_none()) else {
            return;
        };
        let (id, window) = (stream.id, stream.window);
        let failure = match failure.fault {
            Fault::ResponseTimeout if stream.status.is_some() => {
                begun_and_late(stream.body_bytes, stream.length)
            }
            _ => failure,
        };
        self.forsake(id, window, code);
        self.finish(place, Err(failure), false);
    }

    /// Resets a stream on which the server may still send data.
    fn forsake(&mut self, id: u32, window: Window, code: ErrorCode) {
        frame::write_reset(&mut self.outgoing, id, code);
        self.cancelled.push_back((id, window));
        if self.cancelled.len() > MAX_CANCELLED {
            self.cancelled.pop_front();
            self.forgot = true;
        }
    }

    pub(super) fn take(&mut self, piece: Piece<'_>) -> Result<(), Violation> {
        match piece {
            Piece::Data(data, last) => return self.data(data, last),
            Piece::DataHead(head) | Piece::Frame(head, _) if !self.peer.has_spoken => {
                if head.kind != kind::SETTINGS || head.has(flag::ACK) {
                    return Err(Violation::NoPreface);
                }
                self.peer.has_spoken = true;
            }
            _ => {}
        }
        match piece {
            Piece::Frame(head, payload) => {
                if self.open_block.is_some() != (head.kind == kind::CONTINUATION) {
                    return Err(match self.open_block {
                        Some(_) => Violation::Interrupted,
                        None => Violation::LoneContinuation,
                    });
                }
                match head.kind {
                    kind::HEADERS => self.headers(head, payload),
                    kind::CONTINUATION => self.continuation(head, payload),
                    _ => self.control(head, payload),
                }
            }
            Piece::DataHead(_) if self.open_block.is_some() => Err(Violation::Interrupted),
            Piece::DataHead(head) => self.data_head(head),
            Piece::Data(..) => Ok(()),
        }
    }

    /// Returns the slot of a frame's stream, or None for a stream that this side has reset.
    fn owner(&self, stream: u32) -> Result<Option<usize>, Violation> {
        if stream == 0 {
            return Err(Violation::StreamZero);
        }
        if let Some(place) = self.place_of(stream) {
            return Ok(Some(place));
        }
        if self.is_idle(stream) {
            return Err(Violation::IdleStream);
        }
        if self.forgot || self.cancelled.iter().any(|(id, _)| *id == stream) {
            return Ok(None);
        }
        Err(Violation::ClosedStream)
    }

    /// Returns whether a stream is idle (RFC 9113, section 5.1). Servers open no streams, because push is disabled.
    pub(super) fn is_idle(&self, stream: u32) -> bool {
        stream % 2 == 0 || stream >= self.next_id
    }

    fn headers(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        let owner = self.owner(head.stream)?;
        let mut block = payload;
        if head.has(flag::PADDED) {
            let (padding, rest) = block.split_first().ok_or(Violation::FrameSize)?;
            let end = rest.len().checked_sub(usize::from(*padding));
            block = &rest[..end.ok_or(Violation::Padding)?];
        }
        if head.has(flag::PRIORITY) {
            let (priority, rest) = block.split_first_chunk::<5>().ok_or(Violation::FrameSize)?;
            block = rest;
            if u32::from_be_bytes([priority[0] & 0x7f, priority[1], priority[2], priority[3]]) == head.stream
            {
                return Err(Violation::SelfDependency);
            }
        }
        self.count_in(owner, payload.len());
        self.idle_frames += 1;
        let end_stream = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.block(owner, end_stream, block);
        }
        self.block.clear();
        self.block.extend_from_slice(block);
        self.open_block = Some(OpenBlock {
            stream: head.stream,
            end_stream,
            continuations: 0,
        });
        Ok(())
    }

    fn continuation(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        let Some(open) = &mut self.open_block else {
            return Err(Violation::LoneContinuation);
        };
        if open.stream != head.stream {
            return Err(Violation::Interrupted);
        }
        open.continuations += 1;
        if open.continuations > MAX_CONTINUATIONS || self.block.len() + payload.len() > self.limits.head_bytes
        {
            return Err(Violation::Continuations);
        }
        self.block.extend_from_slice(payload);
        let (stream, end_stream) = (open.stream, open.end_stream);
        let owner = self.owner(stream)?;
        self.count_in(owner, payload.len());
        if head.has(flag::END_HEADERS) {
            self.open_block = None;
            let block = std::mem::take(&mut self.block);
            let result = self.block(owner, end_stream, &block);
            self.block = block;
            return result;
        }
        Ok(())
    }

    fn count_in(&mut self, owner: Option<usize>, payload_bytes: usize) {
        let bytes = (frame::HEAD_BYTES + payload_bytes) as u64;
        match owner.and_then(|place| self.stream_at(place)) {
            Some(stream) => stream.received_bytes += bytes,
            None => self.overhead_in += bytes,
        }
    }

    /// Processes a complete header block for slot `place`, which is None for a stream that this side has
    /// reset.
    fn block(&mut self, place: Option<usize>, end_stream: bool, block: &[u8]) -> Result<(), Violation> {
        let mut stream = place.and_then(|place| self.streams[place].as_mut());
        let is_trailer = stream.as_ref().is_some_and(|stream| stream.status.is_some());
        let mut fields = if is_trailer {
            Fields::of_trailer()
        } else {
            Fields::default()
        };
        let most_bytes = self.limits.head_bytes;
        let mut handing_on = false;
        let read = self.decoder.decode(block, most_bytes, &mut |name, value| {
            fields.take(name, value)?;
            match &mut stream {
                Some(stream) if name == b":status" => {
                    handing_on = fields.is_final() && stream.body.wants_fields();
                }
                Some(stream) if handing_on => stream.body.field(name, value),
                _ => {}
            }
            Ok(())
        })?;
        let (Some(place), Some(stream)) = (place, stream) else {
            return Ok(());
        };
        let accepted = read.and_then(|()| stream.accept(&fields, is_trailer, end_stream, most_bytes));
        match accepted {
            Err(violation) => self.reset(place, violation.code(), violation.into()),
            Ok(()) if end_stream => self.ended_by_server(place),
            Ok(()) => {}
        }
        Ok(())
    }

    fn data_head(&mut self, head: Head) -> Result<(), Violation> {
        let place = self.owner(head.stream)?;
        if !self.window.take(head.length, self.flushes) {
            return Err(Violation::ConnectionWindow);
        }
        if let Some(increment) = self.window.grow(self.flushes) {
            frame::write_window_update(&mut self.outgoing, 0, increment);
            self.overhead_out += WINDOW_UPDATE_BYTES;
        }
        self.count_in(place, head.length);
        let end_stream = head.has(flag::END_STREAM);
        self.idle_frames += 1;
        self.open_data = OpenData { place, end_stream };
        let Some((place, stream)) = place.and_then(|place| Some((place, self.streams[place].as_mut()?)))
        else {
            return self.late_data(head);
        };
        let broken = if !stream.window.take(head.length, self.flushes) {
            Some(Violation::StreamWindow)
        } else if stream.status.is_none() {
            Some(Violation::DataFirst)
        } else {
            None
        };
        if let Some(violation) = broken {
            self.reset(place, violation.code(), violation.into());
        } else if let Some(increment) = stream.window.grow(self.flushes).filter(|_| !end_stream) {
            frame::write_window_update(&mut self.outgoing, head.stream, increment);
            stream.sent_bytes += WINDOW_UPDATE_BYTES;
        }
        Ok(())
    }

    /// Processes data of a stream that this side has reset, within the rest of its window.
    fn late_data(&mut self, head: Head) -> Result<(), Violation> {
        let flushes = self.flushes;
        let late = self.cancelled.iter_mut().find(|(id, _)| *id == head.stream);
        let Some((_, window)) = late else { return Ok(()) };
        if !window.take(head.length, flushes) {
            return Err(Violation::StreamWindow);
        }
        if head.length > 0 {
            self.idle_frames = 0;
        }
        Ok(())
    }

    fn data(&mut self, data: &[u8], last: bool) -> Result<(), Violation> {
        let OpenData { place, end_stream } = self.open_data;
        let Some((place, stream)) = place.and_then(|place| Some((place, self.streams[place].as_mut()?)))
        else {
            return Ok(());
        };
        if !data.is_empty() {
            self.idle_frames = 0;
        }
        let ends = last && end_stream;
        match stream.accept_data(data, ends, self.limits.body_bytes) {
            Err(failure) => self.reset(place, ErrorCode::ProtocolError, failure),
            Ok(()) if ends => self.ended_by_server(place),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Handles the end of the response.
    fn ended_by_server(&mut self, place: usize) {
        let Some(stream) = &self.streams[place] else {
            return;
        };
        let (id, window, status) = (stream.id, stream.window, stream.status.unwrap_or(0));
        if stream.unsent.is_some() {
            // The server answered before it read the whole request body (RFC 9113, section 8.1).
            self.forsake(id, window, ErrorCode::NoError);
        }
        self.idle_frames = 0;
        self.finish(place, Ok(status), false);
    }
}
