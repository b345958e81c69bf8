//! Who is in the way of whom: before a file is changed, in whichever version of NFS, other clients give back what was
//! delegated to them.

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

/// Of a state that no server of ours makes.
const NOBODYS: [u8; 12] = *b"nobody has i";

impl Host {
    /// Makes way for a change of these files by a client of NFSv4.1, or by one of NFSv3. As long as what this gives back
    /// lives, nothing is delegated; None: nothing ever is.
    ///
    /// # Errors
    /// JUKEBOX, which is DELAY: somebody has to give something back first.
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

    /// The same for one file, of who has the clients locked.
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

    /// Appends the calls that a connection is to carry now.
    pub(super) fn write_calls(&self, connection: &ConnectionHandle, out: &mut Vec<u8>) {
        for due in self.clients().due_calls(connection) {
            write_recall(&due, out);
        }
    }

    /// Takes the answer to a call.
    ///
    /// # Errors
    /// Where it is none.
    pub(super) fn take_answer(&self, connection: &ConnectionHandle, record: &[u8]) -> Result<(), Malformed> {
        let (xid, understood) = parse_answer(record)?;
        match self.clients().answered(connection, xid, understood) {
            true => Ok(()),
            false => Err(Malformed),
        }
    }

    /// The file of a name, where it is there.
    pub(super) fn named(&self, at: &FileHandle, name: &[u8]) -> Option<FileHandle> {
        let volume = self.export_of(at)?.lock();
        let directory = volume.find(at).ok()?;
        let slot = volume.files.look_up(directory, name).ok()?;
        volume.handle(slot).ok()
    }

    /// The files that a request of NFSv3 changes.
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
