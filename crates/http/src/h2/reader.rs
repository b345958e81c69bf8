//! Parses frames from a byte stream. Data passes through without a copy. Other frames are buffered only if
//! they arrive in parts.

use super::frame::{flag, kind, Head, HEAD_BYTES, PAYLOAD_BYTES};
use super::violation::Violation;

/// One parsed piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Complete frame other than DATA.
    Frame(Head, &'a [u8]),
    /// Start of a DATA frame.
    DataHead(Head),
    /// Next bytes of a DATA frame without padding, and whether they are its last.
    Data(&'a [u8], bool),
}

#[derive(Debug)]
enum Reading {
    Head,
    Payload(Head),
    /// Start of a padded DATA frame. Its padding length comes next.
    PadLength(Head),
    Data {
        rest: usize,
        padding: usize,
    },
    Padding(usize),
}

/// Parser state.
#[derive(Debug)]
pub(super) struct Reader {
    reading: Reading,
    /// Incomplete frame header or payload.
    partial: Vec<u8>,
    /// Whether `partial` has been returned and can be cleared.
    spent: bool,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            reading: Reading::Head,
            partial: Vec::new(),
            spent: false,
        }
    }
}

impl Reader {
    /// Removes the next piece from `bytes`, or returns None if more bytes are needed.
    pub(super) fn next<'p, 'b: 'p>(
        &'p mut self,
        bytes: &mut &'b [u8],
    ) -> Result<Option<Piece<'p>>, Violation> {
        if std::mem::take(&mut self.spent) {
            self.partial.clear();
        }
        loop {
            match self.reading {
                Reading::Head => {
                    let Some(head) = self.head(bytes) else {
                        return Ok(None);
                    };
                    if head.length > PAYLOAD_BYTES {
                        return Err(Violation::FrameTooLarge);
                    }
                    let data = head.kind == kind::DATA;
                    self.reading = match data {
                        true if head.has(flag::PADDED) => Reading::PadLength(head),
                        true => Reading::Data {
                            rest: head.length,
                            padding: 0,
                        },
                        false => Reading::Payload(head),
                    };
                    if data {
                        return Ok(Some(Piece::DataHead(head)));
                    }
                }
                Reading::Payload(head) => {
                    let Some(whole) = self.is_whole(head.length, bytes) else {
                        return Ok(None);
                    };
                    self.reading = Reading::Head;
                    return Ok(Some(Piece::Frame(head, whole.unwrap_or(&self.partial))));
                }
                Reading::PadLength(head) => {
                    if head.length == 0 {
                        return Err(Violation::FrameSize);
                    }
                    let Some((padding, rest)) = bytes.split_first() else {
                        return Ok(None);
                    };
                    *bytes = rest;
                    let padding = usize::from(*padding);
                    let rest = (head.length - 1).checked_sub(padding).ok_or(Violation::Padding)?;
                    self.reading = Reading::Data { rest, padding };
                }
                Reading::Data { rest, padding } => return Ok(self.data(rest, padding, bytes)),
                Reading::Padding(rest) => {
                    let skipped = rest.min(bytes.len());
                    *bytes = &bytes[skipped..];
                    if skipped < rest {
                        self.reading = Reading::Padding(rest - skipped);
                        return Ok(None);
                    }
                    self.reading = Reading::Head;
                }
            }
        }
    }

    /// Returns the available part of a DATA frame that has `rest` bytes left.
    fn data<'b>(&mut self, rest: usize, padding: usize, bytes: &mut &'b [u8]) -> Option<Piece<'b>> {
        if bytes.is_empty() && rest > 0 {
            return None;
        }
        let (data, after) = bytes.split_at(rest.min(bytes.len()));
        *bytes = after;
        let rest = rest - data.len();
        self.reading = match rest {
            0 => Reading::Padding(padding),
            _ => Reading::Data { rest, padding },
        };
        Some(Piece::Data(data, rest == 0))
    }

    fn head(&mut self, bytes: &mut &[u8]) -> Option<Head> {
        if self.partial.is_empty() {
            if let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() {
                *bytes = rest;
                return Some(Head::read(*head));
            }
        }
        self.gather(HEAD_BYTES, bytes);
        let head = self.partial.first_chunk::<HEAD_BYTES>().copied()?;
        self.partial.clear();
        Some(Head::read(head))
    }

    /// Returns None if bytes of the payload are missing. A complete payload is returned as a slice of
    /// `bytes`, or as None if it is in `partial`.
    fn is_whole<'a>(&mut self, length: usize, bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
        if self.partial.is_empty() && bytes.len() >= length {
            let (payload, rest) = bytes.split_at(length);
            *bytes = rest;
            return Some(Some(payload));
        }
        self.gather(length, bytes);
        self.spent = self.partial.len() == length;
        self.spent.then_some(None)
    }

    fn gather(&mut self, length: usize, bytes: &mut &[u8]) {
        let wanted = (length - self.partial.len()).min(bytes.len());
        self.partial.extend_from_slice(&bytes[..wanted]);
        *bytes = &bytes[wanted..];
    }
}
