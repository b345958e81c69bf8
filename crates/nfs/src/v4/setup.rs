//! Compounds that start and end a session (RFC 8881, 18.35 to 18.37, 18.50, 18.51), and that reclaim open
//! files after a restart of the server (9.6).

use super::attributes::{ALL, LIMITS};
use super::callback::CALLBACK_PROGRAM;
use super::operation::{begin_compound, write_lock, write_owner, How4, Places};
use super::results::{expect, parse_attributes, parse_file};
use super::state::{Access4, Agreed4, State, MOST_SLOTS};
use super::Attributes4;
use crate::wire::operation4::*;
use crate::wire::{Channel, Credential, FileHandle, Malformed, Message, Reader, Writer, Xdr};
use std::ops::Range;

/// Maximum length of a server's names (`NFS4_OPAQUE_LIMIT`).
const MOST_NAME_BYTES: usize = 1024;
const MOST_TAG_BYTES: usize = 1024;
/// EXCHANGE_ID flag: the client ID was already confirmed.
const CONFIRMED: u32 = 1 << 31;
const MOST_OPERATIONS_ASKED: u32 = 16;
/// Requested size of cached replies.
const KEPT_REPLY_BYTES: u32 = 4096;
/// CREATE_SESSION flag: the connection also carries the server's calls.
const CALLS: u32 = 2;
// Directions of a bound connection, in requests and replies.
const BOTH_WAYS: u32 = 3;
const CALLS_ALONE: u32 = 2;
/// Maximum message size of the back channel: enough for the calls of any server.
const BACK_BYTES: u32 = 4096;
const BACK_SLOTS: u32 = 1;

/// Identity of a client that requests a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Identifies the client across restarts of the server.
    pub(crate) owner: Vec<u8>,
    /// Identifies this run of the client.
    pub(crate) verifier: u64,
}

impl Channel {
    /// Returns the properties to request for transfers of these sizes, with up to `around` bytes of other
    /// contents per message.
    pub(crate) fn asked(write_bytes: u32, read_bytes: u32, around: u32) -> Self {
        Self {
            request_bytes: write_bytes.saturating_add(around),
            reply_bytes: read_bytes.saturating_add(around),
            kept_reply_bytes: KEPT_REPLY_BYTES,
            operations: MOST_OPERATIONS_ASKED,
            slots: MOST_SLOTS,
        }
    }
}

/// XID, credential and minor version of a compound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) xid: u32,
    pub(crate) credential: &'a Credential,
    pub(crate) minor: u32,
}

/// Writes a compound with a single operation.
fn alone(message: &mut Message, asked: Asked<'_>, write: impl FnOnce(&mut Writer<'_>)) {
    let mut writer = begin_compound(message, asked.xid, asked.credential, asked.minor, 1);
    write(&mut writer);
    message.end();
}

pub(crate) fn exchange_id(message: &mut Message, asked: Asked<'_>, identity: &Identity) {
    alone(message, asked, |writer| {
        writer
            .u32(EXCHANGE_ID)
            .u64(identity.verifier)
            .opaque(&identity.owner);
        // No flags, no state protection, no implementation ID.
        writer.u32(0).u32(0).u32(0);
    });
}

pub(crate) fn create_session(
    message: &mut Message,
    asked: Asked<'_>,
    (client_id, number): (u64, u32),
    fore: &Channel,
    is_called: bool,
) {
    alone(message, asked, |writer| {
        writer.u32(CREATE_SESSION).u64(client_id).u32(number);
        writer.u32(if is_called { CALLS } else { 0 });
        fore.write(writer);
        Channel {
            request_bytes: BACK_BYTES,
            reply_bytes: BACK_BYTES,
            kept_reply_bytes: 0,
            operations: 2,
            slots: BACK_SLOTS,
        }
        .write(writer);
        writer.u32(CALLBACK_PROGRAM).u32(1).u32(0); // AUTH_NONE
    });
}

/// Writes a request to bind another connection to the back channel. The operation must be the only one of its
/// compound and uses no slot.
pub(crate) fn bind_connection(message: &mut Message, asked: Asked<'_>, session: &[u8; 16]) {
    alone(message, asked, |writer| {
        writer.u32(BIND_CONN_TO_SESSION).bytes(session);
        writer.u32(BOTH_WAYS).u32(0);
    });
}

/// Parses the answer to `bind_connection`: whether the connection carries the server's calls, or the status
/// of a refusal.
pub(crate) fn parse_bind_connection(results: &[u8]) -> Result<Result<bool, u32>, Malformed> {
    let mut reader = match results_of(results, BIND_CONN_TO_SESSION)? {
        Ok(reader) => reader,
        Err(status) => return Ok(Err(status)),
    };
    reader.bytes(16)?;
    Ok(Ok(matches!(reader.u32()?, BOTH_WAYS | CALLS_ALONE)))
}

pub(crate) fn destroy_session(message: &mut Message, asked: Asked<'_>, session: &[u8; 16]) {
    alone(message, asked, |writer| {
        writer.u32(DESTROY_SESSION).bytes(session);
    });
}

pub(crate) fn destroy_client(message: &mut Message, asked: Asked<'_>, client_id: u64) {
    alone(message, asked, |writer| {
        writer.u32(DESTROY_CLIENTID).u64(client_id);
    });
}

/// Starts a compound of `operations` operations after SEQUENCE in a slot of a session.
fn in_session<'a>(
    message: &'a mut Message,
    asked: Asked<'_>,
    state: &State,
    slot: u32,
    operations: u32,
) -> Writer<'a> {
    let mut writer = begin_compound(message, asked.xid, asked.credential, asked.minor, operations + 1);
    writer.u32(SEQUENCE).bytes(&state.sequence(slot)).u32(0);
    writer
}

/// Writes the announcement that the client will reclaim no more state.
pub(crate) fn reclaim_complete(message: &mut Message, asked: Asked<'_>, state: &State, slot: u32) {
    in_session(message, asked, state, slot, 1)
        .u32(RECLAIM_COMPLETE)
        .u32(0);
    message.end();
}

/// Writes the look-up of a directory: the server's root, or a name in a directory.
pub(crate) fn root(
    message: &mut Message,
    asked: Asked<'_>,
    state: &State,
    slot: u32,
    step: Option<(&FileHandle, &[u8])>,
) {
    let mut writer = in_session(message, asked, state, slot, if step.is_some() { 4 } else { 3 });
    match step {
        Some((at, name)) => {
            at.write(writer.u32(PUTFH));
            writer.u32(LOOKUP).opaque(name);
        }
        None => {
            writer.u32(PUTROOTFH);
        }
    }
    LIMITS.write(writer.u32(GETFH).u32(GETATTR));
    message.end();
}

/// How a file is reopened in another session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A reclaim during the grace period of a restarted server.
    Previous,
    /// A new open, in competition with other clients.
    Anew,
}

/// Writes an OPEN that reopens a file by its handle.
pub(crate) fn reclaim(
    message: &mut Message,
    asked: Asked<'_>,
    state: &State,
    slot: u32,
    (file, access, owner, claim): (&FileHandle, Access4, u64, Claim),
) {
    let mut writer = in_session(message, asked, state, slot, 4);
    file.write(writer.u32(PUTFH));
    access.write(false, writer.u32(OPEN).u32(0));
    write_owner(owner, &mut writer);
    How4::Open.write(&mut writer);
    match claim {
        Claim::Previous => writer.u32(1).u32(0),
        Claim::Anew => writer.u32(4),
    };
    ALL.write(writer.u32(GETFH).u32(GETATTR));
    message.end();
}

/// Writes a LOCK that locks a range of a reopened file again.
pub(crate) fn reclaim_lock(
    message: &mut Message,
    asked: Asked<'_>,
    state: &State,
    slot: u32,
    (file, range, owner, claim): (&FileHandle, &Range<u64>, u64, Claim),
) {
    let mut writer = in_session(message, asked, state, slot, 2);
    file.write(writer.u32(PUTFH));
    let bytes = match range.end {
        u64::MAX => u64::MAX,
        end => end - range.start,
    };
    let is_reclaim = claim == Claim::Previous;
    let mut places = Places::default(); // not used: the request is not changed later
    let range = (range.start, bytes);
    write_lock(file, range, owner, is_reclaim, &mut writer, state, &mut places);
    message.end();
}

/// Reads the status of a compound with one operation. Returns a reader of its results, or the status of a
/// failure.
fn results_of<'a>(results: &'a [u8], operation: u32) -> Result<Result<Reader<'a>, u32>, Malformed> {
    let mut reader = Reader::new(results);
    let status = reader.u32()?;
    reader.opaque(MOST_TAG_BYTES)?;
    if status != 0 {
        return Ok(Err(status));
    }
    if reader.u32()? != 1 {
        return Err(Malformed);
    }
    expect(&mut reader, operation)?;
    Ok(Ok(reader))
}

/// Reads the status of any compound.
pub(crate) fn parse_status(results: &[u8]) -> Result<u32, Malformed> {
    Reader::new(results).u32()
}

/// A client's registration with a server, from EXCHANGE_ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KnownAs {
    pub(crate) client_id: u64,
    /// Sequence number of the client's first CREATE_SESSION.
    pub(crate) number: u32,
    /// Whether the client ID is confirmed, that is, has had a session.
    pub(crate) is_confirmed: bool,
}

/// Parses the answer to `exchange_id`: the client's registration, or the status of a refusal.
pub(crate) fn parse_exchange_id(results: &[u8]) -> Result<Result<KnownAs, u32>, Malformed> {
    let mut reader = match results_of(results, EXCHANGE_ID)? {
        Ok(reader) => reader,
        Err(status) => return Ok(Err(status)),
    };
    let (client_id, number) = (reader.u64()?, reader.u32()?);
    let is_confirmed = reader.u32()? & CONFIRMED != 0;
    if reader.u32()? != 0 {
        // The client requested no state protection.
        return Err(Malformed);
    }
    reader.u64()?;
    reader.opaque(MOST_NAME_BYTES)?;
    reader.opaque(MOST_NAME_BYTES)?;
    Ok(Ok(KnownAs {
        client_id,
        number,
        is_confirmed,
    }))
}

/// Parses the answer to `create_session`: the granted properties, or the status of a refusal.
pub(crate) fn parse_create_session(
    results: &[u8],
    asked: &Channel,
    (client_id, minor): (u64, u32),
) -> Result<Result<(Agreed4, Channel), u32>, Malformed> {
    let mut reader = match results_of(results, CREATE_SESSION)? {
        Ok(reader) => reader,
        Err(status) => return Ok(Err(status)),
    };
    let session = reader.bytes(16)?.try_into().map_err(|_| Malformed)?;
    reader.u32()?;
    let flags = reader.u32()?;
    let granted = Channel::parse(&mut reader)?;
    Channel::parse(&mut reader)?;
    // A server may not grant more than requested (RFC 8881, 18.36.3).
    let channel = Channel {
        request_bytes: granted.request_bytes.min(asked.request_bytes),
        reply_bytes: granted.reply_bytes.min(asked.reply_bytes),
        slots: granted.slots.min(asked.slots),
        ..granted
    };
    let agreed = Agreed4 {
        minor,
        client_id,
        session,
        slots: channel.slots,
        kept_reply_bytes: channel.kept_reply_bytes,
        lease_s: 0,
        is_called: flags & CALLS != 0,
    };
    Ok(Ok((agreed, channel)))
}

/// Parses the answer to `root`: a directory on the path of the export, and its attributes.
pub(crate) fn parse_root(results: &[u8], is_step: bool) -> Result<(FileHandle, Attributes4), Malformed> {
    let mut reader = Reader::new(results);
    if is_step {
        expect(&mut reader, PUTFH)?;
        expect(&mut reader, LOOKUP)?;
    } else {
        expect(&mut reader, PUTROOTFH)?;
    }
    let file = parse_file(&mut reader)?;
    Ok((file, parse_attributes(&mut reader, LIMITS)?))
}
