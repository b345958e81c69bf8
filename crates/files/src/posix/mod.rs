//! A directory of this machine, used through system calls: a local disk or any mount.
//!
//! `DirectoryTarget` proves that load below a directory is permitted. `Session` is one client's `FileClient`. System
//! calls block, so each client needs its own thread. Paths are resolved beneath the directory, without symbolic links,
//! so nothing outside can be reached. There is no client cache, since the kernel has one.

mod advice;
mod counts;
mod direct;
mod failure;
mod options;
mod session;
mod status;
mod target;

pub use advice::advice;
pub use options::{FlushCall, Options};
pub use session::Session;
pub use target::DirectoryTarget;
