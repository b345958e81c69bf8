//! A directory of this machine, used through system calls: a local disk, or whatever the user has mounted there.
//!
//! `DirectoryTarget` is the proof that load is welcome below a directory; `Session` is one client's files there as a
//! `FileClient`. A system call blocks its thread, so each client needs a thread of its own. Nothing outside of the
//! directory can be reached: paths are resolved beneath it, and no symbolic link is followed.
//!
//! Not for: mounting, and a client cache, since the kernel has one. Knows no workload.

mod advice;
mod counts;
mod failure;
mod options;
mod session;
mod status;
mod target;

pub use advice::advice;
pub use options::{FlushCall, Options};
pub use session::Session;
pub use target::DirectoryTarget;
