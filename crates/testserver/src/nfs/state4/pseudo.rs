//! Directories from the server's root to its exports (RFC 8881, 7.3). They are read-only.

use super::status::Outcome;
use dyno_nfs::status::Status;
use dyno_nfs::wire::{Attributes3, FileHandle, Time, DIRECTORY};

/// Value in a handle instead of the number of an export.
const NO_EXPORT: u32 = u32::MAX;
const HANDLE_BYTES: usize = 16;
const MODE: u32 = 0o555;

/// What a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::nfs) enum Step {
    Directory(usize),
    /// Index of the export.
    Export(usize),
}

#[derive(Debug)]
struct Directory {
    parent: usize,
    names: Vec<(Box<[u8]>, Step)>,
}

#[derive(Debug)]
pub(in crate::nfs) struct Pseudo {
    server: u64,
    made: Time,
    directories: Vec<Directory>,
}

impl Pseudo {
    /// Creates the directories. `server` differs between starts of a server.
    pub(in crate::nfs) fn new<'a>(server: u64, made: Time, exports: impl Iterator<Item = &'a str>) -> Self {
        let mut tree = Self {
            server,
            made,
            directories: Vec::new(),
        };
        tree.add(0);
        for (number, path) in exports.enumerate() {
            let mut at = 0;
            let mut names = path.split('/').filter(|name| !name.is_empty()).peekable();
            while let Some(name) = names.next() {
                let known = tree.step(at, name.as_bytes());
                match (known, names.peek()) {
                    (None, None) => tree.name(at, name, Step::Export(number)),
                    (None, Some(_)) => {
                        let below = tree.add(at);
                        tree.name(at, name, Step::Directory(below));
                        at = below;
                    }
                    (Some(Step::Directory(below)), Some(_)) => at = below,
                    // The export is below or above another one, so only NFSv3 can reach it.
                    _ => break,
                }
            }
        }
        tree
    }

    fn add(&mut self, parent: usize) -> usize {
        let names = Vec::new();
        self.directories.push(Directory { parent, names });
        self.directories.len() - 1
    }

    fn name(&mut self, at: usize, name: &str, step: Step) {
        self.directories[at].names.push((name.as_bytes().into(), step));
    }

    pub(in crate::nfs) fn handle(&self, at: usize) -> Outcome<FileHandle> {
        let mut bytes = [0; HANDLE_BYTES];
        bytes[..8].copy_from_slice(&self.server.to_be_bytes());
        bytes[8..12].copy_from_slice(&NO_EXPORT.to_be_bytes());
        let place = u32::try_from(at).map_err(|_| Status::ServerFault)?;
        bytes[12..].copy_from_slice(&place.to_be_bytes());
        FileHandle::of(&bytes).ok_or_else(|| Status::ServerFault.into())
    }

    /// Returns the directory of a handle, or None if the handle is not from this tree.
    pub(in crate::nfs) fn find(&self, handle: &FileHandle) -> Option<usize> {
        let bytes: [u8; HANDLE_BYTES] = handle.as_bytes().try_into().ok()?;
        let of_tree = bytes[..8] == self.server.to_be_bytes() && bytes[8..12] == NO_EXPORT.to_be_bytes();
        let place = u32::from_be_bytes(bytes[12..].try_into().ok()?) as usize;
        (of_tree && place < self.directories.len()).then_some(place)
    }

    pub(in crate::nfs) fn step(&self, at: usize, name: &[u8]) -> Option<Step> {
        let names = &self.directories[at].names;
        names
            .iter()
            .find(|(known, _)| **known == *name)
            .map(|(_, step)| *step)
    }

    /// Returns the parent directory, or None for the root.
    pub(in crate::nfs) fn parent(&self, at: usize) -> Option<usize> {
        (at != 0).then(|| self.directories[at].parent)
    }

    /// Returns the directory that contains the export.
    pub(in crate::nfs) fn above_export(&self, number: usize) -> usize {
        let has = |directory: &Directory| {
            directory
                .names
                .iter()
                .any(|(_, step)| *step == Step::Export(number))
        };
        self.directories.iter().position(has).unwrap_or(0)
    }

    /// Returns the names, starting at index `place`.
    pub(in crate::nfs) fn names(&self, at: usize, place: usize) -> impl Iterator<Item = (&[u8], Step)> {
        let names = self.directories[at].names.iter().skip(place);
        names.map(|(name, step)| (&**name, *step))
    }

    pub(in crate::nfs) fn attributes(&self, at: usize) -> Attributes3 {
        Attributes3 {
            kind: DIRECTORY,
            mode: MODE,
            links: 2,
            bytes: 4096,
            file_id: at as u64 + 1,
            accessed: self.made,
            modified: self.made,
            changed: self.made,
            ..Attributes3::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_export_is_found_on_its_path_and_back() {
        let tree = Pseudo::new(9, (1, 2), ["/volume1", "/a/b/c", "/a/d"].into_iter());
        assert_eq!(tree.step(0, b"volume1"), Some(Step::Export(0)));
        let Some(Step::Directory(a)) = tree.step(0, b"a") else {
            panic!("a directory");
        };
        assert_eq!(tree.step(a, b"d"), Some(Step::Export(2)));
        assert_eq!(
            (tree.above_export(2), tree.parent(a), tree.parent(0)),
            (a, Some(0), None)
        );
        assert_eq!(tree.names(0, 0).count(), 2);
        let handle = tree.handle(a).expect("short");
        assert_eq!(tree.find(&handle), Some(a));
        let other = Pseudo::new(10, (1, 2), std::iter::empty());
        assert_eq!(other.find(&handle), None);
    }
}
