//! Executes a compound, operation by operation (RFC 8881, 2.10 and 16.2): tracks the current file and the session's
//! slot, and dispatches operations.

use crate::nfs::fault::Kind;
use crate::nfs::host::Host;
use crate::nfs::procedures::Asked;
use crate::nfs::state4::back::ConnectionHandle;
use crate::nfs::state4::clients::{Sequenced, SessionId};
use crate::nfs::state4::opens::Stateid;
use crate::nfs::state4::operation as op;
use crate::nfs::state4::status::{Outcome, Refused4, NOT_ONLY_OPERATION, RESTORE_FH, SEQUENCE_POSITION};
use dyno_measure::monotonic_ns;
use dyno_nfs::status::{Status, Status4, Unaccepted};
use dyno_nfs::wire::{
    begin_reply, end_reply, reject, Channel, FileHandle, Malformed, Reader, Rejection, Writer, Xdr,
    MAX_HANDLE4_BYTES,
};
use std::sync::atomic::Ordering;
use std::sync::Arc;

const MINOR_VERSION: u32 = 1;
// Status flags of SEQUENCE about a client's states and back channel.
const PATH_DOWN: u32 = 0x1;
const RECALLABLE_STATE_REVOKED: u32 = 0x40;
const SESSION_PATH_DOWN: u32 = 0x200;
const MOST_TAG_BYTES: usize = 1024;
/// Upper bound on the size of a result, except for data, directory listings and link targets. An operation is executed
/// only if the reply has at least this much room left.
const RESULT_BYTES: usize = 768;
/// Number of leading bytes that identify a request. The rest is data.
const DIGESTED_BYTES: usize = 512;

/// The slot in which a compound is executed.
#[derive(Debug, Clone, Copy)]
pub(super) struct InSlot {
    pub(super) id: SessionId,
    pub(super) client: u64,
    pub(super) channel: Channel,
    slot: u32,
    keeps: bool,
}

/// A compound during its execution.
pub(super) struct Compound<'a> {
    pub(super) host: &'a Host,
    pub(super) asked: Asked,
    pub(super) connection: &'a Arc<ConnectionHandle>,
    pub(super) now_ns: u64,
    pub(super) in_slot: Option<InSlot>,
    pub(super) current: Option<FileHandle>,
    pub(super) saved: Option<FileHandle>,
    pub(super) stateid: Option<Stateid>,
    saved_stateid: Option<Stateid>,
    /// Bytes that follow an error status.
    pub(super) behind_refusal: Vec<u8>,
    /// Whether the last operation conflicted with a delegation.
    pub(super) is_in_the_way: bool,
    arguments: &'a [u8],
    record_bytes: usize,
    operations: u32,
    /// Start of the results.
    start: usize,
}

/// Executes the compound in a record, whose arguments are `arguments`, and appends the reply. Returns the
/// operation as which the compound is counted, or None if there is no reply yet and the compound must be
/// executed again.
pub(in crate::nfs) fn answer_compound(
    (host, connection): (&Host, &Arc<ConnectionHandle>),
    asked: Asked,
    (xid, record, arguments): (u32, &[u8], &[u8]),
    out: &mut Vec<u8>,
) -> Option<u32> {
    let begin = begin_reply(out, xid);
    let mut compound = Compound {
        host,
        connection,
        asked,
        now_ns: monotonic_ns(),
        in_slot: None,
        current: None,
        saved: None,
        stateid: None,
        saved_stateid: None,
        behind_refusal: Vec::new(),
        is_in_the_way: false,
        arguments,
        record_bytes: record.len(),
        operations: 0,
        start: out.len(),
    };
    match compound.carry_out(out) {
        Ok(Some(number)) => {
            end_reply(out, begin);
            Some(number)
        }
        Ok(None) => {
            out.truncate(begin);
            None
        }
        Err(Malformed) => {
            out.truncate(begin);
            reject(out, xid, Rejection::Unaccepted(Unaccepted::GarbageArgs));
            compound.done(None);
            Some(op::ILLEGAL)
        }
    }
}

impl Compound<'_> {
    fn carry_out(&mut self, out: &mut Vec<u8>) -> Result<Option<u32>, Malformed> {
        let mut reader = Reader::new(self.arguments);
        let tag = reader.opaque(MOST_TAG_BYTES)?;
        let minor_version = reader.u32()?;
        self.operations = reader.u32()?;
        Writer(out).u32(0).opaque(tag);
        let count_at = out.len();
        Writer(out).u32(0);
        let (mut status, mut done, mut counted) = (0, 0_u32, 0);
        let mut may_repeat = self.asked.is_patient;
        if minor_version != MINOR_VERSION {
            status = Status4::MinorVersionMismatch as u32;
        }
        while status == 0 && done < self.operations {
            let asked = reader.u32()?;
            let number = if (op::ACCESS..op::OPERATIONS as u32).contains(&asked) {
                asked
            } else {
                op::ILLEGAL
            };
            if done == 0 || op::weight(number) > op::weight(counted) {
                counted = number;
            }
            Writer(out).u32(number).u32(0);
            let results = out.len();
            self.behind_refusal.clear();
            let outcome = self.next(number, done, &mut reader, out);
            if let Some(reply) = outcome.as_ref().ok().and_then(Option::as_ref) {
                // The compound was executed before: send the cached reply.
                out.truncate(self.start);
                out.extend_from_slice(reply);
                return Ok(Some(counted));
            }
            if self.is_in_the_way && may_repeat {
                self.undo();
                return Ok(None);
            }
            may_repeat &= op::is_harmless(number);
            let outcome = outcome.and_then(|_| self.fits(number, out));
            if let Err(Refused4(refused)) = outcome {
                status = refused;
                out.truncate(results);
                out[results - 4..].copy_from_slice(&refused.to_be_bytes());
                out.extend_from_slice(&self.behind_refusal);
            }
            done += 1;
        }
        out[self.start..self.start + 4].copy_from_slice(&status.to_be_bytes());
        out[count_at..count_at + 4].copy_from_slice(&done.to_be_bytes());
        self.done(Some(&out[self.start..]));
        Ok(Some(counted))
    }

    /// Frees the slot as if the compound had not arrived.
    fn undo(&self) {
        if let Some(used) = self.in_slot {
            self.host.clients().undo(&used.id, used.slot);
        }
    }

    /// Frees the slot, and caches the reply if required.
    fn done(&self, reply: Option<&[u8]>) {
        if let Some(used) = self.in_slot {
            let kept = reply.filter(|_| used.keeps);
            self.host.clients().done(&used.id, used.slot, kept);
        }
    }

    /// Executes one operation. If an earlier transmission of the compound was executed, returns the cached
    /// reply to it.
    fn next(
        &mut self,
        number: u32,
        place: u32,
        reader: &mut Reader<'_>,
        out: &mut Vec<u8>,
    ) -> Outcome<Option<Box<[u8]>>> {
        let needs_no_session = matches!(
            number,
            op::EXCHANGE_ID
                | op::CREATE_SESSION
                | op::DESTROY_SESSION
                | op::DESTROY_CLIENTID
                | op::BIND_CONN_TO_SESSION
        );
        match (number, place) {
            (op::ILLEGAL, _) => return Err(Status4::OperationIllegal.into()),
            (op::SEQUENCE, 0) => return self.sequence(reader, out),
            (op::SEQUENCE, _) => return Err(SEQUENCE_POSITION),
            (_, 0) if !needs_no_session => return Err(Status4::OperationNotInSession.into()),
            (_, 0) if self.operations != 1 => return Err(NOT_ONLY_OPERATION),
            (op::PUTFH, 1) if self.asked.struck == Some(Kind::JukeBox) => return Err(Status::JukeBox.into()),
            (op::PUTFH, 1) if self.asked.struck == Some(Kind::Stale) => return Err(Status::Stale.into()),
            _ => {}
        }
        if self.room_bytes(out) < RESULT_BYTES {
            return Err(self.too_big(out));
        }
        self.operation(number, reader, out)?;
        Ok(None)
    }

    /// Table of operations.
    fn operation(&mut self, number: u32, reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Outcome {
        let writer = &mut Writer(out);
        match number {
            op::EXCHANGE_ID => self.exchange_id(reader, writer),
            op::CREATE_SESSION => self.create_session(reader, writer),
            op::BIND_CONN_TO_SESSION => self.bind_connection(reader, writer),
            op::DESTROY_SESSION => self.destroy_session(reader),
            op::DESTROY_CLIENTID => self.destroy_client(reader),
            op::RECLAIM_COMPLETE => self.reclaim_complete(reader),
            op::PUTFH => self.put_file(reader),
            op::PUTROOTFH | op::PUTPUBFH => self.put_root(),
            op::GETFH => {
                self.file()?.write(writer);
                Ok(())
            }
            op::SAVEFH => {
                (self.saved, self.saved_stateid) = (Some(self.file()?), self.stateid);
                Ok(())
            }
            op::RESTOREFH => {
                self.saved.ok_or(RESTORE_FH)?;
                (self.current, self.stateid) = (self.saved, self.saved_stateid);
                Ok(())
            }
            op::LOOKUP => self.look_up(reader),
            op::LOOKUPP => self.look_up_parent(),
            op::SECINFO => self.security_of_name(reader, writer),
            op::SECINFO_NO_NAME => self.security(reader, writer),
            op::ACCESS => self.access(reader, writer),
            op::GETATTR => self.get_attributes(reader, writer),
            op::VERIFY => self.verify(reader, true),
            op::NVERIFY => self.verify(reader, false),
            op::SETATTR => self.set_attributes(reader, writer),
            op::CREATE => self.create(reader, writer),
            op::REMOVE => self.remove(reader, writer),
            op::RENAME => self.rename(reader, writer),
            op::LINK => self.link(reader, writer),
            op::READLINK => self.read_link(writer),
            op::READDIR => self.list(reader, writer),
            op::READ => self.read(reader, writer),
            op::WRITE => self.write(reader, writer),
            op::COMMIT => self.commit(reader, writer),
            op::OPEN => self.open(reader, writer),
            op::OPEN_DOWNGRADE => self.downgrade(reader, writer),
            op::CLOSE => self.close(reader, writer),
            op::DELEGRETURN => self.give_back(reader),
            op::LOCK => self.lock(reader, writer),
            op::LOCKT => self.test_lock(reader),
            op::LOCKU => self.unlock(reader, writer),
            op::TEST_STATEID => self.test_states(reader, writer),
            op::FREE_STATEID => self.free_state(reader),
            _ => Err(Status::NotSupp.into()),
        }
    }

    fn sequence(&mut self, reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Outcome<Option<Box<[u8]>>> {
        let id = parse_session(reader)?;
        let (number, slot, highest) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let keeps = reader.bool()?;
        // Digest only the operations and the caller, because a retransmission may differ elsewhere.
        let said = &self.arguments[reader.position().min(self.arguments.len())..];
        let caller = (self.asked.caller.uid, self.asked.caller.gid);
        let digest = self
            .host
            .digest(&(caller, said.len(), &said[..said.len().min(DIGESTED_BYTES)]));
        let mut clients = self.host.clients();
        if self.operations > clients.channel_of(&id)?.operations {
            return Err(Status4::TooManyOperations.into());
        }
        if self.record_bytes > clients.channel_of(&id)?.request_bytes as usize {
            return Err(Status4::RequestTooBig.into());
        }
        match clients.sequence(&id, (number, slot, highest), digest, self.now_ns)? {
            Sequenced::Repeated(reply) => {
                self.host.given_again.fetch_add(1, Ordering::Relaxed);
                Ok(Some(reply))
            }
            Sequenced::New(client, channel) => {
                self.in_slot = Some(InSlot {
                    id,
                    client,
                    channel,
                    slot,
                    keeps,
                });
                let last = channel.slots - 1;
                let mut flags = 0;
                if clients.opens.has_revoked(client) {
                    flags |= RECALLABLE_STATE_REVOKED;
                }
                if clients.path_is_down(&id) {
                    flags |= PATH_DOWN | SESSION_PATH_DOWN;
                }
                Writer(out)
                    .bytes(&id)
                    .u32(number)
                    .u32(slot)
                    .u32(last)
                    .u32(last)
                    .u32(flags);
                Ok(None)
            }
        }
    }

    /// Returns the number of bytes that the results may still take.
    pub(super) fn room_bytes(&self, out: &[u8]) -> usize {
        let most = self.in_slot.map_or(usize::MAX, |used| match used.keeps {
            true => used.channel.reply_bytes.min(used.channel.kept_reply_bytes) as usize,
            false => used.channel.reply_bytes as usize,
        });
        most.saturating_sub(out.len() - self.start)
    }

    fn too_big(&self, out: &[u8]) -> Refused4 {
        let used = out.len() - self.start;
        let fits_unkept = self
            .in_slot
            .is_some_and(|slot| used + RESULT_BYTES <= slot.channel.reply_bytes as usize);
        match fits_unkept {
            true => Status4::ReplyTooBigToCache.into(),
            false => Status4::ReplyTooBig.into(),
        }
    }

    /// Checks that the reply is not too long. Only operations that may be repeated have long results.
    fn fits(&self, number: u32, out: &[u8]) -> Outcome {
        match number == op::SEQUENCE || self.room_bytes(out) > 0 {
            true => Ok(()),
            false => Err(self.too_big(out)),
        }
    }

    pub(super) fn file(&self) -> Outcome<FileHandle> {
        self.current.ok_or_else(|| Status4::NoFileHandle.into())
    }

    pub(super) fn client(&self) -> Outcome<u64> {
        let used = self.in_slot.ok_or(Status4::OperationNotInSession)?;
        Ok(used.client)
    }

    fn put_file(&mut self, reader: &mut Reader<'_>) -> Outcome {
        let file = FileHandle::of(reader.opaque(MAX_HANDLE4_BYTES)?).ok_or(Malformed)?;
        if self.host.pseudo.find(&file).is_none() && self.host.export_of(&file).is_none() {
            return Err(Status::Stale.into());
        }
        (self.current, self.stateid) = (Some(file), None);
        Ok(())
    }

    fn put_root(&mut self) -> Outcome {
        (self.current, self.stateid) = (Some(self.host.pseudo.handle(0)?), None);
        Ok(())
    }
}

pub(super) fn parse_session(reader: &mut Reader<'_>) -> Result<SessionId, Malformed> {
    reader.bytes(16)?.try_into().map_err(|_| Malformed)
}
