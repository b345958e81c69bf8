//! TLS client: offered parameters and session resumption.

use crate::tls::agreed::{certificate_key, names_and_rest, public_key_info, Agreed};
use crate::tls::channel::Channel;
use crate::tls::sessions::Sessions;
use crate::tls::side::ClientSide;
use crate::tls::trust::{Trust, TrustError, Verifier};
use crate::Socket;
use dyno_measure::{monotonic_ns, Failure, Fault};
use rustls::client::{ResolvesClientCert, Resumption, UnbufferedClientConnection};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ConfigBuilder, KeyLogFile, SignatureScheme, SupportedProtocolVersion, WantsVerifier,
};
use serde::Deserialize;
use std::cell::RefCell;
use std::fmt;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Environment variable with the path of a file for the session keys, as in curl and browsers. With the keys,
/// Wireshark and tshark can decrypt the traffic. A plan cannot set the path, because its author must not
/// choose which files are written on the user's machine. The disclosure mentions the variable.
const KEY_LOG_VARIABLE: &str = "SSLKEYLOGFILE";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Version {
    /// RFC 5246.
    #[serde(rename = "1.2")]
    Tls12,
    /// RFC 8446.
    #[serde(rename = "1.3")]
    Tls13,
}

/// Range of TLS versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// Oldest version offered.
    pub least: Version,
    pub most: Version,
}

impl Versions {
    const ALL: Self = Self {
        least: Version::Tls12,
        most: Version::Tls13,
    };

    pub(crate) fn supported(self) -> Vec<&'static SupportedProtocolVersion> {
        let all = [(Version::Tls13, &TLS13), (Version::Tls12, &TLS12)];
        let within = all
            .into_iter()
            .filter(|(version, _)| (self.least..=self.most).contains(version));
        within.map(|(_, supported)| supported).collect()
    }
}

/// A client's certificate chain and its key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").finish_non_exhaustive()
    }
}

impl Identity {
    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| format!("the client's certificate is not PEM: {error}"))
    }

    /// Returns the properties of the client's certificate on which hints depend.
    pub fn certificate(&self) -> ClientCertificate {
        let chain = self.chain().unwrap_or_default();
        let first = chain.first().map_or(&[][..], |first| first);
        let names = names_and_rest(first);
        ClientCertificate {
            lacks_issuer: chain.len() == 1 && names.is_some_and(|(issuer, subject, _)| issuer != subject),
            has_p521_key: public_key_info(first).is_some_and(|key| certificate_key(key).is_p521()),
        }
    }

    /// Returns the key with its certificates, ready for signing.
    pub fn certified(&self) -> Result<CertifiedKey, String> {
        let chain = self.chain()?;
        if chain.is_empty() {
            return Err("the client's certificate is not PEM: the file contains no certificate".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|error| format!("the client's key is not PEM, or is encrypted: {error}"))?;
        let key = default_provider().key_provider.load_private_key(key);
        let key = key.map_err(|error| format!("the client's key is not supported: {error}"))?;
        // rustls's own comparison of the keys rejects certificates of version 1.
        let theirs = public_key_info(&chain[0]);
        if key.public_key().is_some_and(|ours| theirs != Some(ours.as_ref())) {
            return Err("the client's certificate and key don't belong together".to_owned());
        }
        Ok(CertifiedKey::new(chain, key))
    }
}

/// Properties of a client's certificate on which hints depend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate was issued by an authority whose own certificate is not in the chain.
    pub lacks_issuer: bool,
    /// The key is on the curve P-521, which can sign only in TLS 1.3.
    pub has_p521_key: bool,
}

/// Presents the client's certificate and records whether a server has requested one.
#[derive(Debug)]
struct Showing {
    key: Option<Arc<CertifiedKey>>,
    asked: AtomicBool,
}

impl ResolvesClientCert for Showing {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.asked.store(true, Ordering::Relaxed);
        self.key.clone()
    }

    fn has_certs(&self) -> bool {
        self.key.is_some()
    }
}

/// Parameters that the clients of a level offer.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    pub versions: Versions,
    /// Cipher suites by IANA name, preferred first. Empty: all that rustls supports.
    pub ciphers: Vec<String>,
    /// ALPN protocols, preferred first. Empty: the extension is not sent.
    pub application_protocols: Vec<Vec<u8>>,
    pub trust: Trust,
    /// Name or address that the certificate must match, without a port.
    pub server_name: String,
    /// Client certificate for servers that ask for one.
    pub identity: Option<Identity>,
}

/// Returns why session keys cannot be written to the file named by the environment variable, or None. rustls
/// does not report this.
pub fn key_log_problem() -> Option<String> {
    let path = std::env::var_os(KEY_LOG_VARIABLE)?;
    let error = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)
        .err()?;
    Some(format!(
        "{KEY_LOG_VARIABLE} names {path:?} for the keys of TLS sessions, but this file can't be written: \
        {error}; \
         name another one, or unset the variable"
    ))
}

/// Returns whether a certificate can be issued for this name or address.
pub fn can_be_certified(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

fn known_ciphers(provider: &CryptoProvider) -> Vec<String> {
    let suites = provider.cipher_suites.iter();
    suites.map(|suite| name_of(suite.suite())).collect()
}

fn name_of(cipher: rustls::CipherSuite) -> String {
    cipher.as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1)
}

/// TLS configuration shared by the clients and threads of a level.
#[derive(Debug, Clone)]
pub struct TlsClient {
    fresh: Arc<ClientConfig>,
    verifier: Arc<Verifier>,
    showing: Arc<Showing>,
    name: ServerName<'static>,
    offers_less: bool,
}

impl TlsClient {
    /// Validates the options.
    ///
    /// # Errors
    /// A parameter cannot be offered. The text says which.
    pub fn new(options: &ClientOptions) -> Result<Self, String> {
        let provider = Arc::new(provider_of(&options.ciphers)?);
        let verifier = options
            .trust
            .verifier(&provider)
            .map_err(|error: TrustError| error.to_string())?;
        let name = ServerName::try_from(options.server_name.clone())
            .map_err(|_| format!("{:?} is not a valid name for a certificate", options.server_name))?;
        let key = options.identity.as_ref().map(Identity::certified).transpose()?;
        let showing = Arc::new(Showing {
            key: key.map(Arc::new),
            asked: AtomicBool::new(false),
        });
        let mut config = offering(provider, options.versions)?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_client_cert_resolver(showing.clone());
        if std::env::var_os(KEY_LOG_VARIABLE).is_some() {
            config.key_log = Arc::new(KeyLogFile::new());
        }
        config.resumption = Resumption::disabled();
        config.alpn_protocols.clone_from(&options.application_protocols);
        Ok(Self {
            fresh: Arc::new(config),
            verifier,
            showing,
            name,
            offers_less: !options.ciphers.is_empty() || options.versions != Versions::ALL,
        })
    }

    /// Returns whether the options exclude a supported TLS version or cipher suite.
    pub fn offers_less(&self) -> bool {
        self.offers_less
    }

    /// Returns whether a server has requested a client certificate so far.
    pub fn certificate_asked(&self) -> bool {
        self.showing.asked.load(Ordering::Relaxed)
    }

    /// Returns whether a client certificate is configured.
    pub fn has_certificate(&self) -> bool {
        self.showing.key.is_some()
    }

    /// Creates the connector of one client thread.
    pub fn connector(&self) -> Connector {
        let mut again = (*self.fresh).clone();
        again.resumption = Resumption::store(Arc::new(Sessions::default()));
        Connector {
            shared: self.clone(),
            again: Arc::new(again),
        }
    }
}

/// Returns why these versions and cipher suites cannot be offered together, or None if they can.
pub fn offer_problem(versions: Versions, ciphers: &[String]) -> Option<String> {
    let offered = provider_of(ciphers).and_then(|provider| offering(Arc::new(provider), versions));
    offered.err()
}

fn offering(
    provider: Arc<CryptoProvider>,
    versions: Versions,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, String> {
    ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions.supported())
        .map_err(|error| format!("none of these cipher suites works with these versions of TLS ({error})"))
}

fn provider_of(ciphers: &[String]) -> Result<CryptoProvider, String> {
    let mut provider = default_provider();
    if ciphers.is_empty() {
        return Ok(provider);
    }
    let known = known_ciphers(&provider);
    let suites = std::mem::take(&mut provider.cipher_suites);
    for wanted in ciphers {
        match suites.iter().find(|suite| name_of(suite.suite()) == *wanted) {
            Some(suite) => provider.cipher_suites.push(*suite),
            None => return Err(format!("{wanted:?} is not one of {}", known.join(", "))),
        }
    }
    Ok(provider)
}

/// Creates the sessions of one client thread.
#[derive(Debug, Clone)]
pub struct Connector {
    shared: TlsClient,
    /// Configuration that stores and resumes sessions.
    again: Arc<ClientConfig>,
}

#[derive(Debug)]
pub struct Session {
    pub channel: Channel<ClientSide>,
    pub agreed: Agreed,
    /// Time at which the TCP connection was established, in nanoseconds of the monotonic clock.
    pub stood_ns: u64,
    /// Time from `stood_ns` until data could be sent.
    pub handshake_ns: u64,
}

impl Connector {
    /// Returns whether this protocol is offered by ALPN.
    pub fn wants(&self, protocol: &[u8]) -> bool {
        let offered = &self.shared.fresh.alpn_protocols;
        offered.iter().any(|offer| offer == protocol)
    }

    /// Performs the handshake on a dialled socket. If `resume` is set, offers a stored session, if any, and
    /// stores new sessions.
    pub async fn connect<B: AsMut<[u8]>>(
        &self,
        socket: Socket,
        resume: bool,
        buffer: &RefCell<B>,
    ) -> Result<Session, Failure> {
        let config = if resume { &self.again } else { &self.shared.fresh };
        let made = UnbufferedClientConnection::new(config.clone(), self.shared.name.clone());
        let connection = made.map_err(|_| Failure::from(Fault::OtherIo))?;
        let mut channel = Channel::new(socket, ClientSide(connection));
        let hello = channel.begin()?;
        let stood_ns = channel.socket().send_first(&hello).await?;
        channel.shake_hands(buffer).await?;
        let handshake_ns = monotonic_ns().saturating_sub(stood_ns);
        let state = &channel.side().0;
        let certificates = state.peer_certificates().unwrap_or_default();
        let agreed = Agreed::of(state, self.shared.verifier.key_of(certificates.first()));
        Ok(Session {
            channel,
            agreed,
            stood_ns,
            handshake_ns,
        })
    }
}
