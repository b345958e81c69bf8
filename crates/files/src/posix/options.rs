//! Options for using a directory.

use serde::Deserialize;

/// System call that a client's flush makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushCall {
    #[default]
    Fsync,
    Fdatasync,
    /// No system call: a flush does nothing.
    #[serde(rename = "none")]
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Bypass the page cache (`O_DIRECT`) if offset and length are multiples of 4,096.
    pub direct: bool,
    pub flush: FlushCall,
}
