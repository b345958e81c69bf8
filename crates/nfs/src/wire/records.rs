//! Message framing: records of a stream over TCP (RFC 5531, 11), datagrams over UDP.

use super::rpc::{LAST_FRAGMENT, RECORD_MARK_BYTES};
use super::Malformed;
use dyno_net::MOST_DATAGRAM_BYTES;
use std::ops::Range;

/// Initial size of the buffer: enough for several replies without data.
const FIRST_BYTES: usize = 8192;
/// Extra space after a large record, so that one system call also receives the start of the next record.
const SLACK_BYTES: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    #[default]
    Tcp,
    /// One datagram per message; only for NFSv3.
    Udp,
}

impl Transport {
    /// Returns the transport with this name in the mount option `proto`.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "tcp" => Some(Self::Tcp),
            "udp" => Some(Self::Udp),
            _ => None,
        }
    }

    /// Returns the protocol number, as used by the portmapper (RFC 1833, 3).
    pub fn number(self) -> u32 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }

    /// Returns the transport with this protocol number.
    pub fn of_number(number: u32) -> Option<Self> {
        [Self::Tcp, Self::Udp]
            .into_iter()
            .find(|one| one.number() == number)
    }
}

/// Receive buffer of a socket: splits a byte stream into records, or takes each datagram as one. Consumed
/// bytes stay readable until more space is requested.
#[derive(Debug)]
pub struct Records {
    buffer: Vec<u8>,
    /// `buffer[start..end]` contains the received bytes that are not consumed.
    start: usize,
    end: usize,
    max_record_bytes: usize,
    transport: Transport,
}

impl Records {
    /// Creates an empty buffer for TCP records of up to `max_record_bytes`.
    pub fn new(max_record_bytes: usize) -> Self {
        Self::over(Transport::Tcp, max_record_bytes)
    }

    /// Creates an empty buffer for a transport. The maximum size does not apply to datagrams.
    pub fn over(transport: Transport, max_record_bytes: usize) -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            end: 0,
            max_record_bytes,
            transport,
        }
    }

    pub fn set_max_record_bytes(&mut self, max_record_bytes: usize) {
        self.max_record_bytes = max_record_bytes;
    }

    /// Returns whether the transport is UDP, where zero received bytes don't mean the end of a stream.
    pub fn are_datagrams(&self) -> bool {
        self.transport == Transport::Udp
    }

    /// Discards the contents and keeps the memory.
    pub fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// Returns the memory that the buffer uses, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Frees the memory if the buffer is empty.
    pub fn release(&mut self) {
        if self.start == self.end {
            self.clear();
            self.buffer = Vec::new();
        }
    }

    /// Returns all bytes; the ranges of records index into them.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns the number of received bytes that are not consumed.
    pub fn waiting_bytes(&self) -> usize {
        self.end - self.start
    }

    /// Returns space for the next data: enough for the current fragment, or for any datagram. Invalidates
    /// earlier ranges.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let waiting = self.end - self.start;
        let (mark, wanted) = match self.transport {
            Transport::Tcp => {
                let first = self.mark(self.start).map_or(0, |(_, length)| length);
                let under_way = RECORD_MARK_BYTES + first.min(self.max_record_bytes);
                (0, under_way.max(waiting + 1))
            }
            Transport::Udp => (
                RECORD_MARK_BYTES,
                waiting + RECORD_MARK_BYTES + MOST_DATAGRAM_BYTES,
            ),
        };
        if self.start > 0 && self.start + wanted > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.start + wanted > self.buffer.len() {
            let length = (self.start + wanted + SLACK_BYTES).next_multiple_of(4096);
            self.buffer.resize(length.max(FIRST_BYTES), 0);
        }
        &mut self.buffer[self.end + mark..]
    }

    /// Records that `bytes` bytes were received into `room`: a part of the stream, or a datagram, which gets
    /// a record mark.
    pub fn filled(&mut self, bytes: usize) {
        if self.are_datagrams() {
            let place = self.end..self.end + RECORD_MARK_BYTES;
            let length = u32::try_from(bytes).unwrap_or(u32::MAX);
            match self.buffer.get_mut(place) {
                Some(mark) if bytes > 0 => mark.copy_from_slice(&(LAST_FRAGMENT | length).to_be_bytes()),
                _ => return,
            }
            self.end += RECORD_MARK_BYTES;
        }
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    /// Returns whether the first fragment of the next record is complete.
    pub fn has_next(&self) -> bool {
        self.mark(self.start)
            .is_some_and(|(_, length)| self.end - self.start >= RECORD_MARK_BYTES + length)
    }

    /// Consumes the next record if it is complete; returns its range in `bytes`.
    ///
    /// # Errors
    /// The record exceeds the maximum size, or has an empty fragment: a record of empty fragments might never
    /// end.
    pub fn next_record(&mut self) -> Result<Option<Range<usize>>, Malformed> {
        let (mut at, mut whole) = (self.start, 0);
        loop {
            let Some((last, length)) = self.mark(at) else {
                return Ok(None);
            };
            whole += length;
            if length == 0 || (whole > self.max_record_bytes && !self.are_datagrams()) {
                return Err(Malformed);
            }
            let next = at + RECORD_MARK_BYTES + length;
            if next > self.end {
                return Ok(None);
            }
            if last {
                let begin = self.start;
                self.start = next;
                return Ok(Some(self.joined(begin, whole)));
            }
            at = next;
        }
    }

    /// Joins the fragments of a record in place.
    fn joined(&mut self, begin: usize, whole: usize) -> Range<usize> {
        let first = begin + RECORD_MARK_BYTES;
        let mut at = begin;
        let mut to = first;
        while to < first + whole {
            let Some((_, length)) = self.mark(at) else { break };
            let from = at + RECORD_MARK_BYTES;
            if from != to {
                self.buffer.copy_within(from..from + length, to);
            }
            (at, to) = (from + length, to + length);
        }
        first..first + whole
    }

    fn mark(&self, at: usize) -> Option<(bool, usize)> {
        let mark = self
            .buffer
            .get(at..self.end)?
            .first_chunk::<RECORD_MARK_BYTES>()?;
        let mark = u32::from_be_bytes(*mark);
        Some((mark & LAST_FRAGMENT != 0, (mark & !LAST_FRAGMENT) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Writer;

    fn come(records: &mut Records, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = records.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            records.filled(count);
            bytes = &bytes[count..];
        }
    }

    fn take(records: &mut Records) -> Option<Vec<u8>> {
        let range = records.next_record().expect("well formed")?;
        Some(records.bytes()[range].to_vec())
    }

    #[test]
    fn fragments_are_joined_however_the_stream_is_divided() {
        let mut stream = Vec::new();
        Writer(&mut stream).u32(3);
        stream.extend_from_slice(b"abc\0\0\0\x02de\x80\0\0\x01f\x80\0\0\x02gh\x80\0\0\x04ijkl");
        for cut in 0..stream.len() {
            let mut records = Records::new(6);
            let mut taken = Vec::new();
            for part in [&stream[..cut], &stream[cut..]] {
                come(&mut records, part);
                while let Some(record) = take(&mut records) {
                    taken.push(record);
                }
            }
            assert_eq!(taken, [&b"abcdef"[..], b"gh", b"ijkl"], "{cut}");
        }
    }

    #[test]
    fn a_record_beyond_its_limit_is_refused_and_takes_no_memory() {
        for stream in [
            &b"\xff\xff\xff\xff"[..],
            b"\x80\0\0\x07abc",
            b"\0\0\0\0",
            b"\0\0\0\x06abcdef\x80\0\0\x01g",
        ] {
            let mut records = Records::new(6);
            come(&mut records, stream);
            assert_eq!(records.next_record(), Err(Malformed));
            assert!(records.room().len() < 1 << 20);
        }
    }

    #[test]
    fn each_datagram_is_one_record_whatever_its_first_bytes() {
        let mut records = Records::over(Transport::Udp, 6);
        let long = vec![7; 65_507];
        let sent = [&b"\xff\xff\xff\xff"[..], b"", b"a", &long, b"\0\0\0\0"];
        for datagram in sent {
            records.room()[..datagram.len()].copy_from_slice(datagram);
            records.filled(datagram.len());
        }
        for datagram in sent.into_iter().filter(|datagram| !datagram.is_empty()) {
            assert_eq!(take(&mut records).as_deref(), Some(datagram));
        }
        assert_eq!(take(&mut records), None);
        assert_eq!(records.waiting_bytes(), 0);
    }
}
