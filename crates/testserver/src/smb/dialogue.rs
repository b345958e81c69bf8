//! The dialogue on one connection: parses messages, executes each request in them, and writes the answers in
//! frames. Handles bytes; `connection.rs` handles the socket.
//!
//! A request that must wait for other clients is parked with the rest of its compound. It is retried from the
//! start after these clients have acted. Until then, it has no effect.

mod waiting;

use super::credits::Credits;
use super::host::Host;
use super::logon::{connect_tree, Channel, Channels, ConnectionFacts};
use super::message::{
    command, flag, AnswerHeader, Disconnect, Frame, Part, Request, HEADER_BYTES, PROTOCOL_ID, TRANSFORM_ID,
};
use super::misbehaviour::{spoil_frame, spoil_header, After};
use super::negotiate::{Negotiated, SMB1_ID};
use super::requests::{self, Asking};
use super::session::{Session, Tree};
use super::status::{Status, Stop};
use super::volume::{ConnectionId, FileId, Moment, Notice, Opener, Waiter};
use dyno_smb::crypto::{Signer, Transform};
use dyno_smb::wire::Dialect;
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use waiting::Parked;

/// Body of an error response (MS-SMB2 2.2.2).
const ERROR_BODY: [u8; 9] = [9, 0, 0, 0, 0, 0, 0, 0, 0];

pub(crate) struct Dialogue {
    pub(crate) id: ConnectionId,
    pub(crate) host: Arc<Host>,
    /// The local address of the connection.
    local: Option<SocketAddr>,
    negotiated: Negotiated,
    channels: Channels,
    credits: Credits,
    /// Signer of another connection's session, for the answer in the next frame.
    foreign_signer: Option<(u64, Arc<Signer>)>,
    parked: Vec<Parked>,
    next_async_id: u64,
    spare_parts: Vec<Part>,
    /// Notices for other connections. The owner of the dialogue delivers them.
    pub(crate) notices: Vec<(ConnectionId, Notice)>,
}

/// State shared by the requests of a compound.
#[derive(Debug, Clone, Copy, Default)]
struct Chain {
    /// The session whose key encrypted the message.
    sealed: Option<u64>,
    session_id: u64,
    tree_id: u32,
    file: Option<FileId>,
    /// Failure of the request that should have provided the file.
    failed: Option<Status>,
    /// Async ID of the compound's first request, if that request was parked and announced as pending.
    async_id: Option<u64>,
    has_begun: bool,
}

/// The request must wait, so it has no answer yet.
struct Waits;

impl Dialogue {
    pub(crate) fn new(id: ConnectionId, host: Arc<Host>, local: Option<SocketAddr>) -> Self {
        Self {
            id,
            host,
            local,
            negotiated: Negotiated::default(),
            channels: Channels::default(),
            credits: Credits::new(),
            foreign_signer: None,
            parked: Vec::new(),
            next_async_id: 1,
            spare_parts: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Executes a message, and appends the immediate answers to `out`.
    pub(crate) fn receive(
        &mut self,
        message: &mut [u8],
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<After, Disconnect> {
        if message.starts_with(&PROTOCOL_ID) {
            return self.begin_chain(message, Chain::default(), moment, out);
        }
        if message.starts_with(&SMB1_ID) && self.negotiated.dialect.is_none() {
            let credits = self.credits.of_smb1().ok_or(Disconnect)?;
            self.host.counts.add(self.id.thread, command::NEGOTIATE.into());
            let answered = Negotiated::negotiate_from_smb1(&self.host, message, moment, credits, out);
            self.negotiated = answered.map_err(|_| Disconnect)?;
            return Ok(After::GoOn);
        }
        if !message.starts_with(&TRANSFORM_ID) {
            return Err(Disconnect);
        }
        let session_id = Transform::parse(message).map_err(|_| Disconnect)?.session_id;
        let channel = self.channels.find(session_id);
        let cipher = channel
            .and_then(|channel| channel.cipher.as_ref())
            .ok_or(Disconnect)?;
        let plain = cipher.1.open(session_id, message).map_err(|_| Disconnect)?;
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
    ) -> Result<After, Disconnect> {
        let first = Request::parse(message)?;
        if first.command == command::CANCEL {
            self.host.counts.add(self.id.thread, command::CANCEL.into());
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
    ) -> Result<(), Disconnect> {
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
        self.channels.drop_failed();
        Ok(())
    }

    /// Deducts the cost of a request from the client's credits.
    fn admit(&mut self, request: &Request<'_>) -> Result<(), Disconnect> {
        let several = self
            .negotiated
            .dialect
            .is_some_and(|dialect| dialect >= Dialect::Smb210);
        let charge = if several { request.charge } else { 1 };
        if !self.credits.take(request.message_id, charge) {
            return Err(Disconnect);
        }
        Ok(())
    }

    /// Writes the answer's header at `header_at` and its body after it. Returns the ID of the session that must sign
    /// the answer.
    fn answer(
        &mut self,
        request: &Request<'_>,
        chain: &mut Chain,
        moment: Moment,
        out: &mut Vec<u8>,
        header_at: usize,
    ) -> Result<Result<Option<u64>, Waits>, Disconnect> {
        if !(request.has(flag::RELATED) && chain.has_begun) {
            (chain.session_id, chain.tree_id) = (request.session_id, request.tree_id);
            (chain.file, chain.failed) = (None, None);
        }
        // Do not count requests that are refused because of a failed part of their compound, and retried
        // ones, which were counted before.
        let is_refused = chain.failed.is_some() && chain.file.is_none();
        if !is_refused && chain.async_id.is_none() {
            self.host.counts.add(self.id.thread, request.command.into());
        }
        let status = match self.carry_out(request, chain, moment, out) {
            Ok(status) => status,
            Err(Stop::Wait) => return Ok(Err(Waits)),
            Err(Stop::Fail(mut status)) => {
                if chain.async_id.is_some() {
                    status = waiting::of_ended(request.command, status);
                }
                out.truncate(header_at + HEADER_BYTES);
                out.extend_from_slice(&ERROR_BODY);
                chain.failed.get_or_insert(status);
                status
            }
        };
        // The interim response already granted the credits.
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
        self.remember(request, chain, status, &mut out[header_at..]);
        let wants_signature = request.has(flag::SIGNED) || request.command == command::SESSION_SETUP;
        // The frame is signed only if there is a key. There is none before the last response of a first log-on, and
        // always one in a reauthentication.
        let signs = chain.sealed.is_none() && wants_signature;
        Ok(Ok(signs.then_some(chain.session_id)))
    }

    /// Updates the pre-authentication hash of SMB 3.1.1 with a request and its answer.
    fn remember(&mut self, request: &Request<'_>, chain: &Chain, status: Status, answer: &mut [u8]) {
        if request.command == command::NEGOTIATE && status == Status::SUCCESS {
            self.negotiated.preauth.update(request.part);
            self.negotiated.preauth.update(answer);
        }
        if request.command == command::SESSION_SETUP && status == Status::MORE_PROCESSING_REQUIRED {
            if let Some(channel) = self.channels.find_mut(chain.session_id) {
                channel.remember(answer);
            }
        }
    }

    fn carry_out(
        &mut self,
        request: &Request<'_>,
        chain: &mut Chain,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<Status, Stop> {
        let misplaced = self.negotiated.dialect.is_none() != (request.command == command::NEGOTIATE);
        // MS-SMB2 3.3.5.2.7.2: the first request of a compound is not related.
        if misplaced || (request.has(flag::RELATED) && !chain.has_begun) {
            return Err(Status::INVALID_PARAMETER.into());
        }
        if chain.session_id != 0 && self.channels.find(chain.session_id).is_none() {
            // If the session belongs to another connection, its client has the session's key and expects a signed
            // answer.
            let session = self.host.session(chain.session_id);
            let signer = session.as_ref().and_then(|session| session.signer());
            self.foreign_signer = signer.map(|signer| (chain.session_id, signer.clone()));
        }
        match request.command {
            command::NEGOTIATE => {
                self.negotiated = Negotiated::negotiate(&self.host, request, moment, out)?;
                return Ok(Status::SUCCESS);
            }
            command::SESSION_SETUP => return self.log_on(request, chain, moment, out).map_err(Stop::from),
            command::ECHO => {
                request.check_structure(4)?;
                out.extend_from_slice(&[4, 0, 0, 0]);
                return Ok(Status::SUCCESS);
            }
            _ => {}
        }
        self.check_protection(request, chain)?;
        match request.command {
            command::LOGOFF => {
                let session = self.channels.session(chain.session_id)?.clone();
                self.end_session(&session, moment);
                Ok(())
            }
            command::TREE_CONNECT => {
                let session = self.channels.session(chain.session_id)?;
                chain.tree_id = connect_tree(session, &self.host, request, out)?;
                Ok(())
            }
            command::TREE_DISCONNECT => self.disconnect_tree(chain, moment),
            command::IOCTL if !requests::controls_a_file(request)? => {
                requests::control(&self.host, &self.negotiated, self.local, request, out)
            }
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

    fn log_on(
        &mut self,
        request: &Request<'_>,
        chain: &mut Chain,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<Status, Status> {
        let connection = ConnectionFacts {
            id: self.id,
            is_sealed: chain.sealed.is_some(),
            host: &self.host,
            negotiated: &self.negotiated,
            moment,
        };
        let id = &mut chain.session_id;
        let step = self.channels.set_up(&connection, request, id, out);
        let Some(channel) = self.channels.find_mut(*id) else {
            return step;
        };
        if channel.fails_session() {
            if let Ok(session) = channel.session().cloned() {
                self.end_session(&session, moment);
            }
        } else if step == Ok(Status::SUCCESS) {
            if let Some(before) = channel.replaced().filter(|before| before != id) {
                self.replace_session(before, moment);
            }
        }
        step
    }

    /// Ends a session that its user has replaced (MS-SMB2 3.3.5.5.3), on all its connections. Durable opens
    /// stay. Ignores a guest's session, because guests can't prove that a session was theirs.
    fn replace_session(&mut self, id: u64, moment: Moment) {
        let Some(session) = self.host.session(id) else {
            return;
        };
        if session.signer().is_none() {
            return;
        }
        session.end();
        self.host.forget(id);
        self.leave_all(id, moment);
    }

    fn end_session(&mut self, session: &Session, moment: Moment) {
        session.end();
        self.host.forget(session.id);
        for volume in &self.host.volumes {
            let mut volume = volume.lock();
            volume.close_all(moment, |opener| opener.session == session.id);
            self.notices.append(&mut volume.notices);
        }
    }

    /// Checks that the request belongs to a session, and is signed or encrypted as the session requires.
    fn check_protection(&self, request: &Request<'_>, chain: &Chain) -> Result<(), Status> {
        let channel = self.channels.find(chain.session_id);
        let channel = channel.ok_or(Status::USER_SESSION_DELETED)?;
        let session = channel.session()?;
        match chain.sealed {
            Some(sealed) if sealed == session.id => Ok(()),
            None if !session.must_encrypt => channel.check_signature(request),
            _ => Err(Status::ACCESS_DENIED),
        }
    }

    fn disconnect_tree(&mut self, chain: &Chain, moment: Moment) -> Result<(), Status> {
        let (session_id, tree_id) = (chain.session_id, chain.tree_id);
        let session = self.channels.session(session_id)?;
        let Tree::Volume(place) = session.disconnect_tree(tree_id)? else {
            session.pipes().close_all(|owner| owner == tree_id);
            return Ok(());
        };
        let mut volume = self.host.volumes[place].lock();
        volume.close_all(moment, |opener| {
            (opener.session, opener.tree) == (session_id, tree_id)
        });
        self.notices.append(&mut volume.notices);
        Ok(())
    }

    /// Closes the opens of a session that was replaced or has lost its last connection. Durable opens stay.
    fn leave_all(&mut self, session: u64, moment: Moment) {
        for volume in &self.host.volumes {
            let mut volume = volume.lock();
            volume.leave(moment, |opener| opener.session == session);
            self.notices.append(&mut volume.notices);
        }
    }

    fn about_files(
        &mut self,
        request: &Request<'_>,
        chain: &mut Chain,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<Status, Stop> {
        let session = self.channels.session(chain.session_id)?.clone();
        let tree = session.tree(chain.tree_id)?;
        let host = self.host.clone();
        let Tree::Volume(index) = tree else {
            let shares: Vec<&str> = host.volumes.iter().map(|volume| &*volume.name).collect();
            let answered = session
                .pipes()
                .carry_out(request, chain.tree_id, &shares, &mut chain.file, out);
            return answered.map_err(Stop::from);
        };
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
                .ok_or(chain.failed.unwrap_or(if request.has(flag::RELATED) {
                    Status::INVALID_PARAMETER
                } else {
                    Status::FILE_CLOSED
                })),
            used: Cell::new(chain.file),
            moment,
            waiter: Waiter {
                connection: self.id,
                async_id: chain.async_id.unwrap_or(self.next_async_id),
            },
            channel_sequence: request.channel_sequence,
            has_channels: self.negotiated.has_channels(),
            client_guid: self.negotiated.client_guid,
            leases_directories: self.negotiated.leases_directories(&self.host.options),
            dialect: self.negotiated.dialect.unwrap_or(Dialect::Smb202),
        };
        let mut volume = host.volumes[index].lock();
        if request.command == command::CREATE {
            // Another channel may have ended the session or the tree, and closed the opens.
            session.tree(chain.tree_id)?;
        }
        let outcome = requests::carry_out(request, &asking, &mut volume, out);
        self.notices.append(&mut volume.notices);
        drop(volume);
        chain.file = asking.used.get();
        outcome
    }

    fn end_frame(&mut self, frame: Frame, chain: &Chain, out: &mut Vec<u8>) -> Result<(), Disconnect> {
        let channels = &mut self.channels;
        let foreign_signer = self.foreign_signer.take();
        let (sealed, parts) = frame.end(out, |id, part| {
            let own = channels.find(id).and_then(Channel::signer);
            let foreign = foreign_signer.as_ref().filter(|foreign| foreign.0 == id);
            if let Some(signer) = own.or(foreign.map(|foreign| &foreign.1)) {
                signer.sign(part);
            }
        });
        self.spare_parts = parts;
        if let (Some(id), Some(bytes)) = (chain.sealed, sealed) {
            let cipher = channels
                .find_mut(id)
                .and_then(|channel| channel.cipher.as_mut())
                .ok_or(Disconnect)?;
            cipher.0.seal(id, bytes).map_err(|_| Disconnect)?;
        }
        Ok(())
    }

    /// Handles the end of the connection. A session with another channel sends its break notifications there; any
    /// other session ends, and its opens are closed, except durable ones.
    pub(crate) fn end(&mut self, moment: Moment) {
        for session in self.channels.take_sessions() {
            session.leave(self.id, |other| match other {
                Some(other) => self.hand_over(session.id, other),
                None => {
                    self.host.forget(session.id);
                    self.leave_all(session.id, moment);
                }
            });
        }
    }

    /// Redirects the session's break notifications to another channel.
    fn hand_over(&mut self, session: u64, to: ConnectionId) {
        for volume in &self.host.volumes {
            let mut volume = volume.lock();
            volume.hand_over(session, self.id, to);
            self.notices.append(&mut volume.notices);
        }
    }
}
