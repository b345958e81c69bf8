//! CREATE without its message: finds or creates the file, checks the other opens, and grants caching.

use super::holds::{caching, Hold, Own};
use super::listing::Cursor;
use super::node::{attribute, Facts, Node, NODE_BYTES};
use super::{names, plain, right, FileId, Granted, LeaseName, Moment, Open, Opener, Volume, Waiter};
use crate::smb::status::{Status, Stop};

const SHARE_READ: u32 = 1;
const SHARE_WRITE: u32 = 2;
const SHARE_DELETE: u32 = 4;

mod option {
    pub(super) const DIRECTORY: u32 = 0x0000_0001;
    pub(super) const NO_DIRECTORY: u32 = 0x0000_0040;
    pub(super) const DELETE_ON_CLOSE: u32 = 0x0000_1000;
    /// Undefined bits of the options.
    pub(super) const UNKNOWN: u32 = 0xff00_0000;
    /// Tree connection, open by file ID, opportunistic filter (MS-SMB2 3.3.5.9).
    pub(super) const NOT_SUPPORTED: u32 = 0x0010_2080;
}

mod disposition {
    pub(super) const SUPERSEDE: u32 = 0;
    pub(super) const OPEN: u32 = 1;
    pub(super) const CREATE: u32 = 2;
    pub(super) const OVERWRITE: u32 = 4;
    pub(super) const LAST: u32 = 5;

    pub(super) fn overwrites(disposition: u32) -> bool {
        matches!(disposition, SUPERSEDE | OVERWRITE | LAST)
    }
}

/// Actions, by their wire numbers.
mod action {
    pub(super) const SUPERSEDED: u32 = 0;
    pub(super) const OPENED: u32 = 1;
    pub(super) const CREATED: u32 = 2;
    pub(super) const OVERWRITTEN: u32 = 3;
}

/// Caching that an open requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Nothing,
    Oplock(u8),
    Lease {
        name: LeaseName,
        state: u8,
        /// Epoch of a lease in version 2.
        epoch: Option<u16>,
        /// Whether directories may also be leased.
        of_directories: bool,
    },
}

/// Parameters of an open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Want<'a> {
    pub(crate) path: &'a [u16],
    pub(crate) access: u32,
    pub(crate) share: u32,
    pub(crate) disposition: u32,
    pub(crate) options: u32,
    pub(crate) attributes: u32,
    pub(crate) asked: Asked,
    /// The opener's lease on the parent directory.
    pub(crate) parent: Option<LeaseName>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Opened {
    pub(crate) file: FileId,
    pub(crate) action: u32,
    /// Oplock state. Leases are in `lease`.
    pub(crate) state: u8,
    pub(crate) lease: Option<Granted>,
    pub(crate) facts: Facts,
}

/// Maps generic rights to specific ones for a file (MS-FSA 2.1.5.1, FILE_GENERIC_*).
fn specific(access: u32) -> u32 {
    let mut rights = access & right::ALL;
    for (generic, meaning) in [
        (0x8000_0000, 0x0012_0089),
        (0x4000_0000, 0x0012_0116),
        (0x2000_0000, 0x0012_00A0),
        (0x1000_0000, right::ALL),
        (0x0200_0000, right::ALL),
    ] {
        if access & generic != 0 {
            rights |= meaning;
        }
    }
    rights
}

/// Returns the sharing modes that others must allow for these rights.
fn shares_needed(access: u32) -> u32 {
    let mut needed = 0;
    for (rights, share) in [
        (right::READ_DATA | right::EXECUTE, SHARE_READ),
        (right::WRITE_DATA | right::APPEND, SHARE_WRITE),
        (right::DELETE, SHARE_DELETE),
    ] {
        if access & rights != 0 {
            needed |= share;
        }
    }
    needed
}

impl Open {
    /// Returns whether another open with these rights and sharing modes conflicts with this one (MS-FSA
    /// 2.1.5.1.2.2).
    pub(super) fn conflicts(&self, access: u32, share: u32) -> bool {
        let (needed, theirs) = (shares_needed(access), shares_needed(self.access));
        needed != 0 && theirs != 0 && (needed & !self.share != 0 || theirs & !share != 0)
    }
}

impl Volume {
    /// Returns whether an open of a directory prevents adding names to it: a rename opens the directory for
    /// writing and shares only reads and writes (MS-FSA 2.1.5.15.11).
    pub(super) fn refuses_names(&self, directory: usize) -> bool {
        let opens = &self.nodes[directory].opens;
        let conflicts =
            |open: &usize| self.opens[*open].conflicts(right::WRITE_DATA, SHARE_READ | SHARE_WRITE);
        opens.iter().any(conflicts)
    }

    /// Opens or creates a file. If the open must wait until others stop caching, `waiter` is retried
    /// afterwards.
    pub(crate) fn open(
        &mut self,
        opener: &Opener,
        want: &Want<'_>,
        moment: Moment,
        waiter: Waiter,
    ) -> Result<Opened, Stop> {
        let want = Want {
            access: specific(want.access),
            ..*want
        };
        if want.access == 0 {
            return Err(Status::ACCESS_DENIED.into());
        }
        let both_kinds = option::DIRECTORY | option::NO_DIRECTORY;
        let unknown = want.options & option::UNKNOWN != 0 || want.attributes & attribute::UNKNOWN != 0;
        if unknown || want.disposition > disposition::LAST || want.options & both_kinds == both_kinds {
            return Err(Status::INVALID_PARAMETER.into());
        }
        if want.options & option::NOT_SUPPORTED != 0 {
            return Err(Status::NOT_SUPPORTED.into());
        }
        if want.options & option::DELETE_ON_CLOSE != 0 && want.access & right::DELETE == 0 {
            return Err(Status::INVALID_PARAMETER.into());
        }
        let parts = names::parts(want.path)?;
        let (node, action) = match parts.split_last() {
            None => self
                .open_there(self.root, &want, moment, waiter)?
                .ok_or(Status::OBJECT_NAME_NOT_FOUND)?,
            Some((name, directories)) => {
                let parent = self.directory_of(directories)?;
                let key = names::folded(name);
                let entries = self.nodes[parent].entries();
                let there = match entries.and_then(|entries| entries.get(&key)).copied() {
                    Some(node) => self.open_there(node, &want, moment, waiter)?,
                    None => None,
                };
                match there {
                    Some(found) => found,
                    None => self.make(parent, name, &want, moment)?,
                }
            }
        };
        Ok(self.admit(opener, node, &want, action))
    }

    /// Returns the directory at the end of a path.
    pub(super) fn directory_of(&self, parts: &[&[u16]]) -> Result<usize, Status> {
        let mut at = self.root;
        for part in parts {
            let entries = self.nodes[at].entries().ok_or(Status::OBJECT_PATH_NOT_FOUND)?;
            at = *entries
                .get(&names::folded(part))
                .ok_or(Status::OBJECT_PATH_NOT_FOUND)?;
        }
        if self.nodes[at].is_directory() {
            Ok(at)
        } else {
            Err(Status::OBJECT_PATH_NOT_FOUND)
        }
    }

    /// Opens an existing file. Returns None if the file was deleted, because its last open belonged to a client that
    /// had lost its connection.
    fn open_there(
        &mut self,
        node: usize,
        want: &Want<'_>,
        moment: Moment,
        waiter: Waiter,
    ) -> Result<Option<(usize, u32)>, Stop> {
        let overwrites = disposition::overwrites(want.disposition);
        self.check_kind(node, want, overwrites)?;
        self.check_lease(want, Some(node))?;
        let own = match want.asked {
            Asked::Lease { name, .. } => Own::Lease(name),
            _ => Own::Nobody,
        };
        let implied = if overwrites { right::WRITE_DATA } else { 0 };
        self.close_in_the_way(node, own, (want.access | implied, overwrites), want.share, moment);
        if !self.nodes.contains(node) {
            return Ok(None);
        }
        self.check_sharing(node, want.access | implied, want.share, own, moment, waiter)?;
        if want.access & !right::QUIET != 0 || overwrites {
            let keep = if overwrites {
                caching::NONE
            } else {
                caching::READ | caching::HANDLE
            };
            if self.take_away(node, own, keep, moment) {
                return Err(self.wait(node, waiter));
            }
        }
        if !overwrites {
            return Ok(Some((node, action::OPENED)));
        }
        let space = self.space.clone();
        let file = &mut self.nodes[node];
        if let Some(pages) = file.pages_mut() {
            pages.set_end(0, &space)?;
        }
        file.attributes = plain(want.attributes & attribute::SETTABLE | attribute::ARCHIVE);
        file.touch(moment.filetime);
        let parent = file.parent;
        self.note_change(parent, false, want.parent, moment);
        let superseded = want.disposition == disposition::SUPERSEDE;
        Ok(Some((
            node,
            if superseded {
                action::SUPERSEDED
            } else {
                action::OVERWRITTEN
            },
        )))
    }

    fn check_kind(&self, node: usize, want: &Want<'_>, overwrites: bool) -> Result<(), Status> {
        let found = &self.nodes[node];
        let read_only = found.attributes & attribute::READ_ONLY != 0;
        let changes = want.access & (right::WRITE_DATA | right::APPEND) != 0 || overwrites;
        let wrong = match found.is_directory() {
            _ if found.delete_pending => Status::DELETE_PENDING,
            _ if want.disposition == disposition::CREATE => Status::OBJECT_NAME_COLLISION,
            true if want.options & option::NO_DIRECTORY != 0 => Status::FILE_IS_A_DIRECTORY,
            true if overwrites => Status::INVALID_PARAMETER,
            false if want.options & option::DIRECTORY != 0 => Status::NOT_A_DIRECTORY,
            false if read_only && changes => Status::ACCESS_DENIED,
            _ if read_only && want.options & option::DELETE_ON_CLOSE != 0 => Status::CANNOT_DELETE,
            _ => return Ok(()),
        };
        Err(wrong)
    }

    /// Checks that the lease key belongs to no other file (MS-SMB2 3.3.5.9.8).
    fn check_lease(&self, want: &Want<'_>, node: Option<usize>) -> Result<(), Status> {
        match want.asked {
            Asked::Lease { name, .. } if self.lease_is_elsewhere(name, node) => {
                Err(Status::INVALID_PARAMETER)
            }
            _ => Ok(()),
        }
    }

    /// Checks that the sharing modes of existing opens and the new one are compatible. Clients that cache a
    /// handle are first asked to close it.
    fn check_sharing(
        &mut self,
        node: usize,
        access: u32,
        share: u32,
        own: Own,
        moment: Moment,
        waiter: Waiter,
    ) -> Result<(), Stop> {
        for index in 0..self.nodes[node].opens.len() {
            let open = self.nodes[node].opens[index];
            if !self.opens[open].conflicts(access, share) {
                continue;
            }
            let all_but_handle = caching::READ | caching::WRITE;
            if self.held(open).state & caching::HANDLE != 0
                && self.take_away_from(open, own, all_but_handle, moment)
            {
                return Err(self.wait(node, waiter));
            }
            return Err(Status::SHARING_VIOLATION.into());
        }
        Ok(())
    }

    fn make(
        &mut self,
        parent: usize,
        name: &[u16],
        want: &Want<'_>,
        moment: Moment,
    ) -> Result<(usize, u32), Stop> {
        if matches!(want.disposition, disposition::OPEN | disposition::OVERWRITE) {
            return Err(Status::OBJECT_NAME_NOT_FOUND.into());
        }
        self.check_lease(want, None)?;
        if self.nodes[parent].delete_pending {
            return Err(Status::DELETE_PENDING.into());
        }
        self.space.take(NODE_BYTES)?;
        let kind = if want.options & option::DIRECTORY != 0 {
            attribute::DIRECTORY
        } else {
            attribute::ARCHIVE
        };
        let number = self.next_serial();
        let attributes = want.attributes & attribute::SETTABLE | kind;
        let node = Node::new(name, parent, number, attributes, moment.filetime);
        let index = self.nodes.insert(node);
        if let Some(entries) = self.nodes[parent].entries_mut() {
            entries.insert(names::folded(name), index);
        }
        self.nodes[parent].touch(moment.filetime);
        self.note_change(parent, true, want.parent, moment);
        Ok((index, action::CREATED))
    }

    /// Adds the open, and grants its caching.
    fn admit(&mut self, opener: &Opener, node: usize, want: &Want<'_>, action: u32) -> Opened {
        let serial = self.next_serial();
        let open = self.opens.insert(Open {
            serial,
            node,
            connection: opener.connection,
            session: opener.session,
            tree: opener.tree,
            access: want.access,
            share: want.share,
            is_for_attributes: want.access & !right::QUIET == 0,
            delete_on_close: want.options & option::DELETE_ON_CLOSE != 0,
            hold: Hold::None,
            parent_lease: want.parent,
            cursor: Cursor::default(),
            told_changes: None,
            kept: None,
            channel_sequence: 0,
            position: 0,
            locked: Vec::new(),
        });
        self.nodes[node].opens.push(open);
        let is_directory = self.nodes[node].is_directory();
        match want.asked {
            Asked::Oplock(state) if !is_directory => self.grant_oplock(open, state),
            Asked::Lease {
                name,
                state,
                epoch,
                of_directories,
            } if of_directories || !is_directory => self.grant_lease(open, name, state, epoch),
            _ => {}
        }
        Opened {
            action,
            ..self.opened(open)
        }
    }

    /// Returns the properties of an open.
    pub(super) fn opened(&self, open: usize) -> Opened {
        let state = match self.opens[open].hold {
            Hold::Oplock(held) => held.state,
            _ => caching::NONE,
        };
        Opened {
            file: (open, self.opens[open].serial),
            action: action::OPENED,
            state,
            lease: self.granted(open),
            facts: self.facts(open),
        }
    }
}
