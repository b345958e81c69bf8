//! Follows a recording line by line: tracks its names and handles, and interprets each operation.
//!
//! `line.rs` parses lines, `player.rs` repeats passes.

use super::line::{self, Answer, Line, Request};
use super::{build_file, LoadFile, LoadFileError, RESTORE};
use crate::action_class::{class_of, ACTION_CLASSES};
use crate::player::Piece;
use crate::{FileAction, FileCatalogue, FileOp, Intent, PathId, Presence, Slot};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use xxhash_rust::xxh3::xxh3_64;

/// The client's own directory.
const ROOT: PathId = PathId(0);
/// Bits of an open's options (MS-SMB2 2.2.13, CreateOptions).
const DIRECTORY: u64 = 0x1;
/// Dispositions of an open (MS-SMB2 2.2.13, CreateDisposition).
const OPEN: u64 = 1;
const CREATE: u64 = 2;
const OPEN_IF: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Directory,
    File { bytes: u64 },
}

#[derive(Clone, Copy, Debug)]
struct Open {
    slot: Slot,
    path: PathId,
    /// Index of the step that opened the file.
    step: usize,
    /// Whether the open required neither a file nor a directory and its handle was used only for attributes,
    /// as at the start of a rename.
    looks: bool,
}

#[derive(Default)]
struct Follower {
    catalogue: FileCatalogue,
    ids: HashMap<String, PathId>,
    /// Paths as spelled in the file, which contains few different paths and repeats them often.
    spelled: HashMap<String, PathId>,
    nodes: BTreeMap<PathId, Node>,
    handles: HashMap<u64, Open>,
    free_slots: BTreeSet<u16>,
    slots: u16,
    counts: BTreeMap<&'static str, u64>,
    steps: Vec<FileOp>,
    generations: u32,
    setup: Setup,
    /// Whether a deltree of everything is deferred until the next operation.
    tree_goes: bool,
    /// Paths at which a pass creates something beyond its initial files, and initial paths that the pass removes.
    made: BTreeMap<PathId, Node>,
    removed: BTreeSet<PathId>,
}

/// The start of the load file, which creates files without using them.
#[derive(Default)]
struct Setup {
    over: bool,
    /// Index after the step that closed the last created file.
    end: usize,
    /// Number of names at the end of the set-up.
    names: usize,
    made: Vec<PathId>,
    /// The nodes at the end of the set-up.
    nodes: BTreeMap<PathId, Node>,
}

/// Interprets a whole load file.
pub(super) fn follow(content: &[u8]) -> Result<LoadFile, LoadFileError> {
    let mut follower = Follower::default();
    follower.id("");
    follower.nodes.insert(ROOT, Node::Directory);
    let mut error = LoadFileError::default();
    for (number, line) in (1..).zip(content.split(|&byte| byte == b'\n')) {
        let read = std::str::from_utf8(line)
            .map_err(|_| "is not UTF-8".to_owned())
            .and_then(line::parse);
        let followed = read.and_then(|line| line.map_or(Ok(()), |line| follower.take(&line)));
        if let Err(problem) = followed {
            error.add(number, problem);
        }
    }
    follower.end_setup();
    if error.problems.is_empty() && follower.steps.len() == follower.setup.end {
        error.add(0, "there is nothing to replay after the set-up".to_owned());
    }
    if error.problems.is_empty() {
        Ok(follower.finish(xxh3_64(content)))
    } else {
        Err(error)
    }
}

impl Follower {
    fn take(&mut self, line: &Line<'_>) -> Result<(), String> {
        *self.counts.entry(line.name).or_default() += 1;
        if std::mem::take(&mut self.tree_goes) {
            self.delete_tree(ROOT);
        }
        if !self.setup.over && !builds(line) {
            self.end_setup();
        }
        let there = line.answer == Answer::Ok;
        match line.request {
            Request::Open {
                path,
                options,
                disposition,
                handle,
            } if there => {
                self.open(path, options, disposition, handle)?;
            }
            Request::Open {
                path, disposition, ..
            } => self.open_in_vain(path, disposition)?,
            Request::QueryPath { path } => {
                let presence = self.presence(path, there)?;
                let path = self.path(path)?;
                self.push(FileAction::QueryPath { path, presence });
            }
            Request::Find { path } => self.find(path, there)?,
            Request::Delete { path } => {
                let presence = self.presence(path, there)?;
                let path = self.path(path)?;
                self.push(FileAction::Delete { path, presence });
                self.remove(path);
            }
            _ if !there => return Err(format!("{} of a missing file can't be replayed", line.name)),
            Request::Rename { from, to } => self.rename(from, to)?,
            Request::MakeDirectory { path } => self.make_directory(path)?,
            Request::RemoveDirectory { path } => {
                self.presence(path, true)?;
                let path = self.path(path)?;
                let presence = Presence::There;
                self.push(FileAction::RemoveDirectory { path, presence });
                self.remove(path);
            }
            Request::DeleteTree { path } => match self.path(path)? {
                ROOT => self.tree_goes = true,
                path => self.delete_tree(path),
            },
            Request::QuerySpace {} => self.push(FileAction::QuerySpace),
            Request::Close { handle } => self.close(handle)?,
            _ => self.use_handle(&line.request)?,
        }
        if !self.setup.over && self.handles.is_empty() && !looks(line) {
            self.setup.end = self.steps.len();
            self.setup.names = self.setup.made.len();
        }
        Ok(())
    }

    fn push(&mut self, action: FileAction) {
        let class = class_of(&action);
        self.steps.push(FileOp { class, action });
    }

    /// Returns the number of a path below the client's directory, in capitals. Patterns must match names that differ
    /// only in case, even on case-sensitive servers.
    fn id(&mut self, path: &str) -> PathId {
        let next = PathId(u32::try_from(self.catalogue.paths.len()).unwrap_or(u32::MAX));
        let paths = &mut self.catalogue.paths;
        let path = path.to_uppercase();
        *self.ids.entry(path).or_insert_with_key(|path| {
            paths.push(path.clone());
            next
        })
    }

    /// Returns the number of a path as spelled in the file.
    fn path(&mut self, path: &str) -> Result<PathId, String> {
        if let Some(&id) = self.spelled.get(path) {
            return Ok(id);
        }
        let id = self.id(&below_client(path)?);
        self.spelled.insert(path.to_owned(), id);
        Ok(id)
    }

    /// Returns whether the path must exist. Fails if the recorded answer contradicts the files so far.
    fn presence(&mut self, path: &str, there: bool) -> Result<Presence, String> {
        let id = self.path(path)?;
        match (there, self.nodes.contains_key(&id)) {
            (true, true) => Ok(Presence::There),
            (false, false) => Ok(Presence::NotThere),
            (true, false) => Err(format!("\"{path}\" is used, but no earlier line created it")),
            (false, true) => Err(format!("\"{path}\" was missing, but an earlier line created it")),
        }
    }

    fn make(&mut self, path: PathId, node: Node) -> Result<(), String> {
        let text = &self.catalogue.paths[path.0 as usize];
        let parent = text
            .rsplit_once('/')
            .map_or(String::new(), |(parent, _)| parent.to_owned());
        let parent = self.id(&parent);
        if self.nodes.get(&parent) != Some(&Node::Directory) {
            return Err("no earlier line created its directory".to_owned());
        }
        if self.setup.over {
            self.made.insert(path, node);
        } else if !self.nodes.contains_key(&path) {
            self.setup.made.push(path);
        }
        self.nodes.insert(path, node);
        Ok(())
    }

    fn remove(&mut self, path: PathId) {
        self.removed.insert(path);
        self.nodes.remove(&path);
    }

    fn open(&mut self, path: &str, options: u64, disposition: u64, handle: u64) -> Result<(), String> {
        if self.handles.contains_key(&handle) {
            return Err(format!("handle {handle} is already open"));
        }
        let id = self.path(path)?;
        let node = self.nodes.get(&id).copied();
        let directory = node.map_or(options & DIRECTORY != 0, |node| node == Node::Directory);
        let intent = match (disposition, node) {
            // Only the preparation creates the client's directory.
            (CREATE, Some(_)) if id == ROOT => Intent::MakeOrEdit,
            (OPEN, None) => return Err(format!("\"{path}\" is opened, but no earlier line created it")),
            (CREATE, Some(_)) => return Err(format!("\"{path}\" is created, but it already exists")),
            (OPEN, Some(_)) if directory => Intent::Look,
            (OPEN, Some(_)) => Intent::Edit,
            (CREATE, None) => Intent::Make,
            (OPEN_IF, _) => Intent::MakeOrEdit,
            // FILE_SUPERSEDE, FILE_OVERWRITE and FILE_OVERWRITE_IF.
            (0 | 4 | 5, _) => Intent::Replace,
            _ => return Err(format!("unknown disposition {disposition}")),
        };
        if intent == Intent::Replace || node.is_none() {
            let made = if directory {
                Node::Directory
            } else {
                Node::File { bytes: 0 }
            };
            self.make(id, made)?;
        }
        let slot = self.take_slot()?;
        let open = Open {
            slot,
            path: id,
            step: self.steps.len(),
            looks: options == 0 && disposition == OPEN,
        };
        self.handles.insert(handle, open);
        self.push(FileAction::Open {
            slot,
            path: id,
            intent,
            directory,
            presence: Presence::There,
        });
        Ok(())
    }

    fn open_in_vain(&mut self, path: &str, disposition: u64) -> Result<(), String> {
        if disposition != OPEN {
            return Err(format!(
                "\"{path}\" could not be created, which can't be replayed"
            ));
        }
        let presence = self.presence(path, false)?;
        let slot = self.take_slot()?;
        self.free_slots.insert(slot.0);
        let path = self.path(path)?;
        self.push(FileAction::Open {
            slot,
            path,
            intent: Intent::Edit,
            directory: false,
            presence,
        });
        Ok(())
    }

    fn take_slot(&mut self) -> Result<Slot, String> {
        if let Some(slot) = self.free_slots.pop_first() {
            return Ok(Slot(slot));
        }
        let slot = self.slots;
        self.slots = slot.checked_add(1).ok_or("too many files are open at once")?;
        Ok(Slot(slot))
    }

    fn close(&mut self, handle: u64) -> Result<(), String> {
        let open = self.handles.remove(&handle).ok_or_else(|| not_open(handle))?;
        self.free_slots.insert(open.slot.0);
        self.settle(&open);
        self.push(FileAction::Close { slot: open.slot });
        Ok(())
    }

    /// Changes an open whose handle was only used for attributes to an open for attributes.
    fn settle(&mut self, open: &Open) {
        if let FileAction::Open { intent, .. } = &mut self.steps[open.step].action {
            if open.looks && *intent == Intent::Edit {
                *intent = Intent::Look;
            }
        }
    }

    fn use_handle(&mut self, request: &Request<'_>) -> Result<(), String> {
        let (Request::Read { handle, .. }
        | Request::Write { handle, .. }
        | Request::Flush { handle }
        | Request::Lock { handle, .. }
        | Request::Unlock { handle, .. }
        | Request::QueryFile { handle }
        | Request::SetTimes { handle }) = *request
        else {
            return Ok(());
        };
        let open = self.handles.get_mut(&handle).ok_or_else(|| not_open(handle))?;
        let (slot, path) = (open.slot, open.path);
        // Setting times needs a right that an open for reading attributes does not request.
        open.looks &= matches!(request, Request::QueryFile { .. });
        let action = match *request {
            Request::Read { offset, bytes, .. } => FileAction::Read { slot, offset, bytes },
            Request::Write { offset, bytes, .. } => {
                if let Some(Node::File { bytes: size }) = self.nodes.get_mut(&path) {
                    *size = (*size).max(offset + u64::from(bytes));
                }
                self.generations = self.generations.wrapping_add(1);
                let generation = self.generations;
                FileAction::Write {
                    slot,
                    offset,
                    bytes,
                    generation,
                }
            }
            Request::Flush { .. } => FileAction::Flush { slot },
            Request::Lock { offset, bytes, .. } => FileAction::Lock { slot, offset, bytes },
            Request::Unlock { offset, bytes, .. } => FileAction::Unlock { slot, offset, bytes },
            Request::SetTimes { .. } => FileAction::SetTimes { slot },
            _ => FileAction::QueryFile { slot },
        };
        self.push(action);
        Ok(())
    }

    fn find(&mut self, path: &str, there: bool) -> Result<(), String> {
        let (directory, pattern) = path.rsplit_once(['\\', '/']).unwrap_or(("", path));
        let directory = self.path(directory)?;
        if there && self.nodes.get(&directory) != Some(&Node::Directory) {
            return Err(format!(
                "\"{path}\" is searched, but no earlier line created that directory"
            ));
        }
        // DOS wildcards (MS-FSCC 2.1.4.3), which differ from `*` and `?` only at a name's last dot.
        let pattern = pattern.to_uppercase().replace('<', "*").replace('>', "?");
        let patterns = &mut self.catalogue.patterns;
        let number = patterns
            .iter()
            .position(|known| *known == pattern)
            .unwrap_or_else(|| {
                patterns.push(pattern);
                patterns.len() - 1
            });
        let pattern = u16::try_from(number).map_err(|_| "too many different patterns")?;
        let presence = if there {
            Presence::There
        } else {
            Presence::NotThere
        };
        self.push(FileAction::Find {
            directory,
            pattern,
            presence,
        });
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), String> {
        self.presence(from, true)?;
        self.presence(to, false)?;
        let (from, to) = (self.path(from)?, self.path(to)?);
        let Some(&node @ Node::File { .. }) = self.nodes.get(&from) else {
            return Err("renames of directories can't be replayed".to_owned());
        };
        self.make(to, node)?;
        self.remove(from);
        for open in self.handles.values_mut().filter(|open| open.path == from) {
            open.path = to;
        }
        self.push(FileAction::Rename { from, to });
        Ok(())
    }

    fn make_directory(&mut self, path: &str) -> Result<(), String> {
        let id = self.path(path)?;
        // dbench queries its own directories, which may or may not exist.
        let presence = if self.nodes.contains_key(&id) {
            Presence::Either
        } else {
            Presence::NotThere
        };
        if presence == Presence::NotThere {
            self.make(id, Node::Directory)?;
        }
        self.push(FileAction::MakeDirectory { path: id, presence });
        Ok(())
    }

    /// Removes everything below `root`, contents before directories. Also removes `root`, unless it is the client's
    /// directory.
    fn delete_tree(&mut self, root: PathId) {
        let within = format!("{}/", self.catalogue.paths[root.0 as usize]);
        let paths = &self.catalogue.paths;
        let is_below = |path: &PathId| {
            *path != ROOT && (root == ROOT || *path == root || paths[path.0 as usize].starts_with(&within))
        };
        let mut below: Vec<PathId> = self.nodes.keys().copied().filter(is_below).collect();
        below.sort_by_key(|path| std::cmp::Reverse(paths[path.0 as usize].len()));
        for path in below {
            let presence = Presence::There;
            self.push(match self.nodes[&path] {
                Node::Directory => FileAction::RemoveDirectory { path, presence },
                Node::File { .. } => FileAction::Delete { path, presence },
            });
            self.remove(path);
        }
    }

    /// Ends the set-up. Files that the set-up has not closed belong to the pass.
    fn end_setup(&mut self) {
        if std::mem::replace(&mut self.setup.over, true) {
            return;
        }
        let (of_setup, of_pass) = self.setup.made.split_at(self.setup.names);
        let node = |path: &PathId| Some((*path, *self.nodes.get(path)?));
        self.made.extend(of_pass.iter().filter_map(node));
        self.setup.nodes = of_setup.iter().filter_map(node).collect();
        self.setup.nodes.insert(ROOT, Node::Directory);
        self.removed.clear();
    }

    fn finish(mut self, digest: u64) -> LoadFile {
        let marker = self.id(&format!("serverdyno-{digest:016x}.mrk"));
        let left_open: Vec<Open> = self.handles.drain().map(|(_, open)| open).collect();
        left_open.iter().for_each(|open| self.settle(open));
        let steps = self.steps.split_off(self.setup.end);
        let mut restore: Vec<FileAction> = left_open
            .iter()
            .map(|open| FileAction::Close { slot: open.slot })
            .collect();
        restore.extend(self.way_back(&self.nodes, Presence::There));
        // Collect everything that may exist or be missing after an error.
        let mut anything = self.setup.nodes.clone();
        anything.retain(|path, _| !self.removed.contains(path));
        anything.extend(&self.made);
        let recovery = self.way_back(&anything, Presence::Either);

        let mut directories: Vec<PathId> = Vec::new();
        let mut files = Vec::new();
        for (&path, &node) in &self.setup.nodes {
            match node {
                Node::Directory => directories.push(path),
                Node::File { bytes } => files.push((path, bytes)),
            }
        }
        directories.sort_by_key(|path| self.catalogue.paths[path.0 as usize].len());
        let slots = self.slots.max(1);
        // The player omits closes of files that are not open.
        let closes = (0..slots).map(|slot| FileAction::Close { slot: Slot(slot) });
        let restores = |action| FileOp {
            class: RESTORE,
            action,
        };
        let pass = Piece {
            steps,
            // Files that are restored after a pass have generation 0.
            generations: self.generations.wrapping_add(1),
            restore: restore.into_iter().map(restores).collect(),
            recovery: closes.chain(recovery.iter().copied()).map(restores).collect(),
            sweeps: false,
        };
        LoadFile {
            catalogue: FileCatalogue {
                classes: ACTION_CLASSES
                    .into_iter()
                    .chain(["restore"])
                    .map(str::to_owned)
                    .collect(),
                ..self.catalogue
            },
            counts: self.counts,
            pass,
            recovery,
            directories,
            files,
            marker,
            slots: slots.into(),
        }
    }

    /// Returns the actions that restore the initial files of a pass from `nodes`.
    fn way_back(&self, nodes: &BTreeMap<PathId, Node>, presence: Presence) -> Vec<FileAction> {
        let length = |path: &PathId| self.catalogue.paths[path.0 as usize].len();
        let mut extra: Vec<_> = nodes
            .iter()
            .filter(|(path, _)| !self.setup.nodes.contains_key(path))
            .collect();
        extra.sort_by_key(|(path, _)| std::cmp::Reverse(length(path)));
        let mut missing: Vec<_> = self
            .setup
            .nodes
            .iter()
            .filter(|(path, _)| !nodes.contains_key(path))
            .collect();
        missing.sort_by_key(|(path, _)| length(path));

        let mut actions: Vec<FileAction> = extra
            .into_iter()
            .map(|(&path, node)| match node {
                Node::Directory => FileAction::RemoveDirectory { path, presence },
                Node::File { .. } => FileAction::Delete { path, presence },
            })
            .collect();
        for (&path, &node) in missing {
            match node {
                Node::Directory => actions.push(FileAction::MakeDirectory {
                    path,
                    presence: Presence::Either,
                }),
                Node::File { bytes } => actions.extend(build_file(path, bytes)),
            }
        }
        actions
    }
}

fn not_open(handle: u64) -> String {
    format!("handle {handle} is not open")
}

/// Returns whether a line may belong to the set-up: it creates something, or looks for something that is
/// missing.
fn builds(line: &Line<'_>) -> bool {
    match line.request {
        Request::Open { disposition, .. } => line.answer == Answer::NotThere || disposition != OPEN,
        Request::QueryPath { .. } | Request::Find { .. } => line.answer == Answer::NotThere,
        Request::Close { .. }
        | Request::Write { .. }
        | Request::QueryFile { .. }
        | Request::QuerySpace {}
        | Request::MakeDirectory { .. }
        | Request::DeleteTree { .. } => true,
        _ => false,
    }
}

/// Returns whether a line that may belong to the set-up creates nothing.
fn looks(line: &Line<'_>) -> bool {
    line.answer == Answer::NotThere || matches!(line.request, Request::QuerySpace {})
}

/// Converts a path in the load file to a path below the client's directory, with `/` between its parts.
fn below_client(path: &str) -> Result<String, String> {
    let mut parts: Vec<&str> = path.split(['\\', '/']).filter(|part| !part.is_empty()).collect();
    let known = ["clients", "client1"];
    let own = parts
        .iter()
        .zip(known)
        .take_while(|(part, name)| part.eq_ignore_ascii_case(name))
        .count();
    if own == known.len() || own == parts.len() {
        parts.drain(..own);
    }
    let is_bad = |part: &&str| {
        let has_bad = part.contains(|character: char| character.is_control() || "*?<>|:".contains(character));
        has_bad || matches!(*part, "." | "..")
    };
    if let Some(part) = parts.iter().find(|part| is_bad(part)) {
        return Err(format!("\"{path}\": \"{part}\" is not a valid name"));
    }
    Ok(parts.join("/"))
}
