//! Requests for files: each body is parsed, executed on the volume, and answered with a body.
//!
//! `dialogue.rs` handles users, frames and keys, `volume` the files.

mod control;
mod create;
mod data;
mod directory;
mod info;
mod interfaces;
mod notify;
mod set;

use super::bytes::{slice, u32_at, u64_at};
use super::host::Host;
use super::message::{command, write_control, Request, HEADER_BYTES};
use super::negotiate::{Negotiated, MOST_BYTES};
use super::pipes::PIPE_TRANSCEIVE;
use super::status::{Status, Stop};
use super::volume::{FileId, Moment, Opener, Volume, Waiter};
use dyno_smb::wire::Dialect;
use std::cell::Cell;
use std::net::SocketAddr;

const BODY: usize = HEADER_BYTES;
const VALIDATE_NEGOTIATE_INFO: u32 = 0x0014_0204;
const QUERY_NETWORK_INTERFACE_INFO: u32 = 0x0014_01fc;
const DFS_GET_REFERRALS: u32 = 0x0006_0194;
const CREDIT_BYTES: u32 = 65_536;

/// A request for files with its context.
pub(crate) struct Asking<'a> {
    pub(crate) host: &'a Host,
    pub(crate) part: &'a [u8],
    pub(crate) charge: u16,
    pub(crate) opener: Opener,
    /// The file of the previous request in the compound, or its failure.
    pub(crate) related: Result<FileId, Status>,
    /// The file of this request.
    pub(crate) used: Cell<Option<FileId>>,
    pub(crate) moment: Moment,
    pub(crate) waiter: Waiter,
    pub(crate) client_guid: u128,
    pub(crate) dialect: Dialect,
    pub(crate) leases_directories: bool,
    pub(crate) channel_sequence: u16,
    /// Whether the session may have several connections.
    pub(crate) has_channels: bool,
}

impl Asking<'_> {
    /// Returns the open file whose ID is at `offset` of the body. An ID of all ones stands for the file of the previous
    /// request.
    fn file(&self, volume: &Volume, offset: usize) -> Result<usize, Status> {
        let place = u64_at(self.part, BODY + offset)?;
        let serial = u64_at(self.part, BODY + offset + 8)?;
        let file = if (place, serial) == (u64::MAX, u64::MAX) {
            self.related?
        } else {
            (usize::try_from(place).unwrap_or(usize::MAX), serial)
        };
        let open = volume.find(file, &self.opener)?;
        self.used.set(Some(file));
        Ok(open)
    }

    /// Like `file`, but for a change: refuses a late request from a connection that the client has abandoned.
    fn file_to_change(&self, volume: &mut Volume, offset: usize) -> Result<usize, Status> {
        let open = self.file(volume, offset)?;
        if self.dialect >= Dialect::Smb300 {
            volume.check_channel_sequence(open, self.channel_sequence, true)?;
        }
        Ok(open)
    }

    /// Returns whether the client may repeat a lock request over another connection, as marked by its lock
    /// sequence (MS-SMB2 3.3.5.14).
    fn may_repeat(&self, volume: &Volume, open: usize) -> bool {
        self.has_channels || (self.dialect >= Dialect::Smb210 && volume.is_kept(open))
    }

    /// Checks that the credits cover the data: one per 64 KiB, sent or requested (MS-SMB2 3.3.5.2.5).
    fn check_charge(&self, bytes: u32) -> Result<(), Status> {
        let (most, paid) = if self.dialect >= Dialect::Smb210 {
            (MOST_BYTES, CREDIT_BYTES.saturating_mul(self.charge.into()))
        } else {
            (CREDIT_BYTES, CREDIT_BYTES)
        };
        if bytes > most.min(paid) {
            return Err(Status::INVALID_PARAMETER);
        }
        Ok(())
    }
}

/// Executes a request, and appends the body of its answer.
pub(crate) fn carry_out(
    request: &Request<'_>,
    asking: &Asking<'_>,
    volume: &mut Volume,
    out: &mut Vec<u8>,
) -> Result<Status, Stop> {
    let fault = asking.host.options.fault;
    if fault.is_some_and(|fault| fault.kind == super::fault::Kind::SessionDeleted) {
        return Err(Status::USER_SESSION_DELETED.into());
    }
    let structure = match request.command {
        command::CREATE => 57,
        command::CLOSE | command::FLUSH => 24,
        command::READ | command::WRITE => 49,
        command::LOCK => 48,
        command::CHANGE_NOTIFY => 32,
        command::QUERY_DIRECTORY | command::SET_INFO => 33,
        command::QUERY_INFO => 41,
        command::IOCTL => 57,
        // OPLOCK_BREAK: acknowledgements of oplock and lease breaks differ in size, which `acknowledge` checks.
        _ => return data::acknowledge(asking, volume, out).map_err(Stop::from),
    };
    request.check_structure(structure)?;
    match request.command {
        command::CREATE => create::create(asking, volume, out),
        command::CLOSE => data::close(asking, volume, out).map_err(Stop::from),
        command::FLUSH => data::flush(asking, volume, out).map_err(Stop::from),
        command::READ => data::read(asking, volume, out).map_err(Stop::from),
        command::WRITE => data::write(asking, volume, out).map_err(Stop::from),
        command::LOCK => data::lock(asking, volume, out),
        command::CHANGE_NOTIFY => notify::notify(asking, volume, out),
        command::QUERY_DIRECTORY => directory::query(asking, volume, out).map_err(Stop::from),
        command::QUERY_INFO => info::query(asking, volume, out).map_err(Stop::from),
        command::IOCTL => control::control(asking, volume, out).map_err(Stop::from),
        _ => set::set(asking, volume, out),
    }
}

/// Returns whether an IOCTL applies to an open file or pipe.
pub(crate) fn controls_a_file(request: &Request<'_>) -> Result<bool, Status> {
    request.check_structure(57)?;
    let code = u32_at(request.part, BODY + 4)?;
    Ok(code == PIPE_TRANSCEIVE || control::CODES.contains(&code))
}

/// Handles an IOCTL (2.2.31) without a file: the validation of the negotiation, and the query of network
/// interfaces. `local`: the address that the client uses.
pub(crate) fn control(
    host: &Host,
    negotiated: &Negotiated,
    local: Option<SocketAddr>,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Status> {
    let part = request.part;
    match u32_at(part, BODY + 4)? {
        VALIDATE_NEGOTIATE_INFO => {}
        QUERY_NETWORK_INTERFACE_INFO => {
            let address = local.filter(|_| negotiated.has_channels());
            return interfaces::query(part, address.ok_or(Status::NOT_SUPPORTED)?, out);
        }
        DFS_GET_REFERRALS => return Err(Status::NOT_FOUND),
        _ => return Err(Status::INVALID_DEVICE_REQUEST),
    }
    let offset = u32_at(part, BODY + 24)? as usize;
    let input = slice(part, offset, u32_at(part, BODY + 28)? as usize)?;
    let mut answer = Vec::new();
    negotiated.validate(host, input, &mut answer)?;
    write_control(part, out, |out| out.extend_from_slice(&answer))
}
