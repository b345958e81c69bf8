//! Facts about the clients, their requests and the server's first answer, on which hints depend.

use crate::coding::asks_coding;
use crate::request::Shape;
use dyno_net::tls::ClientCertificate;

/// Circumstances of a client that the hints depend on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Each flag is an independent fact.
pub struct Circumstances {
    pub tls: bool,
    pub http2: bool,
    /// The server requested a client certificate.
    pub certificate_asked: bool,
    pub has_certificate: bool,
    pub certificate: ClientCertificate,
    /// The user restricted the versions of TLS or the ciphers that are offered.
    pub offers_less: bool,
    /// The URL's host is an IP address, so the TLS handshake carries no server name (RFC 6066, section 3).
    pub is_address: bool,
    /// The URL's host is localhost.
    pub is_localhost: bool,
    /// The clients connect to a Unix socket.
    pub is_unix: bool,
    /// The client sends a PROXY protocol header.
    pub proxy_protocol: bool,
    /// The server redirects to the URL that was requested.
    pub redirects_to_itself: bool,
    /// The server answered other requests of the level without error.
    pub answers_others: bool,
    /// Authentication scheme that the server requested with status 401.
    pub challenge: Challenge,
    pub asking: Asking,
}

/// Properties of the requests on which the hints depend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Each flag is an independent fact.
pub struct Asking {
    pub is_head: bool,
    /// The requests are meant to change something on the server.
    pub to_change: bool,
    /// The requests accept a content coding.
    pub for_coding: bool,
    /// The requests have the header Authorization.
    pub has_credentials: bool,
    /// The user set the headers Accept and User-Agent.
    pub like_browser: bool,
    /// The user set the header Host.
    pub has_host: bool,
    /// Size of the request line and the headers, uncompressed; 0 if not known.
    pub head_bytes: usize,
    /// Size of the body; 0 if there is none, or if it varies.
    pub body_bytes: usize,
}

/// Smallest default limit of common servers for the request line and the headers, in bytes: 4 KiB.
const LARGE_BYTES: usize = 4000;
/// Size of a body above which a server may answer and close before it has read all of it, in bytes: most of what the
/// kernel's buffers hold arrives at once.
const LARGE_BODY_BYTES: usize = 64 * 1024;
/// Smallest limit for the request line and the headers that is usual in configurations, in bytes: 1 KiB.
const NOTABLE_BYTES: usize = 1000;

impl Asking {
    #[must_use]
    pub fn of(shape: &Shape, head_bytes: usize) -> Self {
        let has = |wanted: &str| {
            let mut names = shape.fields.iter().map(|(name, _)| name);
            names.any(|name| name.eq_ignore_ascii_case(wanted))
        };
        Self {
            is_head: shape.method == "HEAD",
            to_change: matches!(shape.method.as_str(), "POST" | "PUT" | "PATCH" | "DELETE"),
            for_coding: asks_coding(&shape.fields),
            has_credentials: has("authorization"),
            like_browser: has("accept") && has("user-agent"),
            has_host: has("host"),
            head_bytes,
            body_bytes: shape.body.as_ref().map_or(0, Vec::len),
        }
    }

    /// Returns whether a server may refuse the request before it has read all of its body.
    pub(crate) fn has_large_body(&self) -> bool {
        self.body_bytes > LARGE_BODY_BYTES
    }

    /// Returns whether the head of the requests exceeds a default limit of common servers.
    pub(crate) fn is_large(&self) -> bool {
        self.head_bytes > LARGE_BYTES
    }

    /// Returns whether the head of the requests may exceed a limit in the server's configuration.
    pub(crate) fn is_notable(&self) -> bool {
        self.head_bytes > NOTABLE_BYTES
    }
}

/// Authentication schemes that the server requests, reduced to those that `--auth` supports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Challenge {
    /// Not known, or both basic and bearer.
    #[default]
    Unknown,
    Basic,
    Bearer,
    /// Neither basic nor bearer.
    Foreign,
}

impl Challenge {
    /// Returns the challenge for scheme names separated by commas, as `schemes` finds them.
    #[must_use]
    pub fn of(names: &str) -> Self {
        let has = |wanted: &str| names.split(", ").any(|name| name.eq_ignore_ascii_case(wanted));
        match (has("basic"), has("bearer")) {
            _ if names.is_empty() => Self::Unknown,
            (true, true) => Self::Unknown,
            (true, false) => Self::Basic,
            (false, true) => Self::Bearer,
            (false, false) => Self::Foreign,
        }
    }
}

/// Returns the names of the schemes in a value of WWW-Authenticate, without their parameters (RFC 9110, section
/// 11.6.1).
pub fn schemes(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    let parts = value.split(move |byte| {
        is_quoted ^= *byte == b'"';
        *byte == b',' && !is_quoted
    });
    parts.filter_map(|part| {
        let part = part.trim_ascii();
        let name = part.split(u8::is_ascii_whitespace).next()?;
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        (!name.is_empty() && name.iter().all(is_name)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(value: &str) -> (String, Challenge) {
        let names: Vec<_> = schemes(value.as_bytes()).map(String::from_utf8_lossy).collect();
        let names = names.join(", ");
        let challenge = Challenge::of(&names);
        (names, challenge)
    }

    #[test]
    fn the_schemes_that_a_server_offers_are_separated_from_their_parameters() {
        for (value, names, challenge) in [
            (
                "Digest realm=\"x, Basic y\", nonce=\"a\"",
                "Digest",
                Challenge::Foreign,
            ),
            ("Negotiate, NTLM", "Negotiate, NTLM", Challenge::Foreign),
            ("basic realm=\"x\"", "basic", Challenge::Basic),
            (
                "Digest qop=\"auth\",Basic realm=\"x\"",
                "Digest, Basic",
                Challenge::Basic,
            ),
            ("Bearer error=\"invalid_token\"", "Bearer", Challenge::Bearer),
            (
                "Basic realm=a, Bearer realm=b",
                "Basic, Bearer",
                Challenge::Unknown,
            ),
            ("\", \u{1b}", "", Challenge::Unknown),
            ("", "", Challenge::Unknown),
        ] {
            assert_eq!(judged(value), (names.to_owned(), challenge), "{value}");
        }
    }
}
