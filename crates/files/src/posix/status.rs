//! Converts the results of stat(2) to the types of file calls.

use crate::Info;
use rustix::fs::{FileType, Stat};

#[allow(clippy::cast_sign_loss)] // Times before 1970 only have to differ from other times.
pub(crate) fn info(found: &Stat) -> Info {
    let written_ns = (found.st_mtime as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(found.st_mtime_nsec);
    let bytes = found.st_size as u64;
    Info {
        file_id: found.st_ino,
        change: written_ns.rotate_left(17) ^ bytes,
        bytes,
        allocated_bytes: found.st_blocks as u64 * 512,
        directory: FileType::from_raw_mode(found.st_mode) == FileType::Directory,
        read_only: found.st_mode & 0o222 == 0,
    }
}
