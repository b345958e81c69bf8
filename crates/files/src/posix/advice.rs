//! What to try where a directory can't be used.

use dyno_measure::{Detail, Failure, Fault};
use rustix::io::Errno;

/// Returns what to try about a failure; None where there is nothing to be said beyond its words.
#[must_use]
pub fn advice(failure: &Failure) -> Option<&'static str> {
    match (failure.fault, failure.detail) {
        (_, Detail::Errno(number)) if number == Errno::INVAL.raw_os_error() => {
            Some("The file system refuses the call. If direct = true, it may have no O_DIRECT: leave it out.")
        }
        (Fault::AccessDenied, _) => {
            Some("Let the user that runs dyno write to the directory. It must not be mounted read-only.")
        }
        (Fault::NoSpace, _) => Some("Free some space there, or take a smaller size."),
        (Fault::NoFiles, _) => Some("Raise the limit of open files (ulimit -n), or take fewer clients."),
        _ => None,
    }
}
