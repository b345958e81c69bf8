//! Requests as header blocks, built before the clock starts.
//!
//! The first request of a connection puts the common fields of a level (authority, user agent, given fields)
//! into the server's table. Later requests refer to them in about two bytes, as browsers do. Paths are not
//! indexed, because a site has more of them than the table can hold. A third form uses no table. It is for
//! servers that allow none, and for requests whose fields are not known in advance (`Written`).

use super::hpack::{entry_bytes, write_indexed, write_literal, Keep, STATIC_TABLE};
use crate::request::{RequestForm, Shape, USER_AGENT};
use std::sync::Arc;

/// Index of the newest entry in the server's table.
const NEWEST: usize = STATIC_TABLE.len() + 1;

/// Fields that may contain secrets (RFC 7541, section 7.1.3).
const SECRET: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// A request in its encoded forms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Form with the table; None if unused.
    pub(super) tabled: Option<Tabled>,
    pub(super) plain: Box<[u8]>,
    /// None: no body.
    pub(super) body: Option<Arc<[u8]>>,
}

/// Forms of a request whose common fields are in the server's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tabled {
    /// Form for a connection whose table does not contain the common fields yet.
    pub(super) first: Box<[u8]>,
    /// Form for later requests.
    pub(super) later: Box<[u8]>,
    /// Size of the common fields in the table, in bytes.
    pub(super) table_bytes: usize,
}

impl Request {
    /// Replaces `before` by `after`, of the same length, in the unencoded text.
    pub fn exchange_text(&mut self, before: &[u8], after: &[u8]) {
        let tabled = self.tabled.iter_mut();
        let tabled = tabled.flat_map(|tabled| [&mut tabled.first, &mut tabled.later]);
        for block in tabled.chain([&mut self.plain]) {
            let place = block.windows(before.len()).position(|bytes| bytes == before);
            if let Some(bytes) = place.and_then(|place| block.get_mut(place..place + after.len())) {
                bytes.copy_from_slice(after);
            }
        }
    }
}

/// Builds the requests of a level.
#[derive(Debug)]
pub struct RequestMaker {
    scheme: &'static str,
    method: String,
    /// Fields that go into the table, and fields that must not.
    common: Vec<(String, String)>,
    secret: Vec<(String, String)>,
    body: Option<Arc<[u8]>>,
}

impl RequestMaker {
    /// Creates a builder of requests to `authority`. `shape` must have no problems. `secure`: whether the
    /// requests go over TLS.
    pub fn new(authority: &str, secure: bool, shape: &Shape) -> Self {
        let mut fields: Vec<(String, String)> = Vec::new();
        let mut authority = authority.to_owned();
        for (name, value) in &shape.fields {
            let name = name.to_ascii_lowercase();
            if name == "host" {
                authority.clone_from(value);
            } else {
                // White space around a value is not part of it (RFC 9110, section 5.5).
                fields.push((name, value.trim_matches([' ', '\t']).to_owned()));
            }
        }
        if !fields.iter().any(|(name, _)| name == "user-agent") {
            fields.insert(0, ("user-agent".to_owned(), USER_AGENT.to_owned()));
        }
        let (secret, mut common): (Vec<_>, Vec<_>) = fields
            .into_iter()
            .partition(|(name, _)| SECRET.contains(&name.as_str()));
        common.insert(0, (":authority".to_owned(), authority));
        Self {
            scheme: if secure { "https" } else { "http" },
            method: shape.method.clone(),
            common,
            secret,
            body: shape.body.as_deref().map(Arc::from),
        }
    }

    /// Builds the request for `path`.
    pub fn request(&self, path: &str) -> Request {
        let sizes = self.common.iter().map(|(name, value)| entry_bytes(name, value));
        let tabled = Tabled {
            first: self.block(path, |out, (name, value), _| {
                write_literal(out, Keep::Yes, name, value.as_bytes())
            }),
            later: self.block(path, |out, _, place| {
                write_indexed(out, NEWEST + self.common.len() - 1 - place);
            }),
            table_bytes: sizes.sum(),
        };
        Request {
            tabled: Some(tabled),
            plain: self.block(path, |out, (name, value), _| {
                write_literal(out, Keep::No, name, value.as_bytes())
            }),
            body: self.body.clone(),
        }
    }

    fn block(&self, path: &str, common: impl Fn(&mut Vec<u8>, &(String, String), usize)) -> Box<[u8]> {
        let mut out = Vec::new();
        write_line(&mut out, &self.method, self.scheme, path.as_bytes());
        // `:authority` comes first: pseudo-fields precede all others.
        for (place, field) in self.common.iter().enumerate() {
            common(&mut out, field, place);
        }
        for (name, value) in &self.secret {
            write_literal(&mut out, Keep::Never, name, value.as_bytes());
        }
        write_length(&mut out, self.body.as_deref());
        out.into()
    }
}

/// Writes the pseudo-fields, which replace the request line of HTTP/1.
fn write_line(out: &mut Vec<u8>, method: &str, scheme: &str, path: &[u8]) {
    for (name, value) in [
        (":method", method.as_bytes()),
        (":scheme", scheme.as_bytes()),
        (":path", path),
    ] {
        let known = |entry: &(&str, &str)| *entry.0 == *name && entry.1.as_bytes() == value;
        match STATIC_TABLE.iter().position(known) {
            Some(place) => write_indexed(out, place + 1),
            None => write_literal(out, Keep::No, name, value),
        }
    }
}

fn write_length(out: &mut Vec<u8>, body: Option<&[u8]>) {
    if let Some(body) = body {
        write_literal(out, Keep::No, "content-length", body.len().to_string().as_bytes());
    }
}

/// A request written field by field, without the table.
#[derive(Debug)]
pub struct Written {
    scheme: &'static str,
    block: Vec<u8>,
    request: Request,
}

impl Written {
    /// Creates an empty request. `secure`: whether it goes over TLS.
    pub fn new(secure: bool) -> Self {
        Self {
            scheme: if secure { "https" } else { "http" },
            block: Vec::new(),
            request: Request::default(),
        }
    }
}

impl RequestForm for Written {
    type Request = Request;

    fn begin(&mut self, method: &str, path: &[u8], authority: &[u8]) {
        self.block.clear();
        write_line(&mut self.block, method, self.scheme, path);
        write_literal(&mut self.block, Keep::No, ":authority", authority.trim_ascii());
    }

    fn field(&mut self, name: &str, value: &[u8]) {
        let name = name.to_ascii_lowercase();
        let keep = if SECRET.contains(&name.as_str()) {
            Keep::Never
        } else {
            Keep::No
        };
        // HTTP/2 forbids white space around a value (RFC 9113, section 8.2.1).
        write_literal(&mut self.block, keep, &name, value.trim_ascii());
    }

    fn end(&mut self, body: Option<&[u8]>) -> &Request {
        write_length(&mut self.block, body);
        self.request.plain = self.block.as_slice().into();
        self.request.body = body.map(Arc::from);
        &self.request
    }
}
