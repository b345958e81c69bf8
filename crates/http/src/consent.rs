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

use crate::request::{RequestStyle, Version};
use crate::response::{Body, Limits, Progress, ResponseReader};
use dyno_reactor::destination::{
    consent_document, is_loopback, is_token, name_and_port, resolve, TargetError,
};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(10);
const HTTP_PORT: u16 = 80;
const MAX_DOCUMENT_BYTES: u64 = 4096;

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
        let address = resolve(&host, HTTP_PORT).map_err(TargetError::Io)?;
        let target = Self { address, host, path };
        if !target.is_loopback() {
            target.ask_consent(token)?;
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

    fn ask_consent(&self, token: Option<&str>) -> Result<(), TargetError> {
        let host = &self.host;
        let token = token.filter(|token| is_token(token)).ok_or_else(|| {
            TargetError::Consent(format!(
                "{host} is not this machine, and there is no token to ask it for consent with"
            ))
        })?;
        let wanted = consent_document(host, token);
        let path = format!("/.well-known/serverdyno/{token}");
        let answer = self.fetch(&path).map_err(TargetError::Io)?;
        if answer.as_deref().map(<[u8]>::trim_ascii) == Some(wanted.as_bytes()) {
            return Ok(());
        }
        Err(TargetError::Consent(format!(
            "{host} is not this machine and has not agreed to be loaded. Whoever runs it agrees with a file \
             {path} below its document root that contains this one line:\n{wanted}"
        )))
    }

    /// The body at `path` where it is served with status 200 and is short; None for any other answer.
    fn fetch(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        let style = RequestStyle {
            version: Version::Http10,
            keep_alive: false,
            host: self.host.clone(),
        };
        let mut stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.write_all(&style.get(path))?;
        let limits = Limits {
            body_bytes: MAX_DOCUMENT_BYTES,
            ..Limits::default()
        };
        let mut reader = ResponseReader::new(limits);
        let mut document = Document(Vec::new());
        let mut buffer = [0; 4096];
        let started = Instant::now();
        while started.elapsed() < TIMEOUT {
            let count = match stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            let step = if count == 0 {
                reader.end(&mut document).map(|()| Progress::Done)
            } else {
                reader.feed(&buffer[..count], &mut document)
            };
            match step {
                Ok(Progress::More) => {}
                Ok(Progress::Done) => {
                    let found = reader.head().is_some_and(|head| head.status == 200);
                    return Ok(found.then_some(document.0));
                }
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }
}

struct Document(Vec<u8>);

impl Body for Document {
    fn part(&mut self, data: &[u8], _last: bool) {
        self.0.extend_from_slice(data);
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

    #[test]
    fn only_an_address_of_this_machine_is_loopback_however_it_is_written() {
        for (host, loopback) in [
            ("127.0.0.1:80", true),
            ("127.255.255.254:80", true),
            ("[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", true),
            ("2130706433:80", true),
            ("127.1:80", true),
            ("0.0.0.0:80", false),
            ("128.0.0.1:80", false),
            ("126.255.255.255:80", false),
            ("[::]:80", false),
            ("[::ffff:10.0.0.1]:80", false),
            ("[::7f00:1]:80", false),
            ("10.127.0.1:80", false),
        ] {
            let target = Target {
                address: resolve(host, HTTP_PORT).expect(host),
                host: host.to_owned(),
                path: "/".to_owned(),
            };
            assert_eq!(target.is_loopback(), loopback, "{host}");
        }
    }
}
