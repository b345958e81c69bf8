//! Options of a web server.

use super::documents::Documents;
use super::fault::Fault;
use crate::common::usual;
use dyno_net::tls::{ServerOptions, TlsServer, Version, Versions};
use dyno_workload::Tree;
use serde::de::{Deserialize, Deserializer, Error};
use std::net::SocketAddr;

/// Maximum size of a document.
const MAX_BODY_BYTES: usize = 1 << 30;

/// Options of a server, as the control plane defines them: `python/serverdyno/servers/reference_model.py`.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Listening address; port 0 for any free port.
    pub bind: SocketAddr,
    pub threads: usize,
    /// CPUs to which the threads are pinned in turn; if empty, the scheduler decides.
    #[serde(skip)]
    pub cpus: Vec<usize>,
    /// Documents for load.
    #[serde(rename = "body_bytes", deserialize_with = "documents")]
    pub documents: Documents,
    /// Further documents by path, as proof of ownership and consent. They take precedence over `documents`,
    /// and faults don't affect them.
    #[serde(skip)]
    pub extra_documents: Vec<(String, Vec<u8>)>,
    pub fault: Option<Fault>,
    /// Whether to also speak HTTP/2; ignored with a fault.
    pub http2: bool,
    /// TLS settings; None: unencrypted.
    pub tls: Option<Tls>,
    /// Additional port for TLS, with unencrypted HTTP on the first port. None: the first port uses only TLS, if `tls`
    /// is set.
    pub secure_port: Option<u16>,
    /// Ports of backends on loopback, used in turn for paths below `/cgi-bin/`; if empty, this server
    /// generates its own page. A server with backends does not speak HTTP/2.
    pub behind: Vec<u16>,
}

impl Options {
    /// Returns the default options with these documents.
    pub fn on_loopback(documents: Documents) -> Self {
        Self {
            documents,
            ..usual(include_str!("../../usual/http.json"))
        }
    }

    /// Returns the TLS settings for the listeners. If HTTP/2 is enabled, the handshake offers it.
    pub(super) fn tls_server(&self) -> Result<Option<TlsServer>, String> {
        self.tls.as_ref().map(|tls| tls.server(self.http2)).transpose()
    }
}

/// Parses the documents. The default is the WebBench tree.
fn documents<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Documents, D::Error> {
    match Option::deserialize(deserializer)? {
        None => Ok(Documents::Tree(Tree::load())),
        Some(bytes) if bytes > MAX_BODY_BYTES => Err(D::Error::custom("body_bytes: out of bounds")),
        Some(bytes) => Ok(Documents::Fixed(bytes)),
    }
}

/// A certificate and its key in PEM format, and TLS settings.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    certificate: String,
    key: String,
    min_version: Version,
    max_version: Version,
    resumption: bool,
}

impl Tls {
    /// Returns the TLS settings for listeners. With `http2`, the handshake offers it.
    pub(crate) fn server(&self, http2: bool) -> Result<TlsServer, String> {
        let protocols: &[&[u8]] = if http2 {
            &[b"h2", b"http/1.1"]
        } else {
            &[b"http/1.1"]
        };
        TlsServer::new(&ServerOptions {
            certificates_pem: self.certificate.clone(),
            key_pem: self.key.clone(),
            versions: Versions {
                least: self.min_version,
                most: self.max_version,
            },
            resumption: self.resumption,
            application_protocols: protocols.iter().map(|name| name.to_vec()).collect(),
        })
    }
}
