//! NFSv3 (RFC 1813) over TCP or UDP, and NFSv4.1 and 4.2 (RFC 8881, RFC 7862) over TCP for a load generator: an RPC and
//! XDR codec, MOUNT, the portmapper, and the session of one client as a [`dyno_files::FileClient`].
//!
//! This crate does not support NFSv4.0, write delegations, Kerberos or the lock protocol (NLM), mounts nothing, and
//! contains no workloads or data caches. The client uses a local port below 1024 only if a server seems to require
//! one.

mod advice;
mod mount_options;
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
