//! Header of HAProxy's PROXY protocol, sent first on each connection. It contains the addresses of the connection
//! itself. Source: HAProxy, proxy-protocol.txt, versions 1 and 2.

use dyno_net::Preamble;
use serde::Deserialize;
use std::net::SocketAddr;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const VERSION_2_LOCAL: u8 = 0x20;
const VERSION_2_PROXY: u8 = 0x21;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

/// Protocol version that a server expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ProxyProtocol {
    /// Text format.
    #[serde(rename = "v1")]
    Version1,
    /// Binary format.
    #[serde(rename = "v2")]
    Version2,
}

impl ProxyProtocol {
    pub(crate) fn preamble(self) -> Preamble {
        match self {
            Self::Version1 => version_1,
            Self::Version2 => version_2,
        }
    }
}

fn version_1(addresses: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let Some((own, peer)) = addresses else {
        return b"PROXY UNKNOWN\r\n".to_vec();
    };
    let family = if own.is_ipv4() { "TCP4" } else { "TCP6" };
    format!(
        "PROXY {family} {} {} {} {}\r\n",
        own.ip(),
        peer.ip(),
        own.port(),
        peer.port()
    )
    .into_bytes()
}

fn version_2(addresses: Option<(SocketAddr, SocketAddr)>) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    let (family, mut body) = match addresses {
        None => {
            header.extend([VERSION_2_LOCAL, 0, 0, 0]);
            return header;
        }
        Some((SocketAddr::V4(own), SocketAddr::V4(peer))) => {
            (TCP_OVER_IPV4, [own.ip().octets(), peer.ip().octets()].concat())
        }
        Some((own, peer)) => (TCP_OVER_IPV6, [octets(own), octets(peer)].concat()),
    };
    if let Some((own, peer)) = addresses {
        body.extend(own.port().to_be_bytes());
        body.extend(peer.port().to_be_bytes());
    }
    let length = u16::try_from(body.len()).unwrap_or_default();
    header.extend([VERSION_2_PROXY, family]);
    header.extend(length.to_be_bytes());
    header.extend(body);
    header
}

fn octets(address: SocketAddr) -> [u8; 16] {
    match address {
        SocketAddr::V4(address) => address.ip().to_ipv6_mapped().octets(),
        SocketAddr::V6(address) => address.ip().octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(own: &str, peer: &str) -> Option<(SocketAddr, SocketAddr)> {
        Some((
            own.parse().expect("an address"),
            peer.parse().expect("an address"),
        ))
    }

    #[test]
    fn a_header_is_written_as_in_its_specification() {
        let ipv4 = addresses("192.168.0.1:56324", "192.168.0.11:443");
        assert_eq!(
            version_1(ipv4),
            b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n"
        );
        let ipv6 = addresses("[::1]:56324", "[2001:db8::1]:443");
        assert_eq!(version_1(ipv6), b"PROXY TCP6 ::1 2001:db8::1 56324 443\r\n");
        assert_eq!(version_1(None), b"PROXY UNKNOWN\r\n");
        let signature = b"\x0D\x0A\x0D\x0A\x00\x0D\x0A\x51\x55\x49\x54\x0A";
        let expected = [
            signature.as_slice(),
            &[
                0x21, 0x11, 0, 12, 192, 168, 0, 1, 192, 168, 0, 11, 0xdc, 0x04, 0x01, 0xbb,
            ],
        ];
        assert_eq!(version_2(ipv4), expected.concat());
        assert_eq!(version_2(ipv6)[12..16], [0x21, 0x21, 0, 36]);
        assert_eq!(version_2(None)[12..], [0x20, 0, 0, 0]);
    }
}
