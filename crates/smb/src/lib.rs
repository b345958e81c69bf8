//! SMB 2.0.2 to 3.1.1 (MS-SMB2) as a load generator needs it: a codec, authentication, signing and encryption, and one
//! client's session as a [`dyno_files::FileClient`].
//!
//! Not for: SMB 1, mounting, several channels a session. Knows no workload and no cache.

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
