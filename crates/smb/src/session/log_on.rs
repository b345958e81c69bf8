//! Log-on of a session by password or Kerberos ticket, and the derivation of its keys (MS-SMB2 3.2.4.2.3,
//! 3.2.5.3).

use super::options::{Options, Signing};
use super::setup::{random, security_mode, Negotiated};
use super::Session;
use crate::auth::{first_token, Fresh, Logon, ServiceTicket};
use crate::crypto::{Keys, Opener, Preauth, Sealer, Signer};
use crate::wire::{
    filetime_now, flags, in_response_to, parse_session_setup, Command, Dialect, Field, Header, Link,
    Malformed, Parsed, SessionSetup,
};
use crate::{status, Refusal};
use dyno_measure::{Failure, Fault};
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

/// A log-on that the server accepted.
struct Accepted {
    session_id: u64,
    /// Unused for a guest or an anonymous user.
    session_key: Vec<u8>,
    preauth: Preauth,
    /// Range of the last response in the inbox.
    response: Range<usize>,
}

impl Session {
    /// Logs on. Returns the session ID, and whether the user became a guest or anonymous.
    pub(super) async fn log_on(&mut self, negotiated: &Negotiated) -> Result<(u64, bool), Failure> {
        let accepted = match self.options.ticket.clone() {
            Some(ticket) => self.log_on_by_ticket(negotiated.preauth, &ticket).await?,
            None => self.log_on_by_password(negotiated.preauth).await?,
        };
        let part = &self.inbox.bytes()[accepted.response];
        let setup = in_setup(parse_session_setup(part))?;
        let guest = check_admission(&self.options, negotiated, &setup)?;
        if !guest {
            let keys = Keys::derive(
                negotiated.response.dialect,
                negotiated.cipher,
                &accepted.session_key,
                accepted.preauth.value(),
            );
            let signer = Signer::new(negotiated.signing_algorithm, &keys.signing);
            let must_be_signed = negotiated.response.dialect == Dialect::Smb311 || self.binding.is_some();
            check_last_signature(must_be_signed, &signer, part)?;
            match self.binding.take() {
                Some(binding) => binding.protect(signer, &mut self.conversation.protection),
                None => self.use_keys(negotiated, signer, keys, setup.encrypt),
            }
        }
        Ok((accepted.session_id, guest))
    }

    /// Logs on by NTLM with two requests.
    async fn log_on_by_password(&mut self, mut preauth: Preauth) -> Result<Accepted, Failure> {
        let (status, link, range) = self.set_up(&mut preauth, &first_token()).await?;
        if status != status::MORE_PROCESSING_REQUIRED {
            return Err(self.refusal(Refusal::LogOn).failure(status));
        }
        let part = &self.inbox.bytes()[range];
        preauth.update(part);
        let challenge = &part[in_setup(parse_session_setup(part))?.token];
        let (token, session_key) =
            logon(&self.options).second_token(challenge, random()?, random()?, filetime_now())?;

        let session_id = link.session_id;
        self.conversation.link = Link {
            session_id,
            tree_id: 0,
        };
        let (status, link, response) = self.set_up(&mut preauth, &token).await?;
        if status != status::SUCCESS {
            return Err(self.refusal(Refusal::LogOn).failure(status));
        }
        if link.session_id != session_id {
            return in_setup(Err(Malformed::at(Field::SessionId, 40)));
        }
        Ok(Accepted {
            session_id,
            session_key: session_key.to_vec(),
            preauth,
            response,
        })
    }

    /// Logs on by Kerberos with one request.
    async fn log_on_by_ticket(
        &mut self,
        mut preauth: Preauth,
        ticket: &ServiceTicket,
    ) -> Result<Accepted, Failure> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let request = ticket.request(&Fresh {
            key: random()?,
            sequence: random()?,
            now_us: now.map_or(0, |now| now.as_micros() as u64),
        })?;
        let (status, link, response) = self.set_up(&mut preauth, request.token()).await?;
        // MORE_PROCESSING_REQUIRED also means a refusal, because the log-on has only one request. The server's token
        // contains the reason.
        if !matches!(status, status::SUCCESS | status::MORE_PROCESSING_REQUIRED) {
            return Err(self.refusal(Refusal::Ticket).failure(status));
        }
        let part = &self.inbox.bytes()[response.clone()];
        let setup = in_setup(parse_session_setup(part))?;
        let session_key = if setup.guest || setup.anonymous {
            Vec::new()
        } else {
            request.session_key(&part[setup.token])?
        };
        if status != status::SUCCESS {
            return Err(self.refusal(Refusal::Ticket).failure(status));
        }
        let session_id = link.session_id;
        self.conversation.link = Link {
            session_id,
            tree_id: 0,
        };
        Ok(Accepted {
            session_id,
            session_key,
            preauth,
            response,
        })
    }

    /// Exchanges one SESSION_SETUP, and adds the request to `preauth`. The caller adds the response, except
    /// for the last one.
    async fn set_up(
        &mut self,
        preauth: &mut Preauth,
        token: &[u8],
    ) -> Result<(u32, Link, Range<usize>), Failure> {
        let mode = security_mode(self.options.signing);
        let (previous, binds) = (self.previous_session_id, self.binding.is_some());
        self.conversation.begin_own(false, |message| {
            message.session_setup(mode, token, previous, binds);
        })?;
        if let Some(binding) = &self.binding {
            self.conversation.sign_own(&binding.signer);
        }
        preauth.update(self.conversation.message().plain());
        self.exchange().await
    }

    fn use_keys(
        &mut self,
        negotiated: &Negotiated,
        signer: Signer,
        keys: Keys,
        server_wants_encryption: bool,
    ) {
        let protection = &mut self.conversation.protection;
        protection.sign(signer, negotiated.sign_all);
        if let Some(cipher) = negotiated.cipher {
            let sealer = Sealer::new(cipher, &keys.client_to_server);
            protection.set_cipher(sealer, Opener::new(cipher, &keys.server_to_client));
            if negotiated.must_encrypt || server_wants_encryption {
                let _ = protection.encrypt();
            }
        }
        // A session with one connection does not need the keys again.
        self.keys = (self.options.channels > 1).then_some(keys);
    }

    /// Returns the refusal to report for a failed log-on: `Binding` on a further connection of a session,
    /// otherwise `refusal`.
    fn refusal(&self, refusal: Refusal) -> Refusal {
        match self.binding {
            Some(_) => Refusal::Binding,
            None => refusal,
        }
    }
}

fn in_setup<T>(parsed: Parsed<T>) -> Result<T, Failure> {
    parsed.map_err(|wrong| in_response_to(wrong.into(), Command::SessionSetup as u16))
}

/// Checks that the options allow this session. Returns whether the user became a guest or anonymous.
fn check_admission(
    options: &Options,
    negotiated: &Negotiated,
    setup: &SessionSetup,
) -> Result<bool, Failure> {
    let guest = setup.guest || setup.anonymous;
    let needs_keys = options.signing == Signing::Required || negotiated.must_encrypt;
    let why = match (guest, setup.encrypt && negotiated.cipher.is_none()) {
        (true, _) if !options.guest => Refusal::Guest,
        (true, _) if needs_keys => Refusal::GuestUnprotected,
        (_, true) => Refusal::EncryptionWanted,
        _ => return Ok(guest),
    };
    Err(why.failure(0))
}

/// Verifies the signature of the last SESSION_SETUP response. With SMB 3.1.1, the signature proves that nobody changed
/// the negotiation; on a further connection, it proves that this is the same server (MS-SMB2 3.2.5.3.1, 3.2.5.3.3).
fn check_last_signature(must_be_signed: bool, signer: &Signer, part: &[u8]) -> Result<(), Failure> {
    let is_signed = Header::parse(part)?.has(flags::SIGNED);
    if (is_signed || must_be_signed) && !(is_signed && signer.verify(part)) {
        return Err(Fault::WrongSignature.into());
    }
    Ok(())
}

fn logon(options: &Options) -> Logon {
    if options.guest {
        return Logon {
            user: "guest".to_owned(),
            ..Logon::default()
        };
    }
    Logon {
        user: options.user.clone(),
        password: options.password.clone(),
        domain: options.domain.clone(),
        workstation: "SERVERDYNO".to_owned(),
    }
}
