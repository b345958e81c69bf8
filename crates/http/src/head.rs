//! Parses one HTTP/1 response head at the start of a buffer. Uses no sockets and no clock.

use dyno_measure::{named_enum, Detail, Failure, Fault, StatusTable};
use httparse::Status;
use std::borrow::Cow;
use std::mem::MaybeUninit;

/// Number of fields that are parsed without an allocation. Nearly all heads have fewer.
const USUAL_FIELDS: usize = 100;

/// How a body ends (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// The parts of a head that the client needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub status: u16,
    keep_alive: bool,
    pub(crate) framing: Framing,
    pub(crate) bytes: usize,
    redirect: Redirect,
}

/// Probable meaning of a redirect, according to its head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Redirect {
    #[default]
    Other,
    /// Location names a log-in page.
    LogIn,
    Cookie,
}

impl Redirect {
    /// Evaluates one header of a redirect. A log-in page takes precedence over a cookie.
    pub fn read(&mut self, name: &[u8], value: &[u8]) {
        match name.len() {
            8 if name.eq_ignore_ascii_case(b"location") && is_log_in(value) => *self = Self::LogIn,
            10 if *self == Self::Other && name.eq_ignore_ascii_case(b"set-cookie") => *self = Self::Cookie,
            _ => {}
        }
    }
}

pub(crate) fn is_redirect(status: u32) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Bit position of the redirect's kind in a failure's code. The status is below it.
const REDIRECT_SHIFT: u32 = 16;

/// Splits a failure's code into the status and the kind of redirect.
pub(crate) fn status_of(code: u32) -> (u32, Redirect) {
    let redirect = match code >> REDIRECT_SHIFT {
        1 => Redirect::LogIn,
        2 => Redirect::Cookie,
        _ => Redirect::Other,
    };
    (code & 0xffff, redirect)
}

/// Table of status codes for failures.
static STATUS_CODES: StatusTable = StatusTable {
    name: "HTTP",
    write: |code, formatter| {
        let (status, redirect) = status_of(code);
        let behind = match redirect {
            Redirect::Other => "",
            Redirect::LogIn => " to a log-in page",
            Redirect::Cookie => ", which sets a cookie",
        };
        write!(formatter, "status {status}{behind}")
    },
};

named_enum! {
    /// A violated rule of HTTP framing.
    enum Broken {
        Length "Content-Length is not a number, or it has several different values (RFC 9110, 8.6)"
        LengthAndCoding "the response has both Content-Length and Transfer-Encoding (RFC 9112, 6.3)"
        CodingBefore11 "an HTTP/1.0 response has Transfer-Encoding, which HTTP/1.0 does not define (RFC 9112, 6.1)"
        Switch "the server switched the protocol without being asked (RFC 9110, 15.2.2)"
    }
}

static RULES: StatusTable = StatusTable {
    name: "HTTP/1 rules",
    write: Broken::write_rule,
};

/// Reasons for rejecting a response that may be valid but is not supported.
static UNSUPPORTED: StatusTable = StatusTable {
    name: UNSUPPORTED_CODING,
    write: |_, formatter| {
        formatter.write_str("the response has an unsupported transfer coding: only chunked is supported")
    },
};
/// Name of the status table for responses whose transfer coding is not chunked.
pub(crate) const UNSUPPORTED_CODING: &str = "HTTP/1 transfer codings";

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        RULES.failure(Fault::MalformedHead, broken as u32)
    }
}

/// Parses a number that consists of digits only. Returns None for other text or if the number exceeds 64
/// bits.
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// Returns the length in a Content-Length field: digits, possibly repeated with the same value, as in joined
/// fields (RFC 9110, section 8.6). `before`: length in an earlier field.
pub(crate) fn content_length(value: &[u8], before: Option<u64>) -> Option<u64> {
    let mut values = value
        .split(|byte| *byte == b',')
        .map(|text| number(text.trim_ascii()));
    let first = values
        .next()?
        .filter(|first| before.is_none_or(|before| before == *first))?;
    values.all(|other| other == Some(first)).then_some(first)
}

impl Head {
    /// Returns a head with only a status, for a complete response of a shared connection.
    pub(crate) fn of_status(status: u16) -> Self {
        Self {
            status,
            keep_alive: true,
            framing: Framing::UntilClose,
            bytes: 0,
            redirect: Redirect::Other,
        }
    }

    /// Returns the head with `redirect`, if its status is a redirect whose kind is not known yet.
    #[must_use]
    pub fn with_redirect(self, redirect: Redirect) -> Self {
        if self.redirect == Redirect::Other && is_redirect(self.status.into()) {
            Self { redirect, ..self }
        } else {
            self
        }
    }

    /// Returns the status and the redirect's kind as a failure's detail.
    pub fn detail(&self) -> Detail {
        Detail::Status(STATUS_CODES.status(u32::from(self.status) | (self.redirect as u32) << REDIRECT_SHIFT))
    }
}

/// Parses one head at the start of `data` and passes it with its length to `read`. Returns the result of
/// `read`, or None if the head is incomplete.
fn parsed<T>(
    data: &[u8],
    most_fields: usize,
    read: impl FnOnce(&httparse::Response<'_, '_>, usize) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let mut parser = httparse::ParserConfig::default();
    // Clients must accept folded fields (RFC 9112, section 5.2).
    parser.allow_obsolete_multiline_headers_in_responses(true);
    // RFC 9112, section 5.1, forbids white space before the colon, but lets a proxy remove it from responses.
    // curl accepts it, too.
    parser.allow_spaces_after_header_name_in_responses(true);
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

/// Parses one head at the start of `data`, or returns None if the head is incomplete.
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
            redirect: Redirect::Other,
        }
        .with_redirect(fields.redirect))
    })
}

/// Passes each field of an accepted head to `take`.
pub(crate) fn each_field(head: &[u8], most_fields: usize, take: &mut impl FnMut(&[u8], &[u8])) {
    // This cannot fail: the head was parsed before.
    let _ = parsed(head, most_fields, |response, _| {
        for header in response.headers.iter() {
            take(header.name.as_bytes(), &unfolded(header.value));
        }
        Ok(())
    });
}

/// Returns a value with its line breaks replaced by spaces.
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

#[derive(Default)]
struct Fields {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    redirect: Redirect,
}

/// Returns whether a Location looks like a log-in page.
fn is_log_in(location: &[u8]) -> bool {
    let has = |word: &&[u8]| {
        let mut parts = location.windows(word.len());
        parts.any(|part| part.eq_ignore_ascii_case(word))
    };
    [
        &b"login"[..],
        b"log-in",
        b"log_in",
        b"signin",
        b"sign-in",
        b"sign_in",
    ]
    .iter()
    .any(has)
}

impl Fields {
    fn read(headers: &[httparse::Header<'_>]) -> Result<Self, Failure> {
        let mut fields = Self::default();
        for header in headers {
            match header.name.len() {
                10 if header.name.eq_ignore_ascii_case("connection") => fields.read_connection(header.value),
                8 | 10 => fields.redirect.read(header.name.as_bytes(), header.value),
                14 if header.name.eq_ignore_ascii_case("content-length") => {
                    let length = content_length(header.value, fields.length);
                    fields.length = Some(length.ok_or(Broken::Length)?);
                }
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                    // The request has no `TE` field, so it accepts no coding except a single `chunked`.
                    if fields.chunked || !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                        return Err(Failure {
                            fault: Fault::MalformedHead,
                            detail: Detail::Refused {
                                step: UNSUPPORTED.status(0),
                                status: None,
                            },
                        });
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

    fn keeps(&self, version: u8) -> bool {
        !self.close && (version == 1 || self.keep_alive)
    }

    /// Applies RFC 9112, section 6.3. Rejects Content-Length together with chunked, because the combination
    /// makes response smuggling possible.
    fn framing(&self, status: u16, version: u8) -> Result<Framing, Failure> {
        match (status, self.chunked, self.length) {
            (101, ..) => Err(Broken::Switch.into()),
            (100..200 | 204 | 304, ..) => Ok(Framing::Length(0)),
            (_, true, None) if version == 1 => Ok(Framing::Chunked),
            (_, true, None) => Err(Broken::CodingBefore11.into()),
            (_, true, Some(_)) => Err(Broken::LengthAndCoding.into()),
            (_, false, Some(length)) => Ok(Framing::Length(length)),
            (_, false, None) => Ok(Framing::UntilClose),
        }
    }
}

impl Head {
    /// Returns whether the connection can carry another request after this response.
    pub fn leaves_connection_open(&self) -> bool {
        self.keep_alive && self.framing != Framing::UntilClose
    }
}

#[cfg(test)]
mod tests {
    use super::content_length;

    #[test]
    fn a_length_may_be_repeated_with_the_same_value() {
        for (value, before, expected) in [
            ("5", None, Some(5)),
            ("5", Some(5), Some(5)),
            ("5, 05", Some(5), Some(5)),
            ("5", Some(6), None),
            ("5, 6", None, None),
            ("5,", None, None),
            ("-5", None, None),
        ] {
            assert_eq!(
                content_length(value.as_bytes(), before),
                expected,
                "{value:?} {before:?}"
            );
        }
    }
}
