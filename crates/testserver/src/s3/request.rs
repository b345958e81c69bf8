//! Parses the head of a request: method, path, query and header fields, all decoded and bounded.

use super::refusal::{Code, Refusal};
use httparse::{Error, Header};
use std::mem::MaybeUninit;

/// Maximum length of a head. S3 accepts 8 KB of fields, and keys of 1,024 bytes that may be escaped.
pub(super) const MAX_HEAD_BYTES: usize = 16_384;
const MAX_FIELDS: usize = 96;
const MAX_KEY_BYTES: usize = 1024;
/// Maximum number of entries of a listing.
const MOST_LISTED: u32 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Head,
    Put,
    Post,
    Delete,
}

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// The framing of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
}

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: Method,
    /// The decoded path, which begins with a slash.
    pub(super) path: Vec<u8>,
    /// Decoded names and values, in the order of the request.
    pub(super) query: Vec<(Vec<u8>, Vec<u8>)>,
    /// Names, in lower case, and values, in the order of the request.
    pub(super) fields: Vec<(String, String)>,
    pub(super) framing: Framing,
    pub(super) is_kept: bool,
    pub(super) expects_continue: bool,
}

/// Result of parsing received data.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    Partial,
    /// A head of `length` bytes; its body follows.
    Whole {
        request: Box<Request>,
        length: usize,
    },
    /// The request must be refused. The connection must be closed, because the end of the request is unknown.
    Refused(Refusal),
}

pub(super) fn parse(bytes: &[u8]) -> Parsed {
    let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut []);
    match head.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD_BYTES => match judge(&head) {
            Ok(request) => Parsed::Whole {
                request: Box::new(request),
                length,
            },
            Err(refusal) => Parsed::Refused(refusal),
        },
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD_BYTES => Parsed::Partial,
        Ok(_) | Err(Error::TooManyHeaders) => Parsed::Refused(Refusal::saying(
            Code::InvalidRequest,
            "Your request headers are too large.",
        )),
        Err(_) => Parsed::Refused(Refusal::saying(
            Code::InvalidRequest,
            "This is not an HTTP/1.1 request.",
        )),
    }
}

fn judge(head: &httparse::Request<'_, '_>) -> Result<Request, Refusal> {
    let method = match head.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("PUT") => Method::Put,
        Some("POST") => Method::Post,
        Some("DELETE") => Method::Delete,
        _ => return Err(Code::MethodNotAllowed.into()),
    };
    let mut fields = Vec::with_capacity(head.headers.len());
    for header in head.headers.iter() {
        let value = std::str::from_utf8(header.value);
        let value =
            value.map_err(|_| Refusal::saying(Code::InvalidRequest, "A header is not valid UTF-8."))?;
        fields.push((header.name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let target = head.path.unwrap_or_default().as_bytes();
    let mark = target.iter().position(|byte| *byte == b'?');
    let (path, query) = mark.map_or((target, &b""[..]), |at| (&target[..at], &target[at + 1..]));
    if !path.starts_with(b"/") {
        return Err(Code::InvalidURI.into());
    }
    let path = decoded(path).ok_or(Code::InvalidURI)?;
    let mut parameters = Vec::new();
    for part in query.split(|byte| *byte == b'&').filter(|part| !part.is_empty()) {
        let at = part.iter().position(|byte| *byte == b'=');
        let (name, value) = at.map_or((part, &b""[..]), |at| (&part[..at], &part[at + 1..]));
        let pair = decoded(name).zip(decoded(value));
        parameters.push(pair.ok_or(Code::InvalidURI)?);
    }
    let expects_continue = values(&fields, "expect").any(|value| value.eq_ignore_ascii_case("100-continue"));
    let request = Request {
        method,
        path,
        query: parameters,
        framing: framing(&fields)?,
        is_kept: is_kept(&fields, head.version == Some(1)),
        expects_continue,
        fields,
    };
    if values(&request.fields, "host").count() != 1 {
        return Err(Refusal::saying(
            Code::InvalidRequest,
            "A request needs exactly one Host header.",
        ));
    }
    Ok(request)
}

fn framing(fields: &[(String, String)]) -> Result<Framing, Refusal> {
    let mut lengths = values(fields, "content-length");
    let mut codings = values(fields, "transfer-encoding");
    match (lengths.next(), codings.next()) {
        (None, None) => Ok(Framing::Length(0)),
        (None, Some(coding)) if coding.eq_ignore_ascii_case("chunked") && codings.next().is_none() => {
            Ok(Framing::Chunked)
        }
        (Some(length), None)
            if lengths.next().is_none() && length.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            let length = length.parse().map_err(|_| Refusal::from(Code::EntityTooLarge))?;
            Ok(Framing::Length(length))
        }
        // A request with two framings could hide another request (RFC 9112, section 6.3).
        _ => Err(Refusal::saying(
            Code::InvalidRequest,
            "The length of the body is ambiguous.",
        )),
    }
}

fn is_kept(fields: &[(String, String)], is_modern: bool) -> bool {
    let mut options = values(fields, "connection")
        .flat_map(|value| value.split(','))
        .map(str::trim);
    if is_modern {
        !options.any(|option| option.eq_ignore_ascii_case("close"))
    } else {
        options.any(|option| option.eq_ignore_ascii_case("keep-alive"))
    }
}

fn values<'a>(fields: &'a [(String, String)], name: &'a str) -> impl Iterator<Item = &'a str> {
    let of_name = fields.iter().filter(move |(field, _)| field == name);
    of_name.map(|(_, value)| value.as_str())
}

impl Request {
    /// Returns the first value of a header field, whose name is in lower case.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the first value of a query parameter. The value is empty if the parameter has none.
    pub(super) fn parameter(&self, name: &str) -> Option<&[u8]> {
        let found = self.query.iter().find(|(known, _)| known == name.as_bytes());
        found.map(|(_, value)| value.as_slice())
    }

    /// Returns a query parameter as a number within bounds.
    pub(super) fn number(
        &self,
        name: &'static str,
        bounds: std::ops::RangeInclusive<u32>,
    ) -> Result<Option<u32>, Refusal> {
        let Some(value) = self.parameter(name) else {
            return Ok(None);
        };
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        match number.filter(|number| bounds.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => Err(Refusal::saying(
                Code::InvalidArgument,
                format!("{name} is out of bounds."),
            )),
        }
    }

    /// Returns the maximum number of entries of a listing. A query parameter may lower it.
    pub(super) fn most_listed(&self, name: &'static str) -> Result<u32, Refusal> {
        let most = self.number(name, 0..=u32::MAX)?;
        Ok(most.map_or(MOST_LISTED, |most| most.min(MOST_LISTED)))
    }

    /// Returns the bucket and the key of the request. Both may be empty. `is_bucket`: returns whether a
    /// bucket of this name exists, for addressing by host name.
    pub(super) fn place(&self, is_bucket: impl Fn(&str) -> bool) -> Result<(String, Vec<u8>), Refusal> {
        let rest = &self.path[1..];
        let host = self.field("host").unwrap_or_default();
        let label = host.split('.').next().unwrap_or_default();
        let (bucket, key) = if label.len() < host.len() && is_bucket(label) {
            (label.to_owned(), rest)
        } else {
            let slash = rest.iter().position(|byte| *byte == b'/');
            let (bucket, key) = slash.map_or((rest, &b""[..]), |at| (&rest[..at], &rest[at + 1..]));
            let bucket = std::str::from_utf8(bucket).map_err(|_| Refusal::from(Code::NoSuchBucket))?;
            (bucket.to_owned(), key)
        };
        Ok((bucket, checked_key(key)?))
    }
}

/// Returns a key if it is valid: UTF-8 of at most 1,024 bytes.
pub(super) fn checked_key(key: &[u8]) -> Result<Vec<u8>, Refusal> {
    if key.len() > MAX_KEY_BYTES {
        return Err(Code::KeyTooLongError.into());
    }
    std::str::from_utf8(key).map_err(|_| Refusal::from(Code::InvalidURI))?;
    Ok(key.to_vec())
}

/// Decodes percent-encoding. Returns None if it is malformed.
pub(super) fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'%' {
            let mut digit = || char::from(*bytes.next()?).to_digit(16);
            let value = digit()? * 16 + digit()?;
            out.push(u8::try_from(value).ok()?);
        } else {
            out.push(*byte);
        }
    }
    Some(out)
}

/// Percent-encodes all bytes except unreserved ones, as signatures and listings do. `keeps_slash`: whether to
/// leave slashes unchanged, as in paths.
pub(super) fn encoded(text: &[u8], keeps_slash: bool) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(text.len());
    for byte in text {
        let is_plain =
            byte.is_ascii_alphanumeric() || b"-_.~".contains(byte) || (keeps_slash && *byte == b'/');
        if is_plain {
            out.push(char::from(*byte));
        } else {
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(head: &str) -> Request {
        match parse(head.as_bytes()) {
            Parsed::Whole { request, length } => {
                assert_eq!(length, head.len());
                *request
            }
            other => panic!("{head:?} came to {other:?}"),
        }
    }

    fn refused(head: &str) -> Code {
        match parse(head.as_bytes()) {
            Parsed::Refused(refusal) => refusal.code,
            other => panic!("{head:?} came to {other:?}"),
        }
    }

    #[test]
    fn path_query_and_place_are_decoded() {
        let request =
            whole("GET /b/a%20b/%C3%A4?list-type=2&prefix=a%2Fb&uploads HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(request.parameter("prefix"), Some(&b"a/b"[..]));
        assert_eq!(request.parameter("uploads"), Some(&b""[..]));
        assert_eq!(request.parameter("delimiter"), None);
        let none = |_: &str| false;
        assert_eq!(
            request.place(none),
            Ok(("b".to_owned(), "a b/ä".as_bytes().to_vec()))
        );
        let virtual_host = whole("PUT /key HTTP/1.1\r\nHost: b.h:80\r\n\r\n");
        assert_eq!(
            virtual_host.place(|name| name == "b"),
            Ok(("b".to_owned(), b"key".to_vec()))
        );
        assert_eq!(virtual_host.place(none), Ok(("key".to_owned(), Vec::new())));
    }

    #[test]
    fn an_ambiguous_or_malformed_request_is_refused() {
        for (rest, code) in [
            ("Content-Length: 3\r\nContent-Length: 3", Code::InvalidRequest),
            (
                "Content-Length: 3\r\nTransfer-Encoding: chunked",
                Code::InvalidRequest,
            ),
            ("Content-Length: +3", Code::InvalidRequest),
            ("Content-Length: 99999999999999999999", Code::EntityTooLarge),
            ("Transfer-Encoding: gzip", Code::InvalidRequest),
            ("Host: other", Code::InvalidRequest),
        ] {
            assert_eq!(
                refused(&format!("PUT /b/k HTTP/1.1\r\nHost: h\r\n{rest}\r\n\r\n")),
                code,
                "{rest}"
            );
        }
        assert_eq!(
            refused("PATCH / HTTP/1.1\r\nHost: h\r\n\r\n"),
            Code::MethodNotAllowed
        );
        assert_eq!(refused("GET /%4 HTTP/1.1\r\nHost: h\r\n\r\n"), Code::InvalidURI);
        assert_eq!(refused("GET x HTTP/1.1\r\nHost: h\r\n\r\n"), Code::InvalidURI);
        let long = format!(
            "GET /b/{} HTTP/1.1\r\nHost: h\r\n\r\n",
            "a".repeat(MAX_KEY_BYTES + 1)
        );
        let none = |_: &str| false;
        assert_eq!(
            whole(&long).place(none).map_err(|refusal| refusal.code),
            Err(Code::KeyTooLongError)
        );
        let endless = format!("GET / HTTP/1.1\r\na: {}", "b".repeat(MAX_HEAD_BYTES));
        assert_eq!(refused(&endless), Code::InvalidRequest);
    }
}
