//! What an error number of a system call means to the client of a file system.

use dyno_measure::{Detail, Failure, Fault};
use rustix::io::Errno;

/// Returns the failure that an error number is to a call. The number goes along.
pub(crate) fn failure(errno: Errno) -> Failure {
    let fault = match errno {
        Errno::NOENT | Errno::NOTDIR => Fault::NotFound,
        Errno::EXIST => Fault::AlreadyThere,
        // XDEV and LOOP: the path leads out of the directory, or over a symbolic link.
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::XDEV | Errno::LOOP => Fault::AccessDenied,
        Errno::NOSPC | Errno::DQUOT => Fault::NoSpace,
        Errno::STALE | Errno::BADF => Fault::SessionLost,
        Errno::MFILE | Errno::NFILE => Fault::NoFiles,
        Errno::NOMEM => Fault::NoMemory,
        _ => Fault::ErrorStatus,
    };
    Failure {
        fault,
        detail: Detail::Errno(errno.raw_os_error()),
    }
}

/// Whether a path is simply not there.
pub(crate) fn is_absent(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR)
}
