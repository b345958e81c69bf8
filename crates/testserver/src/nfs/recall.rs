//! Conflicts with delegations: before a file changes, over any version of NFS, other clients must return
//! their delegations.

use super::fault::Kind;
use super::host::Host;
use super::state4::back::ConnectionHandle;
use super::state4::clients::Clients;
use super::state4::delegations::Delegation;
use super::state4::opens::Stateid;
use super::v4::{parse_answer, write_recall};
use super::volume::Refused;
use dyno_measure::monotonic_ns;
use dyno_nfs::status::Status;
use dyno_nfs::wire::{FileHandle, How, Malformed, Request};
use std::sync::MutexGuard;

/// The opaque part of a state ID that the server never assigns.
const NOBODYS: [u8; 12] = *b"nobody has i";

impl Host {
    /// Recalls the delegations that conflict with a change to these files. `by`: the NFSv4.1 client that
    /// changes them, or None for an NFSv3 client. Returns a guard that prevents new delegations while it
    /// exists, or None if the server grants no delegations.
    ///
    /// # Errors
    /// JUKEBOX (DELAY in NFSv4): a delegation must be returned first.
    pub(super) fn make_way(
        &self,
        by: Option<u64>,
        files: impl FnOnce(&Self) -> [Option<FileHandle>; 2],
    ) -> Result<Option<MutexGuard<'_, Clients>>, Refused> {
        if self.options.delegations.is_none() {
            return Ok(None);
        }
        let mut clients = self.clients();
        for file in files(self).into_iter().flatten() {
            self.recall(&mut clients, by, &file)?;
        }
        Ok(Some(clients))
    }

    /// Recalls the conflicting delegations of one file, for a caller that has locked the clients.
    pub(super) fn recall(
        &self,
        clients: &mut Clients,
        by: Option<u64>,
        file: &FileHandle,
    ) -> Result<(), Refused> {
        let fault = self.options.fault.map(|fault| fault.kind);
        let Some(limit_ns) = self.options.delegations else {
            return Ok(());
        };
        if fault == Some(Kind::NoRecall) {
            return Ok(());
        }
        let awaited = clients.opens.recall(by, file, (monotonic_ns(), limit_ns));
        for delegation in &awaited {
            match fault {
                Some(Kind::SilentRecall) => {}
                Some(Kind::DoubleRecall) => clients.call_back(delegation, 2),
                Some(Kind::UnknownRecall) => {
                    let stateid = Stateid {
                        version: 1,
                        other: NOBODYS,
                    };
                    clients.call_back(
                        &Delegation {
                            stateid,
                            ..*delegation
                        },
                        1,
                    );
                    clients.call_back(delegation, 1);
                }
                _ => clients.call_back(delegation, 1),
            }
        }
        match awaited.is_empty() {
            true => Ok(()),
            false => Err(Status::JukeBox.into()),
        }
    }

    /// Appends the callbacks that are due on a connection.
    pub(super) fn write_calls(&self, connection: &ConnectionHandle, out: &mut Vec<u8>) {
        for due in self.clients().due_calls(connection) {
            write_recall(&due, out);
        }
    }

    /// Handles the reply to a callback.
    ///
    /// # Errors
    /// The record does not answer a callback.
    pub(super) fn take_answer(&self, connection: &ConnectionHandle, record: &[u8]) -> Result<(), Malformed> {
        let (xid, understood) = parse_answer(record)?;
        match self.clients().answered(connection, xid, understood) {
            true => Ok(()),
            false => Err(Malformed),
        }
    }

    /// Returns the file with this name, if it exists.
    pub(super) fn named(&self, at: &FileHandle, name: &[u8]) -> Option<FileHandle> {
        let volume = self.export_of(at)?.lock();
        let directory = volume.find(at).ok()?;
        let slot = volume.files.look_up(directory, name).ok()?;
        volume.handle(slot).ok()
    }

    /// Returns the files that an NFSv3 request changes.
    pub(super) fn changed_by(&self, request: &Request<'_>) -> [Option<FileHandle>; 2] {
        match *request {
            Request::Write { file, .. }
            | Request::SetAttributes { file, .. }
            | Request::Link { file, .. } => [Some(file), None],
            Request::Create {
                at,
                name,
                how: How::Unchecked(_),
            }
            | Request::Remove { at, name } => [self.named(&at, name), None],
            Request::Rename {
                from_at,
                from,
                to_at,
                to,
            } => [self.named(&from_at, from), self.named(&to_at, to)],
            _ => [None, None],
        }
    }
}
