//! Parses requests: whether a request is complete, what it asks for, and whether the connection persists.
//!
//! `documents.rs` finds the resource. Percent-encoding is not decoded, because no document has such a path.

use super::application::Wish;
use super::opening::{Persistence, Status};
use httparse::{Error, Header};
use std::mem::MaybeUninit;

/// The first bytes of an HTTP/2 client (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Maximum length of a head, including its empty line.
pub(crate) const MAX_HEAD_BYTES: usize = 8192;
const MAX_FIELDS: usize = 64;
/// Maximum length of a body.
pub(crate) const MAX_BODY_BYTES: usize = 4096;

/// A valid request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) path: &'a [u8],
    /// The query, or empty.
    pub(crate) query: &'a [u8],
    pub(crate) ask: Ask,
    pub(crate) wish: Wish<'a>,
}

/// Properties of a request other than its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    /// HEAD: the answer has no body.
    pub(crate) head_only: bool,
    /// HTTP/1.1: the client understands interim responses and chunked coding.
    pub(crate) modern: bool,
    pub(crate) after: Persistence,
}

/// Result of parsing a connection's data.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    /// The head is incomplete.
    Partial,
    /// HTTP/2 begins.
    Preface,
    /// A head with its body, of `length` bytes in total.
    Whole { request: Request<'a>, length: usize },
    /// The request must be refused with this status. The connection must be closed, because the end of the request is
    /// unknown.
    Refused(Status),
}

/// Parses the first request in `bytes`. `takes_posts`: whether a path accepts POST.
pub(crate) fn parse(bytes: &[u8], takes_posts: impl Fn(&[u8]) -> bool) -> Parsed<'_> {
    if !bytes.is_empty() && PREFACE.starts_with(&bytes[..bytes.len().min(PREFACE.len())]) {
        return if bytes.len() < PREFACE.len() {
            Parsed::Partial
        } else {
            Parsed::Preface
        };
    }
    let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut []);
    match head.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(httparse::Status::Complete(head_bytes)) if head_bytes <= MAX_HEAD_BYTES => {
            match judge(&head, takes_posts) {
                Ok((request, body_bytes)) => with_body(request, body_bytes, bytes, head_bytes),
                Err(status) => Parsed::Refused(status),
            }
        }
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD_BYTES => Parsed::Partial,
        Ok(_) | Err(Error::TooManyHeaders) => Parsed::Refused(Status::HeadTooLarge),
        Err(Error::Version) => Parsed::Refused(Status::VersionNotSupported),
        Err(_) => Parsed::Refused(Status::BadRequest),
    }
}

fn with_body<'a>(
    request: Request<'a>,
    body_bytes: Option<usize>,
    bytes: &'a [u8],
    head_bytes: usize,
) -> Parsed<'a> {
    let length = head_bytes + body_bytes.unwrap_or_default();
    let Some(body) = bytes.get(head_bytes..length) else {
        return Parsed::Partial;
    };
    Parsed::Whole {
        request: Request {
            wish: Wish {
                body: body_bytes.map(|_| body),
                ..request.wish
            },
            ..request
        },
        length,
    }
}

/// Returns the request without its body, and the length of the body, if any.
fn judge<'a>(
    head: &httparse::Request<'_, 'a>,
    takes_posts: impl Fn(&[u8]) -> bool,
) -> Result<(Request<'a>, Option<usize>), Status> {
    let target = head.path.unwrap_or_default().as_bytes();
    let (head_only, posts) = match head.method {
        Some("GET") => (false, false),
        Some("HEAD") => (true, false),
        Some("POST") if takes_posts(path(target)) => (false, true),
        _ => return Err(Status::MethodNotAllowed),
    };
    let modern = head.version == Some(1);
    let fields = Fields::of(head.headers);
    let most_bytes = if posts { MAX_BODY_BYTES } else { 0 };
    if fields.body_bytes.is_none_or(|bytes| bytes > most_bytes) {
        return Err(Status::ContentTooLarge);
    }
    // RFC 9112, section 3.2: reject an HTTP/1.1 request without Host, and any request with more than one.
    if fields.hosts > 1 || (modern && fields.hosts == 0) {
        return Err(Status::BadRequest);
    }
    // RFC 9112, section 9.3: HTTP/1.1 connections persist by default, HTTP/1.0 connections only with `keep-alive`.
    let kept = !fields.close && (modern || fields.keep_alive);
    let mark = target.iter().position(|byte| *byte == b'?');
    let request = Request {
        path: path(target),
        query: mark.map_or(&[], |mark| &target[mark + 1..]),
        ask: Ask {
            head_only,
            modern,
            after: if kept {
                Persistence::KeepAlive
            } else {
                Persistence::Close
            },
        },
        wish: Wish {
            body: None,
            cookie: fields.cookie,
            key: fields.key,
        },
    };
    Ok((request, fields.body_bytes.filter(|_| posts)))
}

#[derive(Default)]
struct Fields<'a> {
    hosts: u32,
    close: bool,
    keep_alive: bool,
    /// Length of the body, 0 if there is none; None if there is a body of unknown length.
    body_bytes: Option<usize>,
    cookie: &'a [u8],
    key: &'a [u8],
}

impl<'a> Fields<'a> {
    fn of(headers: &[Header<'a>]) -> Self {
        let mut fields = Self {
            body_bytes: Some(0),
            ..Self::default()
        };
        for header in headers {
            if header.name.eq_ignore_ascii_case("host") {
                fields.hosts += 1;
            } else if header.name.eq_ignore_ascii_case("connection") {
                for option in header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    fields.close |= option.eq_ignore_ascii_case(b"close");
                    fields.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            } else if header.name.eq_ignore_ascii_case("content-length") {
                let told = std::str::from_utf8(header.value);
                fields.body_bytes = told.ok().and_then(|told| told.trim().parse().ok());
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                fields.body_bytes = None;
                return fields;
            } else if header.name.eq_ignore_ascii_case("cookie") {
                fields.cookie = header.value;
            } else if header.name.eq_ignore_ascii_case("x-key") {
                fields.key = header.value;
            }
        }
        fields
    }
}

/// Returns the path of a target in origin form or in absolute form, which a server must accept (RFC 9112,
/// section 3.2.2).
pub(crate) fn path(target: &[u8]) -> &[u8] {
    let without_query = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let scheme_end = without_query.windows(3).position(|three| three == b"://");
    match scheme_end {
        Some(end) if !without_query.starts_with(b"/") => {
            let authority = &without_query[end + 3..];
            let path_at = authority.iter().position(|byte| *byte == b'/');
            path_at.map_or(b"/", |at| &authority[at..])
        }
        _ => without_query,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posts(path: &[u8]) -> bool {
        path == b"/form"
    }

    #[test]
    fn a_post_is_parsed_with_its_body_if_the_path_accepts_it() {
        let post = "POST /form?a HTTP/1.1\r\nHost: h\r\nCookie: a=b\r\nContent-Length: 3\r\n\r\nabc";
        let request = whole(post);
        assert_eq!(
            (request.wish.body, request.wish.cookie),
            (Some(&b"abc"[..]), &b"a=b"[..])
        );
        assert_eq!(parse(&post.as_bytes()[..post.len() - 1], posts), Parsed::Partial);
        for (field, status) in [
            ("Content-Length: 4097", Status::ContentTooLarge),
            ("Content-Length: -1", Status::ContentTooLarge),
            (
                "Transfer-Encoding: chunked\r\nContent-Length: 3",
                Status::ContentTooLarge,
            ),
        ] {
            assert_eq!(
                refused(&format!("POST /form HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n")),
                status
            );
        }
    }

    fn whole(head: &str) -> Request<'_> {
        match parse(head.as_bytes(), posts) {
            Parsed::Whole { request, length } => {
                assert_eq!(length, head.len());
                request
            }
            other => panic!("{head:?} came to {other:?}"),
        }
    }

    fn refused(head: &str) -> Status {
        match parse(head.as_bytes(), posts) {
            Parsed::Refused(status) => status,
            other => panic!("{head:?} came to {other:?}"),
        }
    }

    #[test]
    fn a_connection_persists_by_default_in_1_1_and_on_request_in_1_0() {
        let after = |head: &str| whole(head).ask.after;
        assert_eq!(after("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), Persistence::KeepAlive);
        assert_eq!(
            after("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n"),
            Persistence::Close
        );
        assert_eq!(after("GET / HTTP/1.0\r\n\r\n"), Persistence::Close);
        assert_eq!(
            after("GET / HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n"),
            Persistence::KeepAlive
        );
        let both = "GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n";
        assert_eq!(after(both), Persistence::Close);
    }

    #[test]
    fn the_path_is_found_in_every_form_of_a_target() {
        let of = |target: &str| whole(&format!("GET {target} HTTP/1.0\r\n\r\n")).path == b"/a/b.gif";
        for target in [
            "/a/b.gif",
            "/a/b.gif?c=/d",
            "http://host:80/a/b.gif",
            "HTTP://host/a/b.gif?http://x/y",
        ] {
            assert!(of(target), "{target}");
        }
        assert_eq!(whole("GET http://host HTTP/1.0\r\n\r\n").path, b"/");
        assert_eq!(
            whole("GET /to/http://host/x HTTP/1.0\r\n\r\n").path,
            b"/to/http://host/x"
        );
    }

    #[test]
    fn an_unanswerable_request_is_refused_with_the_right_status() {
        assert_eq!(
            refused("POST / HTTP/1.1\r\nHost: h\r\n\r\n"),
            Status::MethodNotAllowed
        );
        assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), Status::BadRequest);
        assert_eq!(
            refused("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
            Status::BadRequest
        );
        assert_eq!(
            refused("GET / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc"),
            Status::ContentTooLarge
        );
        assert_eq!(
            refused("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Status::ContentTooLarge
        );
        assert_eq!(refused("GET / HTTP/2.0\r\n\r\n"), Status::VersionNotSupported);
        assert_eq!(refused("GET /\0 HTTP/1.0\r\n\r\n"), Status::BadRequest);
        let fields = "a: b\r\n".repeat(MAX_FIELDS + 1);
        assert_eq!(
            refused(&format!("GET / HTTP/1.0\r\n{fields}\r\n")),
            Status::HeadTooLarge
        );
    }

    #[test]
    fn a_head_is_partial_until_its_end_and_refused_beyond_its_limit() {
        let head = format!("GET / HTTP/1.0\r\na: {}\r\n\r\n", "b".repeat(MAX_HEAD_BYTES - 23));
        assert_eq!(head.len(), MAX_HEAD_BYTES);
        for length in [0, 1, 16, MAX_HEAD_BYTES - 1] {
            assert_eq!(
                parse(&head.as_bytes()[..length], posts),
                Parsed::Partial,
                "{length}"
            );
        }
        whole(&head);
        let longer = head.replace("a: ", "a: b");
        assert_eq!(refused(&longer), Status::HeadTooLarge);
        assert_eq!(refused(&longer[..MAX_HEAD_BYTES]), Status::HeadTooLarge);
    }
}
