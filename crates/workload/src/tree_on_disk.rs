//! The document tree on a disk: writing it for a server under test, and proving that it is whole.
//!
//! Not for: choosing the place, nor for who owns it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::{File, Tree};

/// More problems of a tree than this tell nothing new.
pub const MOST_PROBLEMS_REPORTED: usize = 20;
/// A server's workers, which run as another user, must be able to read.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// Why a tree was not written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    /// The file or directory.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

/// Writes every file of `tree` below `directory`, which must exist. Files have mode 0644 and directories 0755,
/// whatever the umask. Files that are there already are written again; other files are left alone.
///
/// # Errors
/// The first file or directory that cannot be written; those before it stay.
pub fn write_tree(tree: &Tree, directory: &Path) -> Result<(), WriteError> {
    let root = directory.join(&tree.table().root);
    create_directory(&root)?;
    for class in tree.classes().iter().filter(|class| !class.contents.missing()) {
        create_directory(&root.join(&class.stem))?;
    }
    for file in tree.files() {
        let path = place(directory, &file.path);
        fs::write(&path, file.content())
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(FILE_MODE)))
            .map_err(|source| WriteError { path, source })?;
    }
    Ok(())
}

/// What is wrong with a tree that was written below `directory`: files that are missing or cannot be read, that have
/// another size or content, and files that must not exist. At most [`MOST_PROBLEMS_REPORTED`]; empty when whole.
#[must_use]
pub fn check_tree(tree: &Tree, directory: &Path) -> Vec<String> {
    let of_files = tree
        .files()
        .iter()
        .filter_map(|file| problem_of(file, &place(directory, &file.path)));
    let of_missing = tree.missing().iter().filter_map(|(_, path)| {
        let path = place(directory, path);
        let there = path.symlink_metadata().is_ok();
        there.then(|| format!("{}: exists, but must not", path.display()))
    });
    of_files.chain(of_missing).take(MOST_PROBLEMS_REPORTED).collect()
}

fn problem_of(file: &File, path: &Path) -> Option<String> {
    let problem = match fs::metadata(path) {
        Err(error) => error.to_string(),
        Ok(facts) if !facts.is_file() => "not a regular file".to_owned(),
        // Before reading, so that no file larger than expected is ever read.
        Ok(facts) if facts.len() != file.bytes => {
            format!("{} bytes, but must have {}", facts.len(), file.bytes)
        }
        Ok(_) => match fs::read(path) {
            Err(error) => error.to_string(),
            Ok(content) if content != file.content() => "wrong content".to_owned(),
            Ok(_) => return None,
        },
    };
    Some(format!("{}: {problem}", path.display()))
}

fn create_directory(path: &Path) -> Result<(), WriteError> {
    let created = match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other,
    };
    created
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE)))
        .map_err(|source| WriteError {
            path: path.to_owned(),
            source,
        })
}

fn place(directory: &Path, path: &str) -> PathBuf {
    directory.join(path.trim_start_matches('/'))
}
