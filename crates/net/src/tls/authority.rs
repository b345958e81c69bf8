//! Certificates for one run: an authority and the server certificates that it signs.

use rcgen::{
    date_time_ymd, BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256,
};

/// Why a certificate could not be created.
#[derive(Debug, thiserror::Error)]
#[error("a certificate could not be created: {0}")]
pub struct CertificateError(#[from] rcgen::Error);

/// Key type of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Rsa2048,
    EcdsaP256,
}

impl KeyKind {
    fn generate(self) -> Result<KeyPair, rcgen::Error> {
        match self {
            Self::Rsa2048 => KeyPair::generate_for(&PKCS_RSA_SHA256),
            Self::EcdsaP256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        }
    }
}

/// Validity period of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Valid for longer than any run.
    Now,
    /// Expired before the year 2000.
    Past,
}

/// Certificate authority with its own key.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// Creates an authority.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn new() -> Result<Self, CertificateError> {
        let key = KeyKind::EcdsaP256.generate()?;
        let mut parameters = CertificateParams::new(Vec::new())?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let name = &mut parameters.distinguished_name;
        // The name contains the end of the public key. Otherwise a certificate signed by another run's
        // authority would look like a forgery.
        let mark: String = key
            .public_key_raw()
            .iter()
            .rev()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        name.push(
            DnType::CommonName,
            format!("Serverdyno: authority of one run ({mark})"),
        );
        let pem = parameters.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(parameters, key),
            pem,
        })
    }

    /// Returns the authority's certificate in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a server certificate for these names and addresses. Returns certificate and key in PEM.
    ///
    /// # Errors
    /// A name cannot be encoded.
    pub fn certify(
        &self,
        key: KeyKind,
        names: &[String],
        validity: Validity,
    ) -> Result<(String, String), CertificateError> {
        let pair = key.generate()?;
        let mut parameters = CertificateParams::new(names.to_vec())?;
        let name = &mut parameters.distinguished_name;
        name.push(DnType::CommonName, names.first().map_or("", String::as_str));
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if key == KeyKind::Rsa2048 {
            parameters.key_usages.push(KeyUsagePurpose::KeyEncipherment);
        }
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        if validity == Validity::Past {
            parameters.not_before = date_time_ymd(1998, 1, 1);
            parameters.not_after = date_time_ymd(1999, 1, 1);
        }
        let certificate = parameters.signed_by(&pair, &self.issuer)?;
        Ok((certificate.pem(), pair.serialize_pem()))
    }
}
