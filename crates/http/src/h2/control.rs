//! Control frames: SETTINGS, PING, WINDOW_UPDATE, RST_STREAM, GOAWAY.

use super::frame::{self, declared, flag, kind, ErrorCode, Head, LARGEST_WINDOW};
use super::state::State;
use super::violation::Violation;
use crate::response::Body;
use dyno_measure::Fault;

impl<B: Body> State<B> {
    /// Processes any frame except DATA, HEADERS and CONTINUATION.
    pub(super) fn control(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        match head.kind {
            kind::WINDOW_UPDATE | kind::PING if self.due_answers > 0 => self.due_answers -= 1,
            // This frame ends a request, so it does not count as idle.
            kind::RST_STREAM if self.place_of(head.stream).is_some() => {}
            _ => self.idle_frames += 1,
        }
        self.overhead_in += (frame::HEAD_BYTES + payload.len()) as u64;
        match head.kind {
            kind::SETTINGS | kind::PING | kind::GOAWAY if head.stream != 0 => Err(Violation::NotStreamZero),
            kind::PRIORITY | kind::RST_STREAM if head.stream == 0 => Err(Violation::StreamZero),
            kind::SETTINGS => self.settings(head, payload),
            kind::PING => self.ping(head, payload),
            kind::GOAWAY => self.goaway(payload),
            kind::WINDOW_UPDATE => self.window_update(head.stream, payload),
            kind::RST_STREAM => self.rst_stream(head.stream, payload),
            kind::PUSH_PROMISE => Err(Violation::Push),
            kind::PRIORITY if payload.len() != 5 => Err(Violation::FrameSize),
            // Unknown frames are ignored (RFC 9113, section 5.5) and count as idle frames.
            _ => Ok(()),
        }
    }

    fn settings(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        if head.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(Violation::FrameSize);
            }
            if std::mem::replace(&mut self.peer.acknowledged, true) {
                return Err(Violation::UnaskedAcknowledgement);
            }
            return Ok(());
        }
        if payload.len() % 6 != 0 {
            return Err(Violation::FrameSize);
        }
        for setting in payload.chunks_exact(6) {
            let name = u16::from_be_bytes([setting[0], setting[1]]);
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            let growth = self.peer.set(name, value)?;
            if growth == 0 {
                continue;
            }
            for stream in self.streams.iter_mut().flatten() {
                stream.send_window += growth;
                if stream.send_window > LARGEST_WINDOW {
                    return Err(Violation::WindowOverflow);
                }
            }
        }
        self.answer(kind::SETTINGS, &[]);
        self.send_bodies();
        Ok(())
    }

    fn answer(&mut self, kind: u8, payload: &[u8]) {
        let before = self.outgoing.len();
        frame::write(&mut self.outgoing, kind, flag::ACK, 0, payload);
        let bytes = self.outgoing.len() - before;
        self.unsent_answer_bytes += bytes;
        self.overhead_out += bytes as u64;
    }

    fn ping(&mut self, head: Head, payload: &[u8]) -> Result<(), Violation> {
        if payload.len() != 8 {
            return Err(Violation::FrameSize);
        }
        if !head.has(flag::ACK) {
            self.answer(kind::PING, payload);
        }
        Ok(())
    }

    /// Ends the streams above the last one that the GOAWAY accepts. Their requests may be sent again on
    /// another connection.
    fn goaway(&mut self, payload: &[u8]) -> Result<(), Violation> {
        let Some(([last @ .., c1, c2, c3, c4], debug)) = payload.split_first_chunk::<8>() else {
            return Err(Violation::FrameSize);
        };
        let last = u32::from_be_bytes(*last) & 0x7fff_ffff;
        if self.peer.goaway.is_some_and(|earlier| last > earlier) {
            return Err(Violation::GoawayGrew);
        }
        self.peer.goaway = Some(last);
        let code = u32::from_be_bytes([*c1, *c2, *c3, *c4]);
        let failure = frame::goaway(code, debug);
        self.peer.declared = (code != ErrorCode::NoError as u32).then_some(failure);
        let mut above: Vec<(u32, usize)> = (0..self.streams.len())
            .filter_map(|place| Some((self.stream_at(place)?.id, place)))
            .filter(|(id, _)| *id > last)
            .collect();
        // Requests are sent again in their original order.
        above.sort_unstable();
        for (_, place) in above {
            self.finish(place, Err(failure), true);
        }
        Ok(())
    }

    fn window_update(&mut self, stream: u32, payload: &[u8]) -> Result<(), Violation> {
        let increment = payload.try_into().map_err(|_| Violation::FrameSize)?;
        let increment = i64::from(u32::from_be_bytes(increment) & 0x7fff_ffff);
        if stream != 0 && self.is_idle(stream) {
            return Err(Violation::IdleStream);
        }
        if increment == 0 {
            return Err(Violation::ZeroIncrement);
        }
        if stream != 0 {
            // A late WINDOW_UPDATE may refer to a stream that has ended.
            if let Some(place) = self.place_of(stream) {
                self.widen(place, increment);
            }
            return Ok(());
        }
        self.peer.window += increment;
        if self.peer.window > LARGEST_WINDOW {
            return Err(Violation::WindowOverflow);
        }
        self.send_bodies();
        Ok(())
    }

    fn rst_stream(&mut self, stream: u32, payload: &[u8]) -> Result<(), Violation> {
        let code = u32::from_be_bytes(payload.try_into().map_err(|_| Violation::FrameSize)?);
        if self.is_idle(stream) {
            return Err(Violation::IdleStream);
        }
        if let Some(place) = self.place_of(stream) {
            let refused = code == ErrorCode::RefusedStream as u32;
            let unannounced = self.stream_at(place).map_or(0, |stream| stream.unannounced);
            let fault = match refused {
                true if unannounced > self.peer.stream_limit() => Fault::StreamsOverLimit,
                true => Fault::StreamRefused,
                false => Fault::StreamReset,
            };
            self.finish(place, Err(declared(fault, code)), refused);
        }
        Ok(())
    }
}
