//! Load goes only where its sender has a right to send it. A `Target` is the only thing that the engine takes, and
//! `Target::open` is the only way to make one.
//!
//! A target on loopback is the user's own. Any other must serve, under a path that contains the user's secret token,
//! a document that can be written only by somebody who knows the token and can write to that server; a server that
//! answers everything, or echoes what it was asked for, does not pass. The address that passed is the address that is
//! used: the name is resolved once.

use crate::request::{RequestStyle, Version};
use crate::response::{Body, Limits, Progress, ResponseReader};
use sha2::{Digest, Sha256};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_DOCUMENT_BYTES: u64 = 4096;
const MIN_TOKEN_CHARACTERS: usize = 16;

/// A destination that load may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    address: SocketAddr,
    host: String,
    path: String,
}

/// Why there is no target.
#[derive(Debug)]
pub enum TargetError {
    /// The URL can't be used.
    Url(String),
    /// The host can't be found or reached.
    Io(io::Error),
    /// The host has not shown that load is welcome; the text says how it can.
    Consent(String),
}

impl Target {
    /// Resolves `url` and, outside loopback, asks the host for its consent.
    ///
    /// # Errors
    /// See `TargetError`.
    pub fn open(url: &str, token: Option<&str>) -> Result<Self, TargetError> {
        let (host, path) = split_url(url)?;
        let with_port = if has_port(&host) { host.clone() } else { format!("{host}:80") };
        let mut addresses = with_port.to_socket_addrs().map_err(TargetError::Io)?;
        let address = addresses
            .next()
            .ok_or_else(|| TargetError::Url(format!("{host} has no address")))?;
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
        match self.address.ip() {
            IpAddr::V4(address) => address.is_loopback(),
            IpAddr::V6(address) => {
                address.is_loopback() || address.to_ipv4_mapped().is_some_and(|mapped| mapped.is_loopback())
            }
        }
    }

    fn ask_consent(&self, token: Option<&str>) -> Result<(), TargetError> {
        let host = &self.host;
        let token = token.filter(|token| is_token(token)).ok_or_else(|| {
            TargetError::Consent(format!("{host} is not this machine, and there is no token to ask it for consent with"))
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
            let count = stream.read(&mut buffer)?;
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

/// What the token file on `host` must contain: it can't be made without the token, and serves for this host alone.
#[must_use]
pub fn consent_document(host: &str, token: &str) -> String {
    let digest = Sha256::digest(format!("serverdyno consent\n{host}\n{token}\n"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_token(token: &str) -> bool {
    token.len() >= MIN_TOKEN_CHARACTERS && token.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'))
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
    if host.is_empty() || host.contains(['@', '?', '#', '\\']) {
        return refuse("there is no plain host[:port] after http://");
    }
    if path.contains('#') {
        return refuse("a fragment (#...) is not sent to servers; leave it out");
    }
    Ok((host.to_owned(), path.to_owned()))
}
