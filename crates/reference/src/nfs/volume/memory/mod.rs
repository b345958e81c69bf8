//! The files of an export in memory. Knows nothing of messages, but answers with the statuses of NFS.

mod contents;
mod directory;
mod names;
mod node;

use super::files::{Caller, Files, Found, Listed, Made, Refused, Room, Unsynced, PARENT_COOKIE};
use crate::nfs::options::Flush;
use crate::pages::{Full, Space, MAX_FILE_BYTES};
use contents::Contents;
use directory::Directory;
use dyno_nfs::status::Status;
use dyno_nfs::wire::{Attributes3, How, SetAttributes, SetTime, Time};
use node::{Body, Node};
use slab::Slab;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a name and the rest of a node are reckoned at, so that empty files are bounded too.
const NODE_BYTES: u64 = 1024;
const ROOT_MODE: u32 = 0o777;

impl From<Full> for Refused {
    fn from(_: Full) -> Self {
        Self(Status::NoSpc)
    }
}

/// The files of an export.
#[derive(Debug)]
pub(crate) struct Memory {
    nodes: Slab<Node>,
    root: usize,
    last_serial: u64,
    space: Arc<Space>,
    flush: Flush,
    last_time: Time,
}

impl Memory {
    /// None but the root.
    pub(crate) fn new(space: Arc<Space>, flush: Flush) -> Self {
        let mut files = Self {
            nodes: Slab::new(),
            root: 0,
            last_serial: 0,
            space,
            flush,
            last_time: (0, 0),
        };
        let owner = Caller { uid: 0, gid: 0 };
        let root = files.add_node(Body::Directory(Directory::new(0)), ROOT_MODE, owner);
        files.root = root;
        let node = &mut files.nodes[root];
        node.links = 2;
        if let Body::Directory(directory) = &mut node.body {
            directory.parent = root;
        }
        files
    }

    fn add_node(&mut self, body: Body, mode: u32, owner: Caller) -> usize {
        self.last_serial += 1;
        let (serial, now) = (self.last_serial, self.now());
        self.nodes.insert(Node::new(serial, body, mode, owner, now))
    }

    /// A time that was never told before: NFSv3 has nothing else that shows a change.
    fn now(&mut self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = (
            u32::try_from(since.as_secs()).unwrap_or(u32::MAX),
            since.subsec_nanos(),
        );
        let (seconds, nanoseconds) = self.last_time;
        let next = match nanoseconds {
            999_999_999 => (seconds.saturating_add(1), 0),
            _ => (seconds, nanoseconds + 1),
        };
        self.last_time = now.max(next);
        self.last_time
    }

    fn contents(&mut self, slot: usize) -> Result<(&mut Contents, &Space), Refused> {
        match &mut self.nodes[slot].body {
            Body::File(contents) => Ok((contents, &*self.space)),
            Body::Directory(_) => Err(Status::IsDir.into()),
            _ => Err(Status::Inval.into()),
        }
    }

    /// What SETATTR does, and what follows a creation.
    fn set_attributes(&mut self, slot: usize, set: &SetAttributes) -> Result<(), Refused> {
        if let Some(end) = set.bytes {
            let (contents, space) = self.contents(slot)?;
            if end > MAX_FILE_BYTES {
                return Err(Status::FBig.into());
            }
            contents.set_end(end, space)?;
        }
        let now = self.now();
        let node = &mut self.nodes[slot];
        if set.bytes.is_some() {
            node.modified = now;
        }
        node.mode = set.mode.map_or(node.mode, |mode| mode & 0o7777);
        node.owner.uid = set.uid.unwrap_or(node.owner.uid);
        node.owner.gid = set.gid.unwrap_or(node.owner.gid);
        for (time, set) in [
            (&mut node.accessed, set.accessed),
            (&mut node.modified, set.modified),
        ] {
            match set {
                SetTime::Keep => {}
                SetTime::Server => *time = now,
                SetTime::Client(chosen) => *time = chosen,
            }
        }
        node.changed = now;
        Ok(())
    }
}

impl Files for Memory {
    fn root(&self) -> usize {
        self.root
    }

    fn serial(&self, slot: usize) -> Option<u64> {
        self.nodes.get(slot).map(|node| node.serial)
    }

    fn attributes(&mut self, slot: usize) -> Result<Attributes3, Refused> {
        Ok(self.nodes[slot].attributes())
    }

    fn look_up(&mut self, at: usize, name: &[u8]) -> Result<usize, Refused> {
        self.find_name(at, name)
    }

    fn target(&mut self, link: usize) -> Result<Vec<u8>, Refused> {
        match &self.nodes[link].body {
            Body::SymbolicLink(target) => Ok(target.to_vec()),
            _ => Err(Status::Inval.into()),
        }
    }

    fn read(&mut self, slot: usize, offset: u64, most: usize, out: &mut Vec<u8>) -> Result<bool, Refused> {
        let (contents, _) = self.contents(slot)?;
        let count = contents.read(offset, most, out);
        Ok(offset.saturating_add(count as u64) >= contents.end())
    }

    fn write(&mut self, slot: usize, offset: u64, data: &[u8]) -> Result<(), Refused> {
        let (contents, space) = self.contents(slot)?;
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > MAX_FILE_BYTES) {
            return Err(Status::FBig.into());
        }
        contents.write(offset, data, space)?;
        let now = self.now();
        self.nodes[slot].was_written(now);
        Ok(())
    }

    fn flush(&mut self, slot: usize, _data_alone: bool) -> Result<Option<Unsynced>, Refused> {
        let flush = self.flush;
        let (contents, space) = self.contents(slot)?;
        contents.flush(flush, space);
        Ok(None)
    }

    fn set(&mut self, slot: usize, set: &SetAttributes) -> Result<(), Refused> {
        self.set_attributes(slot, set)
    }

    fn create(&mut self, at: usize, name: &[u8], how: &How, caller: Caller) -> Result<usize, Refused> {
        self.create_file(at, name, how, caller)
    }

    fn make(
        &mut self,
        at: usize,
        name: &[u8],
        made: Made<'_>,
        set: &SetAttributes,
        caller: Caller,
    ) -> Result<usize, Refused> {
        self.make_other(at, name, made, set, caller)
    }

    fn remove(&mut self, at: usize, name: &[u8], directory: bool) -> Result<(), Refused> {
        self.remove_name(at, name, directory)
    }

    fn rename(&mut self, from_at: usize, from: &[u8], to_at: usize, to: &[u8]) -> Result<(), Refused> {
        self.change_name(from_at, from, to_at, to)
    }

    fn link(&mut self, slot: usize, at: usize, name: &[u8]) -> Result<(), Refused> {
        self.add_name(slot, at, name)
    }

    fn list(
        &mut self,
        at: usize,
        cookie: u64,
        found: bool,
        take: &mut dyn FnMut(&Listed<'_>) -> bool,
    ) -> Result<bool, Refused> {
        let names = self.directory(at)?;
        Ok(names
            .behind(cookie.max(PARENT_COOKIE))
            .all(|(cookie, name, slot)| {
                let node = &self.nodes[slot];
                take(&Listed {
                    cookie,
                    name,
                    file_id: node.serial,
                    found: found.then(|| Found {
                        slot,
                        serial: node.serial,
                        attributes: node.attributes(),
                    }),
                })
            }))
    }

    fn room(&mut self) -> Result<Room, Refused> {
        let free_bytes = self.space.free();
        Ok(Room {
            total_bytes: self.space.capacity(),
            free_bytes,
            free_files: free_bytes / NODE_BYTES,
        })
    }

    fn most_bytes(&self) -> u64 {
        MAX_FILE_BYTES
    }

    fn lose_unstable(&mut self) -> u64 {
        let mut lost = 0;
        for (_, node) in &mut self.nodes {
            if let Body::File(contents) = &mut node.body {
                lost += u64::from(contents.lose_unstable(&self.space));
            }
        }
        lost
    }
}
