//! Looking up, adding and removing names.

use super::contents::Contents;
use super::directory::Directory;
use super::node::Body;
use super::{Caller, Files, Made, Refused, MOST_LINKS, MOST_NAME_BYTES, NODE_BYTES};
use dyno_nfs::status::Status;
use dyno_nfs::wire::{How, SetAttributes};

const FILE_MODE: u32 = 0o644;

impl Files {
    pub(super) fn directory(&self, slot: usize) -> Result<&Directory, Refused> {
        match &self.nodes[slot].body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Status::NotDir.into()),
        }
    }

    fn directory_mut(&mut self, slot: usize) -> Result<&mut Directory, Refused> {
        match &mut self.nodes[slot].body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(Status::NotDir.into()),
        }
    }

    /// Looks up a name, including `.` and `..`. The root is its own parent.
    pub(crate) fn look_up(&self, at: usize, name: &[u8]) -> Result<usize, Refused> {
        let directory = self.directory(at)?;
        match name {
            b"." => Ok(at),
            b".." => Ok(directory.parent),
            _ if name.len() > MOST_NAME_BYTES as usize => Err(Status::NameTooLong.into()),
            _ => directory.get(name).ok_or_else(|| Status::NoEnt.into()),
        }
    }

    /// Checks that a name is valid and free in a directory.
    fn need_free(&self, at: usize, name: &[u8]) -> Result<(), Refused> {
        match self.look_up(at, name) {
            Ok(_) => Err(Status::Exist.into()),
            Err(Refused(Status::NoEnt)) => check_name(name),
            Err(other) => Err(other),
        }
    }

    /// Creates a file, or finds the existing one, as `how` requires.
    pub(crate) fn create(
        &mut self,
        at: usize,
        name: &[u8],
        how: &How,
        caller: Caller,
    ) -> Result<usize, Refused> {
        match (self.need_free(at, name), how) {
            (Ok(()), _) => {}
            (Err(Refused(Status::Exist)), How::Unchecked(set)) => {
                let slot = self.look_up(at, name)?;
                if self.nodes[slot].is_directory() {
                    return Err(Status::Exist.into());
                }
                if set.bytes.is_some() {
                    let bytes = set.bytes;
                    self.set(
                        slot,
                        &SetAttributes {
                            bytes,
                            ..SetAttributes::default()
                        },
                    )?;
                }
                return Ok(slot);
            }
            (Err(Refused(Status::Exist)), How::Exclusive(verifier)) => {
                let slot = self.look_up(at, name)?;
                let is_same = self.nodes[slot].verifier == Some(*verifier);
                return is_same.then_some(slot).ok_or_else(|| Status::Exist.into());
            }
            (Err(other), _) => return Err(other),
        }
        let body = Body::File(Contents::default());
        match how {
            How::Unchecked(set) | How::Guarded(set) => self.add(at, name, body, FILE_MODE, set, caller),
            How::Exclusive(verifier) => {
                let slot = self.add(at, name, body, FILE_MODE, &SetAttributes::default(), caller)?;
                self.nodes[slot].verifier = Some(*verifier);
                Ok(slot)
            }
        }
    }

    /// Creates an object other than a regular file.
    pub(crate) fn make(
        &mut self,
        at: usize,
        name: &[u8],
        made: Made<'_>,
        set: &SetAttributes,
        caller: Caller,
    ) -> Result<usize, Refused> {
        self.need_free(at, name)?;
        let set = &SetAttributes { bytes: None, ..*set };
        let (body, mode) = match made {
            Made::Directory if self.nodes[at].links >= MOST_LINKS => return Err(Status::MLink.into()),
            Made::Directory => (Body::Directory(Directory::new(at)), 0o755),
            Made::SymbolicLink(target) => (Body::SymbolicLink(target.into()), 0o777),
            Made::Special(kind, device) => (Body::Special(kind, device), FILE_MODE),
        };
        self.add(at, name, body, mode, set, caller)
    }

    fn add(
        &mut self,
        at: usize,
        name: &[u8],
        body: Body,
        mode: u32,
        set: &SetAttributes,
        caller: Caller,
    ) -> Result<usize, Refused> {
        self.space.take(NODE_BYTES)?;
        let is_directory = matches!(body, Body::Directory(_));
        let slot = self.add_node(body, mode, caller);
        if let Err(refused) = self.set(slot, set) {
            self.nodes.remove(slot);
            self.space.give(NODE_BYTES);
            return Err(refused);
        }
        self.directory_mut(at)?.add(name, slot);
        self.names_changed(at);
        self.nodes[at].links += u32::from(is_directory);
        Ok(slot)
    }

    fn names_changed(&mut self, at: usize) {
        let now = self.now();
        self.nodes[at].was_written(now);
    }

    /// Removes a name, for REMOVE, or for RMDIR if `directory`.
    pub(crate) fn remove(&mut self, at: usize, name: &[u8], directory: bool) -> Result<(), Refused> {
        if matches!(name, b"." | b"..") {
            return Err(Status::Inval.into());
        }
        let slot = self.look_up(at, name)?;
        match (&self.nodes[slot].body, directory) {
            (Body::Directory(_), false) => return Err(Status::IsDir.into()),
            (Body::Directory(names), true) if !names.is_empty() => return Err(Status::NotEmpty.into()),
            (Body::Directory(_), true) => {}
            (_, true) => return Err(Status::NotDir.into()),
            (_, false) => {}
        }
        self.take_name(at, name, slot)
    }

    /// Removes a name of a file. Removes the file with its last name.
    fn take_name(&mut self, at: usize, name: &[u8], slot: usize) -> Result<(), Refused> {
        self.directory_mut(at)?.remove(name);
        self.space.give(NODE_BYTES);
        self.names_changed(at);
        let now = self.now();
        let node = &mut self.nodes[slot];
        node.changed = now;
        if node.is_directory() {
            self.nodes.remove(slot);
            self.nodes[at].links -= 1;
            return Ok(());
        }
        node.links -= 1;
        if node.links == 0 {
            if let Body::File(contents) = &mut node.body {
                contents.discard(&self.space);
            }
            self.nodes.remove(slot);
        }
        Ok(())
    }

    pub(crate) fn rename(
        &mut self,
        from_at: usize,
        from: &[u8],
        to_at: usize,
        to: &[u8],
    ) -> Result<(), Refused> {
        if [from, to].iter().any(|name| matches!(*name, b"." | b"..")) {
            return Err(Status::Inval.into());
        }
        let slot = self.look_up(from_at, from)?;
        let is_directory = self.nodes[slot].is_directory();
        if is_directory && self.is_below(to_at, slot) {
            return Err(Status::Inval.into());
        }
        match self.look_up(to_at, to) {
            Ok(there) if there == slot => return Ok(()),
            Ok(there) => match (is_directory, self.nodes[there].is_directory()) {
                (true, false) => return Err(Status::NotDir.into()),
                (false, true) => return Err(Status::IsDir.into()),
                _ => self.remove(to_at, to, is_directory)?,
            },
            Err(Refused(Status::NoEnt)) => check_name(to)?,
            Err(other) => return Err(other),
        }
        self.directory_mut(from_at)?.remove(from);
        self.directory_mut(to_at)?.add(to, slot);
        for at in [from_at, to_at] {
            self.names_changed(at);
        }
        let now = self.now();
        let node = &mut self.nodes[slot];
        node.changed = now;
        if let Body::Directory(directory) = &mut node.body {
            directory.parent = to_at;
            self.nodes[from_at].links -= 1;
            self.nodes[to_at].links += 1;
        }
        Ok(())
    }

    /// Returns whether a directory is `above` itself or below it.
    fn is_below(&self, slot: usize, above: usize) -> bool {
        let mut at = slot;
        while at != above {
            match &self.nodes[at].body {
                Body::Directory(directory) if at != self.root => at = directory.parent,
                _ => return false,
            }
        }
        true
    }

    pub(crate) fn link(&mut self, slot: usize, at: usize, name: &[u8]) -> Result<(), Refused> {
        self.need_free(at, name)?;
        let node = &self.nodes[slot];
        if node.is_directory() {
            return Err(Status::IsDir.into());
        }
        if node.links >= MOST_LINKS {
            return Err(Status::MLink.into());
        }
        self.space.take(NODE_BYTES)?;
        self.directory_mut(at)?.add(name, slot);
        self.names_changed(at);
        let now = self.now();
        let node = &mut self.nodes[slot];
        node.links += 1;
        node.changed = now;
        Ok(())
    }
}

fn check_name(name: &[u8]) -> Result<(), Refused> {
    if name.len() > MOST_NAME_BYTES as usize {
        return Err(Status::NameTooLong.into());
    }
    match name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        true => Err(Status::Inval.into()),
        false => Ok(()),
    }
}
