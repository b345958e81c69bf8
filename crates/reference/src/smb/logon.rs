//! SESSION_SETUP, TREE_CONNECT and their ends (MS-SMB2 3.3.5.5 to 3.3.5.8): who somebody is, with which keys, and where.

use super::bytes::{slice, u16_at, u8_at, units, Put};
use super::dialogue::{Chain, Dialogue};
use super::message::{Request, HEADER_BYTES};
use super::negotiate::SIGNING_REQUIRED;
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
}

impl Dialogue {
    pub(super) fn set_up_session(
        &mut self,
        request: &Request<'_>,
        chain: &mut Chain,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<Status, Status> {
        request.check_structure(25)?;
        let part = request.part;
        let client_mode = u16::from(u8_at(part, BODY + 3)?);
        let token_bytes = usize::from(u16_at(part, BODY + 14)?);
        let token = slice(part, usize::from(u16_at(part, BODY + 12)?), token_bytes)?;
        if chain.session_id == 0 {
            return self.challenge(part, token, chain, moment, out);
        }
        let place = self
            .sessions
            .iter()
            .position(|session| session.id == chain.session_id && session.challenged.is_some());
        let place = place.ok_or(Status::USER_SESSION_DELETED)?;
        // Whoever fails begins anew, with another session.
        let mut session = self.sessions.remove(place);
        session.preauth.update(part);
        let (token, guest) = self.identify(&mut session, token, client_mode)?;
        let encrypts = session.must_encrypt;
        self.sessions.push(session);
        let flags = if guest { IS_GUEST } else { 0 } | if encrypts { ENCRYPT } else { 0 };
        write_setup(flags, &token, out);
        Ok(Status::SUCCESS)
    }

    fn challenge(
        &mut self,
        part: &[u8],
        token: &[u8],
        chain: &mut Chain,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<Status, Status> {
        if self.sessions.len() >= MOST_SESSIONS {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        let acceptor = Acceptor {
            name: "SERVERDYNO".to_owned(),
        };
        let answered = acceptor.challenge(token, self.host.random(), moment.filetime);
        let (answer, challenged) = answered.map_err(refusal)?;
        let mut preauth = self.negotiated.preauth;
        preauth.update(part);
        chain.session_id = self.host.next_session_id();
        self.sessions.push(Session {
            id: chain.session_id,
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

    /// Finds out who it is, and gives the session its keys; the token for the client, and whether it is a guest.
    fn identify(
        &self,
        session: &mut Session,
        token: &[u8],
        client_mode: u16,
    ) -> Result<(Vec<u8>, bool), Status> {
        let options = &self.host.options;
        let challenged = session.challenged.take().ok_or(Status::USER_SESSION_DELETED)?;
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
        let negotiated = &self.negotiated;
        let dialect = negotiated.dialect.ok_or(Status::INVALID_PARAMETER)?;
        let keys = Keys::derive(dialect, negotiated.cipher, &session_key, session.preauth.value());
        session.signer = Some(Signer::new(negotiated.signing_algorithm(), &keys.signing));
        session.cipher = negotiated.cipher.map(|cipher| {
            let sealer = Sealer::new(cipher, &keys.server_to_client);
            (sealer, Opener::new(cipher, &keys.client_to_server))
        });
        session.must_sign = options.signing == Signing::Required || client_mode & SIGNING_REQUIRED != 0;
        session.must_encrypt = options.encryption == Encryption::Required;
        if session.must_encrypt && session.cipher.is_none() {
            return Err(Status::ACCESS_DENIED);
        }
        Ok((last_token, false))
    }

    pub(super) fn connect_tree(
        &mut self,
        request: &Request<'_>,
        chain: &mut Chain,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        request.check_structure(9)?;
        let part = request.part;
        let path_bytes = usize::from(u16_at(part, BODY + 6)?);
        let path = units(slice(part, usize::from(u16_at(part, BODY + 4)?), path_bytes)?)?;
        let path = String::from_utf16(&path).map_err(|_| Status::BAD_NETWORK_NAME)?;
        let name = path.rsplit('\\').next().unwrap_or("");
        let is_it = |volume: &super::host::SharedVolume| volume.name.eq_ignore_ascii_case(name);
        let place = self.host.volumes.iter().position(is_it);
        let place = place.ok_or(Status::BAD_NETWORK_NAME)?;
        let session = self
            .session_mut(chain.session_id)
            .ok_or(Status::USER_SESSION_DELETED)?;
        if session.trees.len() >= MOST_TREES {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        chain.tree_id = session.next_tree;
        session.next_tree = session.next_tree.wrapping_add(1).max(1);
        session.trees.push((chain.tree_id, place));
        out.u16(16);
        out.u8(SHARE_OF_FILES);
        out.u8(0);
        // No caching of files by hand (manual caching is for offline use), no DFS; not encrypted by itself.
        out.u32(0x0000_0030);
        out.u32(0);
        out.u32(EVERY_RIGHT);
        Ok(())
    }

    pub(super) fn disconnect_tree(&mut self, chain: &Chain, moment: Moment) -> Result<(), Status> {
        let (session_id, tree_id) = (chain.session_id, chain.tree_id);
        let session = self.session_mut(session_id).ok_or(Status::USER_SESSION_DELETED)?;
        let place = session.volume(tree_id)?;
        session.trees.retain(|tree| tree.0 != tree_id);
        let id = self.id;
        let mut volume = self.host.volumes[place].lock();
        volume.close_all(moment, |opener| {
            (opener.connection, opener.session, opener.tree) == (id, session_id, tree_id)
        });
        self.mail.append(&mut volume.mail);
        Ok(())
    }

    pub(super) fn log_off(&mut self, chain: &Chain, moment: Moment) -> Result<(), Status> {
        let (id, session_id) = (self.id, chain.session_id);
        let session = self.session_mut(session_id).ok_or(Status::USER_SESSION_DELETED)?;
        // Its key still signs the answer.
        session.has_ended = true;
        for volume in &self.host.volumes {
            let mut volume = volume.lock();
            volume.close_all(moment, |opener| {
                (opener.connection, opener.session) == (id, session_id)
            });
            self.mail.append(&mut volume.mail);
        }
        Ok(())
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
