//! Requests as bytes, built before the clock starts.

/// The version that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// RFC 1945; a connection ends with its response unless both sides ask for keep-alive.
    Http10,
    /// RFC 9112; a connection is kept unless a side says `close`.
    Http11,
}

/// What all requests of a mix have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestStyle {
    /// The version in the request line.
    pub version: Version,
    /// Whether the connection shall be used again.
    pub keep_alive: bool,
    /// The `Host` header.
    pub host: String,
}

impl RequestStyle {
    /// The bytes of `GET path`. The `Connection` header stands only where it differs from the version's default.
    #[must_use]
    pub fn get(&self, path: &str) -> Box<[u8]> {
        let version = match self.version {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
        };
        let connection = match (self.version, self.keep_alive) {
            (Version::Http10, true) => "Connection: keep-alive\r\n",
            (Version::Http11, false) => "Connection: close\r\n",
            _ => "",
        };
        let host = &self.host;
        format!("GET {path} HTTP/{version}\r\nHost: {host}\r\nUser-Agent: serverdyno\r\n{connection}\r\n")
            .into_bytes()
            .into_boxed_slice()
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
    fn the_connection_header_stands_only_where_the_version_needs_it() {
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
