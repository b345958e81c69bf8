//! The network namespace in which a server is looked for: this process's own, or another one of the same machine.

use crate::target::TargetError;
use rustix::io::Errno;
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

/// A network namespace that stays open; the default is the process's own.
#[derive(Debug, Clone, Default)]
pub struct Namespace(Option<Arc<File>>);

impl Namespace {
    /// Opens that of a file, `/proc/PID/ns/net`; without one it is the process's own.
    ///
    /// # Errors
    /// `TargetError::Io` where the file can't be opened.
    pub fn open(path: Option<&Path>) -> Result<Self, TargetError> {
        let file = path.map(File::open).transpose().map_err(TargetError::Io)?;
        Ok(Self(file.map(Arc::new)))
    }

    /// Takes the calling thread there; sockets that it makes from then on are there.
    ///
    /// # Errors
    /// Where this process may not (it needs `CAP_SYS_ADMIN`), or the file was none of a network namespace.
    pub fn enter(&self) -> Result<(), Errno> {
        match &self.0 {
            Some(file) => move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)),
            None => Ok(()),
        }
    }

    /// Does `work` there, on a thread of its own: who has entered a namespace doesn't come back.
    ///
    /// # Errors
    /// Those of `work`, and `TargetError::Io` where it can't be entered.
    pub fn within<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, TargetError> + Send + 'static,
    ) -> Result<T, TargetError> {
        let place = self.clone();
        let working = std::thread::Builder::new().spawn(move || {
            place.enter().map_err(|error| TargetError::Io(error.into()))?;
            work()
        });
        working.map_err(TargetError::Io)?.join().unwrap_or_else(|_| {
            Err(TargetError::Io(io::Error::other(
                "the check of the target panicked",
            )))
        })
    }
}
