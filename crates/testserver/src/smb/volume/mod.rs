//! One share: a tree of files in memory, with their opens and caching. The code is independent of messages.
//!
//! All threads of the server use a volume under a lock. It collects notices to other connections (breaks, and
//! retries of waiting requests), which the holder of the lock delivers.

mod durable;
pub(crate) mod holds;
mod listing;
mod names;
pub(crate) mod node;
mod opening;
mod ranges;
pub(crate) mod right;
mod watching;

pub(crate) use crate::pages::Space;
pub(crate) use durable::{ComesBack, KeptName};
pub(crate) use holds::{caching, Granted, LeaseName};
pub(crate) use listing::Entry;
pub(crate) use names::Pattern;
pub(crate) use node::{attribute, Facts, Times, CLUSTER_BYTES};
pub(crate) use opening::{Asked, Opened, Want};
pub(crate) use ranges::{Lock, LockSequence};

use super::fault::Kind;
use super::status::{Status, Stop};
use durable::Kept;
use holds::{Hold, Lease, Own};
use listing::Cursor;
use node::{Node, NODE_BYTES};
use slab::Slab;
use std::collections::HashMap;
use std::sync::Arc;

/// A connection of the server. Serials are unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId {
    pub(crate) thread: usize,
    pub(crate) serial: u64,
}

/// A waiting request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) connection: ConnectionId,
    pub(crate) async_id: u64,
}

/// ID of an open file in messages: its index, and a unique serial.
pub(crate) type FileId = (usize, u64);

/// A notice to another connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A waiting request must be retried.
    TryAgain {
        async_id: u64,
    },
    OplockBreak {
        file: FileId,
        to: u8,
    },
    LeaseBreak {
        key: u128,
        from: u8,
        to: u8,
        acknowledge: bool,
        epoch: u16,
    },
}

/// The current time on two clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) ns: u64,
    /// Time in units of 100 ns since 1601.
    pub(crate) filetime: u64,
}

/// Connection, session and tree of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opener {
    pub(crate) connection: ConnectionId,
    pub(crate) session: u64,
    pub(crate) tree: u32,
}

#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) serial: u64,
    pub(crate) node: usize,
    connection: ConnectionId,
    session: u64,
    tree: u32,
    /// Granted access rights: bits of `right`.
    pub(crate) access: u32,
    share: u32,
    /// Whether the open affects neither sharing nor caching.
    is_for_attributes: bool,
    delete_on_close: bool,
    hold: Hold,
    /// The client's lease on the parent directory. Changes through this open don't break it.
    parent_lease: Option<LeaseName>,
    cursor: Cursor,
    /// Number of changes reported to the watcher of this directory. None: no watcher.
    told_changes: Option<u64>,
    /// Durability, if granted.
    kept: Option<Kept>,
    /// Channel sequence that the client last used for this open.
    channel_sequence: u16,
    /// Position set by the client (MS-FSCC 2.4.40). The server only reports it back.
    position: u64,
    /// The last executed lock request for each lock sequence index.
    locked: Vec<LockSequence>,
}

/// The files of a share.
#[derive(Debug)]
pub(crate) struct Volume {
    nodes: Slab<Node>,
    opens: Slab<Open>,
    leases: Slab<Lease>,
    lease_index: HashMap<LeaseName, usize>,
    root: usize,
    serial: u64,
    space: Arc<Space>,
    break_timeout_ns: u64,
    fault: Option<Kind>,
    /// Notices with their recipients.
    pub(crate) notices: Vec<(ConnectionId, Notice)>,
}

impl Volume {
    pub(crate) fn new(space: Arc<Space>, break_timeout_ns: u64, fault: Option<Kind>, now: u64) -> Self {
        let mut nodes = Slab::new();
        let root = nodes.insert(Node::new(&[], 0, 1, attribute::DIRECTORY, now));
        Self {
            nodes,
            opens: Slab::new(),
            leases: Slab::new(),
            lease_index: HashMap::new(),
            root,
            serial: 1,
            space,
            break_timeout_ns,
            fault,
            notices: Vec::new(),
        }
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    pub(crate) fn open_count(&self) -> usize {
        self.opens.len()
    }

    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the index of an open, if the open belongs to the client.
    pub(crate) fn find(&self, file: FileId, opener: &Opener) -> Result<usize, Status> {
        let open = self.opens.get(file.0).filter(|open| open.serial == file.1);
        let own = open.filter(|open| {
            // Any connection of the session may use the open.
            (open.session, open.tree) == (opener.session, opener.tree)
        });
        own.map(|_| file.0).ok_or(Status::FILE_CLOSED)
    }

    pub(crate) fn file_id(&self, open: usize) -> FileId {
        (open, self.opens[open].serial)
    }

    fn node(&self, open: usize) -> &Node {
        &self.nodes[self.opens[open].node]
    }

    fn node_mut(&mut self, open: usize) -> &mut Node {
        &mut self.nodes[self.opens[open].node]
    }

    pub(crate) fn facts(&self, open: usize) -> Facts {
        self.node(open).facts()
    }

    pub(crate) fn name(&self, open: usize) -> &[u16] {
        &self.node(open).name
    }

    /// Returns the path from the root, with a backslash before each name.
    pub(crate) fn path(&self, open: usize) -> Vec<u16> {
        let mut names = Vec::new();
        let mut at = self.opens[open].node;
        while at != self.root {
            names.push(&self.nodes[at].name);
            at = self.nodes[at].parent;
        }
        let mut path = Vec::new();
        for name in names.into_iter().rev() {
            path.push(u16::from(b'\\'));
            path.extend_from_slice(name);
        }
        path
    }

    pub(crate) fn position(&self, open: usize) -> u64 {
        self.opens[open].position
    }

    pub(crate) fn set_position(&mut self, open: usize, position: u64) {
        self.opens[open].position = position;
    }

    pub(crate) fn rights(&self, open: usize) -> u32 {
        self.opens[open].access
    }

    fn need(&self, open: usize, rights: u32) -> Result<(), Status> {
        if self.opens[open].access & rights == 0 {
            return Err(Status::ACCESS_DENIED);
        }
        Ok(())
    }

    /// Notifies all requests that wait for the file.
    fn wake(&mut self, node: usize) {
        for waiter in self.nodes[node].waiters.drain(..) {
            let again = Notice::TryAgain {
                async_id: waiter.async_id,
            };
            self.notices.push((waiter.connection, again));
        }
    }

    fn wait(&mut self, node: usize, waiter: Waiter) -> Stop {
        let waiters = &mut self.nodes[node].waiters;
        if !waiters.contains(&waiter) {
            waiters.push(waiter);
        }
        Stop::Wait
    }

    /// Reads up to `most` bytes into `out`.
    pub(crate) fn read(
        &self,
        open: usize,
        offset: u64,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, Status> {
        self.need(open, right::READ_DATA | right::EXECUTE)?;
        let node = self.node(open);
        let pages = node.pages().ok_or(Status::INVALID_DEVICE_REQUEST)?;
        if !node.locks.is_empty() && ranges::hinders_reading(&node.locks, open, offset, most as u64) {
            return Err(Status::FILE_LOCK_CONFLICT);
        }
        check_end(offset, most)?;
        if offset >= pages.end() && most > 0 {
            return Err(Status::END_OF_FILE);
        }
        Ok(pages.read(offset, most, out))
    }

    pub(crate) fn write(
        &mut self,
        open: usize,
        offset: u64,
        data: &[u8],
        moment: Moment,
    ) -> Result<(), Status> {
        self.need(open, right::WRITE_DATA | right::APPEND)?;
        let node = self.node(open);
        if !node.locks.is_empty() && ranges::hinders_writing(&node.locks, open, offset, data.len() as u64) {
            return Err(Status::FILE_LOCK_CONFLICT);
        }
        self.note_overwritten(open, offset, data.len());
        let index = self.opens[open].node;
        let node = &mut self.nodes[index];
        let pages = node.pages_mut().ok_or(Status::INVALID_DEVICE_REQUEST)?;
        check_end(offset, data.len())?;
        pages.write(offset, data, &self.space)?;
        node.touch(moment.filetime);
        self.changed(open, moment);
        Ok(())
    }

    /// Breaks the caching of others after a change. The change need not wait, because caching beyond R was
    /// broken when the file was opened.
    fn changed(&mut self, open: usize, moment: Moment) {
        let node = self.opens[open].node;
        self.note_change_by(open, moment);
        if self.nodes[node].opens.len() > 1 || self.held(open).state == caching::READ {
            let own = self.own(open);
            let _ = self.take_away(node, own, caching::NONE, moment);
        }
    }

    /// Checks only the rights. The files are in memory, so there is nothing to flush.
    pub(crate) fn flush(&self, open: usize) -> Result<(), Status> {
        self.need(open, right::WRITE_DATA | right::APPEND)
    }

    pub(crate) fn set_end(&mut self, open: usize, end: u64, moment: Moment) -> Result<(), Status> {
        self.need(open, right::WRITE_DATA)?;
        let index = self.opens[open].node;
        let node = &mut self.nodes[index];
        let pages = node.pages_mut().ok_or(Status::INVALID_PARAMETER)?;
        pages.set_end(end, &self.space)?;
        node.touch(moment.filetime);
        self.changed(open, moment);
        Ok(())
    }

    /// Truncates the file if the size is below the file's end. Otherwise does nothing, because space is not
    /// allocated in advance.
    pub(crate) fn set_allocation(&mut self, open: usize, bytes: u64, moment: Moment) -> Result<(), Status> {
        self.need(open, right::WRITE_DATA)?;
        if bytes < self.facts(open).end {
            return self.set_end(open, bytes, moment);
        }
        if bytes > self.facts(open).allocated.saturating_add(self.space.free()) {
            return Err(Status::DISK_FULL);
        }
        Ok(())
    }

    /// Sets the times that are positive and the attributes that are not 0.
    pub(crate) fn set_basics(
        &mut self,
        open: usize,
        times: Times,
        attributes: u32,
        moment: Moment,
    ) -> Result<(), Status> {
        self.need(open, right::WRITE_ATTRIBUTES)?;
        let node = self.node_mut(open);
        if node.is_directory() && attributes & attribute::TEMPORARY != 0 {
            return Err(Status::INVALID_PARAMETER);
        }
        // MS-FSCC 2.4.7: -1 and -2 turn the automatic update of a time off and on. The time itself stays unchanged.
        let given = |time: u64| time != 0 && i64::try_from(time).is_ok();
        node.times.changed = moment.filetime;
        for (kept, wanted) in [
            (&mut node.times.created, times.created),
            (&mut node.times.accessed, times.accessed),
            (&mut node.times.written, times.written),
            (&mut node.times.changed, times.changed),
        ] {
            if given(wanted) {
                *kept = wanted;
            }
        }
        if attributes != 0 {
            let kind = node.attributes & attribute::DIRECTORY;
            node.attributes = plain(attributes & attribute::SETTABLE | kind);
        }
        self.note_change_by(open, moment);
        Ok(())
    }

    /// Marks a file for deletion when its last handle is closed, or removes the mark.
    pub(crate) fn set_delete(
        &mut self,
        open: usize,
        delete: bool,
        moment: Moment,
        waiter: Waiter,
    ) -> Result<(), Stop> {
        self.need(open, right::DELETE)?;
        let index = self.opens[open].node;
        if delete {
            let node = &self.nodes[index];
            if index == self.root || node.attributes & attribute::READ_ONLY != 0 {
                return Err(Status::CANNOT_DELETE.into());
            }
            if node.entries().is_some_and(|entries| !entries.is_empty()) {
                return Err(Status::DIRECTORY_NOT_EMPTY.into());
            }
            self.take_handles(open, moment, waiter)?;
        }
        self.nodes[index].delete_pending = delete;
        Ok(())
    }

    /// Breaks handle caching, so that clients close files that they keep open only for reuse.
    fn take_handles(&mut self, open: usize, moment: Moment, waiter: Waiter) -> Result<(), Stop> {
        let node = self.opens[open].node;
        let own = self.own(open);
        if self.take_away(node, own, caching::READ | caching::WRITE, moment) {
            return Err(self.wait(node, waiter));
        }
        Ok(())
    }

    /// Renames a file or directory, possibly to another directory.
    pub(crate) fn rename(
        &mut self,
        open: usize,
        to: &[u16],
        replace: bool,
        moment: Moment,
        waiter: Waiter,
    ) -> Result<(), Stop> {
        self.need(open, right::DELETE)?;
        let index = self.opens[open].node;
        let parts = names::parts(to)?;
        let (name, directories) = parts.split_last().ok_or(Status::OBJECT_NAME_INVALID)?;
        let parent = self.directory_of(directories)?;
        if index == self.root || self.is_below(parent, index) {
            return Err(Status::ACCESS_DENIED.into());
        }
        if self.refuses_names(parent) {
            return Err(Status::SHARING_VIOLATION.into());
        }
        let key = names::folded(name);
        let there = self.nodes[parent]
            .entries()
            .and_then(|entries| entries.get(&key))
            .copied();
        if let Some(old) = there.filter(|old| *old != index) {
            let node = &self.nodes[old];
            if !replace {
                return Err(Status::OBJECT_NAME_COLLISION.into());
            }
            if node.is_directory() || !node.opens.is_empty() || node.attributes & attribute::READ_ONLY != 0 {
                return Err(Status::ACCESS_DENIED.into());
            }
        }
        if self.has_open_below(index) {
            return Err(Status::ACCESS_DENIED.into());
        }
        self.take_handles(open, moment, waiter)?;
        if let Some(old) = there.filter(|old| *old != index) {
            self.unlink(old);
        }
        let before = self.nodes[index].parent;
        self.detach(index);
        if let Some(entries) = self.nodes[parent].entries_mut() {
            entries.insert(key, index);
        }
        self.nodes[parent].touch(moment.filetime);
        let by = self.opens[open].parent_lease;
        self.note_change(before, true, by, moment);
        self.note_change(parent, true, by, moment);
        let node = &mut self.nodes[index];
        node.name = (*name).into();
        node.parent = parent;
        node.times.changed = moment.filetime;
        Ok(())
    }

    fn is_below(&self, node: usize, top: usize) -> bool {
        let mut at = node;
        loop {
            if at == top {
                return true;
            }
            if at == self.root {
                return false;
            }
            at = self.nodes[at].parent;
        }
    }

    /// Returns whether anything inside a directory is open, which prevents renaming it (MS-FSA
    /// 2.1.5.15.11).
    fn has_open_below(&self, top: usize) -> bool {
        self.nodes[top].is_directory()
            && self
                .opens
                .iter()
                .any(|(_, open)| open.node != top && self.is_below(open.node, top))
    }

    fn detach(&mut self, index: usize) {
        let key = names::folded(&self.nodes[index].name);
        let parent = self.nodes[index].parent;
        if let Some(entries) = self.nodes[parent].entries_mut() {
            entries.remove(&key);
        }
    }

    fn unlink(&mut self, index: usize) {
        self.detach(index);
        self.wake(index);
        let mut node = self.nodes.remove(index);
        if let Some(pages) = node.pages_mut() {
            pages.discard(&self.space);
        }
        self.space.give(NODE_BYTES);
    }

    /// Closes an open. If it is the last handle of a file marked for deletion, deletes the file.
    pub(crate) fn close(&mut self, open: usize, moment: Moment) {
        self.let_go(open);
        let closed = self.opens.remove(open);
        let index = closed.node;
        let node = &mut self.nodes[index];
        node.opens.retain(|other| *other != open);
        node.locks.retain(|lock| lock.open != open);
        let is_empty = node.entries().is_none_or(std::collections::BTreeMap::is_empty);
        node.delete_pending |= closed.delete_on_close && is_empty;
        self.wake(index);
        let node = &self.nodes[index];
        if node.delete_pending && node.opens.is_empty() && is_empty && index != self.root {
            let parent = node.parent;
            self.unlink(index);
            self.nodes[parent].touch(moment.filetime);
            self.note_change(parent, true, closed.parent_lease, moment);
        }
    }

    /// Closes all opens of a connection, session or tree.
    pub(crate) fn close_all(&mut self, moment: Moment, theirs: impl Fn(&Opener) -> bool) {
        for open in self.opens_of(theirs) {
            self.close(open, moment);
        }
    }

    /// Replaces the lost connection `from` of a session with `to`, and repeats unacknowledged breaks there
    /// (MS-SMB2 3.3.4.6, 3.3.4.7).
    pub(crate) fn hand_over(&mut self, session: u64, from: ConnectionId, to: ConnectionId) {
        for index in self.opens_of(|opener| (opener.session, opener.connection) == (session, from)) {
            self.opens[index].connection = to;
            self.tell_again(index, from, to);
        }
    }

    fn opens_of(&self, theirs: impl Fn(&Opener) -> bool) -> Vec<usize> {
        self.opens
            .iter()
            .filter(|(_, open)| {
                theirs(&Opener {
                    connection: open.connection,
                    session: open.session,
                    tree: open.tree,
                })
            })
            .map(|(index, _)| index)
            .collect()
    }
}

/// Checks an offset, which is a signed 64-bit number in a file system (MS-FSA 2.1.5.3, 2.1.5.4).
fn check_end(offset: u64, bytes: usize) -> Result<(), Status> {
    let end = offset.checked_add(bytes as u64);
    if end.is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(Status::INVALID_PARAMETER);
    }
    Ok(())
}

/// Returns `attributes`, or FILE_ATTRIBUTE_NORMAL if there are none (MS-FSCC 2.6).
fn plain(attributes: u32) -> u32 {
    if attributes == 0 {
        attribute::NORMAL
    } else {
        attributes
    }
}
