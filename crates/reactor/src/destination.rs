//! Where load may go, as far as it is the same for every protocol: names and addresses, what loopback is, and what a
//! host that is not loopback must show to agree.

use sha2::{Digest, Sha256};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);
const MIN_TOKEN_CHARACTERS: usize = 16;

/// Why there is no target.
#[derive(Debug)]
pub enum TargetError {
    /// The URL can't be used.
    Url(String),
    /// The host can't be found or reached.
    Io(io::Error),
    /// The host was reached and gave no session to ask it for consent in.
    Session {
        /// The failure, in words.
        why: String,
        /// What to try.
        advice: &'static str,
    },
    /// The host has not shown that load is welcome; the text says how it can.
    Consent(String),
}

/// Whether an address is of this machine, however it is written.
#[must_use]
pub fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => {
            address.is_loopback()
                || address
                    .to_ipv4_mapped()
                    .is_some_and(|mapped| mapped.is_loopback())
        }
    }
}

/// What the token file on `host` must contain: it can't be made without the token, and serves for this host alone.
#[must_use]
pub fn consent_document(host: &str, token: &str) -> String {
    let digest = Sha256::digest(format!("serverdyno consent\n{host}\n{token}\n"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a token is long enough to be secret, and can stand in a path.
#[must_use]
pub fn is_token(token: &str) -> bool {
    token.len() >= MIN_TOKEN_CHARACTERS && token.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The address of `host[:port]`. Of several the first that accepts a connection: `localhost` is often `::1` first, and
/// few servers listen there.
///
/// # Errors
/// Where there is no such host, or none of its addresses accepts a connection.
pub fn resolve(host: &str, default_port: u16) -> io::Result<SocketAddr> {
    let (name, port) = name_and_port(host, default_port).ok_or(io::ErrorKind::InvalidInput)?;
    let addresses: Vec<SocketAddr> = (name, port).to_socket_addrs()?.collect();
    if let [address] = addresses[..] {
        return Ok(address);
    }
    let mut last_error = io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
    for address in addresses {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(_) => return Ok(address),
            Err(error) => last_error = error,
        }
    }
    Err(last_error)
}

/// Splits `name`, `name:port`, `[v6]` or `[v6]:port`; None where it is none of them.
#[must_use]
pub fn name_and_port(host: &str, default_port: u16) -> Option<(&str, u16)> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(literal) => literal.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok()?,
        None if rest.is_empty() => default_port,
        _ => return None,
    };
    (!name.is_empty() && !name.contains(['[', ']']) && port > 0).then_some((name, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_consent_document_differs_by_host_port_and_token() {
        let documents = [
            consent_document("a:80", "0123456789abcdef"),
            consent_document("a:81", "0123456789abcdef"),
            consent_document("b:80", "0123456789abcdef"),
            consent_document("a:80", "0123456789abcdeF"),
        ];
        let different: std::collections::BTreeSet<_> = documents.iter().collect();
        assert_eq!(different.len(), documents.len());
        assert!(documents.iter().all(|document| document.len() == 64));
    }

    #[test]
    fn a_token_is_long_and_can_stand_in_a_path() {
        assert!(is_token("0123456789abcdef"));
        for token in [
            "",
            "short",
            "0123456789abcde",
            "0123456789abcde/",
            "../../../../../index",
            "0123456789abcd\r\n",
        ] {
            assert!(!is_token(token), "{token:?}");
        }
    }
}
