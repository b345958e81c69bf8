//! Reads one response out of bytes as they come (RFC 9112). Pure: no sockets, no clock, so that it can be fuzzed.
//!
//! Every length is bounded. A head is kept only while it is incomplete; body bytes pass through and are not stored.

use crate::head::{each_field, parse_head, Framing, Head};
use dyno_measure::{Failure, Fault};

/// A chunk's size line with its extensions, or a trailer section, may have this many bytes.
const MAX_CHUNK_LINE_BYTES: usize = 4096;

/// Bounds of one response. They are ours: HTTP has none.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub head_bytes: usize,
    /// Of a head, in HTTP/1; in HTTP/2 the bytes alone are bounded.
    pub fields: usize,
    /// Of the decoded body.
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

/// Where the bytes of a response go.
pub trait Body {
    /// The final head has come: says whether its fields shall be handed over. Load has mostly no use for them.
    fn wants_fields(&mut self) -> bool {
        false
    }

    /// The next field of the final head, where they are wanted.
    fn field(&mut self, _name: &[u8], _value: &[u8]) {}

    /// Whether the request was HEAD, whose response ends with its head whatever length it declares (RFC 9110, 9.3.2).
    fn answers_head(&self) -> bool {
        false
    }

    /// The next part. `last` is set when the part is known to end the body.
    fn part(&mut self, data: &[u8], last: bool);
}

/// Whether the response is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    More,
    /// The response is whole.
    Done,
}

#[derive(Debug)]
enum State {
    Head,
    Length { rest: u64 },
    Chunked(ChunkState),
    UntilClose,
    Done,
}

/// Where in a chunked body the next byte lies (RFC 9112, section 7.1).
#[derive(Debug, Clone, Copy)]
enum ChunkState {
    /// In a size line; `size` is None before its first digit.
    Size {
        size: Option<u64>,
        part: SizePart,
        line_bytes: usize,
    },
    /// In the data of a chunk.
    Data { rest: u64 },
    /// In the line end after the data; `carriage` once its CR has come.
    DataEnd { carriage: bool },
    /// After the last chunk; `all_bytes` of all trailer lines.
    Trailer { line: TrailerLine, all_bytes: usize },
}

/// Where in a chunk's size line the next byte lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SizePart {
    Digits,
    Padding,
    Extension,
    /// Its CR has come.
    End,
}

/// What is known of a trailer line so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrailerLine {
    Empty,
    /// Its CR has come, and nothing before it.
    EmptyEnd,
    Name,
    Value,
    /// Its CR has come, after a value.
    ValueEnd,
}

const CHUNK_START: ChunkState = ChunkState::Size {
    size: None,
    part: SizePart::Digits,
    line_bytes: 0,
};

/// What `take_head` found.
enum Taken {
    /// The final head ends here.
    Whole(usize),
    /// The final head is not whole; it begins here.
    Partial(usize),
}

/// The state of one response. `reset` makes it ready for the next.
#[derive(Debug)]
pub struct ResponseReader {
    limits: Limits,
    state: State,
    head: Option<Head>,
    /// The beginning of a head of which the end has not come yet.
    partial: Vec<u8>,
    /// How much of it has been parsed, in vain.
    parsed_bytes: usize,
    received_bytes: u64,
    body_bytes: u64,
    /// What the heads before the final one take together.
    interim_bytes: usize,
    /// Bytes behind the response that came with its last ones.
    surplus: usize,
}

impl ResponseReader {
    /// One for responses within `limits`.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Head,
            head: None,
            partial: Vec::new(),
            parsed_bytes: 0,
            received_bytes: 0,
            body_bytes: 0,
            interim_bytes: 0,
            surplus: 0,
        }
    }

    /// Makes it ready for the next response.
    #[inline]
    pub fn reset(&mut self) {
        self.state = State::Head;
        self.head = None;
        self.partial.clear();
        self.received_bytes = 0;
        self.body_bytes = 0;
        self.interim_bytes = 0;
        self.surplus = 0;
    }

    /// The head, once it is whole.
    #[must_use]
    pub fn head(&self) -> Option<Head> {
        self.head
    }

    /// All bytes of the response so far, heads and framing included.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Decoded bytes of the body so far.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Takes the next bytes from the connection.
    ///
    /// # Errors
    /// The server's fault, after which the connection is of no further use.
    pub fn feed(&mut self, data: &[u8], body: &mut impl Body) -> Result<Progress, Failure> {
        match self.feed_first(data, body)? {
            (_, taken) if taken < data.len() => Err(Fault::ExcessData.into()),
            (progress, _) => Ok(progress),
        }
    }

    /// Takes the next bytes from a connection on which another response may follow; gives how many belong to this one.
    ///
    /// # Errors
    /// As `feed`.
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

    /// Whether to parse the beginning of a head again, whose bytes from `new` on are new. A head that comes in many small
    /// pieces is not parsed after each of them: that would take time with the square of its length.
    fn may_be_whole(&self, new: usize) -> bool {
        let (all, bytes) = (&self.partial, self.partial.len());
        if bytes > self.limits.head_bytes || bytes >= 2 * self.parsed_bytes {
            return true;
        }
        // Blank lines before a head end none.
        let tail = &all[new.saturating_sub(4)..];
        let ends = |end: &[u8]| {
            let mut places = tail.windows(end.len() + 1);
            places.any(|place| !matches!(place[0], b'\r' | b'\n') && &place[1..] == end)
        };
        ends(b"\r\n\r\n") || ends(b"\n\n") || ends(b"\n\r\n") || ends(b"\r\n\n")
    }

    /// The connection has ended.
    ///
    /// # Errors
    /// Where that is not how this response may end.
    pub fn end(&mut self, body: &mut impl Body) -> Result<(), Failure> {
        match self.state {
            State::UntilClose => {
                body.part(&[], true);
                self.state = State::Done;
                Ok(())
            }
            State::Done => Ok(()),
            State::Head => {
                // What came in small pieces may not have been looked at since.
                let held = std::mem::take(&mut self.partial);
                self.feed_head(&held, body)?;
                match self.state {
                    State::Head => Err(Fault::ClosedEarly.into()),
                    _ => self.end(body),
                }
            }
            _ => Err(Fault::ClosedEarly.into()),
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
            // Nothing beyond the limit is looked at, so that it does not matter how much of it has come.
            let within = &rest[..rest.len().min(self.limits.head_bytes)];
            let Some(mut head) = parse_head(within, self.limits.fields)? else {
                if rest.len() > within.len() {
                    return Err(Fault::HeadTooLarge.into());
                }
                return Ok(Taken::Partial(start));
            };
            start += head.bytes;
            if head.status >= 200 {
                if body.wants_fields() {
                    let fields = self.limits.fields;
                    each_field(&rest[..head.bytes], fields, &mut |name, value| {
                        body.field(name, value)
                    });
                }
                if body.answers_head() {
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
            State::Head | State::Done => Err(Fault::ExcessData.into()),
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
        // No larger than `data`, since more than it came.
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

/// An empty part says nothing, but would make a body in one piece look like one of two: heads often come alone.
fn pass_part(data: &[u8], body: &mut impl Body) {
    if !data.is_empty() {
        body.part(data, false);
    }
}

impl ChunkState {
    /// The state after one byte outside of chunk data; None after the body's last byte. A bare LF ends a line, too;
    /// a CR without its LF is refused (RFC 9112, section 2.2).
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
    /// The state after one byte; None where it does not belong there.
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
