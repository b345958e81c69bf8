//! Table of remedies for directories that can't be used. The first row that applies is used.

use crate::posix::DirectoryTarget;
use crate::{Hint, WRONG_CONTENT};
use dyno_measure::{Failure, Fault};
use dyno_net::NO_FILES;
use rustix::io::Errno;

/// Returns a suggested remedy for a failure, or None if there is nothing to add to its message.
#[must_use]
pub fn advice(failure: &Failure, directory: &DirectoryTarget) -> Option<&'static str> {
    Hint::first(HINTS, failure, |_| None, directory)
}

type Row = Hint<(), DirectoryTarget>;

const INVALID: &[u32] = &[Errno::INVAL.raw_os_error().unsigned_abs()];
const READ_ONLY: &[u32] = &[Errno::ROFS.raw_os_error().unsigned_abs()];
const FORBIDDEN: &[u32] = &[Errno::PERM.raw_os_error().unsigned_abs()];
const QUOTA: &[u32] = &[Errno::DQUOT.raw_os_error().unsigned_abs()];
const TOO_LARGE: &[u32] = &[Errno::FBIG.raw_os_error().unsigned_abs()];
const DEVICE: &[u32] = &[Errno::IO.raw_os_error().unsigned_abs()];
const HANGING: &[u32] = &[Errno::NOTCONN.raw_os_error().unsigned_abs()];

const KERNELS: &str =
    "This is a file system of the kernel (such as proc, sysfs, cgroup or autofs), where no \
    files can be created: use a directory on a disk.";

#[rustfmt::skip]
const HINTS: &[Row] = &[
    Row::failed(Fault::AccessDenied, &[], KERNELS).when(DirectoryTarget::is_of_the_kernel),
    Row::failed(Fault::NotFound, &[], KERNELS).when(DirectoryTarget::is_of_the_kernel),
    Row::failed(Fault::ErrorStatus, &[], KERNELS).when(DirectoryTarget::is_of_the_kernel),
    Row::failed(Fault::ErrorStatus, INVALID, "The file system refuses the call: it may not support O_DIRECT. Leave out direct = true (--direct).").when(|directory| directory.options().direct),
    Row::failed(Fault::ErrorStatus, INVALID, "The file system refuses a call that the workload needs: use a directory on another file system."),
    Row::failed(Fault::ErrorStatus, TOO_LARGE, "The file would exceed the largest size that a file may have in this directory: raise the limit (ulimit -f), or use a smaller size."),
    Row::failed(Fault::ErrorStatus, DEVICE, "The disk or the server of the file system failed: see the kernel's log (dmesg)."),
    Row::failed(Fault::ErrorStatus, HANGING, "The program that serves the file system has ended: mount the file system again."),
    Row::failed(Fault::AccessDenied, READ_ONLY, "The file system is mounted read-only: mount it with rw, or use another directory."),
    Row::failed(Fault::AccessDenied, FORBIDDEN, "The program that serves this file system (FUSE) refuses the call: its log says why. It may not read and write one file at the same time (rclone: VFS cache mode writes).").when(DirectoryTarget::is_fuse),
    Row::failed(Fault::AccessDenied, FORBIDDEN, "The directory, or a file in it, may be immutable or append-only (lsattr -d shows i or a): chattr -i -a. Files that could not be removed are still there."),
    Row::failed(Fault::AccessDenied, &[], "Let the user that runs dyno also list the directory: it may write there, but not read (chmod u+r, or another user).").when(DirectoryTarget::may_not_be_listed),
    Row::failed(Fault::AccessDenied, &[], "Let the user that runs dyno write to the directory."),
    Row::failed(Fault::NotFound, &[], "A file of this load, or the directory that contained it, is gone: another program removed it."),
    Row::failed(Fault::WrongContent, &[], WRONG_CONTENT),
    Row::failed(Fault::NoSpace, QUOTA, "The quota is used up: raise it, or use a smaller size."),
    Row::failed(Fault::NoSpace, &[], "The inodes are used up (df -i), so no more files can be created: remove files, or use fewer (--scale).").when(DirectoryTarget::has_no_inodes),
    Row::failed(Fault::NoSpace, &[], "The file system is full: free some space, or use a smaller size."),
    Row::failed(Fault::NoFiles, &[], NO_FILES),
];
