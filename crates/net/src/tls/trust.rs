//! Certificate verification: by given authorities, by the system's authorities, or none.
//!
//! Handshake signatures are verified each time. A valid chain is remembered for the life of the verifier (at
//! most one load level), so only its first copy is checked. A peer that sends the same chain again proves by
//! its signature that it has the key.

use crate::tls::agreed::{certificate_key, public_key_info, CertificateKey};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_name, WebPkiServerVerifier};
use rustls::crypto::{
    verify_tls12_signature, verify_tls13_signature, CryptoProvider, WebPkiSupportedAlgorithms,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use std::sync::{Arc, Mutex};

/// Why the authorities cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TrustError(String);

/// Which certificates are accepted.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Accepts certificates signed by one of these authorities, and the authorities' own certificates: `openssl req
    /// -x509` creates a server certificate that is also an authority.
    Authorities(Arc<RootCertStore>, Arc<[CertificateDer<'static>]>),
    /// Any certificate for any name. The server's identity is unknown.
    Anybody,
}

impl Trust {
    /// Reads authorities from PEM text.
    ///
    /// # Errors
    /// The text contains no certificate.
    pub fn of_pem(pem: &str) -> Result<Self, TrustError> {
        let (mut roots, mut given) = (RootCertStore::empty(), Vec::new());
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| TrustError(format!("not PEM: {error}")))?;
            given.push(certificate.clone());
            roots
                .add(certificate)
                .map_err(|error| TrustError(format!("a certificate can't be used: {error}")))?;
        }
        if roots.is_empty() {
            return Err(TrustError("it contains no certificate".to_owned()));
        }
        Ok(Self::Authorities(Arc::new(roots), given.into()))
    }

    /// Loads the authorities that the system trusts.
    ///
    /// # Errors
    /// The system has no certificates of trusted authorities.
    pub fn of_system() -> Result<Self, TrustError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let given = found.certs.clone().into();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let why = found.errors.first().map(|error| format!(": {error}"));
            return Err(TrustError(format!(
                "this system has no certificates of trusted authorities{}",
                why.unwrap_or_default()
            )));
        }
        Ok(Self::Authorities(Arc::new(roots), given))
    }

    pub(crate) fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<Verifier>, TrustError> {
        let chains = match self {
            Self::Anybody => None,
            Self::Authorities(roots, given) => Some(Chains {
                signed: WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone())
                    .build()
                    .map_err(|error| TrustError(error.to_string()))?,
                given: given.clone(),
            }),
        };
        Ok(Arc::new(Verifier {
            chains,
            provider: provider.clone(),
            known: Mutex::default(),
        }))
    }
}

#[derive(Debug)]
struct Chains {
    signed: Arc<WebPkiServerVerifier>,
    given: Arc<[CertificateDer<'static>]>,
}

impl Chains {
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<(), Error> {
        let signed = self
            .signed
            .verify_server_cert(certificate, intermediates, name, ocsp_response, now);
        match signed {
            // The dates are valid, since they are checked before this error. A certificate that is itself one
            // of the given authorities needs no other signature.
            Err(Error::InvalidCertificate(CertificateError::Other(OtherError(why))))
                if is_authority(&*why) =>
            {
                if self.given.iter().any(|given| given == certificate) {
                    return verify_server_name(&ParsedCertificate::try_from(certificate)?, name);
                }
                // A self-signed certificate is valid in itself, but not signed by a given authority.
                Err(Error::InvalidCertificate(if signed_itself(certificate) {
                    CertificateError::UnknownIssuer
                } else {
                    CertificateError::Other(OtherError(why))
                }))
            }
            other => other.map(drop),
        }
    }
}

fn is_authority(why: &(dyn std::error::Error + 'static)) -> bool {
    matches!(why.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

fn signed_itself(certificate: &CertificateDer<'_>) -> bool {
    webpki::EndEntityCert::try_from(certificate).is_ok_and(|parsed| parsed.issuer() == parsed.subject())
}

/// Certificate that was verified before.
#[derive(Debug, Clone)]
struct Known {
    certificate: CertificateDer<'static>,
    name: ServerName<'static>,
    key: CertificateKey,
}

/// Verifies a chain only once, and handshake signatures every time.
#[derive(Debug)]
pub(crate) struct Verifier {
    /// None: any chain is accepted.
    chains: Option<Chains>,
    provider: Arc<CryptoProvider>,
    known: Mutex<Option<Known>>,
}

impl Verifier {
    /// Returns the key type of the certificate that the session presented.
    pub(crate) fn key_of(&self, certificate: Option<&CertificateDer<'_>>) -> CertificateKey {
        let Some(certificate) = certificate else {
            return CertificateKey::default();
        };
        let known = self.known.lock();
        match known.as_deref() {
            Ok(Some(known)) if known.certificate == *certificate => known.key,
            _ => key_of(certificate),
        }
    }
}

fn key_of(certificate: &CertificateDer<'_>) -> CertificateKey {
    public_key_info(certificate).map_or_else(CertificateKey::default, certificate_key)
}

/// Why a certificate is not supported. The text of the failure names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not supported: {self:?}")]
pub(crate) enum Unsupported {
    Version,
    /// An RSA key of this size in bits.
    Key(u32),
}

impl Unsupported {
    /// Adds the reason to an error that was caused by an unsupported certificate.
    fn explained(certificate: &CertificateDer<'_>, error: Error) -> Error {
        let is_version =
            |why: &OtherError| matches!(why.0.downcast_ref(), Some(webpki::Error::UnsupportedCertVersion));
        let cause = match (&error, key_of(certificate).unsupported_bits()) {
            (Error::InvalidCertificate(CertificateError::Other(why)), _) if is_version(why) => Self::Version,
            (Error::InvalidCertificate(_), Some(bits)) => Self::Key(bits),
            _ => return error,
        };
        Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(cause))))
    }
}

impl Verifier {
    /// Verifies a handshake signature. Without authorities, only the certificate's key must be readable. Certificates
    /// of version 1, or with unknown extensions, are then accepted.
    fn verify_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
        by_certificate: impl FnOnce(&WebPkiSupportedAlgorithms) -> Result<HandshakeSignatureValid, Error>,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        let verified = match self.chains {
            Some(_) => by_certificate(algorithms),
            None => verify_by_key(message, certificate, signature, algorithms),
        };
        verified.map_err(|error| Unsupported::explained(certificate, error))
    }
}

fn verify_by_key(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signature: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let unreadable = || Error::InvalidCertificate(CertificateError::BadEncoding);
    let info = SubjectPublicKeyInfoDer::from(public_key_info(certificate).ok_or_else(unreadable)?);
    let key = webpki::RawPublicKeyEntity::try_from(&info).map_err(|_| unreadable())?;
    let mut of_scheme = algorithms
        .mapping
        .iter()
        .filter(|(scheme, _)| *scheme == signature.scheme);
    let is_signed = of_scheme.any(|(_, algorithms)| {
        let mut algorithms = algorithms.iter();
        algorithms.any(|algorithm| {
            key.verify_signature(*algorithm, message, signature.signature())
                .is_ok()
        })
    });
    match is_signed {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let mut known = self
            .known
            .lock()
            .map_err(|_| Error::General("an earlier verification panicked".to_owned()))?;
        let is_known = |known: &Known| known.certificate == *certificate && known.name == *name;
        if known.as_ref().is_some_and(is_known) {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.chains {
            Some(chains) => {
                let verified = chains.verify(certificate, intermediates, name, ocsp_response, now);
                verified.map_err(|error| Unsupported::explained(certificate, error))?;
            }
            // Handshake signatures are verified with the certificate's key.
            None if public_key_info(certificate).is_none() => {
                return Err(Error::InvalidCertificate(CertificateError::BadEncoding))
            }
            None => {}
        }
        *known = Some(Known {
            certificate: certificate.clone().into_owned(),
            name: name.to_owned(),
            key: key_of(certificate),
        });
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, certificate, signature, |algorithms| {
            verify_tls12_signature(message, certificate, signature, algorithms)
        })
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, certificate, signature, |algorithms| {
            verify_tls13_signature(message, certificate, signature, algorithms)
        })
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{date_time_ymd, BasicConstraints, CertificateParams, IsCa, KeyPair};

    /// Creates a certificate for one server that is also an authority, as `openssl req -x509` does.
    fn self_signed(until: i32) -> (CertificateDer<'static>, String) {
        let mut parameters = CertificateParams::new(vec!["files.test".to_owned()]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.not_before = date_time_ymd(1998, 1, 1);
        parameters.not_after = date_time_ymd(until, 1, 1);
        let made = parameters.self_signed(&KeyPair::generate().unwrap()).unwrap();
        (made.der().clone(), made.pem())
    }

    fn verified(pem: &str, shown: &CertificateDer<'_>, name: &str) -> Result<(), Error> {
        let verifier = Trust::of_pem(pem)
            .unwrap()
            .verifier(&Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .unwrap();
        let name = ServerName::try_from(name).unwrap();
        verifier
            .verify_server_cert(shown, &[], &name, &[], UnixTime::now())
            .map(drop)
    }

    #[test]
    fn a_self_signed_certificate_is_trusted_only_if_it_was_given_itself() {
        let (certificate, pem) = self_signed(4000);
        assert_eq!(verified(&pem, &certificate, "files.test"), Ok(()));
        assert!(matches!(
            verified(&pem, &certificate, "other.test"),
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }
            ))
        ));
        let (other, _) = self_signed(4000);
        assert_eq!(
            verified(&pem, &other, "files.test"),
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
        );
        let (past, pem) = self_signed(1999);
        assert!(matches!(
            verified(&pem, &past, "files.test"),
            Err(Error::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. }
            ))
        ));
    }
}
