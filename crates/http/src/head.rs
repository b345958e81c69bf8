//! One head of HTTP/1, whole at the beginning of some bytes, and what the client needs of it. Pure.

use dyno_measure::{Detail, Failure, Fault, ProtocolStatus, StatusTable};
use httparse::Status;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// Nearly every head has fewer fields, and is parsed without an allocation.
const USUAL_FIELDS: usize = 100;

/// How a body ends (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// What the client needs of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    keep_alive: bool,
    pub(crate) framing: Framing,
    pub(crate) bytes: usize,
}

/// Status codes as failures carry them.
static STATUS_CODES: StatusTable = StatusTable {
    name: "HTTP",
    write: |code, formatter| write!(formatter, "status {code}"),
};

impl Head {
    /// Of a response whose end is told by other means.
    pub(crate) fn of_status(status: u16) -> Self {
        Self {
            status,
            keep_alive: true,
            framing: Framing::UntilClose,
            bytes: 0,
        }
    }

    /// Returns the status code as a failure carries it.
    #[must_use]
    pub fn detail(&self) -> Detail {
        Detail::Status(ProtocolStatus {
            code: u32::from(self.status),
            table: &STATUS_CODES,
        })
    }
}

/// Parse one head at the start of `data` and return what `read` makes of it and its length, or None if it is incomplete.
fn parsed<T>(
    data: &[u8],
    most_fields: usize,
    read: impl FnOnce(&httparse::Response<'_, '_>, usize) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let mut parser = httparse::ParserConfig::default();
    // A field may be folded into several lines, which a client must accept (RFC 9112, section 5.2).
    parser.allow_obsolete_multiline_headers_in_responses(true);
    let mut usual = [const { MaybeUninit::uninit() }; USUAL_FIELDS];
    let mut many = Vec::new();
    let mut response = httparse::Response::new(&mut []);
    let mut status = parser.parse_response_with_uninit_headers(&mut response, data, &mut usual);
    if status == Err(httparse::Error::TooManyHeaders) && most_fields > USUAL_FIELDS {
        many.resize(most_fields, httparse::EMPTY_HEADER);
        response = httparse::Response::new(&mut many);
        status = parser.parse_response(&mut response, data);
    }
    match status {
        Ok(Status::Complete(bytes)) => read(&response, bytes).map(Some),
        Ok(Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => Err(Fault::HeadTooLarge.into()),
        Err(_) => Err(Fault::MalformedHead.into()),
    }
}

/// Parses one head at the start of `data`; None where its end has not come.
pub(crate) fn parse_head(data: &[u8], most_fields: usize) -> Result<Option<Head>, Failure> {
    parsed(data, most_fields, |response, bytes| {
        let (Some(status @ 100..), Some(version)) = (response.code, response.version) else {
            return Err(Fault::MalformedHead.into());
        };
        let fields = Fields::read(response.headers)?;
        Ok(Head {
            status,
            keep_alive: fields.keeps(version),
            framing: fields.framing(status, version)?,
            bytes,
        })
    })
}

/// Hands over each field of a head that was accepted.
pub(crate) fn each_field(head: &[u8], most_fields: usize, take: &mut impl FnMut(&[u8], &[u8])) {
    // It can be parsed: it has been.
    let _ = parsed(head, most_fields, |response, _| {
        for header in response.headers.iter() {
            take(header.name.as_bytes(), &unfolded(header.value));
        }
        Ok(())
    });
}

/// A value in one line: line ends become blanks.
fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b'\n') {
        return value.into();
    }
    let blank = |byte: &u8| {
        if matches!(byte, b'\r' | b'\n') {
            b' '
        } else {
            *byte
        }
    };
    value.iter().map(blank).collect()
}

/// The header fields that decide on framing and on the connection.
#[derive(Default)]
struct Fields {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Fields {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Self, Failure> {
        let mut fields = Self::default();
        for header in headers {
            match header.name.len() {
                10 if header.name.eq_ignore_ascii_case("connection") => fields.read_connection(header.value),
                14 if header.name.eq_ignore_ascii_case("content-length") => {
                    fields.read_length(header.value)?
                }
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                    // Nothing was offered in `TE`, so any other coding than one `chunked` is the server's mistake.
                    if fields.chunked || !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                        return Err(Fault::MalformedHead.into());
                    }
                    fields.chunked = true;
                }
                _ => {}
            }
        }
        Ok(fields)
    }

    fn read_connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',') {
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Digits only; said twice, it must say the same (RFC 9110, section 8.6).
    fn read_length(&mut self, value: &[u8]) -> Result<(), Failure> {
        let value = value.trim_ascii();
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        let length = std::str::from_utf8(value)
            .ok()
            .filter(|_| digits)
            .and_then(|text| text.parse().ok());
        match (length, self.length) {
            (Some(length), None) => self.length = Some(length),
            (Some(length), Some(before)) if length == before => {}
            _ => return Err(Fault::MalformedHead.into()),
        }
        Ok(())
    }

    fn keeps(&self, version: u8) -> bool {
        !self.close && (version == 1 || self.keep_alive)
    }

    /// RFC 9112, section 6.3. Length and chunked together is how responses are smuggled: refused.
    fn framing(&self, status: u16, version: u8) -> Result<Framing, Failure> {
        match (status, self.chunked, self.length) {
            (101, ..) => Err(Fault::MalformedHead.into()),
            (100..200 | 204 | 304, ..) => Ok(Framing::Length(0)),
            (_, true, None) if version == 1 => Ok(Framing::Chunked),
            (_, true, _) => Err(Fault::MalformedHead.into()),
            (_, false, Some(length)) => Ok(Framing::Length(length)),
            (_, false, None) => Ok(Framing::UntilClose),
        }
    }
}

impl Head {
    /// Whether another request may follow on the connection once this response is whole.
    #[must_use]
    pub fn leaves_connection_open(&self) -> bool {
        self.keep_alive && self.framing != Framing::UntilClose
    }
}
