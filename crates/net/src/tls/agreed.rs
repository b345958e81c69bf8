//! The negotiated parameters of a session, for disclosure.

use rustls::{CipherSuite, CommonState, HandshakeKind, NamedGroup, ProtocolVersion};

/// Negotiated parameters of a session. In nearly every level, all sessions of a server differ only in
/// `resumed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// Whether the session resumed an earlier one.
    pub resumed: bool,
    version: Option<ProtocolVersion>,
    cipher: Option<CipherSuite>,
    key_exchange: Option<NamedGroup>,
    pub key: CertificateKey,
}

/// Key algorithm of a certificate, and the key's size in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CertificateKey {
    kind: KeyName,
    bits: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum KeyName {
    Rsa,
    Ecdsa,
    Ed25519,
    #[default]
    Other,
}

impl Agreed {
    pub(crate) fn of(state: &CommonState, key: CertificateKey) -> Self {
        Self {
            resumed: state.handshake_kind() == Some(HandshakeKind::Resumed),
            version: state.protocol_version(),
            cipher: state.negotiated_cipher_suite().map(|suite| suite.suite()),
            key_exchange: state.negotiated_key_exchange_group().map(|group| group.name()),
            key,
        }
    }

    /// Returns the version, such as `TLS 1.3`.
    pub fn version(&self) -> &'static str {
        match self.version {
            Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
            _ => "unknown",
        }
    }

    /// Returns the cipher suite's IANA name, without the prefix that rustls adds for TLS 1.3.
    pub fn cipher(&self) -> String {
        let name = self.cipher.and_then(|cipher| cipher.as_str());
        name.map_or_else(|| "unknown".to_owned(), |name| name.replacen("TLS13_", "TLS_", 1))
    }

    /// Returns the key exchange group, or None if the session was resumed without one.
    pub fn key_exchange(&self) -> Option<&'static str> {
        Some(match self.key_exchange? {
            NamedGroup::X25519 => "X25519",
            NamedGroup::secp256r1 => "P-256",
            NamedGroup::secp384r1 => "P-384",
            NamedGroup::secp521r1 => "P-521",
            NamedGroup::X25519MLKEM768 => "X25519MLKEM768",
            _ => "another group",
        })
    }
}

impl CertificateKey {
    pub(crate) fn is_p521(self) -> bool {
        self.kind == KeyName::Ecdsa && self.bits == 521
    }

    /// Returns the size in bits of an RSA key that is not supported.
    pub(crate) fn unsupported_bits(self) -> Option<u32> {
        (self.kind == KeyName::Rsa && !(2048..=8192).contains(&self.bits)).then_some(self.bits)
    }
}

impl std::fmt::Display for CertificateKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.kind, self.bits) {
            (KeyName::Rsa, bits) => write!(formatter, "RSA {bits}"),
            (KeyName::Ecdsa, bits) => write!(formatter, "ECDSA P-{bits}"),
            (KeyName::Ed25519, _) => write!(formatter, "Ed25519"),
            (KeyName::Other, _) => write!(formatter, "unknown"),
        }
    }
}

/// Encoded object identifiers (RFC 3279, 5480, 8410).
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P_256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P_384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const P_521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const BIT_STRING: u8 = 0x03;
const EXPLICIT_VERSION: u8 = 0xa0;

/// Returns the key type of a DER-encoded SubjectPublicKeyInfo.
pub fn certificate_key(public_key_info: &[u8]) -> CertificateKey {
    read_key(public_key_info).unwrap_or_default()
}

fn read_key(public_key_info: &[u8]) -> Option<CertificateKey> {
    let (whole, _) = element(public_key_info, SEQUENCE)?;
    let (algorithm, rest) = element(whole, SEQUENCE)?;
    let (name, parameters) = element(algorithm, OBJECT_IDENTIFIER)?;
    let (kind, bits) = match name {
        RSA => {
            let (bit_string, _) = element(rest, BIT_STRING)?;
            let (key, _) = element(bit_string.get(1..)?, SEQUENCE)?;
            let (modulus, _) = element(key, INTEGER)?;
            let leading = modulus.iter().position(|byte| *byte != 0)?;
            let bits = (modulus.len() - leading) * 8 - modulus[leading].leading_zeros() as usize;
            (KeyName::Rsa, u32::try_from(bits).ok()?)
        }
        EC_PUBLIC_KEY => match element(parameters, OBJECT_IDENTIFIER)?.0 {
            P_256 => (KeyName::Ecdsa, 256),
            P_384 => (KeyName::Ecdsa, 384),
            P_521 => (KeyName::Ecdsa, 521),
            _ => return None,
        },
        ED25519 => (KeyName::Ed25519, 256),
        _ => return None,
    };
    Some(CertificateKey { kind, bits })
}

/// Returns the issuer and the subject of a certificate of any version, and the remaining bytes (RFC 5280, section 4.1).
pub(crate) fn names_and_rest(certificate: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (whole, _) = element(certificate, SEQUENCE)?;
    let (fields, _) = element(whole, SEQUENCE)?;
    // A certificate of version 1 has no version field.
    let rest = element(fields, EXPLICIT_VERSION).map_or(fields, |(_, rest)| rest);
    let (_, rest) = element(rest, INTEGER)?;
    let (_algorithm, rest) = element(rest, SEQUENCE)?;
    let (issuer, rest) = element(rest, SEQUENCE)?;
    let (_validity, rest) = element(rest, SEQUENCE)?;
    let (subject, rest) = element(rest, SEQUENCE)?;
    Some((issuer, subject, rest))
}

/// Returns the DER-encoded SubjectPublicKeyInfo of a certificate.
pub(crate) fn public_key_info(certificate: &[u8]) -> Option<&[u8]> {
    let (_, _, rest) = names_and_rest(certificate)?;
    let (_, after) = element(rest, SEQUENCE)?;
    rest.get(..rest.len() - after.len())
}

/// Splits `bytes` after its first DER element. Returns the element's contents and the rest.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, length, start): (u8, usize, usize) = match bytes {
        [first, length @ 0..=0x7f, ..] => (*first, usize::from(*length), 2),
        [first, 0x81, length, ..] => (*first, usize::from(*length), 3),
        [first, 0x82, high, low, ..] => (*first, usize::from(*high) << 8 | usize::from(*low), 4),
        _ => return None,
    };
    let contents = bytes.get(start..start.checked_add(length)?)?;
    (first == tag).then_some((contents, &bytes[start + length..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{Authority, KeyKind, Validity};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::CertificateDer;
    use rustls::server::ParsedCertificate;

    fn public_key(key: KeyKind) -> Vec<u8> {
        let authority = Authority::new().expect("randomness");
        let made = authority.certify(key, &["localhost".to_owned()], Validity::Now);
        let (pem, _) = made.expect("a certificate");
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
        let parsed = ParsedCertificate::try_from(&certificate).expect("a certificate");
        parsed.subject_public_key_info().to_vec()
    }

    #[test]
    fn a_key_is_shown_by_type_and_size_and_a_malformed_key_is_unknown() {
        for (kind, name) in [
            (KeyKind::EcdsaP256, "ECDSA P-256"),
            (KeyKind::Rsa2048, "RSA 2048"),
        ] {
            let key = public_key(kind);
            assert_eq!(certificate_key(&key).to_string(), name);
            for length in 0..key.len() {
                assert_eq!(
                    certificate_key(&key[..length]),
                    CertificateKey::default(),
                    "{length}"
                );
            }
        }
    }
}
