//! Cache of directory look-ups by path. NFSv3 looks up every component of every path, so a load needs this part of a
//! client's name cache. Files are looked up at each open.
//!
//! An entry is valid as long as Linux's client uses a directory without revalidation (nfs(5), `acdirmin`).

use crate::wire::FileHandle;
use std::collections::HashMap;

const AGE_NS: u64 = 30_000_000_000;
/// Maximum number of entries. When it is reached, all entries are dropped. A load uses a few directories, and a server
/// must not make the client's memory grow without limit.
const MOST: usize = 4096;

/// The known directories of a session.
#[derive(Debug, Default)]
pub(super) struct Names {
    root: Option<FileHandle>,
    known: HashMap<Box<str>, (FileHandle, u64)>,
}

impl Names {
    /// Forgets all directories, and sets the root of the export.
    pub(super) fn begin(&mut self, root: FileHandle) {
        self.known.clear();
        self.root = Some(root);
    }

    pub(super) fn root(&self) -> Option<FileHandle> {
        self.root
    }

    /// Returns the handle of the longest known prefix of `path`, and the length of that prefix.
    pub(super) fn nearest(&self, path: &str, now_ns: u64) -> Option<(FileHandle, usize)> {
        let mut end = path.len();
        while end > 0 {
            match self.known.get(&path[..end]) {
                Some(&(handle, until_ns)) if now_ns < until_ns => return Some((handle, end)),
                _ => end = path[..end].rfind('/').unwrap_or(0),
            }
        }
        self.root.map(|root| (root, 0))
    }

    pub(super) fn learn(&mut self, path: &str, handle: FileHandle, now_ns: u64) {
        if self.known.len() >= MOST {
            self.known.clear();
        }
        self.known
            .insert(path.into(), (handle, now_ns.saturating_add(AGE_NS)));
    }

    /// Forgets a path and everything below it.
    pub(super) fn forget(&mut self, path: &str) {
        let is_below = |known: &str| {
            known
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.known.retain(|known, _| !path.is_empty() && !is_below(known));
    }
}

/// Splits a path into parent directory and name.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// Returns whether a pattern has no wildcards.
pub(super) fn is_plain(pattern: &str) -> bool {
    !pattern.contains(['*', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_directory_is_used_until_it_expires() {
        let handle = |byte: u8| FileHandle::of(&[byte]).expect("short");
        let mut names = Names::default();
        assert_eq!(names.nearest("a/b", 0), None);
        names.begin(handle(0));
        names.learn("a", handle(1), 0);
        names.learn("a/b", handle(2), 10);
        assert_eq!(names.nearest("a/b/c", 0), Some((handle(2), 3)));
        assert_eq!(names.nearest("a/bc", 0), Some((handle(1), 1)));
        assert_eq!(names.nearest("a/b/c", AGE_NS), Some((handle(2), 3)));
        assert_eq!(names.nearest("a/c", AGE_NS), Some((handle(0), 0)));
        names.forget("a");
        assert_eq!(names.nearest("a/b/c", 0), Some((handle(0), 0)));
    }
}
