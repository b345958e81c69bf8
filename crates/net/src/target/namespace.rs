//! Network namespace from which a server is reached: that of this process, or another on this machine.

use crate::target::TargetError;
use rustix::io::Errno;
use rustix::thread::{move_into_link_name_space, LinkNameSpaceType};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

/// Open network namespace. The default is the namespace of this process.
#[derive(Debug, Clone, Default)]
pub struct Namespace(Option<Arc<File>>);

impl Namespace {
    /// Opens the namespace with a path such as `/proc/PID/ns/net`. None: the namespace of this process.
    ///
    /// # Errors
    /// `TargetError::Io` if the file can't be opened.
    pub fn open(path: Option<&Path>) -> Result<Self, TargetError> {
        let file = path.map(File::open).transpose().map_err(TargetError::Io)?;
        Ok(Self(file.map(Arc::new)))
    }

    /// Moves the calling thread to the namespace. Sockets that it creates from then on are in the namespace.
    ///
    /// # Errors
    /// This process lacks `CAP_SYS_ADMIN`, or the file is not a network namespace.
    pub fn enter(&self) -> Result<(), Errno> {
        match &self.0 {
            Some(file) => move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)),
            None => Ok(()),
        }
    }

    /// Runs `work` in the namespace. It runs on a separate thread, so that the calling thread stays in its
    /// own namespace.
    ///
    /// # Errors
    /// The errors of `work`, and `TargetError::Io` if the namespace can't be entered.
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
