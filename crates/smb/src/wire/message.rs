//! A request, or a compound of several, as it goes over the wire: the frame's length, then header and body of each part.

use super::bytes::{pad_to_8, put};
use super::command::Command;
use super::header::{flags, HEADER_BYTES, PROTOCOL_ID};
use super::FileId;
use std::collections::VecDeque;

/// The length in front of every message (MS-SMB2 2.1, direct TCP): a zero, then 24 bits in network order.
pub const FRAME_BYTES: usize = 4;
/// The most parts that a compound of ours has.
pub const MAX_PARTS: usize = 4;

/// To which session and share a request belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    pub session_id: u64,
    /// Of the share.
    pub tree_id: u32,
}

/// One request of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Where its header begins in the message's bytes.
    pub start: usize,
    /// Where it ends there, padding included.
    pub end: usize,
    /// What it asks for.
    pub command: Command,
    /// Credits that it costs.
    pub charge: u16,
    /// The most bytes that the body of its response may have.
    pub max_response: u32,
    /// Where it names its file, counted from its header; None where it names none.
    file_offset: Option<usize>,
}

/// A message in the making, in a buffer that is used again.
#[derive(Debug, Clone, Default)]
pub struct Message {
    bytes: Vec<u8>,
    /// Bytes kept free between the frame's length and the first header.
    room: usize,
    /// Bytes that are sent behind `bytes`, from elsewhere.
    tail_bytes: usize,
    link: Link,
    parts: [Option<Part>; MAX_PARTS],
    count: usize,
}

impl Message {
    /// Begins anew, with `room` bytes in front of the first header for what an encryption puts there.
    pub fn begin(&mut self, link: Link, room: usize) {
        self.bytes.clear();
        self.bytes.resize(FRAME_BYTES + room, 0);
        self.room = room;
        self.tail_bytes = 0;
        self.link = link;
        self.parts = [None; MAX_PARTS];
        self.count = 0;
    }

    /// Adds a part: its header now, its body by `body` next. A part after the first goes on with the same file.
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

    /// The part in the making names its file there, counted from its header.
    pub(super) fn note_file(&mut self, file_offset: usize) {
        if let Some(part) = self
            .count
            .checked_sub(1)
            .and_then(|index| self.parts[index].as_mut())
        {
            part.file_offset = Some(file_offset);
        }
    }

    /// Cuts a compound that has been ended into messages of one part each: this one keeps the first part. The others
    /// are returned in their order, and each needs `name_file` before it can be sent.
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
        // Flags and the distance to the next part: it is related to nothing any more.
        put(&mut message.bytes[start..], 16, [0; 8]);
        let end = message.bytes.len();
        message.parts[0] = Some(Part { start, end, ..part });
        message.count = 1;
        message.write_frame();
        message
    }

    /// Says of the first part which file it goes on with.
    pub fn name_file(&mut self, file: FileId) {
        if let Some((start, offset)) = self
            .part_at(0)
            .and_then(|part| Some((part.start, part.file_offset?)))
        {
            put(&mut self.bytes[start..], offset, file.0);
        }
    }

    /// Where the body of the part in the making goes.
    pub fn body(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Where the header of the part in the making begins: offsets of the wire count from there.
    #[must_use]
    pub fn part_start(&self) -> usize {
        self.parts().last().map_or(0, |part| part.start)
    }

    /// So many bytes will be sent behind the message, as the end of its last part.
    pub fn expect_tail(&mut self, tail_bytes: usize) {
        self.tail_bytes = tail_bytes;
    }

    /// Takes the tail in: for what needs the whole message in one place.
    pub fn take_tail(&mut self, tail: &[u8]) {
        self.bytes.extend_from_slice(tail);
        self.tail_bytes = 0;
        self.end_part(false);
    }

    /// Ends the last part and says in front how long it all is.
    pub fn end(&mut self) {
        self.end_part(false);
        self.write_frame();
    }

    /// Gives the part at `index` the number under which it is sent, and what it asks and costs in credits.
    pub fn stamp(&mut self, index: usize, message_id: u64, charge: u16, credits: u16) {
        if let Some(part) = self.parts[index] {
            let header = &mut self.bytes[part.start..];
            put(header, 6, charge.to_le_bytes());
            put(header, 14, credits.to_le_bytes());
            put(header, 24, message_id.to_le_bytes());
        }
    }

    /// Tells the part at `index` of which connection of the client it is (MS-SMB2 2.2.1.2, ChannelSequence): writes of
    /// an earlier one that come late are refused.
    pub fn set_channel_sequence(&mut self, index: usize, sequence: u16) {
        if let Some(part) = self.parts[index] {
            put(&mut self.bytes[part.start..], 8, sequence.to_le_bytes());
        }
    }

    /// Says of every part that it was sent before, on a connection that was lost.
    pub fn mark_replay(&mut self) {
        for index in 0..self.count {
            if let Some(flags_end) = self.part_mut(index).and_then(|part| part.get_mut(16..20)) {
                let byte = &mut flags_end[3];
                *byte |= (flags::REPLAY >> 24) as u8;
            }
        }
    }

    /// The bytes of the part at `index`, its header and padding included.
    pub fn part_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let part = (*self.parts.get(index)?)?;
        self.bytes.get_mut(part.start..part.end)
    }

    /// The part at `index`.
    #[must_use]
    pub fn part_at(&self, index: usize) -> Option<Part> {
        self.parts.get(index).copied().flatten()
    }

    /// The parts so far.
    pub fn parts(&self) -> impl Iterator<Item = Part> + '_ {
        self.parts.iter().copied().flatten()
    }

    /// Everything behind the room: the headers and bodies.
    #[must_use]
    pub fn plain(&self) -> &[u8] {
        &self.bytes[FRAME_BYTES + self.room..]
    }

    /// Everything behind the frame's length, the room first.
    pub fn frame_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[FRAME_BYTES..]
    }

    /// As it is sent, without the tail.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes that are sent, with the tail.
    #[must_use]
    pub fn sent_bytes(&self) -> usize {
        self.bytes.len() + self.tail_bytes
    }

    /// What its buffer takes of memory.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Credits that all parts cost.
    #[must_use]
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
