//! Whose certificates count: those of given authorities, those of the system's, or all.
//!
//! A handshake's signature is verified every time. A certificate chain that was found right is remembered for as long as
//! its verifier lives, a mix at most, and only its first copy is walked: peers that send the same bytes again prove
//! their possession of the key by the signature.

use crate::tls::agreed::{certificate_key, CertificateKey};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_name, WebPkiServerVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use std::fmt;
use std::sync::{Arc, Mutex};

/// Why there is no trust to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustError(String);

impl fmt::Display for TrustError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for TrustError {}

/// Whose certificates are accepted.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Those that one of these authorities has signed, and the authorities themselves: whoever makes a certificate for
    /// one server by `openssl req -x509` has made an authority.
    Authorities(Arc<RootCertStore>, Arc<[CertificateDer<'static>]>),
    /// Any certificate, for any name: nothing is known of who answers.
    Anybody,
}

impl Trust {
    /// The authorities of a text in PEM.
    ///
    /// # Errors
    /// Where it holds no certificate.
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
            return Err(TrustError("there is no certificate in it".to_owned()));
        }
        Ok(Self::Authorities(Arc::new(roots), given.into()))
    }

    /// The authorities that this system trusts.
    ///
    /// # Errors
    /// Where it has none.
    pub fn of_system() -> Result<Self, TrustError> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let given = found.certs.clone().into();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let why = found.errors.first().map(|error| format!(": {error}"));
            return Err(TrustError(format!(
                "this system has no certificates of authorities{}",
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

/// What is accepted where authorities are given.
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
            // Dates were found right before this is found. An authority that was given itself needs nobody's signature.
            Err(Error::InvalidCertificate(CertificateError::Other(OtherError(why))))
                if is_authority(&*why) =>
            {
                if self.given.iter().any(|given| given == certificate) {
                    return verify_server_name(&ParsedCertificate::try_from(certificate)?, name);
                }
                // Nothing is wrong with a certificate that signed itself but that nobody else vouches for it.
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

/// A certificate that was looked at.
#[derive(Debug, Clone)]
struct Known {
    certificate: CertificateDer<'static>,
    name: ServerName<'static>,
    key: CertificateKey,
}

/// Verifies chains once and signatures always.
#[derive(Debug)]
pub(crate) struct Verifier {
    /// None: any chain will do.
    chains: Option<Chains>,
    provider: Arc<CryptoProvider>,
    known: Mutex<Option<Known>>,
}

impl Verifier {
    /// The kind of key of the certificate that a session has shown.
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
    ParsedCertificate::try_from(certificate).map_or_else(
        |_| CertificateKey::default(),
        |parsed| certificate_key(parsed.subject_public_key_info().as_ref()),
    )
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
                chains.verify(certificate, intermediates, name, ocsp_response, now)?;
            }
            // Its signatures have to verify all the same: it must be a certificate.
            None => drop(
                ParsedCertificate::try_from(certificate)
                    .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?,
            ),
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
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
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

    /// As `openssl req -x509` makes it: for one server, and an authority.
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
    fn a_certificate_that_signed_itself_is_trusted_where_it_was_given_and_as_itself_alone() {
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
