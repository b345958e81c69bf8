//! SESSION_SETUP and TREE_CONNECT (MS-SMB2 3.3.5.5 to 3.3.5.7): identifies the user, derives the keys and
//! connects shares. A log-on creates a session, or binds the connection to an existing one, which both
//! connections then share as channels.

use super::bytes::{slice, u16_at, u64_at, u8_at, units, Put};
use super::host::Host;
use super::message::{flag, Request, HEADER_BYTES};
use super::negotiate::{Negotiated, SIGNING_REQUIRED};
use super::options::{Encryption, Signing};
use super::pipes;
use super::session::{FirstKeys, Session, Tree};
use super::status::Status;
use super::volume::{ConnectionId, Moment, Volume};
use crate::common::{random, Share};
use dyno_smb::auth::{last_token, Acceptor, AuthError, Challenged, Identity};
use dyno_smb::crypto::{Keys, Opener, Preauth, Sealer, Signer};
use std::sync::Arc;

const BODY: usize = HEADER_BYTES;
/// Flag of a request: bind the connection to the session as another channel.
const BINDS: u8 = 1;
const IS_GUEST: u16 = 1;
const ENCRYPT: u16 = 4;
const SHARE_OF_FILES: u8 = 1;
const SHARE_OF_PIPES: u8 = 2;
const CONTINUOUSLY_AVAILABLE: u32 = 0x10;
const MOST_SESSIONS: usize = 64;
const EVERY_RIGHT: u32 = 0x001F_01FF;

/// A connection's channel of a session, during or after its log-on.
pub(crate) struct Channel {
    pub(crate) id: u64,
    /// None until the end of the first log-on. A connection that is being bound has a session from the start.
    session: Option<Arc<Session>>,
    /// Challenge of a first log-on or a reauthentication.
    challenged: Option<Challenged>,
    is_proven: bool,
    has_failed: bool,
    /// The session that this log-on replaces.
    replaces: Option<u64>,
    preauth: Preauth,
    /// Signs the channel's messages. None for a guest.
    signer: Option<Arc<Signer>>,
    pub(crate) cipher: Option<(Sealer, Opener)>,
}

impl Channel {
    /// Creates the channel from the first request, `part`. `bound`: the existing session to bind to.
    fn begun(
        connection: &ConnectionFacts<'_>,
        part: &[u8],
        challenged: Challenged,
        bound: Option<Arc<Session>>,
    ) -> Result<Self, Status> {
        let mut preauth = connection.negotiated.preauth;
        preauth.update(part);
        let before = u64_at(part, BODY + 16)?;
        Ok(Self {
            id: match &bound {
                Some(session) => session.id,
                None => connection.host.next_session_id(),
            },
            replaces: (before != 0 && bound.is_none()).then_some(before),
            session: bound,
            challenged: Some(challenged),
            is_proven: false,
            has_failed: false,
            preauth,
            signer: None,
            cipher: None,
        })
    }

    /// Returns the session, once the user is authenticated.
    pub(crate) fn session(&self) -> Result<&Arc<Session>, Status> {
        let proven = self.session.as_ref().filter(|_| self.is_proven);
        let proven = proven.filter(|session| !session.has_ended());
        proven.ok_or(Status::USER_SESSION_DELETED)
    }

    /// Returns the channel's signer or, if it has none yet, that of the session's first channel.
    pub(crate) fn signer(&self) -> Option<&Arc<Signer>> {
        let of_session = || self.session.as_ref().and_then(|session| session.signer());
        self.signer.as_ref().or_else(of_session)
    }

    /// Checks the signature of an unencrypted request, if the session requires one.
    pub(crate) fn check_signature(&self, request: &Request<'_>) -> Result<(), Status> {
        let session = self.session()?;
        let right = if request.has(flag::SIGNED) {
            let signer = self.signer();
            signer.is_none_or(|signer| signer.verify(request.part))
        } else {
            !session.must_sign
        };
        right.then_some(()).ok_or(Status::ACCESS_DENIED)
    }

    /// Adds an answer to the pre-authentication hash. While a connection is being bound, the answer is
    /// signed first.
    pub(crate) fn remember(&mut self, answer: &mut [u8]) {
        if let Some(signer) = self.signer().filter(|_| !self.is_proven) {
            signer.sign(answer);
        }
        self.preauth.update(answer);
    }

    /// Returns whether a reauthentication has failed, which ends the session.
    pub(crate) fn fails_session(&self) -> bool {
        self.has_failed && self.is_proven
    }

    /// Returns whether the channel has ended: its log-on failed, or the session has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_failed || self.session.as_ref().is_some_and(|session| session.has_ended())
    }

    /// Takes the ID of the session that this one replaces, if any.
    pub(crate) fn replaced(&mut self) -> Option<u64> {
        self.replaces.take()
    }

    /// Identifies the user and derives the keys. Returns the token for the client.
    fn identify(
        &mut self,
        connection: &ConnectionFacts<'_>,
        token: &[u8],
        client_mode: u16,
    ) -> Result<Vec<u8>, Status> {
        let (options, negotiated) = (&connection.host.options, connection.negotiated);
        let challenged = self.challenged.take().ok_or(Status::USER_SESSION_DELETED)?;
        let Some(user) = &options.user else {
            // If no user is configured, every client is a guest, whatever its user name.
            if !self.is_proven {
                self.begin_session(
                    connection,
                    Session::new(self.id, negotiated.terms(), None, false, false),
                )?;
            }
            return Ok(last_token());
        };
        let identity = challenged.identify(token, user, &options.password);
        let Identity::User {
            session_key,
            last_token,
        } = identity.map_err(refusal)?
        else {
            return Err(Status::LOGON_FAILURE);
        };
        if self.is_proven {
            // A reauthentication keeps the keys (MS-SMB2 3.3.5.5.3).
            return Ok(last_token);
        }
        let dialect = negotiated.dialect.ok_or(Status::INVALID_PARAMETER)?;
        let keys = Keys::derive(dialect, negotiated.cipher, &session_key, self.preauth.value());
        let signer = Arc::new(Signer::new(negotiated.signing_algorithm(), &keys.signing));
        if let Some(session) = self.session.clone() {
            // Only one user is configured, so the session belongs to that user.
            self.cipher = session.join(connection.id)?;
        } else {
            let must_sign = options.signing == Signing::Required || client_mode & SIGNING_REQUIRED != 0;
            let must_encrypt = options.encryption == Encryption::Required;
            if must_encrypt && negotiated.cipher.is_none() {
                return Err(Status::ACCESS_DENIED);
            }
            let first = FirstKeys {
                keys,
                signer: signer.clone(),
            };
            let session = Session::new(self.id, negotiated.terms(), Some(first), must_sign, must_encrypt);
            self.begin_session(connection, session)?;
        }
        self.signer = Some(signer);
        Ok(last_token)
    }

    fn begin_session(&mut self, connection: &ConnectionFacts<'_>, session: Session) -> Result<(), Status> {
        self.cipher = session.join(connection.id)?;
        let session = Arc::new(session);
        connection.host.register(&session);
        self.session = Some(session);
        Ok(())
    }
}

/// Connects the requested tree. Returns its ID.
pub(super) fn connect_tree(
    session: &Session,
    host: &Host,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) -> Result<u32, Status> {
    request.check_structure(9)?;
    let part = request.part;
    let path_bytes = usize::from(u16_at(part, BODY + 6)?);
    let path = units(slice(part, usize::from(u16_at(part, BODY + 4)?), path_bytes)?)?;
    let path = String::from_utf16(&path).map_err(|_| Status::BAD_NETWORK_NAME)?;
    let name = path.rsplit('\\').next().unwrap_or("");
    let is_it = |volume: &Share<Volume>| volume.name.eq_ignore_ascii_case(name);
    let (kind, share) = if name.eq_ignore_ascii_case(pipes::NAME) {
        (SHARE_OF_PIPES, Tree::Pipes)
    } else {
        let place = host.volumes.iter().position(is_it);
        (
            SHARE_OF_FILES,
            Tree::Volume(place.ok_or(Status::BAD_NETWORK_NAME)?),
        )
    };
    let tree = session.add_tree(share)?;
    out.u16(16);
    out.u8(kind);
    out.u8(0);
    // The share has no manual caching (which is for offline use), no DFS and no encryption.
    out.u32(0x0000_0030);
    out.u32(if host.options.continuously_available {
        CONTINUOUSLY_AVAILABLE
    } else {
        0
    });
    out.u32(EVERY_RIGHT);
    Ok(tree)
}

/// Context of a log-on on its connection.
pub(crate) struct ConnectionFacts<'a> {
    pub(crate) id: ConnectionId,
    /// Whether the request was encrypted.
    pub(crate) is_sealed: bool,
    pub(crate) host: &'a Host,
    pub(crate) negotiated: &'a Negotiated,
    pub(crate) moment: Moment,
}

/// Channels of one connection, each of a different session.
#[derive(Default)]
pub(crate) struct Channels {
    channels: Vec<Channel>,
}

impl Channels {
    pub(crate) fn find(&self, id: u64) -> Option<&Channel> {
        self.channels.iter().find(|channel| channel.id == id)
    }

    pub(crate) fn find_mut(&mut self, id: u64) -> Option<&mut Channel> {
        self.channels.iter_mut().find(|channel| channel.id == id)
    }

    /// Returns the session with this ID, if it is usable on this connection.
    pub(crate) fn session(&self, id: u64) -> Result<&Arc<Session>, Status> {
        self.find(id).ok_or(Status::USER_SESSION_DELETED)?.session()
    }

    /// Drops channels whose first log-on has failed. Those of ended sessions stay, because their keys sign
    /// the answers that report the end.
    pub(crate) fn drop_failed(&mut self) {
        self.channels
            .retain(|channel| !channel.has_failed || channel.is_proven);
    }

    /// Removes all channels, and returns the sessions that the connection had logged on to.
    pub(crate) fn take_sessions(&mut self) -> Vec<Arc<Session>> {
        let channels = std::mem::take(&mut self.channels);
        let proven = channels.into_iter().filter(|channel| channel.is_proven);
        proven.filter_map(|channel| channel.session).collect()
    }

    /// Executes one step of a log-on. The first step sets `session_id`.
    pub(super) fn set_up(
        &mut self,
        connection: &ConnectionFacts<'_>,
        request: &Request<'_>,
        session_id: &mut u64,
        out: &mut Vec<u8>,
    ) -> Result<Status, Status> {
        request.check_structure(25)?;
        let part = request.part;
        let client_mode = u16::from(u8_at(part, BODY + 3)?);
        let token_bytes = usize::from(u16_at(part, BODY + 14)?);
        let token = slice(part, usize::from(u16_at(part, BODY + 12)?), token_bytes)?;
        let known = self.find(*session_id).filter(|channel| channel.is_proven);
        if let Some(channel) = known {
            channel.session()?;
        }
        if let Some(channel) = known.filter(|_| !connection.is_sealed) {
            // The request for a reauthentication is signed with the channel's key.
            channel.check_signature(request)?;
        }
        let bound = match u8_at(part, BODY + 2)? & BINDS != 0 {
            true => Some(self.check_binding(connection, request)?),
            false => None,
        };
        let Some(channel) = self.channels.iter_mut().find(|known| known.id == *session_id) else {
            if bound.is_none() && *session_id != 0 {
                return Err(Status::USER_SESSION_DELETED);
            }
            if self.channels.len() >= MOST_SESSIONS {
                self.channels.retain(|channel| !channel.has_ended());
            }
            if self.channels.len() >= MOST_SESSIONS {
                return Err(Status::INSUFFICIENT_RESOURCES);
            }
            let (answer, challenged) = challenge(connection, token)?;
            let channel = Channel::begun(connection, part, challenged, bound)?;
            *session_id = channel.id;
            self.channels.push(channel);
            write_setup(0, &answer, out);
            return Ok(Status::MORE_PROCESSING_REQUIRED);
        };
        if channel.challenged.is_none() {
            let (answer, challenged) = challenge(connection, token)?;
            channel.challenged = Some(challenged);
            write_setup(0, &answer, out);
            return Ok(Status::MORE_PROCESSING_REQUIRED);
        }
        channel.preauth.update(part);
        // After a failure, the client must start over.
        let identified = channel.identify(connection, token, client_mode);
        let token = identified.inspect_err(|_| channel.has_failed = true)?;
        channel.is_proven = true;
        let session = channel.session()?;
        let guest = if session.signer().is_none() { IS_GUEST } else { 0 };
        let flags = guest | if session.must_encrypt { ENCRYPT } else { 0 };
        write_setup(flags, &token, out);
        Ok(Status::SUCCESS)
    }

    /// Checks that the connection may be bound to the session of the request (MS-SMB2 3.3.5.5). Returns the session.
    fn check_binding(
        &self,
        connection: &ConnectionFacts<'_>,
        request: &Request<'_>,
    ) -> Result<Arc<Session>, Status> {
        let session = connection.host.session(request.session_id);
        let session = session.ok_or(Status::USER_SESSION_DELETED)?;
        session.check_binding(connection.negotiated.terms())?;
        if !request.has(flag::SIGNED) {
            return Err(Status::INVALID_PARAMETER);
        }
        if self.session(session.id).is_ok() {
            return Err(Status::REQUEST_NOT_ACCEPTED);
        }
        if session.signer().is_none_or(|signer| !signer.verify(request.part)) {
            return Err(Status::ACCESS_DENIED);
        }
        Ok(session)
    }
}

/// Returns a challenge: the token for the client, and the state to keep.
fn challenge(connection: &ConnectionFacts<'_>, token: &[u8]) -> Result<(Vec<u8>, Challenged), Status> {
    let acceptor = Acceptor {
        name: "SERVERDYNO".to_owned(),
    };
    let answered = acceptor.challenge(token, random(), connection.moment.filetime);
    answered.map_err(refusal)
}

fn refusal(error: AuthError) -> Status {
    match error {
        AuthError::Malformed | AuthError::Unsupported => Status::INVALID_PARAMETER,
        _ => Status::LOGON_FAILURE,
    }
}

fn write_setup(flags: u16, token: &[u8], out: &mut Vec<u8>) {
    out.u16(9);
    out.u16(flags);
    out.u16(HEADER_BYTES as u16 + 8);
    out.u16(u16::try_from(token.len()).unwrap_or(u16::MAX));
    out.extend_from_slice(token);
}
