//! Load is sent only to servers that the user may load. The engine accepts only a `Target`, and `Target::open` is the
//! only way to create one.
//!
//! A target on loopback is the user's own, unless there is a token for it. Any other target must serve a document under
//! a path that contains the user's secret token. Only somebody who knows the token and can write to that server can
//! create this document. A server that answers every request, or echoes the request, does not pass. The name is
//! resolved once, so load goes to the address that passed.
//!
//! `Target` can be neither built nor changed elsewhere:
//!
//! ```compile_fail,E0451
//! let target = dyno_http::Target { peer: dyno_net::Peer::Tcp(([10, 0, 0, 1], 80).into()), host: String::new(), path: String::new(), trust: None, proxy_protocol: None, identity: None, http2: false };
//! ```
//! ```compile_fail,E0616
//! let mut target = dyno_http::Target::open("http://127.0.0.1/", None, &Default::default()).unwrap();
//! target.peer = dyno_net::Peer::Tcp(([10, 0, 0, 1], 80).into());
//! ```
//! ```compile_fail,E0277
//! let target: dyno_http::Target = Default::default();
//! ```

use crate::advice::advice;
use crate::circumstances::{Asking, Challenge, Circumstances};
use crate::h2::BY_ALPN;
use crate::proxy_protocol::ProxyProtocol;
use dyno_net::tls::{can_be_certified, ClientOptions, Identity, TlsClient, Trust, Version, Versions};
use dyno_net::{is_loopback, name_and_port, resolve, BeforeLoad, Consent, TargetError};
use dyno_net::{Dialer, Executor, Peer};
use rustix::net::SocketAddrUnix;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;
const MAX_DOCUMENT_BYTES: usize = 4096;

/// Which server certificates a target accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trusting {
    /// Certificates signed by the system's authorities.
    #[default]
    System,
    /// Certificates signed by the authorities in this PEM text.
    Authorities(String),
    /// Any certificate. The server's identity is unknown.
    Anybody,
}

/// Where to connect instead of the URL's host. The request still contains the URL's host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectTo {
    /// This address, at the URL's port.
    Address(IpAddr),
    /// This Unix socket.
    Unix(PathBuf),
}

/// Options for opening a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Opening {
    /// Accepted certificates for an `https` URL.
    pub trusting: Trusting,
    /// None: connect to the URL's host.
    pub connect_to: Option<ConnectTo>,
    /// PROXY protocol header that the server expects first on each connection.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Certificate for servers that ask the client for one.
    pub identity: Option<Identity>,
    /// Whether single requests outside of load use HTTP/2, like the load. Otherwise they use HTTP/1.1.
    pub http2: bool,
}

/// A destination to which load may be sent.
#[derive(Debug, Clone)]
pub struct Target {
    peer: Peer,
    host: String,
    path: String,
    /// Accepted certificates; None without TLS.
    trust: Option<Trust>,
    proxy_protocol: Option<ProxyProtocol>,
    identity: Option<Identity>,
    http2: bool,
}

impl Target {
    /// Resolves `url`, and asks the host for consent if it is not loopback or if there is a `token`.
    ///
    /// # Errors
    /// See `TargetError`.
    pub fn open(url: &str, asking: impl Into<BeforeLoad>, opening: &Opening) -> Result<Self, TargetError> {
        let Parts { secure, host, path } = split_url(url)?;
        let trust = secure.then(|| opening.trusting.trust()).transpose()?;
        let asking = asking.into();
        let (deadline_ns, token) = (asking.deadline_ns(), asking.token.as_deref());
        let port = if secure { HTTPS_PORT } else { HTTP_PORT };
        let peer = match &opening.connect_to {
            None => resolve(&host, port, deadline_ns).map_err(TargetError::Io)?.into(),
            Some(ConnectTo::Address(address)) => {
                let port = name_and_port(&host, port).map_or(port, |(_, port)| port);
                SocketAddr::new(*address, port).into()
            }
            Some(ConnectTo::Unix(path)) => {
                Peer::Unix(SocketAddrUnix::new(path).map_err(|error| TargetError::Io(error.into()))?)
            }
        };
        let target = Self {
            peer,
            host,
            path,
            trust,
            proxy_protocol: opening.proxy_protocol,
            identity: opening.identity.clone(),
            http2: opening.http2,
        };
        if token.is_some() || !target.is_loopback() {
            target.ask_consent(token, deadline_ns)?;
        }
        Ok(target)
    }

    /// Returns whether the target uses TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.trust.is_some()
    }

    /// Returns whether a Location header refers to the target's URL.
    #[must_use]
    pub fn is_at(&self, location: &str) -> bool {
        let scheme = if self.is_secure() { "https://" } else { "http://" };
        let within = location
            .strip_prefix(scheme)
            .and_then(|rest| rest.strip_prefix(self.host.as_str()));
        within.unwrap_or(location) == self.path
    }

    pub(crate) fn speaks_http2(&self) -> bool {
        self.http2
    }

    /// Returns which certificates are accepted, or None without TLS.
    #[must_use]
    pub fn trust(&self) -> Option<&Trust> {
        self.trust.as_ref()
    }

    /// Returns the certificate for servers that ask the client for one.
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Returns the circumstances common to all clients of the target, for hints. `tls` is the TLS
    /// configuration of the clients.
    #[must_use]
    pub fn circumstances(&self, tls: Option<&TlsClient>, http2: bool) -> Circumstances {
        Circumstances {
            tls: self.is_secure(),
            http2,
            certificate_asked: tls.is_some_and(TlsClient::certificate_asked),
            has_certificate: self.identity.is_some(),
            certificate: self
                .identity
                .as_ref()
                .map(Identity::certificate)
                .unwrap_or_default(),
            offers_less: tls.is_some_and(TlsClient::offers_less),
            is_address: self
                .server_name()
                .trim_matches(['[', ']'])
                .parse::<IpAddr>()
                .is_ok(),
            is_localhost: self.server_name().eq_ignore_ascii_case("localhost"),
            is_unix: matches!(self.peer, Peer::Unix(_)),
            proxy_protocol: self.proxy_protocol.is_some(),
            redirects_to_itself: false,
            answers_others: false,
            challenge: Challenge::Unknown,
            asking: Asking::default(),
        }
    }

    #[must_use]
    pub fn server_name(&self) -> &str {
        name_and_port(&self.host, HTTPS_PORT).map_or("", |(name, _)| name)
    }

    /// Creates a dialer to the target. Dialers of one process need different numbers.
    #[must_use]
    pub fn dialer(&self, executor: &Executor, number: u8) -> Dialer {
        Dialer::new(executor.clone(), self.peer.clone(), number)
            .with_preamble(self.proxy_protocol.map(ProxyProtocol::preamble))
    }

    /// Returns the TLS configuration of single requests outside of load.
    pub(crate) fn tls(&self) -> Option<TlsClient> {
        let options = ClientOptions {
            versions: Versions {
                least: Version::Tls12,
                most: Version::Tls13,
            },
            ciphers: Vec::new(),
            application_protocols: self.http2.then(|| BY_ALPN.to_vec()).into_iter().collect(),
            trust: self.trust.clone()?,
            server_name: self.server_name().to_owned(),
            identity: self.identity.clone(),
        };
        // `Target::open` has rejected names that no certificate can contain.
        TlsClient::new(&options).ok()
    }

    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns the value of the `Host` header.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns whether the target is this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match &self.peer {
            Peer::Tcp(address) => is_loopback(address.ip()),
            Peer::Unix(_) => true,
        }
    }

    fn ask_consent(&self, token: Option<&str>, deadline_ns: u64) -> Result<(), TargetError> {
        let consent = Consent::of(&self.host, token)?;
        let path = format!("/.well-known/serverdyno/{}", consent.token());
        let answer = self
            .get(&path, deadline_ns, MAX_DOCUMENT_BYTES)
            .map_err(|failure| {
                TargetError::Answer(failure, advice(&failure, &self.circumstances(None, self.http2)))
            })?;
        let found = (answer.status == 200 && answer.whole).then_some(&*answer.body);
        consent.judge(found, &format!("file {path} below its document root"))
    }
}

impl Trusting {
    /// Reads the authorities.
    ///
    /// # Errors
    /// The authorities can't be read.
    pub fn trust(&self) -> Result<Trust, TargetError> {
        let trust = match self {
            Self::System => Trust::of_system(),
            Self::Authorities(pem) => Trust::of_pem(pem),
            Self::Anybody => Ok(Trust::Anybody),
        };
        trust.map_err(|error| TargetError::Url(format!("the authorities to be trusted: {error}")))
    }
}

struct Parts {
    secure: bool,
    host: String,
    path: String,
}

/// Splits `http[s]://host[:port][/path]` into host and path. Rejects parts that could change the meaning of a
/// request.
fn split_url(url: &str) -> Result<Parts, TargetError> {
    let refuse = |why: &str| Err(TargetError::Url(format!("{url:?}: {why}")));
    let (secure, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return refuse("a URL begins with http:// or https://"),
    };
    if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
        return refuse("a URL can't have blanks, control or non-ASCII characters; percent-encode them");
    }
    let (host, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, "/"),
    };
    let named = name_and_port(host, HTTP_PORT);
    if host.contains(['@', '?', '#', '\\', '%']) || named.is_none() {
        return refuse("only host or host:port may stand between the scheme and the path");
    }
    if secure && !named.is_some_and(|(name, _)| can_be_certified(name)) {
        return refuse("a certificate can't name such a host");
    }
    if path.contains('#') {
        return refuse("a fragment (#...) is not sent to servers; leave it out");
    }
    Ok(Parts {
        secure,
        host: host.to_owned(),
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: Option<(&str, &str)>) {
        let split = split_url(url).ok();
        let split = split.as_ref();
        let split = split.map(|parts| (parts.host.as_str(), parts.path.as_str()));
        assert_eq!(split, expected, "{url}");
    }

    #[test]
    fn a_url_is_split_into_the_parts_that_a_request_needs() {
        check("http://127.0.0.1", Some(("127.0.0.1", "/")));
        check("http://127.0.0.1:8080/", Some(("127.0.0.1:8080", "/")));
        check(
            "http://localhost/a/b?c=d&e=%20",
            Some(("localhost", "/a/b?c=d&e=%20")),
        );
        check("http://[::1]:8080/a@b:c", Some(("[::1]:8080", "/a@b:c")));
        check("http://[::1]", Some(("[::1]", "/")));
        check("https://[::1]:8443/a", Some(("[::1]:8443", "/a")));
        check("https://www.example", Some(("www.example", "/")));
    }

    #[test]
    fn an_ambiguous_url_is_refused() {
        for url in [
            "",
            "http://",
            "http:///path",
            "https://",
            "https://-a.example/",
            "HTTPS://127.0.0.1/",
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
