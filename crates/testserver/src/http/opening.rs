//! The start of every response: status line, `Date`, `Server` and `Connection`. They are generated once per
//! second instead of once per request.
//!
//! A server with a clock must send `Date` (RFC 9110, section 6.6.1); without it, the server would do less
//! work than those to which it is compared.

use dyno_measure::named_enum;
use http::HeaderValue;
use std::rc::Rc;
use std::time::SystemTime;

named_enum! {
    /// Status codes of this server, with reasons.
    pub(crate) enum Status {
        Ok "200 OK"
        Found "302 Found"
        BadRequest "400 Bad Request"
        Unauthorized "401 Unauthorized"
        Forbidden "403 Forbidden"
        NotFound "404 Not Found"
        MethodNotAllowed "405 Method Not Allowed"
        ContentTooLarge "413 Content Too Large"
        HeadTooLarge "431 Request Header Fields Too Large"
        InternalServerError "500 Internal Server Error"
        BadGateway "502 Bad Gateway"
        VersionNotSupported "505 HTTP Version Not Supported"
    }
}

impl Status {
    pub(crate) fn code(self) -> u16 {
        let digits = self.name().bytes().take(3);
        digits.fold(0, |code, digit| code * 10 + u16::from(digit - b'0'))
    }
}

/// State of the connection after a response (RFC 9112, section 9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// HTTP/1.0 needs this option (RFC 9112, appendix C.2.2); HTTP/1.1 persists by default.
    KeepAlive,
    Close,
}

impl Persistence {
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::KeepAlive => "keep-alive",
            Self::Close => "close",
        }
    }
}

/// Value of the header `Server`.
pub(crate) const SOFTWARE: &str = concat!("serverdyno-reference/", env!("CARGO_PKG_VERSION"));

/// All response starts of the current second.
#[derive(Debug)]
pub(crate) struct Openings {
    by_status: Vec<[Rc<[u8]>; 2]>,
    /// Date of the current second as an HTTP/2 field.
    pub(crate) date: HeaderValue,
}

impl Openings {
    pub(crate) fn at(now: SystemTime) -> Self {
        let date = httpdate::fmt_http_date(now);
        let opening = |status: Status, persistence: Persistence| {
            let (line, option) = (status.name(), persistence.option());
            let text =
                format!("HTTP/1.1 {line}\r\nDate: {date}\r\nServer: {SOFTWARE}\r\nConnection: {option}\r\n");
            Rc::from(text.into_bytes())
        };
        let both = |status: &Status| {
            [Persistence::KeepAlive, Persistence::Close].map(|after| opening(*status, after))
        };
        Self {
            by_status: Status::ALL.iter().map(both).collect(),
            date: HeaderValue::try_from(&date).expect("a date is plain text"),
        }
    }

    pub(crate) fn get(&self, status: Status, persistence: Persistence) -> Rc<[u8]> {
        self.by_status[status as usize][persistence as usize].clone()
    }
}
