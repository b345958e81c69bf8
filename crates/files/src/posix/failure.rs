//! Maps error numbers of system calls to faults.

use dyno_measure::{Detail, Failure, Fault};
use rustix::io::Errno;

/// Converts an error number to a failure that contains it.
pub(crate) fn failure(errno: Errno) -> Failure {
    let fault = match errno {
        Errno::NOENT | Errno::NOTDIR => Fault::NotFound,
        Errno::EXIST => Fault::AlreadyThere,
        // XDEV and LOOP: the path leaves the directory or crosses a symbolic link.
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

/// Returns whether the error means that a path does not exist.
pub(crate) fn is_absent(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR)
}
