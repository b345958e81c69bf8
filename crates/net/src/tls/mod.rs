//! TLS 1.2 and 1.3 over the reactor's sockets. The protocol itself is rustls's; what is ours is how its records are read
//! and sent without needless copies (`channel.rs`), whose certificates count (`trust.rs`), what sessions are used again
//! (`sessions.rs`), what is disclosed (`agreed.rs`), how failures are named (`failure.rs`), and the certificates of tests
//! and of servers that we start (`authority.rs`).
//!
//! Signatures of handshakes are always verified. Not for: client certificates, early data, SSL, RC4.

mod agreed;
mod authority;
mod channel;
mod client;
mod failure;
mod server;
mod sessions;
mod side;
mod trust;

pub use agreed::{certificate_key, Agreed, CertificateKey};
pub use authority::{Authority, CertificateError, KeyKind, Validity};
pub use channel::{Arrived, Channel, Flow};
pub use client::{
    can_be_certified, key_log_problem, offer_problem, ClientOptions, Connector, Identity, Session, TlsClient,
    Version, Versions,
};
pub use server::{ServerOptions, TlsServer};
pub use side::{ClientSide, ServerSide, Side};
pub use trust::{Trust, TrustError};
