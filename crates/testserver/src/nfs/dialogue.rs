//! Answers the calls of one connection. Handles bytes, not sockets.

use super::fault::Kind;
use super::host::Host;
pub use super::misbehaviour::After;
use super::misbehaviour::{spoil, FaultCounter, REPLY_HEAD_BYTES};
use super::options::Options;
use super::procedures::{is_repeatable, words_of_refusal, Asked};
use super::programs::{answer_mount, answer_portmapper, NFS4};
use super::state4::back::ConnectionHandle;
use super::v4::answer_compound;
use super::volume::{Caller, Refused};
use dyno_measure::monotonic_ns;
use dyno_nfs::session::MOST_UDP_BYTES;
use dyno_nfs::status::{Denied, Status, Unaccepted};
use dyno_nfs::wire::{
    begin_reply, end_reply, reject, Header, Malformed, Procedure, Program, Reader, Rejection, Request,
    Transport, Writer, MOUNT, NFS, PORTMAPPER,
};
use std::io;
use std::sync::Arc;

// NFSv4 procedures.
const NULL: u32 = 0;
const COMPOUND: u32 = 1;
const MOST_TAG_BYTES: usize = 1024;
/// Size of SEQUENCE's arguments.
const SEQUENCE_BYTES: usize = 32;
const PUTFH: u32 = 22;
/// User and group of a caller without credentials (AUTH_NONE): nobody, as in Linux.
const NOBODY: (u32, u32) = (65_534, 65_534);

/// State of one connection.
#[derive(Debug)]
pub struct Dialogue {
    host: Arc<Host>,
    thread: usize,
    faults: FaultCounter,
    /// The transport. Over UDP, transfers are smaller, and there is no NFSv4.
    transport: Transport,
    /// Whether a call that conflicts with a delegation may wait before the client is told to retry.
    is_patient: bool,
    /// The fault of a call that must be answered again, stored so that the call counts only once. Some(None):
    /// no fault.
    again: Option<Option<Kind>>,
    /// Handle through which other connections send callbacks to this connection's client.
    connection: Arc<ConnectionHandle>,
}

impl Dialogue {
    pub(super) fn new(host: Arc<Host>, thread: usize, transport: Transport) -> Self {
        Self {
            transport,
            faults: FaultCounter::new(host.options.fault),
            host,
            thread,
            is_patient: false,
            again: None,
            connection: Arc::default(),
        }
    }

    /// Creates a dialogue with a private server without sockets, for fuzzing.
    pub fn alone(options: &Options) -> io::Result<Self> {
        let host = crate::server::new(options)?;
        Ok(Self::new(Arc::new(host), 0, Transport::Tcp))
    }

    /// Like `answer`, but returns `After::Wait` without a reply if the call conflicts with a delegation.
    pub(super) fn answer_or_wait(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<After, Malformed> {
        self.is_patient = true;
        let after = self.answer(record, out);
        self.is_patient = false;
        after
    }

    /// Executes the call in a record and appends the reply, with its record mark, to `out`. Also accepts the
    /// reply to a callback.
    ///
    /// # Errors
    /// The record is neither a call nor an expected reply. The connection can't continue.
    pub fn answer(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<After, Malformed> {
        if self.connection.is_bound() && is_reply(record) {
            self.host.take_answer(&self.connection, record)?;
            self.write_calls(out);
            return Ok(After::GoOn);
        }
        let (xid, header) = Header::parse(record)?;
        let header = match header {
            Ok(header) => header,
            Err(rejection) => {
                reject(out, xid, rejection);
                return Ok(After::GoOn);
            }
        };
        let arguments = &record[header.arguments..];
        let (host, procedure) = (&self.host, header.procedure);
        match header.program {
            NFS => return Ok(self.answer_nfs(xid, &header, record, out)),
            NFS4 if self.transport == Transport::Tcp => {
                return Ok(self.answer_nfs4(xid, &header, record, out))
            }
            MOUNT => answer_mount(host, xid, procedure, arguments, out),
            PORTMAPPER => answer_portmapper(host, xid, procedure, arguments, out),
            Program(number, _) => {
                let served = [NFS, MOUNT, PORTMAPPER];
                let other = served.into_iter().find(|program| program.0 == number);
                let rejection = match other {
                    Some(NFS) if self.transport == Transport::Udp => Rejection::ProgramVersions(NFS.1, NFS.1),
                    Some(NFS) => Rejection::ProgramVersions(NFS.1, NFS4.1),
                    Some(Program(_, version)) => Rejection::ProgramVersions(version, version),
                    None => Rejection::Unaccepted(Unaccepted::ProgUnavail),
                };
                reject(out, xid, rejection);
            }
        }
        Ok(After::GoOn)
    }

    /// Returns the handle through which other connections send callbacks to the client.
    pub(super) fn connection(&self) -> &ConnectionHandle {
        &self.connection
    }

    /// Appends the callbacks that are due.
    pub(super) fn write_calls(&self, out: &mut Vec<u8>) {
        self.host.write_calls(&self.connection, out);
    }

    fn answer_nfs(&mut self, xid: u32, header: &Header, record: &[u8], out: &mut Vec<u8>) -> After {
        let unaccepted = |out: &mut Vec<u8>, reason| reject(out, xid, Rejection::Unaccepted(reason));
        let Some(procedure) = Procedure::ALL.get(header.procedure as usize).copied() else {
            unaccepted(out, Unaccepted::ProcUnavail);
            return After::GoOn;
        };
        let again = self.again.take();
        if again.is_none() {
            self.host.count(self.thread, procedure);
        }
        let Ok(request) = Request::parse(procedure, &record[header.arguments..]) else {
            unaccepted(out, Unaccepted::GarbageArgs);
            return After::GoOn;
        };
        let struck = again.unwrap_or_else(|| self.faults.next(procedure));
        let start = out.len();
        match struck {
            Some(Kind::Denied) => reject(out, xid, Rejection::Denied(Denied::TooWeak)),
            Some(Kind::DroppedCall) => {}
            Some(Kind::JukeBox) => refuse(out, xid, procedure, Status::JukeBox),
            Some(Kind::Stale) => refuse(out, xid, procedure, Status::Stale),
            _ => {
                if self.carry_out(xid, header, &request, record, struck, out) == After::Wait {
                    self.again = Some(struck);
                    return After::Wait;
                }
            }
        }
        struck.map_or(After::GoOn, |kind| spoil(kind, out, start))
    }

    fn answer_nfs4(&mut self, xid: u32, header: &Header, record: &[u8], out: &mut Vec<u8>) -> After {
        let start = out.len();
        match header.procedure {
            NULL => {
                let begin = begin_reply(out, xid);
                end_reply(out, begin);
                return After::GoOn;
            }
            COMPOUND => {}
            _ => {
                reject(out, xid, Rejection::Unaccepted(Unaccepted::ProcUnavail));
                return After::GoOn;
            }
        }
        let arguments = &record[header.arguments..];
        let struck = self.again.take().unwrap_or_else(|| {
            is_about_files(arguments)
                .then(|| self.faults.next(Procedure::Write))
                .flatten()
        });
        match struck {
            Some(Kind::Denied) => {
                reject(out, xid, Rejection::Denied(Denied::TooWeak));
                return After::GoOn;
            }
            Some(Kind::DroppedCall) => return After::GoOn,
            _ => {}
        }
        let asked = self.asked(header, struck);
        let counted = answer_compound(
            (&self.host, &self.connection),
            asked,
            (xid, record, arguments),
            out,
        );
        let Some(counted) = counted else {
            self.again = Some(struck);
            return After::Wait;
        };
        self.host.count_compound(self.thread, counted);
        struck.map_or(After::GoOn, |kind| spoil(kind, out, start))
    }

    fn asked(&self, header: &Header, struck: Option<Kind>) -> Asked {
        let (uid, gid) = header.caller.unwrap_or(NOBODY);
        let most_bytes = self.host.options.max_transfer_bytes;
        Asked {
            caller: Caller { uid, gid },
            verifier: self.host.verifier(),
            max_transfer_bytes: match self.transport {
                Transport::Tcp => most_bytes,
                Transport::Udp => most_bytes.min(MOST_UDP_BYTES),
            },
            is_patient: self.is_patient,
            struck,
        }
    }

    fn carry_out(
        &self,
        xid: u32,
        header: &Header,
        request: &Request<'_>,
        record: &[u8],
        struck: Option<Kind>,
        out: &mut Vec<u8>,
    ) -> After {
        let Some(file) = request.file() else {
            let start = begin_reply(out, xid);
            end_reply(out, start);
            return After::GoOn;
        };
        let procedure = request.procedure();
        let Some(export) = self.host.export_of(file) else {
            refuse(out, xid, procedure, Status::Stale);
            return After::GoOn;
        };
        let _way = match self.host.make_way(None, |host| host.changed_by(request)) {
            Ok(way) => way,
            Err(_) if self.is_patient => return After::Wait,
            Err(Refused(status)) => {
                refuse(out, xid, procedure, status);
                return After::GoOn;
            }
        };
        let mut volume = export.lock();
        let now_ns = monotonic_ns();
        // Identify the call by everything after the XID, which is part of the name anyway.
        let name = (!is_repeatable(procedure)).then(|| volume.replies.name(xid, &record[4..]));
        if name.is_some_and(|name| volume.replies.give_again(name, now_ns, out)) {
            return After::GoOn;
        }
        let asked = self.asked(header, struck);
        let start = begin_reply(out, xid);
        Writer(out).u32(Status::Ok as u32);
        match volume.answer(request, &asked, out) {
            Ok(()) => end_reply(out, start),
            Err(Refused(status)) => {
                out.truncate(start);
                refuse(out, xid, procedure, status);
            }
        }
        if let Some(name) = name {
            volume.replies.keep(name, now_ns, &out[start..]);
        }
        After::GoOn
    }
}

fn is_reply(record: &[u8]) -> bool {
    record.get(4..8) == Some(&[0, 0, 0, 1])
}

/// Returns whether the operation after SEQUENCE is PUTFH. Faults affect only these compounds, not the start and end of
/// sessions.
fn is_about_files(arguments: &[u8]) -> bool {
    let second = || {
        let mut reader = Reader::new(arguments);
        reader.opaque(MOST_TAG_BYTES)?;
        reader.u64()?; // Minor version and number of operations.
        reader.u32()?;
        reader.bytes(SEQUENCE_BYTES)?;
        reader.u32()
    };
    second() == Ok(PUTFH)
}

/// Appends a reply with an error status and no attributes.
fn refuse(out: &mut Vec<u8>, xid: u32, procedure: Procedure, status: Status) {
    let start = begin_reply(out, xid);
    debug_assert_eq!(out.len() - start, REPLY_HEAD_BYTES);
    let mut writer = Writer(out);
    writer.u32(status as u32);
    for _ in 0..words_of_refusal(procedure) {
        writer.u32(0);
    }
    end_reply(out, start);
}
