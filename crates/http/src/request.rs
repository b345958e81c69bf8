//! Requests as bytes, built before the clock starts.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// RFC 1945. The connection ends after the response unless both sides ask for keep-alive.
    Http10,
    /// RFC 9112. The connection persists unless a side sends `close`.
    Http11,
}

impl Version {
    fn number(self) -> &'static str {
        match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
        }
    }

    /// Returns the `Connection` header, or nothing if the version's default applies. `has_te`: the request has the
    /// field TE, which applies to the connection alone (RFC 9110, section 10.1.4).
    fn connection(self, keep_alive: bool, has_te: bool) -> &'static str {
        match (self, keep_alive, has_te) {
            (Self::Http10, true, false) => "Connection: keep-alive\r\n",
            (Self::Http10, true, true) => "Connection: keep-alive, TE\r\n",
            (Self::Http11, false, false) => "Connection: close\r\n",
            (Self::Http11, false, true) => "Connection: close, TE\r\n",
            (_, _, true) => "Connection: TE\r\n",
            (_, _, false) => "",
        }
    }
}

/// Default `User-Agent`.
pub const USER_AGENT: &str = "serverdyno";

/// The parts of a request other than its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Capital letters and hyphens. CONNECT is not allowed.
    pub method: String,
    /// Further fields. `Host` and `User-Agent` replace the defaults.
    pub fields: Vec<(String, String)>,
    /// None: no body.
    pub body: Option<Vec<u8>>,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            method: "GET".to_owned(),
            fields: Vec::new(),
            body: None,
        }
    }
}

/// Returns the fields with all cookies in one field Cookie, because a request has at most one (RFC 6265, section 5.4).
pub fn one_cookie(fields: impl IntoIterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut joined: Vec<(String, String)> = Vec::new();
    for (name, value) in fields {
        let is_cookie = |name: &str| name.eq_ignore_ascii_case("cookie");
        match joined.iter_mut().find(|(known, _)| is_cookie(known)) {
            Some((_, cookies)) if is_cookie(&name) => *cookies += &format!("; {value}"),
            _ => joined.push((name, value)),
        }
    }
    joined
}

/// Returns whether `text` is a method that can be sent: capital letters and hyphens, as in all registered
/// methods. CONNECT is excluded because it asks for a tunnel.
fn is_method(text: &str) -> bool {
    let spelled = |byte: u8| byte.is_ascii_uppercase() || byte == b'-';
    text != "CONNECT" && (1..=20).contains(&text.len()) && text.bytes().all(spelled)
}

/// Idempotent methods: a repeated request has the same effect as a single one (RFC 9110, section 9.2.2, and
/// IANA's method registry).
const IDEMPOTENT: [&str; 10] = [
    "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "REPORT", "SEARCH", "QUERY",
];

/// Fields that control framing or the connection, and the setting that determines each.
const OURS: [(&str, &str); 7] = [
    (
        "connection",
        "keep_alive decides it: --no-keep-alive of dyno load closes the connection after each response",
    ),
    (
        "content-length",
        "it follows from the body (--data or --data-file of dyno load)",
    ),
    (
        "expect",
        "leave it out: a body is sent at once, without waiting for 100 Continue",
    ),
    (
        "keep-alive",
        "keep_alive decides it: connections are kept by default, --no-keep-alive of dyno load closes them",
    ),
    (
        "te",
        "only the value trailers can be sent, because dyno decodes no transfer coding but chunked",
    ),
    (
        "transfer-encoding",
        "leave it out: a body is sent with its Content-Length",
    ),
    (
        "upgrade",
        "leave it out: --http2 of dyno load speaks HTTP/2 from the start, and WebSocket is not supported",
    ),
];

impl Shape {
    /// Returns whether the request may be sent twice (RFC 9110, section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        IDEMPOTENT.contains(&self.method.as_str())
    }

    /// Returns the reasons why the request cannot be sent, one sentence each.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if !is_method(&self.method) {
            found.push(format!(
                "method {:?} can't be used: a method has only capital letters and hyphens, and CONNECT is \
                 not supported",
                self.method
            ));
        }
        for (name, value) in &self.fields {
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(token) {
                found.push(format!("{name:?} is not a valid header name"));
            } else if let Some(how) = refusal(name, value) {
                found.push(format!("the header {name} can't be given; {how}"));
            }
            // RFC 9110, section 5.5. The message omits the value, because it may be a secret.
            if !value
                .bytes()
                .all(|byte| byte == b'\t' || (byte >= 0x20 && byte != 0x7f))
            {
                found.push(format!("the value of the header {name} has control characters"));
            }
        }
        found
    }
}

/// Returns which setting determines a field, or None if the field may be given.
fn refusal(name: &str, value: &str) -> Option<&'static str> {
    let (_, how) = OURS.iter().find(|(ours, _)| ours.eq_ignore_ascii_case(name))?;
    (!is_te_trailers(name, value)).then_some(how)
}

/// Returns whether a field is `TE: trailers`, the only connection-specific field that HTTP/2 allows (RFC 9113, section
/// 8.2.2).
fn is_te_trailers(name: &str, value: &str) -> bool {
    name.eq_ignore_ascii_case("te") && value.trim().eq_ignore_ascii_case("trailers")
}

/// Common properties of all requests of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestStyle {
    /// Version in the request line.
    pub version: Version,
    pub keep_alive: bool,
    pub host: String,
}

impl RequestStyle {
    /// Returns the bytes of a GET. The `Connection` header is included only if it differs from the version's
    /// default.
    pub fn get(&self, path: &str) -> Box<[u8]> {
        self.request(path, &Shape::default())
    }

    /// Returns the bytes of a request for `path`. `shape` must have no problems.
    pub fn request(&self, path: &str, shape: &Shape) -> Box<[u8]> {
        let (head, body) = (self.head(path, shape), shape.body.as_deref());
        [head.as_bytes(), body.unwrap_or_default()]
            .concat()
            .into_boxed_slice()
    }

    /// Returns the request line and the headers, followed by the empty line.
    pub fn head(&self, path: &str, shape: &Shape) -> String {
        let version = self.version.number();
        let given = |wanted: &str| {
            shape
                .fields
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case(wanted))
        };
        let connection = self.version.connection(self.keep_alive, given("te"));
        let mut head = format!("{} {path} HTTP/{version}\r\n", shape.method);
        for (name, value) in [("Host", self.host.as_str()), ("User-Agent", USER_AGENT)] {
            if !given(name) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        for (name, value) in &shape.fields {
            head += &format!("{name}: {value}\r\n");
        }
        if let Some(length) = declared(&shape.method, shape.body.as_deref()) {
            head += &format!("Content-Length: {length}\r\n");
        }
        head += connection;
        head += "\r\n";
        head
    }
}

/// Returns the Content-Length of a request over HTTP/1, or None to omit the field. Without a body, methods
/// that usually have one declare a length of 0 (RFC 9110, section 8.6), because servers answer 411 otherwise.
fn declared(method: &str, body: Option<&[u8]>) -> Option<usize> {
    match body {
        Some(body) => Some(body.len()),
        None => matches!(method, "POST" | "PUT" | "PATCH").then_some(0),
    }
}

/// A request written field by field at run time, such as a session's step.
pub trait RequestForm {
    /// The encoded request.
    type Request: ?Sized;

    /// Starts a new request. Names and values must be valid, as in a `Shape` without problems.
    fn begin(&mut self, method: &str, path: &[u8], authority: &[u8]);

    /// Appends a field other than `Host`, which is the authority.
    fn field(&mut self, name: &str, value: &[u8]);

    /// Finishes the request. None: no body.
    fn end(&mut self, body: Option<&[u8]>) -> &Self::Request;
}

/// HTTP/1 request written field by field.
#[derive(Debug)]
pub struct WrittenHttp1 {
    version: Version,
    keep_alive: bool,
    has_te: bool,
    method: String,
    bytes: Vec<u8>,
}

impl WrittenHttp1 {
    /// Maximum capacity that a buffer keeps between requests.
    const KEPT_BYTES: usize = 4096;

    /// Creates an empty request for a version, with or without keep-alive.
    pub fn new(version: Version, keep_alive: bool) -> Self {
        Self {
            version,
            keep_alive,
            has_te: false,
            method: String::new(),
            bytes: Vec::new(),
        }
    }

    fn add(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
    }
}

impl RequestForm for WrittenHttp1 {
    type Request = [u8];

    fn begin(&mut self, method: &str, path: &[u8], authority: &[u8]) {
        self.has_te = false;
        self.method.clear();
        self.method.push_str(method);
        self.bytes.clear();
        self.bytes.shrink_to(Self::KEPT_BYTES);
        let version = self.version.number();
        self.add(&[
            method.as_bytes(),
            b" ",
            path,
            b" HTTP/",
            version.as_bytes(),
            b"\r\n",
        ]);
        self.field("Host", authority);
    }

    fn field(&mut self, name: &str, value: &[u8]) {
        self.has_te |= name.eq_ignore_ascii_case("te");
        self.add(&[name.as_bytes(), b": ", value, b"\r\n"]);
    }

    fn end(&mut self, body: Option<&[u8]>) -> &[u8] {
        if let Some(length) = declared(&self.method, body) {
            self.field("Content-Length", length.to_string().as_bytes());
        }
        let connection = self.version.connection(self.keep_alive, self.has_te);
        self.add(&[connection.as_bytes(), b"\r\n"]);
        self.add(&[body.unwrap_or_default()]);
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: Version, keep_alive: bool, expected: &str) {
        let style = RequestStyle {
            version,
            keep_alive,
            host: "localhost:8080".into(),
        };
        let head = "Host: localhost:8080\r\nUser-Agent: serverdyno\r\n";
        let expected = expected.replace("{}", head);
        assert_eq!(String::from_utf8_lossy(&style.get("/a")), expected);
    }

    #[test]
    fn the_length_of_a_body_is_declared_and_given_fields_replace_the_defaults() {
        let style = RequestStyle {
            version: Version::Http11,
            keep_alive: true,
            host: "h".into(),
        };
        let shape = Shape {
            method: "POST".into(),
            fields: vec![("host".into(), "other".into()), ("X-A".into(), "b c".into())],
            body: Some(b"\0\r\nx".to_vec()),
        };
        assert!(shape.problems().is_empty() && !shape.is_idempotent());
        let expected = "POST /a HTTP/1.1\r\nUser-Agent: serverdyno\r\nhost: other\r\nX-A: b c\r\n\
                        Content-Length: 4\r\n\r\n\0\r\nx";
        assert_eq!(String::from_utf8_lossy(&style.request("/a", &shape)), expected);
    }

    #[test]
    fn te_is_sent_as_a_field_of_the_connection() {
        let asking = |value: &str| Shape {
            fields: vec![("TE".into(), value.into())],
            ..Shape::default()
        };
        assert!(asking("trailers").problems().is_empty());
        assert_eq!(asking("gzip").problems().len(), 1);
        for (version, keep_alive, number, connection) in [
            (Version::Http11, true, "1.1", "TE"),
            (Version::Http11, false, "1.1", "close, TE"),
            (Version::Http10, true, "1.0", "keep-alive, TE"),
            (Version::Http10, false, "1.0", "TE"),
        ] {
            let style = RequestStyle {
                version,
                keep_alive,
                host: "h".into(),
            };
            let expected = format!(
                "GET /a HTTP/{number}\r\nHost: h\r\nUser-Agent: serverdyno\r\nTE: trailers\r\n\
                 Connection: {connection}\r\n\r\n"
            );
            let sent = style.request("/a", &asking("trailers"));
            assert_eq!(String::from_utf8_lossy(&sent), expected);
            let mut written = WrittenHttp1::new(version, keep_alive);
            written.begin("GET", b"/a", b"h");
            written.field("User-Agent", b"serverdyno");
            written.field("TE", b"trailers");
            assert_eq!(String::from_utf8_lossy(written.end(None)), expected);
        }
    }

    #[test]
    fn all_cookies_are_sent_in_one_field() {
        let given = [("Cookie", "a=1"), ("X", "1"), ("cookie", "b=2"), ("X", "2")];
        let fields = one_cookie(given.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let expected = [("Cookie", "a=1; b=2"), ("X", "1"), ("X", "2")];
        assert_eq!(
            fields,
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn a_method_that_usually_has_a_body_declares_length_0_without_one() {
        for (method, length) in [
            ("POST", "Content-Length: 0\r\n"),
            ("PUT", "Content-Length: 0\r\n"),
            ("DELETE", ""),
        ] {
            let style = RequestStyle {
                version: Version::Http11,
                keep_alive: true,
                host: "h".into(),
            };
            let shape = Shape {
                method: method.into(),
                ..Shape::default()
            };
            let agent = "User-Agent: serverdyno\r\n";
            let expected = format!("{method} /a HTTP/1.1\r\nHost: h\r\n{agent}{length}\r\n");
            assert_eq!(String::from_utf8_lossy(&style.request("/a", &shape)), expected);
            let mut written = WrittenHttp1::new(Version::Http11, true);
            written.begin(method, b"/a", b"h");
            written.field("User-Agent", b"serverdyno");
            assert_eq!(String::from_utf8_lossy(written.end(None)), expected);
        }
    }

    #[test]
    fn a_shape_that_could_inject_into_its_request_is_refused() {
        let problems = |method: &str, name: &str, value: &str| {
            let fields = vec![(name.to_owned(), value.to_owned())];
            let (method, body) = (method.to_owned(), None);
            Shape { method, fields, body }.problems().len()
        };
        assert_eq!(problems("PUT", "X-A", "b\tc"), 0);
        for (method, name, value) in [
            ("CONNECT", "a", "b"),
            ("get", "a", "b"),
            ("GET / HTTP/1.1\r\n", "a", "b"),
            ("GET", "a b", "c"),
            ("GET", "", "c"),
            ("GET", "a:", "c"),
            ("GET", "a", "b\r\nc: d"),
            ("GET", "Content-Length", "3"),
            ("GET", "transfer-encoding", "chunked"),
        ] {
            assert_eq!(problems(method, name, value), 1, "{method:?} {name:?} {value:?}");
        }
    }

    #[test]
    fn the_connection_header_is_sent_only_if_the_version_needs_it() {
        check(Version::Http10, false, "GET /a HTTP/1.0\r\n{}\r\n");
        check(
            Version::Http10,
            true,
            "GET /a HTTP/1.0\r\n{}Connection: keep-alive\r\n\r\n",
        );
        check(Version::Http11, true, "GET /a HTTP/1.1\r\n{}\r\n");
        check(
            Version::Http11,
            false,
            "GET /a HTTP/1.1\r\n{}Connection: close\r\n\r\n",
        );
    }
}
