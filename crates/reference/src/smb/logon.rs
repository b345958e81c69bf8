//! SESSION_SETUP, TREE_CONNECT and their ends (MS-SMB2 3.3.5.5 to 3.3.5.8): who somebody is, with which keys, and where.

use super::bytes::{slice, u16_at, u8_at, units, Put};
use super::host::{Host, SharedVolume};
use super::message::{Request, HEADER_BYTES};
use super::negotiate::{Negotiated, SIGNING_REQUIRED};
use super::options::{Encryption, Signing};
use super::status::Status;
use super::volume::Moment;
use dyno_smb::auth::{last_token, Acceptor, AuthError, Challenged, Identity};
use dyno_smb::crypto::{Keys, Opener, Preauth, Sealer, Signer};

const BODY: usize = HEADER_BYTES;
const IS_GUEST: u16 = 1;
const ENCRYPT: u16 = 4;
const SHARE_OF_FILES: u8 = 1;
const MOST_SESSIONS: usize = 64;
const MOST_TREES: usize = 64;
const EVERY_RIGHT: u32 = 0x001F_01FF;

/// A log-on, under way or done.
pub(crate) struct Session {
    pub(crate) id: u64,
    challenged: Option<Challenged>,
    pub(crate) preauth: Preauth,
    /// A guest has none.
    pub(crate) signer: Option<Signer>,
    pub(crate) cipher: Option<(Sealer, Opener)>,
    pub(crate) must_sign: bool,
    pub(crate) must_encrypt: bool,
    /// By tree, the place of its volume.
    trees: Vec<(u32, usize)>,
    next_tree: u32,
    pub(crate) has_ended: bool,
}

impl Session {
    pub(crate) fn is_established(&self) -> bool {
        self.challenged.is_none() && !self.has_ended
    }

    /// The place of the volume that a tree is.
    pub(crate) fn volume(&self, tree: u32) -> Result<usize, Status> {
        let found = self.trees.iter().find(|known| known.0 == tree);
        found.map(|known| known.1).ok_or(Status::NETWORK_NAME_DELETED)
    }

    /// Finds out who it is, and makes the session's keys; the token for the client, and whether it is a guest.
    fn identify(
        &mut self,
        connection: &ConnectionFacts<'_>,
        token: &[u8],
        client_mode: u16,
    ) -> Result<(Vec<u8>, bool), Status> {
        let (options, negotiated) = (&connection.host.options, connection.negotiated);
        let challenged = self.challenged.take().ok_or(Status::USER_SESSION_DELETED)?;
        let Some(user) = &options.user else {
            // Without a user everybody is a guest, whoever they say that they are.
            return Ok((last_token(), true));
        };
        let identity = challenged.identify(token, user, &options.password);
        let Identity::User {
            session_key,
            last_token,
        } = identity.map_err(refusal)?
        else {
            return Err(Status::LOGON_FAILURE);
        };
        let dialect = negotiated.dialect.ok_or(Status::INVALID_PARAMETER)?;
        let keys = Keys::derive(dialect, negotiated.cipher, &session_key, self.preauth.value());
        self.signer = Some(Signer::new(negotiated.signing_algorithm(), &keys.signing));
        self.cipher = negotiated.cipher.map(|cipher| {
            let sealer = Sealer::new(cipher, &keys.server_to_client);
            (sealer, Opener::new(cipher, &keys.client_to_server))
        });
        self.must_sign = options.signing == Signing::Required || client_mode & SIGNING_REQUIRED != 0;
        self.must_encrypt = options.encryption == Encryption::Required;
        if self.must_encrypt && self.cipher.is_none() {
            return Err(Status::ACCESS_DENIED);
        }
        Ok((last_token, false))
    }

    /// Connects the tree that the request names; gives its number.
    pub(super) fn connect_tree(
        &mut self,
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
        let is_it = |volume: &SharedVolume| volume.name.eq_ignore_ascii_case(name);
        let place = host.volumes.iter().position(is_it);
        let place = place.ok_or(Status::BAD_NETWORK_NAME)?;
        if self.trees.len() >= MOST_TREES {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let tree = self.next_tree;
        self.next_tree = tree.wrapping_add(1).max(1);
        self.trees.push((tree, place));
        out.u16(16);
        out.u8(SHARE_OF_FILES);
        out.u8(0);
        // No caching of files by hand (manual caching is for offline use), no DFS; not encrypted by itself.
        out.u32(0x0000_0030);
        out.u32(0);
        out.u32(EVERY_RIGHT);
        Ok(tree)
    }

    /// Forgets a tree; gives the place of the volume that it was.
    pub(super) fn disconnect_tree(&mut self, tree: u32) -> Result<usize, Status> {
        let place = self.volume(tree)?;
        self.trees.retain(|known| known.0 != tree);
        Ok(place)
    }

    /// Ends the session. Its key still signs the answer.
    pub(super) fn log_off(&mut self) {
        self.has_ended = true;
    }
}

/// What a log-on takes of its connection.
pub(crate) struct ConnectionFacts<'a> {
    pub(crate) host: &'a Host,
    pub(crate) negotiated: &'a Negotiated,
    pub(crate) moment: Moment,
}

/// The log-ons of one connection.
#[derive(Default)]
pub(crate) struct Sessions {
    sessions: Vec<Session>,
}

impl Sessions {
    pub(crate) fn find(&self, id: u64) -> Option<&Session> {
        self.sessions.iter().find(|session| session.id == id)
    }

    pub(crate) fn find_mut(&mut self, id: u64) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.id == id)
    }

    /// Forgets those that were logged off.
    pub(crate) fn drop_ended(&mut self) {
        self.sessions.retain(|session| !session.has_ended);
    }

    /// One step of a log-on. A first one gives `session_id` its value.
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
        if *session_id == 0 {
            return self.challenge(connection, part, token, session_id, out);
        }
        let place = self
            .sessions
            .iter()
            .position(|session| session.id == *session_id && session.challenged.is_some());
        let place = place.ok_or(Status::USER_SESSION_DELETED)?;
        // Whoever fails begins anew, with another session.
        let mut session = self.sessions.remove(place);
        session.preauth.update(part);
        let (token, guest) = session.identify(connection, token, client_mode)?;
        let encrypts = session.must_encrypt;
        self.sessions.push(session);
        let flags = if guest { IS_GUEST } else { 0 } | if encrypts { ENCRYPT } else { 0 };
        write_setup(flags, &token, out);
        Ok(Status::SUCCESS)
    }

    fn challenge(
        &mut self,
        connection: &ConnectionFacts<'_>,
        part: &[u8],
        token: &[u8],
        session_id: &mut u64,
        out: &mut Vec<u8>,
    ) -> Result<Status, Status> {
        if self.sessions.len() >= MOST_SESSIONS {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let acceptor = Acceptor {
            name: "SERVERDYNO".to_owned(),
        };
        let answered = acceptor.challenge(token, connection.host.random(), connection.moment.filetime);
        let (answer, challenged) = answered.map_err(refusal)?;
        let mut preauth = connection.negotiated.preauth;
        preauth.update(part);
        *session_id = connection.host.next_session_id();
        self.sessions.push(Session {
            id: *session_id,
            challenged: Some(challenged),
            preauth,
            signer: None,
            cipher: None,
            must_sign: false,
            must_encrypt: false,
            trees: Vec::new(),
            next_tree: 1,
            has_ended: false,
        });
        write_setup(0, &answer, out);
        Ok(Status::MORE_PROCESSING_REQUIRED)
    }
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
