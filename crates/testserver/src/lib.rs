//! In-memory servers for HTTP, SMB, NFS and S3. The generator is measured against them. Each also serves if
//! no other server is installed, and injects named faults for tests.
//!
//! They are only for load generators and their tests.

mod common;
mod counts;
mod fault;
pub mod http;
pub mod nfs;
mod pages;
pub mod s3;
mod server;
pub mod smb;
mod threads;
mod wakeup;
