//! Options for using a directory.

/// System call that a client's flush makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlushCall {
    #[default]
    Fsync,
    Fdatasync,
    /// No system call: a flush does nothing.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Bypass the page cache (`O_DIRECT`) if offset and length are multiples of 4,096.
    pub direct: bool,
    pub flush: FlushCall,
}
