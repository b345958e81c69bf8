//! A request, or a compound of several, in its wire format: the frame length, then header and body of each
//! part.

use super::bytes::{pad_to_8, put};
use super::command::Command;
use super::header::{flags, HEADER_BYTES, PROTOCOL_ID};
use super::FileId;
use std::collections::VecDeque;

/// Size of the length field before every message (MS-SMB2 2.1, direct TCP): a zero byte, then 24 bits in
/// network order.
pub const FRAME_BYTES: usize = 4;
/// The maximum number of parts in this client's compounds.
pub const MAX_PARTS: usize = 4;

/// Session ID and tree ID of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    pub session_id: u64,
    /// The share's ID.
    pub tree_id: u32,
}

/// One request of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Offset of the part's header in the message.
    pub start: usize,
    /// Offset of the end of the part, including its padding.
    pub end: usize,
    pub command: Command,
    /// Cost in credits.
    pub charge: u16,
    /// Maximum size of the response body, in bytes.
    pub max_response: u32,
    /// Offset of the file ID from the part's header, if the part has one.
    file_offset: Option<usize>,
}

/// A message being built, in a reusable buffer.
#[derive(Debug, Clone, Default)]
pub struct Message {
    bytes: Vec<u8>,
    /// Free bytes between the frame length and the first header.
    room: usize,
    /// Number of bytes that are sent after `bytes` from another buffer.
    tail_bytes: usize,
    link: Link,
    parts: [Option<Part>; MAX_PARTS],
    count: usize,
}

impl Message {
    /// Starts a new message, with `room` bytes for a transform header before the first header.
    pub fn begin(&mut self, link: Link, room: usize) {
        self.bytes.clear();
        self.bytes.resize(FRAME_BYTES + room, 0);
        self.room = room;
        self.tail_bytes = 0;
        self.link = link;
        self.parts = [None; MAX_PARTS];
        self.count = 0;
    }

    /// Starts a part and writes its header; `body` returns the buffer for its body. Every part after the
    /// first uses the file of the previous part.
    pub fn part(&mut self, command: Command, charge: u16, max_response: u32) {
        self.end_part(true);
        let start = self.bytes.len();
        if let Some(before) = self.count.checked_sub(1).and_then(|index| self.parts[index]) {
            let distance = u32::try_from(start - before.start).unwrap_or(0);
            put(&mut self.bytes[before.start..], 20, distance.to_le_bytes());
        }
        let mut header = [0; HEADER_BYTES];
        put(&mut header, 0, PROTOCOL_ID);
        put(&mut header, 4, 64u16.to_le_bytes());
        put(&mut header, 12, (command as u16).to_le_bytes());
        if self.count > 0 {
            put(&mut header, 16, flags::RELATED.to_le_bytes());
        }
        put(&mut header, 36, self.link.tree_id.to_le_bytes());
        put(&mut header, 40, self.link.session_id.to_le_bytes());
        self.bytes.extend_from_slice(&header);
        debug_assert!(self.count < MAX_PARTS, "compounds have at most {MAX_PARTS} parts");
        self.parts[self.count] = Some(Part {
            start,
            end: start,
            command,
            charge,
            max_response,
            file_offset: None,
        });
        self.count += 1;
    }

    /// Records the offset of the current part's file ID from its header.
    pub(super) fn note_file(&mut self, file_offset: usize) {
        if let Some(part) = self
            .count
            .checked_sub(1)
            .and_then(|index| self.parts[index].as_mut())
        {
            part.file_offset = Some(file_offset);
        }
    }

    /// Splits a finished compound into messages of one part each: `self` keeps the first part. Returns the
    /// others in order; each needs `name_file` before it can be sent.
    pub fn split(&mut self) -> VecDeque<Self> {
        let rest = self.parts().skip(1).map(|part| self.alone(part)).collect();
        if let Some(first) = self.part_at(0) {
            *self = self.alone(first);
        }
        rest
    }

    fn alone(&self, part: Part) -> Self {
        let mut message = Self::default();
        message.begin(self.link, self.room);
        let start = message.bytes.len();
        message.bytes.extend_from_slice(&self.bytes[part.start..part.end]);
        // Clears the flags and the distance to the next part, because the request is no longer part of a
        // compound.
        put(&mut message.bytes[start..], 16, [0; 8]);
        let end = message.bytes.len();
        message.parts[0] = Some(Part { start, end, ..part });
        message.count = 1;
        message.write_frame();
        message
    }

    /// Sets the file ID of the first part.
    pub fn name_file(&mut self, file: FileId) {
        if let Some((start, offset)) = self
            .part_at(0)
            .and_then(|part| Some((part.start, part.file_offset?)))
        {
            put(&mut self.bytes[start..], offset, file.0);
        }
    }

    /// Returns the buffer for the current part's body.
    pub fn body(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Returns the start of the current part's header, from which wire offsets count.
    pub fn part_start(&self) -> usize {
        self.parts().last().map_or(0, |part| part.start)
    }

    /// Announces that `tail_bytes` bytes will be sent after the message, as the end of its last part.
    pub fn expect_tail(&mut self, tail_bytes: usize) {
        self.tail_bytes = tail_bytes;
    }

    /// Appends the tail to the buffer, so that the message is contiguous.
    pub fn take_tail(&mut self, tail: &[u8]) {
        self.bytes.extend_from_slice(tail);
        self.tail_bytes = 0;
        self.end_part(false);
    }

    /// Finishes the last part and writes the frame length.
    pub fn end(&mut self) {
        self.end_part(false);
        self.write_frame();
    }

    /// Sets the message ID, credit charge and credit request of the part at `index`.
    pub fn stamp(&mut self, index: usize, message_id: u64, charge: u16, credits: u16) {
        if let Some(part) = self.parts[index] {
            let header = &mut self.bytes[part.start..];
            put(header, 6, charge.to_le_bytes());
            put(header, 14, credits.to_le_bytes());
            put(header, 24, message_id.to_le_bytes());
        }
    }

    /// Sets the channel sequence of the part at `index` (MS-SMB2 2.2.1.2, ChannelSequence), by which the server
    /// refuses late writes of earlier connections.
    pub fn set_channel_sequence(&mut self, index: usize, sequence: u16) {
        if let Some(part) = self.parts[index] {
            put(&mut self.bytes[part.start..], 8, sequence.to_le_bytes());
        }
    }

    /// Marks every part as a replay of a request on a lost connection.
    pub fn mark_replay(&mut self) {
        for index in 0..self.count {
            if let Some(flags_end) = self.part_mut(index).and_then(|part| part.get_mut(16..20)) {
                let byte = &mut flags_end[3];
                *byte |= (flags::REPLAY >> 24) as u8;
            }
        }
    }

    /// Returns the bytes of the part at `index`, including its header and padding.
    pub fn part_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let part = (*self.parts.get(index)?)?;
        self.bytes.get_mut(part.start..part.end)
    }

    pub fn part_at(&self, index: usize) -> Option<Part> {
        self.parts.get(index).copied().flatten()
    }

    /// Returns the parts so far.
    pub fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        self.parts.iter().copied().flatten()
    }

    /// Returns the headers and bodies.
    pub fn plain(&self) -> &[u8] {
        &self.bytes[FRAME_BYTES + self.room..]
    }

    /// Returns everything after the frame length: the space for a transform header, then the message.
    pub fn frame_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[FRAME_BYTES..]
    }

    /// Returns the bytes to send, without the tail.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of bytes to send, including the tail.
    pub fn sent_bytes(&self) -> usize {
        self.bytes.len() + self.tail_bytes
    }

    /// Returns the memory that the buffer uses, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the credit cost of all parts.
    pub fn charge(&self) -> u32 {
        self.parts().map(|part| u32::from(part.charge)).sum()
    }

    fn end_part(&mut self, another_follows: bool) {
        let Some(index) = self.count.checked_sub(1) else {
            return;
        };
        if let Some(part) = &mut self.parts[index] {
            if another_follows {
                pad_to_8(&mut self.bytes, part.start);
            }
            part.end = self.bytes.len();
        }
    }

    fn write_frame(&mut self) {
        let length = u32::try_from(self.sent_bytes() - FRAME_BYTES).unwrap_or(u32::MAX);
        debug_assert!(length < 1 << 24, "a frame holds less than 16 MiB");
        put(&mut self.bytes, 0, length.to_be_bytes());
    }
}
