//! HTTP/2 against servers of a few lines.

mod clean;
mod hostile;
pub mod peer;
