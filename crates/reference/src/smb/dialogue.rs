//! One connection's conversation: messages come in, each request of them is carried out, and answers go out in frames.
//! Bytes to bytes; the socket is `connection.rs`'s.
//!
//! A request that has to wait for others is parked with the rest of its compound, and tried anew from its beginning when
//! they have acted; until then nothing of it has happened.

use super::credits::Credits;
use super::host::Host;
use super::logon::{ConnectionFacts, Session, Sessions};
use super::message::{
    command, flag, AnswerHeader, Frame, Hangup, Part, Request, HEADER_BYTES, PROTOCOL_ID, TRANSFORM_ID,
};
use super::misbehaviour::{spoil_frame, spoil_header, After};
use super::negotiate::Negotiated;
use super::notices;
use super::requests::{self, Asking};
use super::status::{Status, Stop};
use super::volume::{ConnectionId, FileId, Mail, Moment, Opener, Waiter};
use dyno_smb::crypto::Transform;
use dyno_smb::wire::Dialect;
use std::cell::Cell;
use std::sync::Arc;

/// Requests of one connection that may wait at a time.
const MOST_PARKED: usize = 512;
/// The body of an answer that says that something failed (MS-SMB2 2.2.2).
const ERROR_BODY: [u8; 9] = [9, 0, 0, 0, 0, 0, 0, 0, 0];

/// The conversation.
pub(crate) struct Dialogue {
    pub(crate) id: ConnectionId,
    pub(crate) host: Arc<Host>,
    negotiated: Negotiated,
    sessions: Sessions,
    credits: Credits,
    parked: Vec<Parked>,
    next_async_id: u64,
    spare_parts: Vec<Part>,
    /// For other connections; whoever carries it takes it from here.
    pub(crate) mail: Vec<(ConnectionId, Mail)>,
}

/// What the requests of a compound have in common.
#[derive(Debug, Clone, Copy, Default)]
struct Chain {
    /// The session under whose key it came.
    sealed: Option<u64>,
    session_id: u64,
    tree_id: u32,
    file: Option<FileId>,
    /// How the request failed that should have given the file.
    failed: Option<Status>,
    /// Its first request was parked, and said to go on, under this id.
    async_id: Option<u64>,
    has_begun: bool,
}

/// A request that waits, with what follows it in its compound.
struct Parked {
    async_id: u64,
    message_id: u64,
    bytes: Vec<u8>,
    chain: Chain,
    deadline_ns: Option<u64>,
}

/// A request has to wait.
struct Waits;

impl Dialogue {
    pub(crate) fn new(id: ConnectionId, host: Arc<Host>) -> Self {
        Self {
            id,
            host,
            negotiated: Negotiated::default(),
            sessions: Sessions::default(),
            credits: Credits::new(),
            parked: Vec::new(),
            next_async_id: 1,
            spare_parts: Vec::new(),
            mail: Vec::new(),
        }
    }

    /// Carries out the message, and appends what is answered at once to `out`.
    pub(crate) fn receive(
        &mut self,
        message: &mut [u8],
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<After, Hangup> {
        if message.starts_with(&PROTOCOL_ID) {
            return self.begin_chain(message, Chain::default(), moment, out);
        }
        if !message.starts_with(&TRANSFORM_ID) {
            return Err(Hangup);
        }
        let session_id = Transform::parse(message).map_err(|_| Hangup)?.session_id;
        let session = self.sessions.find(session_id);
        let cipher = session
            .and_then(|session| session.cipher.as_ref())
            .ok_or(Hangup)?;
        let plain = cipher.1.open(session_id, message).map_err(|_| Hangup)?;
        let chain = Chain {
            sealed: Some(session_id),
            ..Chain::default()
        };
        self.begin_chain(plain, chain, moment, out)
    }

    fn begin_chain(
        &mut self,
        message: &[u8],
        chain: Chain,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<After, Hangup> {
        let first = Request::parse(message)?;
        if first.command == command::CANCEL {
            self.host.count(self.id.thread, command::CANCEL);
            self.cancel(&first, chain, out);
            return Ok(After::GoOn);
        }
        let of_files = first.command >= command::CREATE && first.command != command::ECHO;
        let start = out.len();
        self.carry_out_chain(message, chain, moment, out)?;
        match self.host.options.fault.filter(|_| of_files && out.len() > start) {
            Some(fault) => Ok(spoil_frame(fault, out, start)),
            None => Ok(After::GoOn),
        }
    }

    fn carry_out_chain(
        &mut self,
        message: &[u8],
        mut chain: Chain,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<(), Hangup> {
        let spare = std::mem::take(&mut self.spare_parts);
        let mut frame = Frame::begin(out, chain.sealed.is_some(), spare);
        let mut rest = message;
        while !rest.is_empty() {
            let request = Request::parse(rest)?;
            if chain.async_id.is_none() {
                self.admit(&request)?;
            }
            let header_at = frame.part(out);
            match self.answer(&request, &mut chain, moment, out, header_at)? {
                Ok(signer) => frame.sign_part(signer),
                Err(Waits) => {
                    frame.take_back(out);
                    self.end_frame(frame, &chain, out)?;
                    return self.park(rest, &request, chain, moment, out);
                }
            }
            (chain.async_id, chain.has_begun) = (None, true);
            rest = &rest[request.part.len()..];
        }
        self.end_frame(frame, &chain, out)?;
        self.sessions.drop_ended();
        Ok(())
    }

    /// Takes what the request costs from the client's credits.
    fn admit(&mut self, request: &Request<'_>) -> Result<(), Hangup> {
        let several = self
            .negotiated
            .dialect
            .is_some_and(|dialect| dialect >= Dialect::Smb210);
        let charge = if several { request.charge } else { 1 };
        if !self.credits.take(request.message_id, charge) {
            return Err(Hangup);
        }
        Ok(())
    }

    /// Writes the answer's header at `header_at` and its body behind; gives the session that is to sign it.
    fn answer(
        &mut self,
        request: &Request<'_>,
        chain: &mut Chain,
        moment: Moment,
        out: &mut Vec<u8>,
        header_at: usize,
    ) -> Result<Result<Option<u64>, Waits>, Hangup> {
        if !(request.has(flag::RELATED) && chain.has_begun) {
            (chain.session_id, chain.tree_id) = (request.session_id, request.tree_id);
            (chain.file, chain.failed) = (None, None);
        }
        // What follows a failed part of its compound is refused unseen, and what is tried again was counted before.
        let is_refused = chain.failed.is_some() && chain.file.is_none();
        if !is_refused && chain.async_id.is_none() {
            self.host.count(self.id.thread, request.command);
        }
        let status = match self.carry_out(request, chain, moment, out) {
            Ok(status) => status,
            Err(Stop::Wait) => return Ok(Err(Waits)),
            Err(Stop::Fail(status)) => {
                out.truncate(header_at + HEADER_BYTES);
                out.extend_from_slice(&ERROR_BODY);
                chain.failed.get_or_insert(status);
                status
            }
        };
        // Whoever was told that the request goes on got the credits with that.
        let credits = match chain.async_id {
            Some(_) => 0,
            None => self.credits.grant(request.credits),
        };
        let header = AnswerHeader {
            command: request.command,
            status,
            charge: request.charge,
            credits,
            related: request.has(flag::RELATED) && chain.has_begun,
            message_id: request.message_id,
            async_id: chain.async_id,
            tree_id: chain.tree_id,
            session_id: chain.session_id,
        };
        header.write(&mut out[header_at..]);
        if let Some(fault) = self
            .host
            .options
            .fault
            .filter(|_| request.command >= command::CREATE)
        {
            spoil_header(fault, &mut out[header_at..]);
        }
        self.remember(request, chain, status, &out[header_at..]);
        let wants_signature = request.has(flag::SIGNED) || request.command == command::SESSION_SETUP;
        let signs = chain.sealed.is_none() && wants_signature && status != Status::MORE_PROCESSING_REQUIRED;
        Ok(Ok(signs.then_some(chain.session_id)))
    }

    /// Messages that go into the keys of SMB 3.1.1.
    fn remember(&mut self, request: &Request<'_>, chain: &Chain, status: Status, answer: &[u8]) {
        if request.command == command::NEGOTIATE && status == Status::SUCCESS {
            self.negotiated.preauth.update(request.part);
            self.negotiated.preauth.update(answer);
        }
        if request.command == command::SESSION_SETUP && status == Status::MORE_PROCESSING_REQUIRED {
            if let Ok(session) = self.session_mut(chain.session_id) {
                session.preauth.update(answer);
            }
        }
    }

    fn session_mut(&mut self, id: u64) -> Result<&mut Session, Status> {
        self.sessions.find_mut(id).ok_or(Status::USER_SESSION_DELETED)
    }

    fn carry_out(
        &mut self,
        request: &Request<'_>,
        chain: &mut Chain,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<Status, Stop> {
        if self.negotiated.dialect.is_none() != (request.command == command::NEGOTIATE) {
            return Err(Status::INVALID_PARAMETER.into());
        }
        match request.command {
            command::NEGOTIATE => {
                self.negotiated = Negotiated::negotiate(&self.host, request, moment, out)?;
                return Ok(Status::SUCCESS);
            }
            command::SESSION_SETUP => {
                let connection = ConnectionFacts {
                    host: &self.host,
                    negotiated: &self.negotiated,
                    moment,
                };
                let step = self
                    .sessions
                    .set_up(&connection, request, &mut chain.session_id, out);
                return step.map_err(Stop::from);
            }
            command::ECHO => {
                request.check_structure(4)?;
                out.extend_from_slice(&[4, 0, 0, 0]);
                return Ok(Status::SUCCESS);
            }
            _ => {}
        }
        self.check_protection(request, chain)?;
        match request.command {
            command::LOGOFF => self.log_off(chain, moment),
            command::TREE_CONNECT => self.connect_tree(request, chain, out),
            command::TREE_DISCONNECT => self.disconnect_tree(chain, moment),
            command::CHANGE_NOTIFY => Err(Status::NOT_SUPPORTED),
            command::IOCTL => requests::control(&self.host, &self.negotiated, request, out),
            code if code < command::NAMES.len() as u16 => {
                return self.about_files(request, chain, moment, out);
            }
            _ => Err(Status::INVALID_PARAMETER),
        }?;
        if matches!(request.command, command::LOGOFF | command::TREE_DISCONNECT) {
            out.extend_from_slice(&[4, 0, 0, 0]);
        }
        Ok(Status::SUCCESS)
    }

    /// Whether the request comes from a session, and as safely as that has to be.
    fn check_protection(&self, request: &Request<'_>, chain: &Chain) -> Result<(), Status> {
        let session = self.sessions.find(chain.session_id);
        let session = session.filter(|session| session.is_established());
        let session = session.ok_or(Status::USER_SESSION_DELETED)?;
        let safe = match chain.sealed {
            Some(sealed) => sealed == session.id,
            None if session.must_encrypt => false,
            None if request.has(flag::SIGNED) => session
                .signer
                .as_ref()
                .is_none_or(|signer| signer.verify(request.part)),
            None => !session.must_sign,
        };
        if safe {
            Ok(())
        } else {
            Err(Status::ACCESS_DENIED)
        }
    }

    fn connect_tree(
        &mut self,
        request: &Request<'_>,
        chain: &mut Chain,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let host = self.host.clone();
        let session = self.session_mut(chain.session_id)?;
        chain.tree_id = session.connect_tree(&host, request, out)?;
        Ok(())
    }

    fn disconnect_tree(&mut self, chain: &Chain, moment: Moment) -> Result<(), Status> {
        let (session_id, tree_id) = (chain.session_id, chain.tree_id);
        let place = self.session_mut(session_id)?.disconnect_tree(tree_id)?;
        let id = self.id;
        let mut volume = self.host.volumes[place].lock();
        volume.close_all(moment, |opener| {
            (opener.connection, opener.session, opener.tree) == (id, session_id, tree_id)
        });
        self.mail.append(&mut volume.mail);
        Ok(())
    }

    fn log_off(&mut self, chain: &Chain, moment: Moment) -> Result<(), Status> {
        let (id, session_id) = (self.id, chain.session_id);
        self.session_mut(session_id)?.log_off();
        self.close_all(moment, |opener| {
            (opener.connection, opener.session) == (id, session_id)
        });
        Ok(())
    }

    fn close_all(&mut self, moment: Moment, is_theirs: impl Fn(&Opener) -> bool) {
        for volume in &self.host.volumes {
            let mut volume = volume.lock();
            volume.close_all(moment, &is_theirs);
            self.mail.append(&mut volume.mail);
        }
    }

    fn about_files(
        &mut self,
        request: &Request<'_>,
        chain: &mut Chain,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<Status, Stop> {
        let session = self.session_mut(chain.session_id)?;
        let index = session.volume(chain.tree_id)?;
        let host = self.host.clone();
        let asking = Asking {
            host: &host,
            part: request.part,
            charge: request.charge,
            opener: Opener {
                connection: self.id,
                session: chain.session_id,
                tree: chain.tree_id,
            },
            related: chain
                .file
                .ok_or(chain.failed.unwrap_or(Status::INVALID_PARAMETER)),
            used: Cell::new(chain.file),
            moment,
            waiter: Waiter {
                connection: self.id,
                async_id: chain.async_id.unwrap_or(self.next_async_id),
            },
            client_guid: self.negotiated.client_guid,
            dialect: self.negotiated.dialect.unwrap_or(Dialect::Smb202),
        };
        let mut volume = host.volumes[index].lock();
        let outcome = requests::carry_out(request, &asking, &mut volume, out);
        self.mail.append(&mut volume.mail);
        drop(volume);
        chain.file = asking.used.get();
        outcome
    }

    fn end_frame(&mut self, frame: Frame, chain: &Chain, out: &mut Vec<u8>) -> Result<(), Hangup> {
        let sessions = &mut self.sessions;
        let (sealed, parts) = frame.end(out, |id, part| {
            let session = sessions.find(id);
            if let Some(signer) = session.and_then(|session| session.signer.as_ref()) {
                signer.sign(part);
            }
        });
        self.spare_parts = parts;
        if let (Some(id), Some(bytes)) = (chain.sealed, sealed) {
            let cipher = sessions
                .find_mut(id)
                .and_then(|session| session.cipher.as_mut())
                .ok_or(Hangup)?;
            cipher.0.seal(id, bytes).map_err(|_| Hangup)?;
        }
        Ok(())
    }

    /// Keeps a request until it is tried again, and says that it goes on, unless that was said before.
    fn park(
        &mut self,
        bytes: &[u8],
        request: &Request<'_>,
        mut chain: Chain,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<(), Hangup> {
        if self.parked.len() >= MOST_PARKED {
            return Err(Hangup);
        }
        if chain.async_id.is_none() {
            let async_id = self.next_async_id;
            self.next_async_id += 1;
            chain.async_id = Some(async_id);
            let credits = self.credits.grant(request.credits);
            self.say(
                request.command,
                request.message_id,
                &chain,
                credits,
                Status::PENDING,
                out,
            )?;
        }
        // Locks are waited for without end, breaks are not.
        let patience_ns = self.host.options.break_timeout_ns;
        let deadline_ns = moment.ns.saturating_add(patience_ns);
        self.parked.push(Parked {
            async_id: chain.async_id.unwrap_or(0),
            message_id: request.message_id,
            bytes: bytes.to_vec(),
            chain,
            deadline_ns: (request.command != command::LOCK).then_some(deadline_ns),
        });
        Ok(())
    }

    /// Says something of a parked request: that it goes on, or that it has ended without being done.
    fn say(
        &mut self,
        command: u16,
        message_id: u64,
        chain: &Chain,
        credits: u16,
        status: Status,
        out: &mut Vec<u8>,
    ) -> Result<(), Hangup> {
        let spare = std::mem::take(&mut self.spare_parts);
        let mut frame = Frame::begin(out, chain.sealed.is_some(), spare);
        let at = frame.part(out);
        out.extend_from_slice(&ERROR_BODY);
        let header = AnswerHeader {
            command,
            status,
            charge: 1,
            credits,
            related: false,
            message_id,
            async_id: chain.async_id,
            tree_id: chain.tree_id,
            session_id: chain.session_id,
        };
        header.write(&mut out[at..]);
        let session = self.sessions.find(chain.session_id);
        let must_sign = session.is_some_and(|session| session.must_sign);
        let signs = status != Status::PENDING && chain.sealed.is_none() && must_sign;
        frame.sign_part(signs.then_some(chain.session_id));
        self.end_frame(frame, chain, out)
    }

    fn cancel(&mut self, request: &Request<'_>, chain: Chain, out: &mut Vec<u8>) {
        let is_async = request.has(flag::ASYNC);
        let is_it = |parked: &Parked| match is_async {
            true => parked.async_id == request.async_id,
            false => parked.message_id == request.message_id,
        };
        // A request that has been answered meanwhile is not there any more, and nothing is said.
        let Some(place) = self.parked.iter().position(is_it) else {
            return;
        };
        let parked = self.parked.remove(place);
        let Ok(cancelled) = Request::parse(&parked.bytes) else {
            return;
        };
        let chain = Chain {
            sealed: chain.sealed.and(parked.chain.sealed),
            ..parked.chain
        };
        // Failing to encrypt ends with the next message, which fails likewise.
        let _ = self.say(
            cancelled.command,
            parked.message_id,
            &chain,
            0,
            Status::CANCELLED,
            out,
        );
    }

    /// Takes what another connection sent, and appends what is to be said of it.
    pub(crate) fn take_mail(&mut self, mail: Mail, moment: Moment, out: &mut Vec<u8>) -> Result<(), Hangup> {
        match mail {
            Mail::TryAgain { async_id } => {
                let is_it = |parked: &Parked| parked.async_id == async_id;
                match self.parked.iter().position(is_it) {
                    Some(place) => self.try_again(place, moment, out),
                    None => Ok(()),
                }
            }
            notice => {
                notices::write(notice, out);
                Ok(())
            }
        }
    }

    fn try_again(&mut self, place: usize, moment: Moment, out: &mut Vec<u8>) -> Result<(), Hangup> {
        let parked = self.parked.remove(place);
        self.carry_out_chain(&parked.bytes, parked.chain, moment, out)
    }

    /// The time of the next of `expire`.
    pub(crate) fn deadline_ns(&self) -> Option<u64> {
        self.parked.iter().filter_map(|parked| parked.deadline_ns).min()
    }

    /// Tries those requests again for which others have had their time.
    pub(crate) fn expire(&mut self, moment: Moment, out: &mut Vec<u8>) -> Result<(), Hangup> {
        let due = |parked: &Parked| parked.deadline_ns.is_some_and(|due_ns| due_ns <= moment.ns);
        while let Some(place) = self.parked.iter().position(due) {
            self.try_again(place, moment, out)?;
        }
        Ok(())
    }

    /// The connection is gone, and with it everything that it had open.
    pub(crate) fn end(&mut self, moment: Moment) {
        let id = self.id;
        self.close_all(moment, |opener| opener.connection == id);
    }
}
