//! Durable and persistent opens (MS-SMB2 3.3.5.9.6, 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12, 3.3.7.1): if the connection is
//! lost, the open stays for its owner, who can reconnect to it. Durable opens need an oplock or lease with handle
//! caching, and end with the server. Persistent ones survive a restart of the server. If another client needs the file
//! meanwhile, the open is closed and its owner can't reconnect.

use super::{
    caching, names, right, ConnectionId, FileId, Hold, LeaseName, Moment, Opened, Opener, Own, Volume,
};
use crate::common::NS_PER_MS;
use crate::smb::fault::Kind;
use crate::smb::status::Status;

/// Default timeout after the loss of the connection, as in Samba.
const KEPT_MS: u32 = 60_000;
/// Maximum timeout, as in Windows and Samba.
const KEPT_MOST_MS: u32 = 300_000;
/// Difference from which a channel sequence counts as older (the counter wraps). Writes and attribute changes
/// with an older sequence are refused.
const OLDER: u16 = 0x8000;

/// Placeholder for the connection of an open that has lost its connection.
const NOBODY: ConnectionId = ConnectionId { thread: 0, serial: 0 };

/// Values by which the owner reconnects to an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptName {
    pub(crate) client_guid: u128,
    /// Create GUID of the open. None: the client used version 1 of the context, which has no GUID.
    pub(crate) create_guid: Option<u128>,
}

/// Parameters of a reconnect.
#[derive(Debug)]
pub(crate) struct ComesBack<'a> {
    pub(crate) file: FileId,
    pub(crate) name: KeptName,
    pub(crate) lease: Option<LeaseName>,
    pub(crate) path: &'a [u16],
}

/// Durability of an open.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    name: KeptName,
    persistent: bool,
    /// Timeout after the loss of its connection.
    kept_ms: u32,
    /// Time at which the connection was lost.
    left_ns: Option<u64>,
    /// Offset, overwritten data and previous end of the file at the last write, for a fault that undoes the write.
    overwritten: Option<(u64, Vec<u8>)>,
}

impl Volume {
    /// Makes a new open durable if possible. Returns the timeout in milliseconds. `wanted_ms` 0: the server chooses the
    /// timeout.
    pub(crate) fn keep(
        &mut self,
        file: FileId,
        name: KeptName,
        persistent: bool,
        wanted_ms: u32,
    ) -> Option<u32> {
        let open = file.0;
        let holds_handle = self.held(open).state & caching::HANDLE != 0;
        if self.node(open).is_directory() || !(persistent || holds_handle) {
            return None;
        }
        let kept_ms = if wanted_ms == 0 {
            KEPT_MS
        } else {
            wanted_ms.min(KEPT_MOST_MS)
        };
        self.opens[open].kept = Some(Kept {
            name,
            persistent,
            kept_ms,
            left_ns: None,
            overwritten: None,
        });
        Some(kept_ms)
    }

    /// Handles the loss of a connection, session or tree: closes the opens that are not durable.
    pub(crate) fn leave(&mut self, moment: Moment, theirs: impl Fn(&Opener) -> bool) {
        for index in self.opens_of(theirs) {
            self.leave_one(index, moment);
        }
    }

    /// Handles a restart of the server, which only persistent opens survive.
    pub(crate) fn restart(&mut self, moment: Moment) {
        for index in self.opens_of(|_| true) {
            if self.opens[index]
                .kept
                .as_ref()
                .is_some_and(|kept| kept.persistent)
            {
                self.leave_one(index, moment);
            } else {
                self.close(index, moment);
            }
        }
        self.notices.clear();
    }

    fn leave_one(&mut self, index: usize, moment: Moment) {
        let fault = self.fault;
        let open = &mut self.opens[index];
        let Some(kept) = open.kept.as_mut() else {
            return self.close(index, moment);
        };
        if kept.left_ns.is_some() {
            return;
        }
        kept.left_ns = Some(moment.ns);
        (open.connection, open.session, open.tree) = (NOBODY, 0, 0);
        let undone = kept.overwritten.take();
        if let (Some((offset, data)), Some(Kind::UndoneWrites)) = (undone, fault) {
            let (node, space) = (open.node, self.space.clone());
            if let Some(pages) = self.nodes[node].pages_mut() {
                // This can't fail, because the overwritten data had space before.
                let _ = pages.write(offset, &data, &space);
            }
        }
        if fault == Some(Kind::ForgottenHandles) {
            self.close(index, moment);
        }
    }

    /// Stores the data that a write will overwrite, for the fault that undoes it.
    pub(super) fn note_overwritten(&mut self, open: usize, offset: u64, bytes: usize) {
        if self.fault != Some(Kind::UndoneWrites) || self.opens[open].kept.is_none() {
            return;
        }
        let mut before = Vec::new();
        if let Some(pages) = self.node(open).pages().filter(|pages| offset < pages.end()) {
            pages.read(offset, bytes, &mut before);
        }
        if let Some(kept) = &mut self.opens[open].kept {
            kept.overwritten = Some((offset, before));
        }
    }

    /// Reconnects the owner to an open whose connection was lost. Client and path are checked only with a lease.
    pub(crate) fn come_back(
        &mut self,
        opener: &Opener,
        comes: &ComesBack<'_>,
        moment: Moment,
    ) -> Result<Opened, Status> {
        self.close_forgotten(moment);
        let (index, serial) = comes.file;
        let open = self.opens.get(index).filter(|open| open.serial == serial);
        let open = open.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        let kept = open.kept.as_ref().filter(|kept| kept.left_ns.is_some());
        let kept = kept.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        let held = match open.hold {
            Hold::Lease(lease) => Some(lease),
            _ => None,
        };
        let is_its_client = held.is_none() || kept.name.client_guid == comes.name.client_guid;
        if !is_its_client
            || kept.name.create_guid != comes.name.create_guid
            || held.map(|index| self.leases[index].name) != comes.lease
        {
            return Err(Status::OBJECT_NAME_NOT_FOUND);
        }
        if held.is_some()
            && names::folded(self.path(index).get(1..).unwrap_or_default()) != names::folded(comes.path)
        {
            return Err(Status::INVALID_PARAMETER);
        }
        let open = &mut self.opens[index];
        if let Some(kept) = open.kept.as_mut() {
            kept.left_ns = None;
        }
        (open.connection, open.session, open.tree) = (opener.connection, opener.session, opener.tree);
        if let Some(lease) = held {
            self.leases[lease].connection = opener.connection;
        }
        Ok(self.opened(index))
    }

    /// Closes opens without a connection that conflict with these rights and sharing modes on `node`.
    pub(super) fn close_in_the_way(
        &mut self,
        node: usize,
        own: Own,
        (access, overwrites): (u32, bool),
        share: u32,
        moment: Moment,
    ) {
        self.close_forgotten(moment);
        if access & !right::QUIET == 0 && !overwrites {
            return;
        }
        for open in self.nodes[node].opens.clone() {
            let hinders = overwrites
                || self.held(open).state & caching::WRITE != 0
                || self.opens[open].conflicts(access, share);
            if self.is_left(open) && own != self.own(open) && hinders {
                self.close(open, moment);
            }
        }
    }

    /// Closes opens without a connection whose cached data becomes invalid through a change of `node`.
    pub(super) fn close_outdated(&mut self, node: usize, own: Own, keep: u8, moment: Moment) {
        for open in self.nodes[node].opens.clone() {
            if self.is_left(open) && own != self.own(open) && self.held(open).state & !keep != 0 {
                self.close(open, moment);
            }
        }
    }

    /// Returns whether the open is durable.
    pub(crate) fn is_kept(&self, open: usize) -> bool {
        self.opens[open].kept.is_some()
    }

    /// Returns whether the connection of the open is lost.
    pub(super) fn is_left(&self, open: usize) -> bool {
        let kept = self.opens[open].kept.as_ref();
        kept.is_some_and(|kept| kept.left_ns.is_some())
    }

    /// Closes the opens whose owners have not reconnected in time.
    fn close_forgotten(&mut self, moment: Moment) {
        let late = |kept: &Kept| {
            let kept_ns = u64::from(kept.kept_ms) * NS_PER_MS;
            kept.left_ns.is_some_and(|left_ns| moment.ns >= left_ns + kept_ns)
        };
        let found = self
            .opens
            .iter()
            .filter(|(_, open)| open.kept.as_ref().is_some_and(late));
        let found: Vec<usize> = found.map(|(index, _)| index).collect();
        for open in found {
            self.close(open, moment);
        }
    }

    /// Compares the client's channel sequence with that of the open (3.3.5.2.10): refuses changes with an older
    /// sequence.
    pub(crate) fn check_channel_sequence(
        &mut self,
        open: usize,
        sequence: u16,
        changes: bool,
    ) -> Result<(), Status> {
        let known = &mut self.opens[open].channel_sequence;
        if sequence.wrapping_sub(*known) < OLDER {
            *known = sequence;
            return Ok(());
        }
        if changes {
            Err(Status::FILE_NOT_AVAILABLE)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, Space, Stop, Waiter, Want};
    use super::*;
    use std::sync::Arc;

    const DELETE_ON_CLOSE: u32 = 0x0000_1000;
    const OPEN_OR_MAKE: u32 = 3;
    const ALL_CACHING: u8 = caching::READ | caching::WRITE | caching::HANDLE;
    const OPLOCK: Asked = Asked::Oplock(ALL_CACHING);
    const NAME: KeptName = KeptName {
        client_guid: 1,
        create_guid: Some(2),
    };

    fn volume() -> Volume {
        Volume::new(Arc::new(Space::new(1 << 20)), 1, None, 0)
    }

    fn at(ns: u64) -> Moment {
        Moment { ns, filetime: 1 }
    }

    /// Returns the opener of one client, by its connection.
    fn opener(serial: u64) -> Opener {
        let connection = ConnectionId { thread: 0, serial };
        Opener {
            connection,
            session: serial,
            tree: 1,
        }
    }

    fn units(path: &str) -> Vec<u16> {
        path.encode_utf16().collect()
    }

    fn open(volume: &mut Volume, serial: u64, options: u32, asked: Asked) -> Result<Opened, Stop> {
        let want = Want {
            path: &units("kept"),
            access: right::ALL,
            share: 7,
            disposition: OPEN_OR_MAKE,
            options,
            attributes: 0,
            asked,
            parent: None,
        };
        let opener = opener(serial);
        let waiter = Waiter {
            connection: opener.connection,
            async_id: 7,
        };
        volume.open(&opener, &want, at(1), waiter)
    }

    /// Opens a file, makes it durable, and loses its connection at 2 ns.
    fn left(volume: &mut Volume, options: u32, asked: Asked, wanted_ms: u32) -> FileId {
        let file = open(volume, 1, options, asked).expect("it can be opened").file;
        assert!(volume.keep(file, NAME, false, wanted_ms).is_some());
        volume.leave(at(2), |theirs| theirs.session == 1);
        file
    }

    fn come_back(
        volume: &mut Volume,
        file: FileId,
        name: KeptName,
        (lease, path): (Option<LeaseName>, &str),
        ns: u64,
    ) -> Result<Opened, Status> {
        let comes = ComesBack {
            file,
            name,
            lease,
            path: &units(path),
        };
        volume.come_back(&opener(2), &comes, at(ns))
    }

    #[test]
    fn a_late_request_from_an_older_connection_changes_nothing() {
        let mut volume = volume();
        let index = open(&mut volume, 1, 0, Asked::Nothing)
            .expect("it can be opened")
            .file
            .0;
        for (sequence, is_refused) in [
            (0, false),
            (1, false),
            (0, true),
            (1, false),
            (0x7fff, false),
            (1, true),
            (0xfffe, false),
            (0, false), // The counter wraps.
            (0xffff, true),
            (0x8000, true),
            (0x7fff, false),
        ] {
            let expected = if is_refused {
                Err(Status::FILE_NOT_AVAILABLE)
            } else {
                Ok(())
            };
            // Reads are allowed, and do not change the sequence.
            if is_refused {
                assert_eq!(volume.check_channel_sequence(index, sequence, false), Ok(()));
            }
            assert_eq!(
                volume.check_channel_sequence(index, sequence, true),
                expected,
                "{sequence:#x}"
            );
        }
    }

    #[test]
    fn a_file_deleted_with_the_open_of_a_lost_connection_is_created_again() {
        let mut volume = volume();
        let file = left(&mut volume, DELETE_ON_CLOSE, OPLOCK, 0);
        volume.opens[file.0].share = 0;
        let number = volume.facts(file.0).number;
        let opened = open(&mut volume, 3, 0, Asked::Nothing).expect("it is made");
        assert_ne!(opened.facts.number, number);
        let gone = come_back(&mut volume, file, NAME, (None, "kept"), 3);
        assert_eq!(gone.map(|opened| opened.file), Err(Status::OBJECT_NAME_NOT_FOUND));
    }

    #[test]
    fn client_and_path_are_checked_only_with_a_lease() {
        let stranger = KeptName {
            client_guid: 9,
            ..NAME
        };
        let lease = (NAME.client_guid, 5);
        let asked = Asked::Lease {
            name: lease,
            state: ALL_CACHING,
            epoch: None,
            of_directories: false,
        };
        let not_found = Err(Status::OBJECT_NAME_NOT_FOUND);
        let mut leased = volume();
        let file = left(&mut leased, 0, asked, 0);
        for (name, of_lease, path, expected) in [
            (NAME, None, "kept", not_found),
            (NAME, Some((NAME.client_guid, 6)), "kept", not_found),
            (stranger, Some(lease), "kept", not_found),
            (NAME, Some(lease), "", Err(Status::INVALID_PARAMETER)),
            (NAME, Some(lease), "other", Err(Status::INVALID_PARAMETER)),
            (NAME, Some(lease), "KEPT", Ok(file)),
            (NAME, Some(lease), "kept", not_found), // Already reconnected.
        ] {
            let found = come_back(&mut leased, file, name, (of_lease, path), 3);
            assert_eq!(found.map(|opened| opened.file), expected, "{path}");
        }
        let mut with_oplock = volume();
        let file = left(&mut with_oplock, 0, OPLOCK, 0);
        let unnamed = KeptName {
            create_guid: None,
            ..NAME
        };
        let refused = come_back(&mut with_oplock, file, unnamed, (None, "kept"), 3);
        assert_eq!(refused.map(|opened| opened.file), not_found);
        let found = come_back(&mut with_oplock, file, stranger, (None, "other"), 3);
        assert_eq!(found.map(|opened| opened.file), Ok(file));
    }

    #[test]
    fn an_open_is_kept_for_the_requested_time_up_to_five_minutes() {
        for (wanted_ms, kept_ms) in [(0, 60_000_u64), (1, 1), (u32::MAX, 300_000)] {
            for (late_ns, comes_back) in [(-1, true), (0, false)] {
                let mut volume = volume();
                let file = left(&mut volume, 0, OPLOCK, wanted_ms);
                let end_ns = (2 + kept_ms * NS_PER_MS).saturating_add_signed(late_ns);
                let found = come_back(&mut volume, file, NAME, (None, "kept"), end_ns);
                assert_eq!(found.is_ok(), comes_back, "{wanted_ms}");
            }
        }
    }
}
