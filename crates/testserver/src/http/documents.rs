//! All answers of the server, built before the first request: each body is in memory, after the end of its
//! head.
//!
//! `opening.rs` has the start of the head, which depends on the time and the connection.

use super::opening::{Status, SOFTWARE};
use crate::common::incompressible;
use bytes::Bytes;
use dyno_measure::named_enum;
use dyno_workload::Tree;
use std::collections::HashMap;
use std::sync::Arc;

/// Path that returns `Server::requests` as decimal text.
pub const REQUEST_COUNT_PATH: &str = "/.serverdyno/requests";

pub(crate) const HTML: &str = "text/html; charset=iso-8859-1";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
const BYTES: &str = "application/octet-stream";

/// Documents of a reference server.
#[derive(Debug, Clone)]
pub enum Documents {
    /// The files of a tree at their paths; 404 for any other path.
    Tree(Arc<Tree>),
    /// This number of incompressible bytes, the same at every path.
    Fixed(usize),
}

/// The local endpoint of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endpoint {
    pub(crate) port: u16,
    pub(crate) secure: bool,
}

/// A body, and the constant part of its head.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) status: Status,
    pub(crate) content_type: &'static str,
    /// Header fields by name, in addition to type and length.
    pub(crate) fields: Vec<(&'static str, String)>,
    /// From the first constant field to the end of the body: one buffer, sent in one call.
    bytes: Bytes,
    body_at: usize,
}

impl Document {
    pub(crate) fn new(status: Status, content_type: &'static str, body: &[u8]) -> Self {
        // RFC 9110, section 15.5.6: a 405 lists the allowed methods.
        let allow = (status == Status::MethodNotAllowed).then(|| ("Allow", "GET, HEAD".to_owned()));
        Self::with_fields(status, content_type, allow.into_iter().collect(), body)
    }

    /// Creates a document with additional header fields.
    pub(crate) fn with_fields(
        status: Status,
        content_type: &'static str,
        fields: Vec<(&'static str, String)>,
        body: &[u8],
    ) -> Self {
        let length = body.len();
        let further: String = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let head = format!("{further}Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n");
        Self {
            status,
            content_type,
            fields,
            bytes: [head.as_bytes(), body].concat().into(),
            body_at: head.len(),
        }
    }

    /// Returns an answer whose body repeats its status.
    fn of_status(status: Status) -> Self {
        Self::new(status, TEXT, format!("{}\n", status.name()).as_bytes())
    }

    /// Returns the dynamic page for a GET of `path` with `query` at an endpoint.
    pub(crate) fn page(path: &[u8], query: &[u8], protocol: &str, endpoint: Endpoint) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let page = dyno_page::render("native", |name| {
            Some(match name {
                "SERVER_SOFTWARE" => SOFTWARE.to_owned(),
                "SERVER_NAME" => "127.0.0.1".to_owned(),
                "SERVER_PORT" => endpoint.port.to_string(),
                "SERVER_PROTOCOL" => protocol.to_owned(),
                "HTTPS" => if endpoint.secure { "on" } else { "" }.to_owned(),
                "REQUEST_METHOD" => "GET".to_owned(),
                "SCRIPT_NAME" => text(path),
                "QUERY_STRING" => text(query),
                _ => return None,
            })
        });
        Self::new(Status::Ok, HTML, &page)
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::new(Status::Ok, TEXT, text.as_bytes())
    }

    pub(crate) fn whole(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn head(&self) -> &[u8] {
        &self.bytes[..self.body_at]
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.body_at..]
    }

    /// Returns the body without copying it.
    pub(crate) fn body_bytes(&self) -> Bytes {
        self.bytes.slice(self.body_at..)
    }
}

named_enum! {
    /// Paths of the application (`application.rs`).
    pub(crate) enum Place {
        LogIn "/app/login"
        Account "/app/account"
        Orders "/app/orders"
    }
}

impl Place {
    pub(crate) fn takes_posts(self) -> bool {
        matches!(self, Self::LogIn | Self::Orders)
    }
}

/// The resource at a path.
#[derive(Debug)]
pub(crate) enum Resource {
    /// A document for load. Faults affect only load documents.
    Document(Document),
    /// A document for the tool itself: ownership, consent.
    Extra(Document),
    RequestCount,
    /// The dynamic page, generated for each request.
    Page,
    /// A page of the application, generated for each request.
    Application(Place),
}

/// All answers of a server, shared by its threads.
#[derive(Debug)]
pub(crate) struct Site {
    resources: HashMap<Box<[u8]>, Resource>,
    elsewhere: Resource,
    refusals: Vec<Document>,
}

impl Site {
    pub(crate) fn new(documents: &Documents, extra: &[(String, Vec<u8>)]) -> Self {
        let mut resources = HashMap::new();
        let elsewhere = match documents {
            Documents::Fixed(bytes) => Document::new(Status::Ok, BYTES, &incompressible(*bytes)),
            Documents::Tree(tree) => {
                resources.extend(tree.files().iter().map(|file| {
                    let document = Document::new(Status::Ok, content_type(&file.path), &file.content());
                    (key(&file.path), Resource::Document(document))
                }));
                resources.insert(key(dyno_page::PATH), Resource::Page);
                resources.extend(Place::ALL.map(|place| (key(place.name()), Resource::Application(place))));
                Document::of_status(Status::NotFound)
            }
        };
        resources.extend(extra.iter().map(|(path, body)| {
            let document = Document::new(Status::Ok, content_type(path), body);
            (key(path), Resource::Extra(document))
        }));
        resources.insert(key(REQUEST_COUNT_PATH), Resource::RequestCount);
        Self {
            resources,
            elsewhere: Resource::Document(elsewhere),
            refusals: Status::ALL
                .iter()
                .map(|status| Document::of_status(*status))
                .collect(),
        }
    }

    pub(crate) fn at(&self, path: &[u8]) -> &Resource {
        self.resources.get(path).unwrap_or(&self.elsewhere)
    }

    /// Returns whether a path accepts POST.
    pub(crate) fn takes_posts(&self, path: &[u8]) -> bool {
        matches!(self.at(path), Resource::Application(place) if place.takes_posts())
    }

    /// Returns the answer that only contains `status`.
    pub(crate) fn refusal(&self, status: Status) -> &Document {
        &self.refusals[status as usize]
    }
}

fn key(path: &str) -> Box<[u8]> {
    path.as_bytes().into()
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.') {
        Some((_, "gif")) => "image/gif",
        Some((_, "htm" | "html")) => HTML,
        _ => BYTES,
    }
}
