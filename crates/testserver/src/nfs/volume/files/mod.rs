//! Files of an export, in memory. The code is independent of messages, but uses NFS statuses.
//!
//! Slots identify files. They are small numbers, which are reused. The serial number of a slot's file is
//! unique. Functions accept only slots of existing files (see `serial`).

mod contents;
mod directory;
mod names;
mod node;

use super::parts::{Caller, Listed, Made, Refused, Room, MOST_LINKS, MOST_NAME_BYTES, PARENT_COOKIE};
use crate::nfs::options::Flush;
use crate::pages::{Full, Space, MAX_FILE_BYTES};
use contents::Contents;
use directory::Directory;
use dyno_nfs::status::Status;
use dyno_nfs::wire::{Attributes3, SetAttributes, SetTime, Time};
use node::{Body, Node};
use slab::Slab;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Assumed size of a name and a node, so that the number of empty files is limited, too.
const NODE_BYTES: u64 = 1024;
const ROOT_MODE: u32 = 0o777;

impl From<Full> for Refused {
    fn from(_: Full) -> Self {
        Self(Status::NoSpc)
    }
}

/// Files of an export.
#[derive(Debug)]
pub(crate) struct Files {
    nodes: Slab<Node>,
    root: usize,
    last_serial: u64,
    space: Arc<Space>,
    flush: Flush,
    last_time: Time,
}

impl Files {
    /// Creates the root.
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

    /// Returns a unique time, because NFSv3 clients detect changes only by a file's times.
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

    /// Sets attributes, for SETATTR and for new files.
    pub(crate) fn set(&mut self, slot: usize, set: &SetAttributes) -> Result<(), Refused> {
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

    pub(crate) fn root(&self) -> usize {
        self.root
    }

    /// Returns the serial number of a slot's file, which is never reused, or None if the slot is free.
    pub(crate) fn serial(&self, slot: usize) -> Option<u64> {
        self.nodes.get(slot).map(|node| node.serial)
    }

    pub(crate) fn attributes(&self, slot: usize) -> Attributes3 {
        self.nodes[slot].attributes()
    }

    pub(crate) fn target(&self, link: usize) -> Result<&[u8], Refused> {
        match &self.nodes[link].body {
            Body::SymbolicLink(target) => Ok(target),
            _ => Err(Status::Inval.into()),
        }
    }

    /// Appends up to `most` bytes, starting at `offset`, to `out`. Returns whether they reach the end of the file.
    pub(crate) fn read(
        &mut self,
        slot: usize,
        offset: u64,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, Refused> {
        let (contents, _) = self.contents(slot)?;
        let count = contents.read(offset, most, out);
        Ok(offset.saturating_add(count as u64) >= contents.end())
    }

    pub(crate) fn write(&mut self, slot: usize, offset: u64, data: &[u8]) -> Result<(), Refused> {
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

    /// Makes a file stable for COMMIT or a stable write, if flushes are honoured.
    pub(crate) fn flush(&mut self, slot: usize) -> Result<(), Refused> {
        let flush = self.flush;
        let (contents, space) = self.contents(slot)?;
        contents.flush(flush, space);
        Ok(())
    }

    /// Passes each name after `cookie`, except `.` and `..`, to `take` until `take` refuses a name. Returns whether
    /// `take` accepted all of them.
    pub(crate) fn list(
        &self,
        at: usize,
        cookie: u64,
        mut take: impl FnMut(&Listed<'_>) -> bool,
    ) -> Result<bool, Refused> {
        let mut names = self.directory(at)?.behind(cookie.max(PARENT_COOKIE));
        Ok(names.all(|(cookie, name, slot)| take(&self.listed(cookie, name, slot))))
    }

    /// Returns the listing entry of an existing file.
    pub(crate) fn listed<'a>(&self, cookie: u64, name: &'a [u8], slot: usize) -> Listed<'a> {
        let node = &self.nodes[slot];
        Listed {
            cookie,
            name,
            slot,
            serial: node.serial,
            attributes: node.attributes(),
        }
    }

    pub(crate) fn room(&self) -> Room {
        let free_bytes = self.space.free();
        Room {
            total_bytes: self.space.capacity(),
            free_bytes,
            free_files: free_bytes / NODE_BYTES,
        }
    }

    /// Discards unstable data, as a restart does. Returns the number of files that lost data.
    pub(crate) fn lose_unstable(&mut self) -> u64 {
        let mut lost = 0;
        for (_, node) in &mut self.nodes {
            if let Body::File(contents) = &mut node.body {
                lost += u64::from(contents.lose_unstable(&self.space));
            }
        }
        lost
    }
}
