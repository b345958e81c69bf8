//! The document tree on a disk: writes it for a server under test, and verifies it.
//!
//! The caller chooses the directory and the owner of the files.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::{File, Tree};

/// Maximum number of problems reported per tree. More would give no new information.
pub const MOST_PROBLEMS_REPORTED: usize = 20;
/// Mode of the files: readable by a server's workers, which run as another user.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// The reason why a tree was not written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    pub path: PathBuf,
    /// The operating system's error.
    pub source: io::Error,
}

/// Writes every file of `tree` below `directory`, which must exist. Files have mode 0644 and directories
/// 0755, independent of the umask. Overwrites existing files and leaves others alone.
///
/// # Errors
/// The first file or directory that can't be written. Earlier ones stay.
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

/// Returns the problems of a tree below `directory`: files that are missing, unreadable, of the wrong size or
/// content, or that must not exist. Returns at most [`MOST_PROBLEMS_REPORTED`], and none if the tree is
/// complete.
pub fn check_tree(tree: &Tree, directory: &Path) -> Vec<String> {
    let of_files = tree
        .files()
        .iter()
        .filter_map(|file| problem_of(file, &place(directory, &file.path)));
    let of_missing = tree.missing().iter().filter_map(|(_, path)| {
        let path = place(directory, path);
        let there = path.symlink_metadata().is_ok();
        there.then(|| format!("{}: exists, but must not exist", path.display()))
    });
    of_files.chain(of_missing).take(MOST_PROBLEMS_REPORTED).collect()
}

fn problem_of(file: &File, path: &Path) -> Option<String> {
    let problem = match fs::metadata(path) {
        Err(error) => error.to_string(),
        Ok(facts) if !facts.is_file() => "is not a regular file".to_owned(),
        // Check the size first, so that no file larger than expected is read.
        Ok(facts) if facts.len() != file.bytes => {
            format!("has {} bytes, but must have {}", facts.len(), file.bytes)
        }
        Ok(_) => match fs::read(path) {
            Err(error) => error.to_string(),
            Ok(content) if content != file.content() => "has the wrong content".to_owned(),
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
