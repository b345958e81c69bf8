//! Paths of a client's files, and calls by path.

use dyno_files::{Access, Call, Disposition};
use dyno_workload::{FileAction, FileCatalogue, Intent, PathId, Presence};

/// Paths of one client's workspace on the server.
#[derive(Debug)]
pub(crate) struct Names {
    /// The client's directory. Free space is queried here, not in the share's root, which is a bottleneck and
    /// occasionally crashes Samba 4.17.
    directory: String,
    paths: Vec<String>,
    patterns: Vec<String>,
}

impl Names {
    pub(crate) fn new(catalogue: &FileCatalogue, directory: &str) -> Self {
        let parent = directory.rsplit_once('/').map_or("", |(parent, _)| parent);
        let below = |path: &String| match (path.as_str(), path.strip_prefix("../")) {
            ("", _) => directory.to_owned(),
            ("..", _) => parent.to_owned(),
            (_, Some(name)) => format!("{parent}/{name}"),
            (path, None) => format!("{directory}/{path}"),
        };
        Self {
            directory: directory.to_owned(),
            paths: catalogue.paths.iter().map(below).collect(),
            patterns: catalogue.patterns.clone(),
        }
    }

    pub(crate) fn path(&self, id: PathId) -> &str {
        &self.paths[id.0 as usize]
    }

    /// Returns the call of an action on a path, and whether the path must exist. Returns None for actions on
    /// open files.
    pub(crate) fn call_by_path(&self, action: &FileAction) -> Option<(Call<'_>, Option<Presence>)> {
        Some(match *action {
            FileAction::QueryPath { path, presence } => {
                let path = self.path(path);
                (Call::QueryPath { path }, Some(presence))
            }
            FileAction::QuerySpace => {
                let directory = &self.directory;
                (Call::QuerySpace { directory }, None)
            }
            FileAction::Find {
                directory,
                pattern,
                presence,
            } => {
                let (directory, pattern) = (self.path(directory), &self.patterns[usize::from(pattern)]);
                (Call::Find { directory, pattern }, Some(presence))
            }
            FileAction::Rename { from, to } => {
                let (from, to) = (self.path(from), self.path(to));
                (Call::Rename { from, to }, None)
            }
            FileAction::Delete { path, presence } => {
                let path = self.path(path);
                (Call::Delete { path }, Some(presence))
            }
            FileAction::MakeDirectory { path, presence } => {
                let path = self.path(path);
                (Call::MakeDirectory { path }, Some(presence))
            }
            FileAction::RemoveDirectory { path, presence } => {
                let path = self.path(path);
                (Call::RemoveDirectory { path }, Some(presence))
            }
            _ => return None,
        })
    }
}

/// Returns the access and disposition that an application uses to open a file for `intent`.
pub(super) fn wanted(intent: Intent) -> (Access, Disposition) {
    match intent {
        Intent::Look => (Access::Attributes, Disposition::Open),
        Intent::Read => (Access::Read, Disposition::Open),
        Intent::Edit => (Access::ReadWrite, Disposition::Open),
        Intent::Make => (Access::ReadWrite, Disposition::Create),
        Intent::MakeOrEdit => (Access::ReadWrite, Disposition::OpenIf),
        Intent::Replace => (Access::ReadWrite, Disposition::OverwriteIf),
    }
}
