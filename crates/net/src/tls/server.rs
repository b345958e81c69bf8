//! TLS server, for the reference server and tests.

use crate::tls::channel::Channel;
use crate::tls::client::Versions;
use crate::tls::side::ServerSide;
use crate::Socket;
use dyno_measure::{Failure, Fault};
use rustls::crypto::aws_lc_rs::{default_provider, Ticketer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, UnbufferedServerConnection};
use rustls::ServerConfig;
use std::cell::RefCell;
use std::sync::Arc;

/// Maximum number of TLS 1.2 sessions that a server stores.
const SESSIONS: usize = 4096;

#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Server certificate and intermediate certificates, in PEM.
    pub certificates_pem: String,
    /// Key of the server certificate, in PEM.
    pub key_pem: String,
    pub versions: Versions,
    /// Whether clients may resume sessions: the server issues tickets.
    pub resumption: bool,
    /// ALPN protocols, preferred first.
    pub application_protocols: Vec<Vec<u8>>,
}

/// TLS configuration shared by a server's connections.
#[derive(Debug, Clone)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
}

impl TlsServer {
    /// Creates a server from the options.
    ///
    /// # Errors
    /// An option is invalid, such as a certificate that is not PEM. The text says which.
    pub fn new(options: &ServerOptions) -> Result<Self, String> {
        let certificates = CertificateDer::pem_slice_iter(options.certificates_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("the certificates are not PEM: {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(options.key_pem.as_bytes())
            .map_err(|error| format!("the key is not PEM: {error}"))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&options.versions.supported())
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(|error| format!("the certificate can't be used: {error}"))?;
        if options.resumption {
            config.ticketer = Ticketer::new().map_err(|error| error.to_string())?;
            config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols.clone_from(&options.application_protocols);
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// Performs the handshake on an accepted connection.
    pub async fn accept<B: AsMut<[u8]>>(
        &self,
        socket: Socket,
        buffer: &RefCell<B>,
    ) -> Result<Channel<ServerSide>, Failure> {
        let made = UnbufferedServerConnection::new(self.config.clone());
        let connection = made.map_err(|_| Failure::from(Fault::OtherIo))?;
        let mut channel = Channel::new(socket, ServerSide(connection));
        channel.shake_hands(buffer).await?;
        Ok(channel)
    }
}
