//! Servers of our own, in memory: one for HTTP, one for SMB and one for NFS. Each is what the generator is
//! measured against, the server where no other is installed, and a source of named misbehaviour for tests.
//!
//! Not for: serving anybody but a load generator and its tests.

mod common;
mod counts;
mod fault;
pub mod http;
pub mod nfs;
mod pages;
mod server;
pub mod smb;
mod threads;
mod wakeup;
