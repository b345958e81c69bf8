//! Load goes only where its sender has a right to send it. A `Target` is the only thing that the engine takes, and
//! `Target::open` is the only way to make one.
//!
//! A target on loopback is the user's own. Any other must serve, under a path that contains the user's secret token,
//! a document that can be written only by somebody who knows the token and can write to that server; a server that
//! answers everything, or echoes what it was asked for, does not pass. The address that passed is the address that is
//! used: the name is resolved once.
//!
//! `Target` can be neither built nor changed elsewhere:
//!
//! ```compile_fail,E0451
//! let target = dyno_http::Target { address: ([10, 0, 0, 1], 80).into(), host: String::new(), path: String::new() };
//! ```
//! ```compile_fail,E0616
//! let mut target = dyno_http::Target::open("http://127.0.0.1/", None).unwrap();
//! target.address = ([10, 0, 0, 1], 80).into();
//! ```
//! ```compile_fail,E0277
//! let target: dyno_http::Target = Default::default();
//! ```

use dyno_measure::{monotonic_ns, NS_PER_S};
use dyno_target::{is_loopback, name_and_port, resolve, Consent, TargetError};
use std::net::SocketAddr;

/// For everything together: the look-up of the name, the connection and the answer.
const TIMEOUT_NS: u64 = 10 * NS_PER_S;
const HTTP_PORT: u16 = 80;
const MAX_DOCUMENT_BYTES: usize = 4096;

/// A destination that load may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    address: SocketAddr,
    host: String,
    path: String,
}

impl Target {
    /// Resolves `url` and, outside loopback, asks the host for its consent.
    ///
    /// # Errors
    /// See `TargetError`.
    pub fn open(url: &str, token: Option<&str>) -> Result<Self, TargetError> {
        let (host, path) = split_url(url)?;
        let deadline_ns = monotonic_ns().saturating_add(TIMEOUT_NS);
        let address = resolve(&host, HTTP_PORT, deadline_ns).map_err(TargetError::Io)?;
        let target = Self { address, host, path };
        if !target.is_loopback() {
            target.ask_consent(token, deadline_ns)?;
        }
        Ok(target)
    }

    /// The address that was checked.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The `Host` header.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The path of the URL, which begins with `/`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether it is this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.address.ip())
    }

    fn ask_consent(&self, token: Option<&str>, deadline_ns: u64) -> Result<(), TargetError> {
        let consent = Consent::of(&self.host, token)?;
        let path = format!("/.well-known/serverdyno/{}", consent.token());
        let answer = self
            .get(&path, deadline_ns, MAX_DOCUMENT_BYTES)
            .map_err(TargetError::Answer)?;
        let found = (answer.status == 200 && answer.whole).then_some(&*answer.body);
        consent.judge(found, &format!("{path} below its document root"))
    }
}

/// `http://host[:port][/path]` into host and path. Anything that could change a request's meaning is refused.
fn split_url(url: &str) -> Result<(String, String), TargetError> {
    let refuse = |why: &str| Err(TargetError::Url(format!("{url:?}: {why}")));
    let Some(rest) = url.strip_prefix("http://") else {
        return refuse("a URL begins with http:// (no other scheme is spoken yet)");
    };
    if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refuse("a URL has no blanks, control or non-ASCII characters; percent-encode them");
    }
    let (host, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, "/"),
    };
    if host.contains(['@', '?', '#', '\\', '%']) || name_and_port(host, HTTP_PORT).is_none() {
        return refuse("there is no plain host[:port] after http://");
    }
    if path.contains('#') {
        return refuse("a fragment (#...) is not sent to servers; leave it out");
    }
    Ok((host.to_owned(), path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: Option<(&str, &str)>) {
        let split = split_url(url).ok();
        let split = split.as_ref().map(|(host, path)| (host.as_str(), path.as_str()));
        assert_eq!(split, expected, "{url}");
    }

    #[test]
    fn a_url_is_split_into_what_the_request_needs() {
        check("http://127.0.0.1", Some(("127.0.0.1", "/")));
        check("http://127.0.0.1:8080/", Some(("127.0.0.1:8080", "/")));
        check(
            "http://localhost/a/b?c=d&e=%20",
            Some(("localhost", "/a/b?c=d&e=%20")),
        );
        check("http://[::1]:8080/a@b:c", Some(("[::1]:8080", "/a@b:c")));
        check("http://[::1]", Some(("[::1]", "/")));
    }

    #[test]
    fn a_url_that_could_mean_something_else_is_refused() {
        for url in [
            "",
            "http://",
            "http:///path",
            "https://127.0.0.1/",
            "127.0.0.1:8080",
            "file:///etc/passwd",
            "http://user@127.0.0.1/",
            "http://user:secret@127.0.0.1/",
            "http://127.0.0.1?query",
            "http://127.0.0.1#f",
            "http://127.0.0.1/#f",
            "http://127.0.0.1\\@example.com/",
            "http://127.0.0.1:/",
            "http://127.0.0.1:0/",
            "http://127.0.0.1:65536/",
            "http://127.0.0.1:+80/",
            "http://127.0.0.1:80:80/",
            "http://:80/",
            "http://::1/",
            "http://[::1/",
            "http://[]/",
            "http://[::1]x/",
            "http://[::1%25lo]/",
            "http://127.0.0.1/a b",
            "http://127.0.0.1/\r\nHost: example.com",
            "http://127.0.0.1/\0",
            "http://127.0.0.1/\u{e9}",
            "http://\u{ff11}27.0.0.1/",
            "http://%31%32%37.0.0.1/",
        ] {
            check(url, None);
        }
    }
}
