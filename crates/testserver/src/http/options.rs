//! What a web server is to be.

use super::documents::Documents;
use super::fault::Fault;
use crate::common::usual;
use dyno_net::tls::{ServerOptions, TlsServer, Version, Versions};
use dyno_workload::Tree;
use serde::de::{Deserialize, Deserializer, Error};
use std::net::SocketAddr;

/// The largest document that one path may have.
const MAX_BODY_BYTES: usize = 1 << 30;

/// What a server is to be, as the control plane states it: `python/serverdyno/servers/reference_model.py`.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Where it listens; port 0 for any that is free.
    pub bind: SocketAddr,
    pub threads: usize,
    /// CPUs that the threads are pinned to, in turn; where there are none, the scheduler decides.
    #[serde(skip)]
    pub cpus: Vec<usize>,
    /// What load asks for.
    #[serde(rename = "body_bytes", deserialize_with = "documents")]
    pub documents: Documents,
    /// Further documents by path, which win over the others and which no fault touches: proofs of ownership and consent.
    #[serde(skip)]
    pub extra_documents: Vec<(String, Vec<u8>)>,
    /// What it does wrong.
    pub fault: Option<Fault>,
    /// Whether it speaks HTTP/2, too; one with a fault does not.
    pub http2: bool,
    /// How it speaks TLS; None: in the clear.
    pub tls: Option<Tls>,
    /// Speak in the clear on the first port and TLS on this one; None: TLS alone, where there is `tls`.
    pub secure_port: Option<u16>,
    /// Ports of servers on loopback, which are asked in turn for what is below `/cgi-bin/`; none: this one makes its own
    /// page. One that has any speaks no HTTP/2.
    pub behind: Vec<u16>,
}

impl Options {
    /// The usual options with these documents.
    #[must_use]
    pub fn on_loopback(documents: Documents) -> Self {
        Self {
            documents,
            ..usual(include_str!("../../usual/http.json"))
        }
    }

    /// What TLS is spoken with. Whether by HTTP/2, too, is said in the handshake.
    pub(super) fn tls_server(&self) -> Result<Option<TlsServer>, String> {
        let Some(tls) = &self.tls else {
            return Ok(None);
        };
        let protocols: &[&[u8]] = if self.http2 {
            &[b"h2", b"http/1.1"]
        } else {
            &[b"http/1.1"]
        };
        let server = TlsServer::new(&ServerOptions {
            certificates_pem: tls.certificate.clone(),
            key_pem: tls.key.clone(),
            versions: Versions {
                least: tls.min_version,
                most: tls.max_version,
            },
            resumption: tls.resumption,
            application_protocols: protocols.iter().map(|name| name.to_vec()).collect(),
        });
        server.map(Some)
    }
}

/// None: the WebBench tree.
fn documents<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Documents, D::Error> {
    match Option::deserialize(deserializer)? {
        None => Ok(Documents::Tree(Tree::load())),
        Some(bytes) if bytes > MAX_BODY_BYTES => Err(D::Error::custom("body_bytes: out of bounds")),
        Some(bytes) => Ok(Documents::Fixed(bytes)),
    }
}

/// A certificate with its key, both as PEM, and how a server speaks TLS with them.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    certificate: String,
    key: String,
    min_version: Version,
    max_version: Version,
    resumption: bool,
}
