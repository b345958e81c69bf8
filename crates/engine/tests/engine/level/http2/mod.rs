//! HTTP/2 with minimal servers.

mod clean;
mod hostile;
pub mod peer;
