//! What a server answers to the calls of one connection. Knows bytes and no sockets.

use super::fault::Kind;
use super::host::Host;
pub use super::misbehaviour::After;
use super::misbehaviour::{spoil, Strikes, REPLY_HEAD_BYTES};
use super::options::Options;
use super::procedures::{is_repeatable, words_of_refusal, Asked};
use super::programs::{answer_mount, answer_portmapper};
use super::volume::{Caller, Refused};
use dyno_measure::monotonic_ns;
use dyno_nfs::status::{Denied, Status, Unaccepted};
use dyno_nfs::wire::{
    begin_reply, end_reply, reject, Header, Malformed, Procedure, Program, Rejection, Request, Writer, MOUNT,
    NFS, PORTMAPPER,
};
use std::io;
use std::sync::Arc;

/// Who does not say who he is (AUTH_NONE): nobody, as Linux has it.
const NOBODY: (u32, u32) = (65_534, 65_534);

/// One connection's side of the server.
#[derive(Debug)]
pub struct Dialogue {
    host: Arc<Host>,
    thread: usize,
    strikes: Strikes,
}

impl Dialogue {
    pub(super) fn new(host: Arc<Host>, thread: usize) -> Self {
        Self {
            strikes: Strikes::new(host.options.fault),
            host,
            thread,
        }
    }

    /// One with a server that nobody else uses and that has no sockets: for fuzzing.
    ///
    /// # Errors
    /// As `Server::start`.
    pub fn alone(options: &Options) -> io::Result<Self> {
        match options.problem() {
            Some(problem) => Err(io::Error::new(io::ErrorKind::InvalidInput, problem)),
            None => Ok(Self::new(Host::new(options)?, 0)),
        }
    }

    /// Carries out the call of a record and appends the reply, with its record mark, to `out`.
    ///
    /// # Errors
    /// Where it is no call: the connection can't go on.
    pub fn answer(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<After, Malformed> {
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
            MOUNT => answer_mount(host, xid, procedure, arguments, out),
            PORTMAPPER => answer_portmapper(host, xid, procedure, arguments, out),
            Program(number, _) => {
                let served = [NFS, MOUNT, PORTMAPPER];
                let other = served.into_iter().find(|program| program.0 == number);
                let rejection = match other {
                    Some(Program(_, version)) => Rejection::ProgramVersion(version),
                    None => Rejection::Unaccepted(Unaccepted::ProgUnavail),
                };
                reject(out, xid, rejection);
            }
        }
        Ok(After::GoOn)
    }

    fn answer_nfs(&mut self, xid: u32, header: &Header, record: &[u8], out: &mut Vec<u8>) -> After {
        let unaccepted = |out: &mut Vec<u8>, reason| reject(out, xid, Rejection::Unaccepted(reason));
        let Some(procedure) = Procedure::ALL.get(header.procedure as usize).copied() else {
            unaccepted(out, Unaccepted::ProcUnavail);
            return After::GoOn;
        };
        self.host.count(self.thread, procedure);
        let Ok(request) = Request::parse(procedure, &record[header.arguments..]) else {
            unaccepted(out, Unaccepted::GarbageArgs);
            return After::GoOn;
        };
        let struck = self.strikes.next(procedure);
        let start = out.len();
        match struck {
            Some(Kind::Denied) => reject(out, xid, Rejection::Denied(Denied::TooWeak)),
            Some(Kind::JukeBox) => refuse(out, xid, procedure, Status::JukeBox),
            Some(Kind::Stale) => refuse(out, xid, procedure, Status::Stale),
            _ => self.carry_out(xid, header, &request, record, struck, out),
        }
        struck.map_or(After::GoOn, |kind| spoil(kind, out, start))
    }

    fn carry_out(
        &self,
        xid: u32,
        header: &Header,
        request: &Request<'_>,
        record: &[u8],
        struck: Option<Kind>,
        out: &mut Vec<u8>,
    ) {
        let Some(file) = request.file() else {
            let start = begin_reply(out, xid);
            return end_reply(out, start);
        };
        let procedure = request.procedure();
        let Some(export) = self.host.export_of(file) else {
            return refuse(out, xid, procedure, Status::Stale);
        };
        let mut volume = export.lock();
        let now_ns = monotonic_ns();
        // All that it says but its number, which the name has anyway.
        let name = (!is_repeatable(procedure)).then(|| volume.replies.name(xid, &record[4..]));
        if name.is_some_and(|name| volume.replies.give_again(name, now_ns, out)) {
            return;
        }
        let (uid, gid) = header.caller.unwrap_or(NOBODY);
        let asked = Asked {
            caller: Caller { uid, gid },
            verifier: self.host.verifier(),
            max_transfer_bytes: self.host.options.max_transfer_bytes,
            struck,
        };
        let start = begin_reply(out, xid);
        Writer(out).u32(Status::Ok as u32);
        if let Err(Refused(status)) = volume.answer(request, &asked, out) {
            out.truncate(start);
            refuse(out, xid, procedure, status);
        } else {
            end_reply(out, start);
        }
        if let Some(name) = name {
            volume.replies.keep(name, now_ns, &out[start..]);
        }
    }
}

/// Appends a reply that says why the request was not carried out, and nothing of any file.
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
