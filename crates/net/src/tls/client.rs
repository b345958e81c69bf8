//! The end that makes load: what it offers, and how often it takes up an earlier session.

use crate::tls::agreed::Agreed;
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

/// Names the file that gets the keys of all sessions, for Wireshark and tshark, as of curl and browsers. Only the
/// environment can ask for that, never a plan: who writes plans must not choose files. The disclosure says it.
const KEY_LOG_VARIABLE: &str = "SSLKEYLOGFILE";

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Version {
    /// RFC 5246.
    #[serde(rename = "1.2")]
    Tls12,
    /// RFC 8446.
    #[serde(rename = "1.3")]
    Tls13,
}

/// From the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The oldest that is spoken.
    pub least: Version,
    pub most: Version,
}

impl Versions {
    pub(crate) fn supported(self) -> Vec<&'static SupportedProtocolVersion> {
        let all = [(Version::Tls13, &TLS13), (Version::Tls12, &TLS12)];
        let within = all
            .into_iter()
            .filter(|(version, _)| (self.least..=self.most).contains(version));
        within.map(|(_, supported)| supported).collect()
    }
}

/// A client's certificate with its chain, and its key: a text in PEM each.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// Return what signs for the client.
    ///
    /// # Errors
    /// Says why the two can't be used.
    pub fn certified(&self) -> Result<CertifiedKey, String> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(self.certificate.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|error| format!("the client's certificate is not PEM: {error}"))?;
        if chain.is_empty() {
            return Err("the client's certificate is not PEM: no certificate is in it".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|error| format!("the client's key is not PEM, or is encrypted: {error}"))?;
        CertifiedKey::from_der(chain, key, &default_provider())
            .map_err(|error| format!("the client's certificate and key don't belong together: {error}"))
    }
}

/// Shows the client's certificate, and notes that a server has asked for one.
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

/// What clients of one mix offer.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    pub versions: Versions,
    /// Cipher suites by their names in IANA's registry, the preferred first; none: all that rustls has.
    pub ciphers: Vec<String>,
    /// Protocols by ALPN, the preferred first; none: the extension is not sent.
    pub application_protocols: Vec<Vec<u8>>,
    pub trust: Trust,
    /// The name or address that the certificate must be for, without a port.
    pub server_name: String,
    /// Shown to servers that ask for a certificate.
    pub identity: Option<Identity>,
}

/// Why the keys of the sessions can't be written where the environment asks for them: rustls says nothing of that.
/// `None`: they can be, or nobody asks.
#[must_use]
pub fn key_log_problem() -> Option<String> {
    let path = std::env::var_os(KEY_LOG_VARIABLE)?;
    let error = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)
        .err()?;
    Some(format!(
        "{KEY_LOG_VARIABLE} names {path:?} for the keys of TLS sessions, and this file can't be written: {error}; \
         name another one, or unset the variable"
    ))
}

/// Whether a certificate can be for this name or address.
#[must_use]
pub fn can_be_certified(name: &str) -> bool {
    ServerName::try_from(name).is_ok()
}

/// The names of all cipher suites that can be asked for.
fn known_ciphers(provider: &CryptoProvider) -> Vec<String> {
    let suites = provider.cipher_suites.iter();
    suites.map(|suite| name_of(suite.suite())).collect()
}

fn name_of(cipher: rustls::CipherSuite) -> String {
    cipher.as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1)
}

/// What the clients of a mix share: made once, and used by every thread.
#[derive(Debug, Clone)]
pub struct TlsClient {
    fresh: Arc<ClientConfig>,
    verifier: Arc<Verifier>,
    showing: Arc<Showing>,
    name: ServerName<'static>,
}

impl TlsClient {
    /// Checks the options.
    ///
    /// # Errors
    /// Says what can't be offered.
    pub fn new(options: &ClientOptions) -> Result<Self, String> {
        let provider = Arc::new(provider_of(&options.ciphers)?);
        let verifier = options
            .trust
            .verifier(&provider)
            .map_err(|error: TrustError| error.to_string())?;
        let name = ServerName::try_from(options.server_name.clone())
            .map_err(|_| format!("{:?} is no name that a certificate can have", options.server_name))?;
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
        })
    }

    /// Whether a server has asked for a certificate so far.
    #[must_use]
    pub fn certificate_asked(&self) -> bool {
        self.showing.asked.load(Ordering::Relaxed)
    }

    /// Whether there is one to show.
    #[must_use]
    pub fn has_certificate(&self) -> bool {
        self.showing.key.is_some()
    }

    /// The sessions of one client thread.
    #[must_use]
    pub fn connector(&self) -> Connector {
        let mut again = (*self.fresh).clone();
        again.resumption = Resumption::store(Arc::new(Sessions::default()));
        Connector {
            shared: self.clone(),
            again: Arc::new(again),
        }
    }
}

/// What keeps clients from offering these, in words; None: nothing.
#[must_use]
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
        .map_err(|error| format!("no cipher suite of these belongs to these versions of TLS ({error})"))
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
            None => return Err(format!("{wanted:?} is none of {}", known.join(", "))),
        }
    }
    Ok(provider)
}

/// Makes the sessions of one client thread.
#[derive(Debug, Clone)]
pub struct Connector {
    shared: TlsClient,
    /// Remembers sessions, to take them up again.
    again: Arc<ClientConfig>,
}

/// A session that stands.
#[derive(Debug)]
pub struct Session {
    /// To send and receive by.
    pub channel: Channel<ClientSide>,
    pub agreed: Agreed,
    /// When the TCP connection stood, in nanoseconds of the monotonic clock.
    pub stood_ns: u64,
    /// From then until data could be sent.
    pub handshake_ns: u64,
}

impl Connector {
    /// Whether this protocol is offered by ALPN.
    #[must_use]
    pub fn wants(&self, protocol: &[u8]) -> bool {
        let offered = &self.shared.fresh.alpn_protocols;
        offered.iter().any(|offer| offer == protocol)
    }

    /// Shakes hands on a socket that was dialled. `resume`: whether an earlier session is offered, where there is one;
    /// what the server gives is remembered then, too.
    ///
    /// # Errors
    /// Why there is no session.
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
