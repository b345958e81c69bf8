//! Incremental parser of one HTTP/1 response (RFC 9112). Uses no sockets and no clock, so it can be fuzzed.
//!
//! All lengths are limited. A head is stored only while it is incomplete. Body bytes are passed on and not
//! stored.

use crate::failures::{begun_and_late, chunks_without_end, unexpected_body};
use crate::head::{each_field, parse_head, Framing, Head};
use dyno_measure::{Detail, Failure, Fault};

/// Maximum size of a chunk's size line with extensions, or of a trailer section.
const MAX_CHUNK_LINE_BYTES: usize = 4096;

/// Limits of one response. They are Serverdyno's own: HTTP has none.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub head_bytes: usize,
    /// Fields per head in HTTP/1. In HTTP/2 only the bytes are limited.
    pub fields: usize,
    /// Bytes of the decoded body.
    pub body_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 256 * 1024,
            fields: 1000,
            body_bytes: 1 << 40,
        }
    }
}

/// Receives the contents of a response.
pub trait Body {
    /// Returns whether to call `field` for the final head. Usually false under load.
    fn wants_fields(&mut self) -> bool {
        false
    }

    /// Receives the status of the final head, before its fields.
    fn begins(&mut self, _status: u16) {}

    /// Receives one field of the final head.
    fn field(&mut self, _name: &[u8], _value: &[u8]) {}

    /// Returns whether the request was HEAD, whose response has no body (RFC 9110, section 9.3.2).
    fn answers_head(&self) -> bool {
        false
    }

    /// Receives part of the body. `last` is set if the part is known to end the body.
    fn part(&mut self, data: &[u8], last: bool);
}

/// Whether the response is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    More,
    /// The response is complete.
    Done,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    Length {
        rest: u64,
    },
    Chunked(ChunkState),
    UntilClose,
    Done,
}

/// Position in a chunked body (RFC 9112, section 7.1).
#[derive(Debug, Clone, Copy)]
enum ChunkState {
    /// In a size line. `size` is None before the first digit.
    Size {
        size: Option<u64>,
        part: SizePart,
        line_bytes: usize,
    },
    /// In chunk data.
    Data { rest: u64 },
    /// In the line end after chunk data. `carriage`: CR was read.
    DataEnd { carriage: bool },
    /// After the last chunk. `all_bytes` counts all trailer lines.
    Trailer { line: TrailerLine, all_bytes: usize },
}

/// Position in a size line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SizePart {
    Digits,
    Padding,
    Extension,
    /// After CR.
    End,
}

/// Position in a trailer line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrailerLine {
    Empty,
    /// After CR in an empty line.
    EmptyEnd,
    Name,
    Value,
    /// After CR following a value.
    ValueEnd,
}

const CHUNK_START: ChunkState = ChunkState::Size {
    size: None,
    part: SizePart::Digits,
    line_bytes: 0,
};

/// Result of `take_head`.
enum Taken {
    /// Length of the complete final head.
    Whole(usize),
    /// Start of the incomplete final head.
    Partial(usize),
}

/// Parser state of one response. `reset` prepares it for the next.
#[derive(Debug, Default)]
pub struct ResponseReader {
    limits: Limits,
    state: State,
    head: Option<Head>,
    /// Incomplete head.
    partial: Vec<u8>,
    /// Length of `partial` at the last attempt to parse it.
    parsed_bytes: usize,
    received_bytes: u64,
    body_bytes: u64,
    /// Bytes of interim heads.
    interim_bytes: usize,
    /// Bytes received after the end of the response.
    surplus: usize,
    /// Whether the response answers HEAD.
    answers_head: bool,
    /// Failure of bytes that are not a response, if the previous response on the connection has no body.
    before: Option<Failure>,
}

impl ResponseReader {
    /// Creates a parser with `limits`.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Prepares the parser for the next response on the same connection.
    #[inline]
    pub(crate) fn await_next(&mut self) {
        let before = self
            .head
            .and_then(|head| unexpected_body(head.status, self.answers_head));
        self.reset();
        self.before = before;
    }

    /// Prepares the parser for the first response on a connection.
    #[inline]
    pub fn reset(&mut self) {
        self.before = None;
        self.state = State::Head;
        self.head = None;
        self.partial.clear();
        self.received_bytes = 0;
        self.body_bytes = 0;
        self.interim_bytes = 0;
        self.surplus = 0;
    }

    pub fn head(&self) -> Option<Head> {
        self.head
    }

    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Returns the failure of a response that has not ended before the deadline.
    pub(crate) fn late(&self) -> Failure {
        match self.state {
            State::Head => Fault::ResponseTimeout.into(),
            State::Length { rest } => {
                begun_and_late(self.body_bytes, Some(self.body_bytes.saturating_add(rest)))
            }
            State::Chunked(_) | State::UntilClose | State::Done => begun_and_late(self.body_bytes, None),
        }
    }

    /// Returns the failure of bytes after the end of the response.
    pub(crate) fn excess(&self) -> Failure {
        let known = match self.head {
            Some(head) => unexpected_body(head.status, self.answers_head),
            None => self.before,
        };
        known.unwrap_or(Fault::ExcessData.into())
    }

    /// Processes the next bytes.
    ///
    /// # Errors
    /// The response is invalid. The connection is then unusable.
    pub fn feed(&mut self, data: &[u8], body: &mut impl Body) -> Result<Progress, Failure> {
        match self.feed_first(data, body)? {
            (_, taken) if taken < data.len() => Err(self.excess()),
            (progress, _) => Ok(progress),
        }
    }

    /// Processes the next bytes of a connection that may carry further responses. Returns how many of them belong to
    /// this response.
    pub fn feed_first(&mut self, data: &[u8], body: &mut impl Body) -> Result<(Progress, usize), Failure> {
        let progress = self.feed_all(data, body)?;
        let surplus = std::mem::take(&mut self.surplus);
        self.received_bytes -= surplus as u64;
        Ok((progress, data.len() - surplus))
    }

    fn feed_all(&mut self, data: &[u8], body: &mut impl Body) -> Result<Progress, Failure> {
        self.received_bytes += data.len() as u64;
        if !matches!(self.state, State::Head) {
            return self.feed_body(data, body);
        }
        if self.partial.is_empty() {
            return self.feed_head(data, body);
        }
        let new = self.partial.len();
        self.partial.extend_from_slice(data);
        if !self.may_be_whole(new) {
            return Ok(Progress::More);
        }
        let joined = std::mem::take(&mut self.partial);
        self.feed_head(&joined, body)
    }

    /// Returns whether to parse an incomplete head again; `new` is the index of its new bytes. Parsing after
    /// every small piece would take quadratic time.
    fn may_be_whole(&self, new: usize) -> bool {
        let (all, bytes) = (&self.partial, self.partial.len());
        if bytes > self.limits.head_bytes || bytes >= 2 * self.parsed_bytes {
            return true;
        }
        // Blank lines before a head do not end it.
        let tail = &all[new.saturating_sub(4)..];
        let ends = |end: &[u8]| {
            let mut places = tail.windows(end.len() + 1);
            places.any(|place| !matches!(place[0], b'\r' | b'\n') && &place[1..] == end)
        };
        ends(b"\r\n\r\n") || ends(b"\n\n") || ends(b"\n\r\n") || ends(b"\r\n\n")
    }

    /// Handles the end of the connection.
    ///
    /// # Errors
    /// The response is incomplete.
    pub fn end(&mut self, body: &mut impl Body) -> Result<(), Failure> {
        match self.state {
            State::UntilClose => {
                body.part(&[], true);
                self.state = State::Done;
                Ok(())
            }
            State::Done => Ok(()),
            State::Head => {
                // A head in small pieces may not have been parsed since its last piece.
                let held = std::mem::take(&mut self.partial);
                self.feed_head(&held, body)?;
                match self.state {
                    State::Head => Err(Fault::ClosedEarly.into()),
                    _ => self.end(body),
                }
            }
            State::Length { rest } => Err(Failure {
                fault: Fault::ClosedEarly,
                detail: Detail::Length {
                    expected: self.body_bytes().saturating_add(rest),
                    got: self.body_bytes(),
                },
            }),
            State::Chunked(_) => Err(chunks_without_end(self.body_bytes())),
        }
    }

    fn feed_head(&mut self, data: &[u8], body: &mut impl Body) -> Result<Progress, Failure> {
        match self.take_head(data, body)? {
            Taken::Whole(end) => self.feed_body(&data[end..], body),
            Taken::Partial(start) => {
                self.partial = data[start..].to_vec();
                self.parsed_bytes = self.partial.len();
                Ok(Progress::More)
            }
        }
    }

    fn take_head(&mut self, data: &[u8], body: &mut impl Body) -> Result<Taken, Failure> {
        let mut start = 0;
        loop {
            let rest = &data[start..];
            // Ignore bytes beyond the limit, so that the result does not depend on how many have arrived.
            let within = &rest[..rest.len().min(self.limits.head_bytes)];
            let parsed = parse_head(within, self.limits.fields).map_err(|failure| match self.before {
                Some(excess) if self.interim_bytes == 0 && begins_no_response(within) => excess,
                _ => failure,
            });
            let Some(mut head) = parsed? else {
                if rest.len() > within.len() {
                    return Err(Fault::HeadTooLarge.into());
                }
                return Ok(Taken::Partial(start));
            };
            start += head.bytes;
            if head.status >= 200 {
                body.begins(head.status);
                if body.wants_fields() {
                    let fields = self.limits.fields;
                    each_field(&rest[..head.bytes], fields, &mut |name, value| {
                        body.field(name, value)
                    });
                }
                self.answers_head = body.answers_head();
                if self.answers_head {
                    head.framing = Framing::Length(0);
                }
                self.begin_body(head)?;
                return Ok(Taken::Whole(start));
            }
            self.interim_bytes += head.bytes;
            if self.interim_bytes > self.limits.head_bytes {
                return Err(Fault::HeadTooLarge.into());
            }
        }
    }

    fn begin_body(&mut self, head: Head) -> Result<(), Failure> {
        self.head = Some(head);
        self.state = match head.framing {
            Framing::Length(rest) if rest > self.limits.body_bytes => return Err(Fault::BodyTooLarge.into()),
            Framing::Length(rest) => State::Length { rest },
            Framing::Chunked => State::Chunked(CHUNK_START),
            Framing::UntilClose => State::UntilClose,
        };
        Ok(())
    }

    fn feed_body(&mut self, data: &[u8], body: &mut impl Body) -> Result<Progress, Failure> {
        match self.state {
            State::Length { rest } => self.feed_length(data, rest, body),
            State::Chunked(state) => self.feed_chunks(data, state, body),
            State::UntilClose => {
                self.count_body(data.len() as u64)?;
                pass_part(data, body);
                Ok(Progress::More)
            }
            State::Done if data.is_empty() => Ok(Progress::Done),
            State::Head | State::Done => Err(self.excess()),
        }
    }

    fn count_body(&mut self, bytes: u64) -> Result<(), Failure> {
        self.body_bytes += bytes;
        if self.body_bytes > self.limits.body_bytes {
            return Err(Fault::BodyTooLarge.into());
        }
        Ok(())
    }

    fn feed_length(&mut self, data: &[u8], rest: u64, body: &mut impl Body) -> Result<Progress, Failure> {
        let got = data.len() as u64;
        self.count_body(got.min(rest))?;
        if got < rest {
            pass_part(data, body);
            self.state = State::Length { rest: rest - got };
            return Ok(Progress::More);
        }
        // `rest` is smaller than the length of `data` here.
        let (data, surplus) = data.split_at(rest as usize);
        body.part(data, true);
        self.surplus = surplus.len();
        self.state = State::Done;
        Ok(Progress::Done)
    }

    fn feed_chunks(
        &mut self,
        mut data: &[u8],
        mut state: ChunkState,
        body: &mut impl Body,
    ) -> Result<Progress, Failure> {
        while !data.is_empty() {
            if let ChunkState::Data { rest } = state {
                let taken = usize::try_from(rest).unwrap_or(usize::MAX).min(data.len());
                self.count_body(taken as u64)?;
                body.part(&data[..taken], false);
                data = &data[taken..];
                let rest = rest - taken as u64;
                state = if rest == 0 {
                    ChunkState::DataEnd { carriage: false }
                } else {
                    ChunkState::Data { rest }
                };
                continue;
            }
            let byte = data[0];
            data = &data[1..];
            match state.step(byte)? {
                Some(ChunkState::Data { rest }) if rest > self.limits.body_bytes - self.body_bytes => {
                    return Err(Fault::BodyTooLarge.into());
                }
                Some(next) => state = next,
                None => {
                    body.part(&[], true);
                    self.surplus = data.len();
                    self.state = State::Done;
                    return Ok(Progress::Done);
                }
            }
        }
        self.state = State::Chunked(state);
        Ok(Progress::More)
    }
}

/// Returns whether `data` can't be the beginning of a response. Blank lines may precede one.
fn begins_no_response(data: &[u8]) -> bool {
    const BEGINNING: &[u8] = b"HTTP/";
    let blank = |byte: &&u8| matches!(byte, b'\r' | b'\n');
    let data = &data[data.iter().take_while(blank).count()..];
    let known = data.len().min(BEGINNING.len());
    data[..known] != BEGINNING[..known]
}

/// Passes a part to `body` if it is not empty. Heads often arrive without body bytes, and an empty part would
/// make the body look divided.
fn pass_part(data: &[u8], body: &mut impl Body) {
    if !data.is_empty() {
        body.part(data, false);
    }
}

impl ChunkState {
    /// Returns the state after one byte outside chunk data, or None after the body's last byte. Accepts a
    /// bare LF as a line end; rejects CR without LF (RFC 9112, section 2.2).
    fn step(self, byte: u8) -> Result<Option<Self>, Failure> {
        let next = match self {
            Self::Size {
                size,
                part,
                line_bytes,
            } if line_bytes < MAX_CHUNK_LINE_BYTES => Self::step_size(size, part, line_bytes + 1, byte),
            Self::DataEnd { carriage: false } if byte == b'\r' => Some(Self::DataEnd { carriage: true }),
            Self::DataEnd { .. } if byte == b'\n' => Some(CHUNK_START),
            Self::Trailer {
                line: TrailerLine::Empty | TrailerLine::EmptyEnd,
                ..
            } if byte == b'\n' => return Ok(None),
            Self::Trailer { line, all_bytes } if all_bytes < MAX_CHUNK_LINE_BYTES => {
                line.step(byte).map(|line| Self::Trailer {
                    line,
                    all_bytes: all_bytes + 1,
                })
            }
            Self::Size { .. } | Self::Data { .. } | Self::DataEnd { .. } | Self::Trailer { .. } => None,
        };
        next.map(Some).ok_or(Fault::MalformedChunk.into())
    }

    fn step_size(size: Option<u64>, part: SizePart, line_bytes: usize, byte: u8) -> Option<Self> {
        if part == SizePart::Digits && byte.is_ascii_hexdigit() {
            let digit = u64::from((byte as char).to_digit(16)?);
            return Some(Self::Size {
                size: Some(size.unwrap_or(0).checked_mul(16)? + digit),
                part,
                line_bytes,
            });
        }
        let rest = size?;
        let part = match (part, byte) {
            (_, b'\n') if rest == 0 => {
                return Some(Self::Trailer {
                    line: TrailerLine::Empty,
                    all_bytes: 0,
                })
            }
            (_, b'\n') => return Some(Self::Data { rest }),
            (SizePart::End, _) => return None,
            (_, b'\r') => SizePart::End,
            (SizePart::Extension, _) | (_, b';') => SizePart::Extension,
            (_, b' ' | b'\t') => SizePart::Padding,
            _ => return None,
        };
        Some(Self::Size {
            size,
            part,
            line_bytes,
        })
    }
}

impl TrailerLine {
    /// Returns the state after one byte, or None if the byte is invalid.
    fn step(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Empty, b'\r') => Some(Self::EmptyEnd),
            (Self::Value | Self::ValueEnd, b'\n') => Some(Self::Empty),
            (Self::Value, b'\r') => Some(Self::ValueEnd),
            (Self::Name, b':') => Some(Self::Value),
            (Self::Empty | Self::Name, b'!'..=b'~') if byte != b':' => Some(Self::Name),
            (Self::Value, _) => Some(Self::Value),
            (Self::Empty | Self::EmptyEnd | Self::Name | Self::ValueEnd, _) => None,
        }
    }
}
