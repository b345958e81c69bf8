//! Receive buffer of a session: splits the byte stream into messages, and a message into its parts.

use crate::refusal::Refusal;
use crate::wire::{Field, Header, Malformed, Parsed, FRAME_BYTES, HEADER_BYTES};
use dyno_measure::Failure;
use std::ops::Range;

/// Initial size of the buffer: enough for several responses without data.
const FIRST_BYTES: usize = 8192;
/// Type of the message with which a server refuses a connection, also over direct TCP (RFC 1002, 4.3.4).
const NEGATIVE_SESSION_RESPONSE: u8 = 0x83;
/// Extra space after a large message, so that one system call also receives the start of the next message.
const SLACK_BYTES: usize = 4096;

/// The receive buffer. Consumed bytes stay readable until more space is requested.
#[derive(Debug)]
pub struct Inbox {
    buffer: Vec<u8>,
    /// `buffer[start..end]` contains the received bytes that are not consumed.
    start: usize,
    end: usize,
    /// End of the current message, if some of its parts are unread; at most `end`.
    message_end: Option<usize>,
    max_message_bytes: usize,
}

impl Inbox {
    /// Creates an empty buffer for messages of up to `max_message_bytes`.
    pub fn new(max_message_bytes: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            message_end: None,
            max_message_bytes,
        }
    }

    pub fn set_max_message_bytes(&mut self, max_message_bytes: usize) {
        self.max_message_bytes = max_message_bytes;
    }

    /// Discards the contents and keeps the memory.
    pub fn clear(&mut self) {
        (self.start, self.end, self.message_end) = (0, 0, None);
    }

    /// Returns the memory that the buffer uses, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Frees the memory if the buffer is empty, for an idle session.
    pub fn release(&mut self) {
        if self.start == self.end && self.message_end.is_none() {
            self.clear();
            self.buffer = Vec::new();
        }
    }

    /// Returns all bytes; the ranges of messages index into them.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns part of the buffer for changes in place.
    pub fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.buffer[range]
    }

    /// Returns space for the next data: at least as much as the current message needs. Invalidates earlier
    /// ranges.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let wanted = self.frame_bytes().unwrap_or(0).max(self.end - self.start + 1);
        if self.start > 0 && self.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.message_end = self.message_end.map(|end| end - self.start);
            self.end -= self.start;
            self.start = 0;
        }
        if self.start + wanted > self.buffer.len() {
            let length = (self.start + wanted + SLACK_BYTES).next_multiple_of(4096);
            self.buffer.resize(length.max(FIRST_BYTES), 0);
        }
        &mut self.buffer[self.end..]
    }

    /// Records that `bytes` bytes were received into `room`.
    pub fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    /// Returns the number of received bytes that are not consumed.
    pub fn waiting_bytes(&self) -> usize {
        self.end - self.start
    }

    /// Returns the length that the frame at `start` declares, including its four-byte header.
    fn frame_bytes(&self) -> Option<usize> {
        if self.message_end.is_some() {
            return None;
        }
        let frame: [u8; FRAME_BYTES] = *self.buffer[self.start..self.end].first_chunk()?;
        let length = u32::from_be_bytes(frame) as usize;
        Some(FRAME_BYTES + length.min(self.max_message_bytes))
    }

    /// Returns the unread rest of the current message.
    pub fn rest(&self) -> Option<Range<usize>> {
        self.message_end.map(|end| self.start..end)
    }

    /// Starts the next message if it is complete; `rest` returns it from then on.
    ///
    /// # Errors
    /// The frame can't be SMB2, or exceeds the maximum size.
    pub fn next_message(&mut self) -> Result<bool, Failure> {
        let Some(frame) = self.buffer[self.start..self.end].first_chunk::<FRAME_BYTES>() else {
            return Ok(false);
        };
        if frame[0] == NEGATIVE_SESSION_RESPONSE {
            return Err(Refusal::TurnedAway.failure(0));
        }
        // The first byte is the message type and must be 0. Read as part of the length, any other type makes
        // the length too large.
        let length = u32::from_be_bytes(*frame) as usize;
        if !(HEADER_BYTES..=self.max_message_bytes).contains(&length) {
            return Err(Malformed::at(Field::StreamLength, 0).into());
        }
        if self.waiting_bytes() < FRAME_BYTES + length {
            return Ok(false);
        }
        self.start += FRAME_BYTES;
        self.message_end = Some(self.start + length);
        Ok(true)
    }

    /// Consumes the next `bytes` bytes of `rest`.
    pub fn advance(&mut self, bytes: usize) {
        if let Some(end) = self.message_end {
            self.start = (self.start + bytes).min(end);
            if self.start == end {
                self.message_end = None;
            }
        }
    }

    /// Consumes the next part of the message. Returns its header, and its range including the header.
    pub fn next_part(&mut self) -> Parsed<Option<(Header, Range<usize>)>> {
        let Some(rest) = self.rest() else {
            return Ok(None);
        };
        let bytes = &self.buffer[rest.clone()];
        let header = Header::parse(bytes)?;
        let length = header.length(bytes)?;
        self.advance(length);
        Ok(Some((header, rest.start..rest.start + length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_measure::Fault;

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = u32::try_from(length).expect("short").to_be_bytes().to_vec();
        bytes.resize(FRAME_BYTES + length, u8::try_from(length % 251).expect("a byte"));
        bytes
    }

    /// Feeds `bytes` in pieces and returns the lengths of the resulting messages.
    fn lengths(bytes: &[u8], piece_bytes: usize) -> Result<Vec<usize>, Fault> {
        let mut inbox = Inbox::new(100_000);
        let mut found = Vec::new();
        for piece in bytes.chunks(piece_bytes) {
            let mut piece = piece;
            while !piece.is_empty() {
                let room = inbox.room();
                let count = room.len().min(piece.len());
                room[..count].copy_from_slice(&piece[..count]);
                inbox.filled(count);
                piece = &piece[count..];
                while inbox.next_message().map_err(|failure| failure.fault)? {
                    let rest = inbox.rest().expect("a message");
                    let expected = u8::try_from(rest.len() % 251).expect("a byte");
                    assert!(inbox.bytes()[rest.clone()].iter().all(|byte| *byte == expected));
                    found.push(rest.len());
                    inbox.advance(rest.len());
                }
            }
        }
        Ok(found)
    }

    #[test]
    fn messages_are_complete_however_they_are_divided() {
        let sizes = [64, 65, 9000, 64, 100_000, 64, 8192, 4096];
        let bytes: Vec<u8> = sizes.iter().flat_map(|size| message(*size)).collect();
        for piece_bytes in [1, 3, 64, 4096, 8192, 70_000, bytes.len()] {
            assert_eq!(lengths(&bytes, piece_bytes), Ok(sizes.to_vec()), "{piece_bytes}");
        }
    }

    #[test]
    fn memory_is_released_only_if_nothing_waits_and_grows_again() {
        let mut inbox = Inbox::new(100_000);
        let receive = |inbox: &mut Inbox, bytes: &[u8]| {
            let mut bytes = bytes;
            while !bytes.is_empty() {
                let room = inbox.room();
                let count = room.len().min(bytes.len());
                room[..count].copy_from_slice(&bytes[..count]);
                inbox.filled(count);
                bytes = &bytes[count..];
            }
        };
        for _ in 0..2 {
            receive(&mut inbox, &message(100_000));
            inbox.release();
            assert_eq!(inbox.next_message().map_err(|failure| failure.fault), Ok(true));
            inbox.release();
            assert_eq!(inbox.rest().map(|rest| rest.len()), Some(100_000));
            inbox.advance(100_000);
            inbox.release();
            assert_eq!(inbox.bytes().len(), 0);
        }
    }

    #[test]
    fn a_length_out_of_bounds_is_refused_before_memory_is_allocated() {
        for frame in [
            [0, 0, 0, 0],
            [0, 0, 0, 63],
            [0, 1, 0x86, 0xa1],
            [1, 0, 0, 64],
            [0xff; 4],
        ] {
            assert_eq!(lengths(&frame, 4), Err(Fault::MalformedMessage), "{frame:?}");
        }
    }
}
