//! Directories that may receive load. The engine accepts only a `DirectoryTarget`, and only `DirectoryTarget::open`
//! creates one.
//!
//! The directory is opened once, so that it can't be replaced later. If its data is on another machine, that machine
//! must consent. The directory must then contain a file whose name contains the user's secret token. Only someone who
//! knows the token can create its content (`dyno_net::consent_document`).

use crate::posix::failure::failure;
use crate::posix::options::Options;
use crate::posix::session::Session;
use dyno_net::{unescaped, Consent, Document, Executor, Pace, TargetError};
use rustix::fs::{access, fstatfs, fstatvfs, open, openat2, Access, Mode, OFlags, ResolveFlags};
use rustix::io::{read, Errno};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAX_DOCUMENT_BYTES: usize = 4096;
/// Types of file systems that may be remote (statfs(2); `linux/magic.h`): NFS, three forms of SMB, AFS, Ceph,
/// 9P, Coda, Lustre, GPFS, OCFS2, GFS2, OrangeFS, FUSE.
const REMOTE_TYPES: [u64; 15] = [
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x5346_414f,
    0x6b41_4653,
    0x00c3_6400,
    0x0102_1997,
    0x7375_7245,
    0x0bd0_0bd0,
    0x4750_4653,
    0x7461_636f,
    0x0116_1970,
    0x2003_0528,
    FUSE_TYPE,
];
const FUSE_TYPE: u64 = 0x6573_5546;

/// A directory that may receive load.
#[derive(Debug, Clone)]
pub struct DirectoryTarget {
    root: Arc<OwnedFd>,
    path: PathBuf,
    shares: [String; 1],
    options: Options,
    is_local: bool,
    pace: Option<Pace>,
}

/// Types of file systems that contain objects of the kernel (`linux/magic.h`): proc, sysfs, cgroup, cgroup2, autofs,
/// debugfs, tracefs, securityfs, devpts.
const KERNEL_TYPES: [u64; 9] = [
    0x9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x0187,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x1cd1,
];

impl DirectoryTarget {
    /// Opens the directory at the absolute `path`. If it is remote, checks the consent file.
    pub fn open(path: &Path, options: Options, token: Option<&str>) -> Result<Self, TargetError> {
        if !path.is_absolute() {
            let text = format!("{} is not the absolute path of a directory", path.display());
            return Err(TargetError::Url(text));
        }
        let io = |errno: Errno| TargetError::Io(io::Error::from(errno));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(path, flags, Mode::empty()).map_err(io)?;
        let kind = file_system_type(&root).map_err(io)?;
        let target = Self {
            root: Arc::new(root),
            path: path.to_owned(),
            shares: [path.display().to_string()],
            options,
            is_local: !REMOTE_TYPES.contains(&kind),
            pace: None,
        };
        if !target.is_local {
            target.ask_consent(token)?;
        }
        Ok(target)
    }

    /// Opens the directory of a URL `file:///path`, with special characters as `%XX`.
    pub fn open_url(url: &str, options: Options, token: Option<&str>) -> Result<Self, TargetError> {
        let path = path_of(url).ok_or_else(|| {
            TargetError::Url(format!(
                "{url} is not the URL of a directory on this machine: use file:///PATH"
            ))
        })?;
        Self::open(&path, options, token)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory's path as its only share.
    pub fn shares(&self) -> &[String] {
        &self.shares
    }

    /// Returns whether the directory's file system is local.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    pub fn options(&self) -> Options {
        self.options
    }

    /// Returns whether the directory's file system has a fixed number of inodes, all of them in use.
    pub fn has_no_inodes(&self) -> bool {
        fstatvfs(&self.root).is_ok_and(|found| found.f_files > 0 && found.f_favail == 0)
    }

    /// Returns whether a program serves the directory's file system through FUSE.
    pub fn is_fuse(&self) -> bool {
        file_system_type(&self.root) == Ok(FUSE_TYPE)
    }

    /// Returns whether the user may write to the directory but not list it.
    pub fn may_not_be_listed(&self) -> bool {
        let may = |what| access(&self.path, what).is_ok();
        may(Access::WRITE_OK | Access::EXEC_OK) && !may(Access::READ_OK)
    }

    /// Returns whether the directory contains objects of the kernel, so that no files can be created there.
    pub fn is_of_the_kernel(&self) -> bool {
        file_system_type(&self.root).is_ok_and(|kind| KERNEL_TYPES.contains(&kind))
    }

    /// Returns a copy of the target with `pace` as the rate limit of its calls.
    #[must_use]
    pub fn paced(&self, pace: Option<Pace>) -> Self {
        Self { pace, ..self.clone() }
    }

    /// Returns the rate limit of all calls, or None if there is no limit.
    pub fn pace(&self) -> Option<&Pace> {
        self.pace.as_ref()
    }

    pub fn session(&self, executor: &Executor) -> Session {
        Session::new(
            executor.clone(),
            self.pace.clone(),
            self.root.clone(),
            self.options,
        )
    }

    fn ask_consent(&self, token: Option<&str>) -> Result<(), TargetError> {
        let read = |name: &str| self.beginning_of(name).map_err(failure);
        let document = Document::file("the directory");
        Consent::ask(&self.shares[0], token, document, read, |failure| {
            TargetError::of_session(&self.shares[0], failure, None)
        })
    }

    fn beginning_of(&self, name: &str) -> Result<Option<Vec<u8>>, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let file = match openat2(&*self.root, name, flags, Mode::empty(), resolve) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        };
        let mut document = vec![0; MAX_DOCUMENT_BYTES];
        let bytes = read(&file, &mut document[..])?;
        document.truncate(bytes);
        Ok(Some(document))
    }
}

/// Returns the type of the file system that contains an open file (`linux/magic.h`).
fn file_system_type(file: &OwnedFd) -> Result<u64, Errno> {
    // The type of this field differs between machines.
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)]
    fstatfs(file).map(|found| found.f_type as u64 & 0xffff_ffff)
}

fn path_of(url: &str) -> Option<PathBuf> {
    let rest = url.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    let bytes = unescaped(path).filter(|_| path.starts_with('/') && !path.contains(['?', '#', '\0']))?;
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::{path_of, DirectoryTarget};
    use crate::posix::Options;
    use dyno_net::TargetError;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    const TOKEN: &str = "0123456789abcdef";

    /// Returns the reason and the hint for the refusal of a directory. `make` creates its consent file.
    fn refused(make: impl FnOnce(&Path)) -> (String, &'static str) {
        let place = tempfile::tempdir().expect("a directory");
        make(&place.path().join(format!("serverdyno-{TOKEN}.txt")));
        let opened = DirectoryTarget::open(place.path(), Options::default(), None);
        match opened.expect("a local directory").ask_consent(Some(TOKEN)) {
            Err(TargetError::Session { why, advice }) => (why, advice.expect("a hint")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_unreadable_consent_file_is_named_in_the_refusal() {
        // Root may read any file, but links are not followed.
        let (why, advice) = refused(|file| symlink("elsewhere", file).expect("a link"));
        assert!(
            why.starts_with(&format!("the file serverdyno-{TOKEN}.txt in the directory: ")),
            "{why}"
        );
        assert!(advice.contains("chmod a+r"), "{advice}");
        let (_, advice) = refused(|file| std::fs::create_dir(file).expect("a directory"));
        assert!(advice.contains("must be a regular file"), "{advice}");
    }

    #[test]
    fn a_url_names_only_a_directory_of_this_machine() {
        assert_eq!(path_of("file:///a/b%20c").as_deref(), Some(Path::new("/a/b c")));
        assert_eq!(path_of("file://localhost/a").as_deref(), Some(Path::new("/a")));
        for url in [
            "file://elsewhere/a",
            "file:///a%00",
            "file:///a%2",
            "file:///a?b",
            "/a",
            "http:///a",
        ] {
            assert_eq!(path_of(url), None, "{url}");
        }
    }
}
