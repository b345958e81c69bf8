//! Checks that a body can be decoded from its content coding (RFC 9110, section 8.4). The output is counted
//! and discarded.
//!
//! A body is hostile input, so the output and the decoder's memory are limited. Supported codings are gzip,
//! deflate (with or without zlib's frame) and br. Bodies in another coding, or in several codings, are not
//! checked.

use crate::response::Body;
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use dyno_measure::{named_enum, Failure, Fault, StatusTable};
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use std::fmt;
use std::io::{self, Write};

/// Maximum size of a decoded body. Checking stops at this size, because 1 KB can decode to 1 MB.
pub const MOST_DECODED_BYTES: u64 = 16 << 20;

const PART_BYTES: usize = 8 * 1024;

named_enum! {
    /// Result of decoding a body that was not broken, with its name in records.
    pub enum Decoded {
        Gzip "body decoded (gzip)"
        Deflate "body decoded (deflate)"
        Brotli "body decoded (br)"
        Other "body not decoded (another content coding)"
        TooLarge "body not decoded (more than 16 MiB)"
    }
}

/// Status for a body that is labelled gzip but does not begin like gzip.
pub(crate) const NOT_GZIP: u32 = 3;
/// First two bytes of gzip (RFC 1952, section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

pub(crate) static CODINGS: StatusTable = StatusTable {
    name: "content codings",
    write: |code, formatter| {
        if code == NOT_GZIP {
            return formatter.write_str("it is not gzip, although Content-Encoding says so");
        }
        let coding = ["gzip", "deflate", "br"].get(code as usize).unwrap_or(&"coding");
        write!(formatter, "damaged or truncated {coding}")
    },
};

pub fn asks_coding(fields: &[(String, String)]) -> bool {
    fields.iter().any(|(name, value)| {
        let codings = value.split(',');
        let mut codings = codings.map(|coding| coding.split(';').next().unwrap_or_default().trim());
        name.eq_ignore_ascii_case("accept-encoding")
            && codings.any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
    })
}

/// Decodes one body.
#[derive(Debug, Default)]
pub struct ContentCheck {
    state: State,
    /// First two bytes of the body, and how many of them have arrived.
    first: ([u8; 2], usize),
}

#[derive(Debug, Default)]
enum State {
    /// The response names no coding.
    #[default]
    Plain,
    Decoding(Decoder),
    Whole(Decoded),
    Unknown(Decoded),
    Broken(Failure),
}

impl ContentCheck {
    /// Returns the result for a complete body, or None if it has no content coding. `status`: status of the
    /// response.
    ///
    /// # Errors
    /// `Fault::BrokenCoding` with the coding.
    pub fn judge(&self, status: u16) -> Result<Option<Decoded>, Failure> {
        match &self.state {
            // These responses have no body, whatever their fields declare (RFC 9110, section 6.4.1).
            _ if matches!(status, 204 | 304) => Ok(None),
            State::Plain => Ok(None),
            State::Decoding(decoder) => Err(decoder.failure(self.first)),
            State::Whole(decoded) | State::Unknown(decoded) => Ok(Some(*decoded)),
            State::Broken(failure) => Err(*failure),
        }
    }
}

impl Body for ContentCheck {
    fn wants_fields(&mut self) -> bool {
        // Clear the state of an earlier attempt.
        *self = Self::default();
        true
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let coding = value.trim_ascii();
        if !name.eq_ignore_ascii_case(b"content-encoding") || coding.eq_ignore_ascii_case(b"identity") {
            return;
        }
        self.state = match (&self.state, Decoder::of(coding)) {
            (State::Plain, Some(decoder)) => State::Decoding(decoder),
            _ => State::Unknown(Decoded::Other),
        };
    }

    fn part(&mut self, data: &[u8], last: bool) {
        let State::Decoding(decoder) = &mut self.state else {
            return;
        };
        let (first, seen) = &mut self.first;
        for (place, byte) in first[*seen..].iter_mut().zip(data) {
            *place = *byte;
            *seen += 1;
        }
        let fed = decoder.feed(data).and_then(|()| match last {
            true => decoder.finish(),
            false => Ok(()),
        });
        match fed {
            Ok(()) if last => self.state = State::Whole(decoder.decoded()),
            Ok(()) => {}
            Err(Stop::TooLarge) => self.state = State::Unknown(Decoded::TooLarge),
            Err(Stop::Broken) => self.state = State::Broken(decoder.failure(self.first)),
        }
    }
}

/// Why decoding stopped.
enum Stop {
    TooLarge,
    Broken,
}

/// The decoder of one body.
enum Decoder {
    Gzip(Box<MultiGzDecoder<Counter>>),
    Deflate(Box<Inflater>),
    Brotli(Box<Brotli>),
}

impl fmt::Debug for Decoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.decoded().name())
    }
}

impl Decoder {
    /// Returns the decoder of a coding, or None if the coding is unknown.
    fn of(coding: &[u8]) -> Option<Self> {
        let is = |name: &str| coding.eq_ignore_ascii_case(name.as_bytes());
        if is("gzip") || is("x-gzip") {
            Some(Self::Gzip(Box::new(MultiGzDecoder::new(Counter::default()))))
        } else if is("deflate") {
            Some(Self::Deflate(Box::default()))
        } else if is("br") {
            Some(Self::Brotli(Box::default()))
        } else {
            None
        }
    }

    fn decoded(&self) -> Decoded {
        match self {
            Self::Gzip(_) => Decoded::Gzip,
            Self::Deflate(_) => Decoded::Deflate,
            Self::Brotli(_) => Decoded::Brotli,
        }
    }

    /// Returns the failure for a body of which these first `seen` bytes have arrived.
    fn failure(&self, (first, seen): ([u8; 2], usize)) -> Failure {
        let is_foreign = seen == first.len() && first != GZIP_MAGIC;
        let code = match self.decoded() {
            Decoded::Gzip if is_foreign => NOT_GZIP,
            coding => coding as u32,
        };
        CODINGS.failure(Fault::BrokenCoding, code)
    }

    fn feed(&mut self, data: &[u8]) -> Result<(), Stop> {
        match self {
            Self::Gzip(gzip) => gzip.write_all(data).map_err(|_| gzip.get_ref().stop()),
            Self::Deflate(inflater) => inflater.feed(data),
            Self::Brotli(brotli) => brotli.feed(data),
        }
    }

    /// Finishes decoding at the end of the body.
    fn finish(&mut self) -> Result<(), Stop> {
        let ended = match self {
            // `try_finish` checks the length and the checksum.
            Self::Gzip(gzip) => return gzip.try_finish().map_err(|_| gzip.get_ref().stop()),
            Self::Deflate(inflater) => inflater.ended,
            Self::Brotli(brotli) => brotli.ended,
        };
        ended.then_some(()).ok_or(Stop::Broken)
    }
}

#[derive(Debug, Default)]
struct Counter {
    bytes: u64,
}

impl Counter {
    fn add(&mut self, bytes: usize) -> Result<(), Stop> {
        self.bytes += bytes as u64;
        match self.stop() {
            Stop::TooLarge => Err(Stop::TooLarge),
            Stop::Broken => Ok(()),
        }
    }

    /// Returns why the decoder that writes to this counter failed.
    fn stop(&self) -> Stop {
        if self.bytes > MOST_DECODED_BYTES {
            Stop::TooLarge
        } else {
            Stop::Broken
        }
    }
}

impl Write for Counter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let added = self.add(data.len());
        added
            .map(|()| data.len())
            .map_err(|_| io::ErrorKind::FileTooLarge.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decodes deflate. The first two bytes show whether there is a zlib header (RFC 1950, section 2.2).
#[derive(Default)]
struct Inflater {
    first: Vec<u8>,
    inflating: Option<Decompress>,
    counter: Counter,
    ended: bool,
}

impl Inflater {
    fn feed(&mut self, data: &[u8]) -> Result<(), Stop> {
        if let Some(inflating) = &mut self.inflating {
            return inflate(inflating, data, &mut self.counter, &mut self.ended);
        }
        self.first.extend_from_slice(data);
        let Some([method, flags]) = self.first.first_chunk().copied() else {
            return Ok(());
        };
        let framed = method & 0x0f == 8 && u16::from_be_bytes([method, flags]) % 31 == 0;
        let inflating = self.inflating.insert(Decompress::new(framed));
        inflate(
            inflating,
            &std::mem::take(&mut self.first),
            &mut self.counter,
            &mut self.ended,
        )
    }
}

fn inflate(
    inflating: &mut Decompress,
    mut data: &[u8],
    counter: &mut Counter,
    ended: &mut bool,
) -> Result<(), Stop> {
    let mut part = [0; PART_BYTES];
    while !*ended {
        let (before_in, before_out) = (inflating.total_in(), inflating.total_out());
        let status = inflating.decompress(data, &mut part, FlushDecompress::None);
        let taken = (inflating.total_in() - before_in) as usize;
        let made = (inflating.total_out() - before_out) as usize;
        data = &data[taken..];
        counter.add(made)?;
        match status {
            Err(_) => return Err(Stop::Broken),
            Ok(Status::StreamEnd) => *ended = true,
            Ok(_) if taken == 0 && made == 0 => return Ok(()),
            Ok(_) => {}
        }
    }
    if data.is_empty() {
        Ok(())
    } else {
        Err(Stop::Broken)
    }
}

/// Decodes br. The window is at most 16 MiB. The large-window variant, with up to 1 GiB, is refused. The format has no
/// checksum. If a body arrives in one piece, this decoder accepts some wrong block lengths that the reference decoder
/// rejects.
struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    counter: Counter,
    ended: bool,
}

impl Default for Brotli {
    fn default() -> Self {
        let alloc = StandardAlloc::default;
        Self {
            state: BrotliState::new_strict(alloc(), alloc(), alloc()),
            counter: Counter::default(),
            ended: false,
        }
    }
}

impl Brotli {
    fn feed(&mut self, mut data: &[u8]) -> Result<(), Stop> {
        let mut part = [0; PART_BYTES];
        while !self.ended {
            let (mut left, mut taken, mut room, mut made, mut all) = (data.len(), 0, part.len(), 0, 0);
            let result = BrotliDecompressStream(
                &mut left,
                &mut taken,
                data,
                &mut room,
                &mut made,
                &mut part,
                &mut all,
                &mut self.state,
            );
            data = &data[taken..];
            self.counter.add(made)?;
            match result {
                BrotliResult::ResultSuccess => self.ended = true,
                BrotliResult::NeedsMoreOutput => {}
                BrotliResult::NeedsMoreInput => return Ok(()),
                BrotliResult::ResultFailure => return Err(Stop::Broken),
            }
        }
        if data.is_empty() {
            Ok(())
        } else {
            Err(Stop::Broken)
        }
    }
}
