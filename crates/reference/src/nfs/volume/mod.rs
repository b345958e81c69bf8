//! One export: a tree of files in memory. Knows nothing of messages, but answers with the statuses of NFS.
//!
//! A volume is used under a lock, by every thread of the server. A file is named to clients by a handle that no other file
//! ever gets, of this server or of one that was started before or after.

mod contents;
mod directory;
mod names;
mod node;

pub(crate) use directory::{OWN_COOKIE, PARENT_COOKIE};
pub(crate) use names::Made;
pub(crate) use node::{Body, Node};

use super::options::Flush;
use super::replies::Replies;
use crate::pages::{Full, Space, MAX_FILE_BYTES};
use contents::Contents;
use directory::Directory;
use dyno_nfs::status::Status;
use dyno_nfs::wire::{Attributes3, FileHandle, SetAttributes, SetTime, Time, Wcc};
use slab::Slab;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a name and the rest of a node are reckoned at, so that empty files are bounded too.
pub(crate) const NODE_BYTES: u64 = 1024;
const HANDLE_BYTES: usize = 24;
const ROOT_MODE: u32 = 0o777;

impl From<Full> for Refused {
    fn from(_: Full) -> Self {
        Self(Status::NoSpc)
    }
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) Status);

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self(status)
    }
}

/// User and group of who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// An export.
#[derive(Debug)]
pub(crate) struct Volume {
    /// Another one for each start of a server.
    server: u64,
    number: u32,
    nodes: Slab<Node>,
    root: usize,
    last_serial: u64,
    space: Arc<Space>,
    flush: Flush,
    last_time: Time,
    pub(crate) replies: Replies,
}

impl Volume {
    /// An empty one. `number`: its place among the exports.
    pub(crate) fn new(server: u64, number: u32, space: Arc<Space>, flush: Flush) -> Self {
        let mut volume = Self {
            server,
            number,
            nodes: Slab::new(),
            root: 0,
            last_serial: 0,
            space,
            flush,
            last_time: (0, 0),
            replies: Replies::default(),
        };
        let owner = Caller { uid: 0, gid: 0 };
        let root = volume.add_node(Body::Directory(Directory::new(0)), ROOT_MODE, owner);
        volume.root = root;
        let node = &mut volume.nodes[root];
        node.links = 2;
        if let Body::Directory(directory) = &mut node.body {
            directory.parent = root;
        }
        volume
    }

    pub(crate) fn root(&self) -> usize {
        self.root
    }

    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// Reads from a handle which export of this server it belongs to; None: of another start of it, or no handle at all.
    pub(crate) fn number_in(handle: &FileHandle, server: u64) -> Option<usize> {
        let bytes = handle.as_bytes();
        let of_server = bytes.get(..8)? == server.to_be_bytes() && bytes.len() == HANDLE_BYTES;
        let number = u32::from_be_bytes(bytes.get(8..12)?.try_into().ok()?);
        of_server.then_some(number as usize)
    }

    pub(crate) fn handle(&self, slot: usize) -> FileHandle {
        let mut bytes = [0; HANDLE_BYTES];
        bytes[..8].copy_from_slice(&self.server.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_be_bytes());
        let place = u32::try_from(slot).unwrap_or(u32::MAX);
        bytes[12..16].copy_from_slice(&place.to_be_bytes());
        bytes[16..].copy_from_slice(&self.nodes[slot].serial.to_be_bytes());
        FileHandle::of(&bytes).unwrap_or_else(|| unreachable!("a handle may be longer than that"))
    }

    /// The slot of the file that a handle names.
    pub(crate) fn find(&self, handle: &FileHandle) -> Result<usize, Refused> {
        let Ok(bytes) = <[u8; HANDLE_BYTES]>::try_from(handle.as_bytes()) else {
            return Err(Status::BadHandle.into());
        };
        let number = |range: std::ops::Range<usize>| {
            bytes[range]
                .iter()
                .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        if number(0..8) != self.server {
            return Err(Status::Stale.into());
        }
        if number(8..12) != u64::from(self.number) {
            return Err(Status::XDev.into());
        }
        // Four bytes: they fit.
        let slot = number(12..16) as usize;
        let node = self.nodes.get(slot).filter(|node| node.serial == number(16..24));
        node.map(|_| slot).ok_or_else(|| Status::Stale.into())
    }

    pub(crate) fn node(&self, slot: usize) -> &Node {
        &self.nodes[slot]
    }

    pub(crate) fn attributes(&self, slot: usize) -> Attributes3 {
        self.nodes[slot].attributes(self.number)
    }

    /// What a reply says of a file that was `before` the call what is given.
    pub(crate) fn wcc(&self, slot: usize, before: &Attributes3) -> Wcc {
        Wcc {
            before: Some(before.before()),
            after: Some(self.attributes(slot)),
        }
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

    /// Appends up to `most` bytes from `offset` on to `out`. Whether the file ends behind them.
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

    /// Writes; `stable`: a restart shall not lose it.
    pub(crate) fn write(
        &mut self,
        slot: usize,
        offset: u64,
        data: &[u8],
        stable: bool,
    ) -> Result<(), Refused> {
        let flush = self.flush;
        let (contents, space) = self.contents(slot)?;
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > MAX_FILE_BYTES) {
            return Err(Status::FBig.into());
        }
        contents.write(offset, data, space)?;
        if stable {
            contents.flush(flush, space);
        }
        let now = self.now();
        self.nodes[slot].was_written(now);
        Ok(())
    }

    /// What COMMIT does.
    pub(crate) fn commit(&mut self, slot: usize) -> Result<(), Refused> {
        let flush = self.flush;
        let (contents, space) = self.contents(slot)?;
        contents.flush(flush, space);
        Ok(())
    }

    /// What SETATTR does, and what follows a creation.
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

    /// Forgets what is not stable, and the replies. How many files lost something.
    pub(crate) fn lose_unstable(&mut self) -> u64 {
        self.replies.forget_all();
        let mut lost = 0;
        for (_, node) in &mut self.nodes {
            if let Body::File(contents) = &mut node.body {
                lost += u64::from(contents.lose_unstable(&self.space));
            }
        }
        lost
    }
}
