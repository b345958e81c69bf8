//! Callbacks: CB_COMPOUND with CB_SEQUENCE and CB_RECALL (RFC 8881, 20.2 and 20.9), and their replies.

use crate::nfs::state4::callbacks::Due;
use dyno_nfs::wire::{Body, Malformed, Message, Program, Reader, Writer, Xdr};

/// Version of the callback program (`NFS_CB`).
const CALLBACK_VERSION: u32 = 1;
const CB_COMPOUND: u32 = 1;
const CB_RECALL: u32 = 4;
const CB_SEQUENCE: u32 = 11;
const MINOR_VERSION: u32 = 1;
/// CB_RECALL's `truncate`: the file is not going to be truncated.
const TRUNCATES: u32 = 0;

/// Appends a CB_RECALL as a record.
pub(in crate::nfs) fn write_recall(due: &Due, out: &mut Vec<u8>) {
    let mut message = Message::default();
    let program = Program(due.program, CALLBACK_VERSION);
    let mut writer = message.begin(due.xid, program, CB_COMPOUND, due.credential.as_ref());
    writer.u32(0).u32(MINOR_VERSION).u32(0).u32(2);
    writer.u32(CB_SEQUENCE).bytes(&due.session).u32(due.number);
    // Slot 0 is the only slot. The reply is not cached, and there are no referring calls.
    writer.u32(0).u32(0).u32(0).u32(0);
    writer.u32(CB_RECALL);
    writer
        .u32(due.stateid.version)
        .bytes(&due.stateid.other)
        .u32(TRUNCATES);
    due.file.write(&mut writer);
    message.end();
    Writer(out).bytes(message.bytes());
}

/// Parses a reply: its XID, and whether the client has accepted the call.
pub(in crate::nfs) fn parse_answer(record: &[u8]) -> Result<(u32, bool), Malformed> {
    let (xid, body) = Body::parse(record)?;
    let understood = match body {
        Body::Accepted(at) => Reader::new(&record[at..]).u32()? == 0,
        Body::Unaccepted(_) | Body::Denied(_) => false,
    };
    Ok((xid, understood))
}
