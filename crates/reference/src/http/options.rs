//! What a web server is to be.

use super::documents::Documents;
use super::fault::Fault;
use crate::common::usual;
use dyno_tls::{ServerOptions, TlsServer, Version, Versions};
use dyno_workload::Tree;
use serde::Deserialize;
use std::net::{Ipv4Addr, SocketAddr};

/// The largest document that one path may have.
const MAX_BODY_BYTES: usize = 1 << 30;

/// What a server is to be.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Stated")]
pub struct Options {
    /// Where it listens; port 0 for any that is free.
    pub bind: SocketAddr,
    pub threads: usize,
    /// CPUs that the threads are pinned to, in turn; where there are none, the scheduler decides.
    pub cpus: Vec<usize>,
    /// What load asks for.
    pub documents: Documents,
    /// Further documents by path, which win over the others and which no fault touches: proofs of ownership and consent.
    pub extra_documents: Vec<(String, Vec<u8>)>,
    /// What it does wrong.
    pub fault: Option<Fault>,
    /// Whether it speaks HTTP/2, too; one with a fault does not.
    pub http2: bool,
    /// How it speaks TLS; None: in the clear.
    pub tls: Option<TlsServer>,
    /// Speak in the clear on the first address and TLS on this one; None: TLS alone, where there is `tls`.
    pub secure_bind: Option<SocketAddr>,
    /// Servers on loopback, which are asked in turn for what is below `/cgi-bin/`; none: this one makes its own page.
    /// One that has any speaks no HTTP/2.
    pub behind: Vec<SocketAddr>,
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
}

/// The options as the control plane states them: `python/serverdyno/servers/reference_model.py`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stated {
    bind: SocketAddr,
    threads: usize,
    /// None: the WebBench tree.
    body_bytes: Option<usize>,
    fault: Option<Fault>,
    http2: bool,
    tls: Option<TlsSection>,
    secure_port: Option<u16>,
    behind: Vec<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsSection {
    certificate: String,
    key: String,
    min_version: Version,
    max_version: Version,
    resumption: bool,
}

impl TlsSection {
    fn server(self, http2: bool) -> Result<TlsServer, String> {
        let protocols: &[&[u8]] = if http2 {
            &[b"h2", b"http/1.1"]
        } else {
            &[b"http/1.1"]
        };
        TlsServer::new(&ServerOptions {
            certificates_pem: self.certificate,
            key_pem: self.key,
            versions: Versions {
                least: self.min_version,
                most: self.max_version,
            },
            resumption: self.resumption,
            application_protocols: protocols.iter().map(|name| name.to_vec()).collect(),
        })
    }
}

impl TryFrom<Stated> for Options {
    type Error = String;

    fn try_from(stated: Stated) -> Result<Self, String> {
        if stated.body_bytes.is_some_and(|bytes| bytes > MAX_BODY_BYTES) {
            return Err("body_bytes: out of bounds".to_owned());
        }
        let behind = stated.behind.into_iter();
        Ok(Self {
            bind: stated.bind,
            threads: stated.threads,
            cpus: Vec::new(),
            documents: stated
                .body_bytes
                .map_or_else(|| Documents::Tree(Tree::load()), Documents::Fixed),
            extra_documents: Vec::new(),
            fault: stated.fault,
            http2: stated.http2,
            tls: stated.tls.map(|tls| tls.server(stated.http2)).transpose()?,
            secure_bind: stated
                .secure_port
                .map(|port| SocketAddr::new(stated.bind.ip(), port)),
            behind: behind
                .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
                .collect(),
        })
    }
}
