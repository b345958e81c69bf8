//! SMB 2.0.2 to 3.1.1 (MS-SMB2) for a load generator: a codec, authentication, signing and encryption, and
//! the session of one client as a [`dyno_files::FileClient`].
//!
//! This crate does not support SMB 1, mounts nothing, and contains no workloads or caches.

mod advice;
pub mod auth;
pub mod crypto;
mod ntstatus;
mod probe;
mod refusal;
pub mod session;
mod smb1;
pub mod status;
mod target;
pub mod wire;

pub use advice::advice;
pub use dyno_net::TargetError;
pub use probe::{probe, Offer};
pub use refusal::Refusal;
pub use session::{Authentication, Encryption, NegotiatedSession, Options, Session, Signing};
pub use target::SmbTarget;
pub use wire::{Cipher, Dialect, SigningAlgorithm};
