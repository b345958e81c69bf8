//! NFSv3 (RFC 1813), over TCP or UDP, and NFSv4.1 (RFC 8881) over TCP as a load generator needs them: an RPC and XDR codec, MOUNT, the
//! portmapper, and one client's session as a [`dyno_files::FileClient`].
//!
//! Not for: NFSv4.0, delegations for writing, Kerberos, the lock protocol (NLM), mounting. Ports of the client are ordinary ones: a server
//! that insists on ports below 1024 refuses it. Knows no workload and no cache.

mod advice;
mod refusal;
pub mod session;
pub mod status;
mod target;
pub mod v4;
pub mod wire;

pub use advice::advice;
pub use dyno_net::TargetError;
pub use refusal::Refusal;
pub use session::{Options, Session, TransferSizes, Version};
pub use target::NfsTarget;
