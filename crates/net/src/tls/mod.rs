//! TLS 1.2 and 1.3, by rustls. This module reads and sends records without extra copies (`channel.rs`),
//! verifies certificates (`trust.rs`), resumes sessions (`sessions.rs`), discloses parameters (`agreed.rs`),
//! maps failures (`failure.rs`) and issues certificates for our own servers (`authority.rs`).
//!
//! Handshake signatures are always verified. There is no early data, SSL or RC4.

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
    can_be_certified, key_log_problem, offer_problem, ClientCertificate, ClientOptions, Connector, Identity,
    Session, TlsClient, Version, Versions,
};
pub use failure::{CERTIFICATE_KEY, CERTIFICATE_VERSION, IN_PLAIN_HTTP};
pub use server::{ServerOptions, TlsServer};
pub use side::{ClientSide, ServerSide, Side};
pub use trust::{Trust, TrustError};
