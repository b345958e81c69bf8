//! How clients use a directory.

/// What a flush of a client becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FlushCall {
    /// fsync(2).
    #[default]
    Fsync,
    /// fdatasync(2).
    Fdatasync,
    /// No call at all.
    Nothing,
}

/// How clients use the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Around the page cache (`O_DIRECT`) wherever offset and length are multiples of 4,096.
    pub direct: bool,
    /// What a flush becomes.
    pub flush: FlushCall,
}
