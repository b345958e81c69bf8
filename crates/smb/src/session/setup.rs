//! Start of a session by NEGOTIATE, SESSION_SETUP (`log_on.rs`) and TREE_CONNECT, and its end (MS-SMB2
//! 3.2.4.2).

use super::options::{Authentication, Encryption, NegotiatedSession, Options, Signing};
use super::{Session, AROUND_DATA_BYTES, MAX_COMPOUND_BYTES};
use crate::crypto::{Preauth, TRANSFORM_BYTES};
use crate::wire::{
    capabilities, in_response_to, parse_tree_connect, security, write_negotiate, Cipher, Command, Dialect,
    Field, Link, Malformed, NegotiateRequest, NegotiateResponse, SigningAlgorithm, HEADER_BYTES,
};
use crate::{status, Refusal};
use dyno_measure::{Failure, Fault};
use rustix::rand::{getrandom, GetRandomFlags};
use sha2::{Digest, Sha256};

/// Payload that one credit covers, in bytes: the maximum for a request without multi-credit support.
const CREDIT_BYTES: u32 = 65_536;

/// Minimum MaxReadSize or MaxWriteSize that is accepted. Servers declare 65,536 or more (MS-SMB2 2.2.4).
const LEAST_TRANSFER_BYTES: u32 = 4096;

pub(super) struct Negotiated {
    pub(super) response: NegotiateResponse,
    pub(super) signing_algorithm: SigningAlgorithm,
    pub(super) sign_all: bool,
    /// The negotiated cipher; None if there is none or encryption is off.
    pub(super) cipher: Option<Cipher>,
    /// Whether to encrypt everything after the log-on, even if the server does not require it.
    pub(super) must_encrypt: bool,
    pub(super) preauth: Preauth,
}

impl Session {
    /// Connects, logs on and connects to the share.
    pub(super) async fn establish(&mut self) -> Result<(), Failure> {
        let negotiated = self.negotiate().await?;
        let (session_id, guest) = self.log_on(&negotiated).await?;
        self.check_channels(&negotiated, guest)?;
        let must_sign = negotiated.response.dialect == Dialect::Smb311 && !guest;
        let (link, continuously_available) = self.connect_tree(session_id, must_sign).await?;
        self.conversation.link = link;
        self.validate_negotiation(&negotiated, guest).await?;
        let agreed = NegotiatedSession {
            continuously_available,
            ..self.limits(&negotiated, guest)?
        };
        self.accept_long_messages(&agreed);
        self.conversation.establish(link, agreed);
        self.open_channels(&negotiated, link, agreed).await
    }

    /// Raises the maximum message size to that of an established session.
    pub(super) fn accept_long_messages(&mut self, agreed: &NegotiatedSession) {
        let longest = MAX_COMPOUND_BYTES.max(agreed.max_read_bytes as usize);
        self.inbox
            .set_max_message_bytes(longest + AROUND_DATA_BYTES + TRANSFORM_BYTES);
    }

    /// Connects, negotiates, and disconnects. Returns the server's NEGOTIATE response.
    pub(crate) async fn ask_for_offer(&mut self) -> Result<NegotiateResponse, Failure> {
        let negotiated = self.negotiate().await;
        self.drop_connection();
        negotiated.map(|negotiated| negotiated.response)
    }

    pub(super) async fn negotiate(&mut self) -> Result<Negotiated, Failure> {
        let asked = Asked::of(&self.options, self.client);
        let request = NegotiateRequest {
            salt: random()?,
            ..asked.request(&self.options)
        };
        self.conversation
            .begin_own(false, |message| write_negotiate(message, &request))?;
        let mut preauth = Preauth::new();
        preauth.update(self.conversation.message().plain());

        self.dialer.turn(1).await;
        let socket = self.dialer.dial(None)?;
        socket.send_first(self.conversation.message().bytes()).await?;
        socket.send_at_once()?;
        self.socket = Some(socket);
        self.traffic.connections += 1;
        self.traffic.bytes_out += self.conversation.message().sent_bytes() as u64;
        let (status, _, range) = self.answer().await.map_err(not_smb)?;
        if status != status::SUCCESS {
            return Err(Refusal::Dialect.failure(status));
        }
        let part = &self.inbox.bytes()[range];
        preauth.update(part);
        let response = NegotiateResponse::parse(part).map_err(|wrong| not_smb(wrong.into()))?;
        if !asked.dialects.contains(&response.dialect) {
            let wrong = Malformed::at(Field::DialectRevision, HEADER_BYTES + 4);
            return Err(in_response_to(wrong.into(), Command::Negotiate as u16));
        }
        choose(&self.options, response, preauth)
    }

    /// Connects to the share. Returns the session and tree IDs, and whether handles of the share may survive
    /// a restart of the server.
    async fn connect_tree(&mut self, session_id: u64, must_sign: bool) -> Result<(Link, bool), Failure> {
        let (server, share) = (&self.options.server, &self.share);
        self.conversation
            .begin_own(must_sign, |message| message.tree_connect(server, share))?;
        let (status, link, range) = self.exchange().await?;
        if status != status::SUCCESS {
            return Err(Refusal::Share.failure(status));
        }
        let tree = match parse_tree_connect(&self.inbox.bytes()[range]) {
            Ok(_) if link.session_id != session_id => Err(Malformed::at(Field::SessionId, 40)),
            parsed => parsed,
        };
        let tree = tree.map_err(|wrong| in_response_to(wrong.into(), Command::TreeConnect as u16))?;
        if !tree.disk {
            return Err(Refusal::NoFiles.failure(0));
        }
        if tree.read_only {
            return Err(Refusal::ReadOnly.failure(0));
        }
        if tree.encrypt && !self.conversation.protection.encrypt() {
            return Err(Refusal::ShareEncryption.failure(0));
        }
        Ok((link, tree.continuously_available))
    }

    fn limits(&self, negotiated: &Negotiated, guest: bool) -> Result<NegotiatedSession, Failure> {
        let response = &negotiated.response;
        let large =
            response.dialect >= Dialect::Smb210 && response.capabilities & capabilities::LARGE_MTU != 0;
        let paid = if large {
            CREDIT_BYTES.saturating_mul(self.conversation.credits())
        } else {
            CREDIT_BYTES
        };
        let most = self.options.max_transfer_bytes.min(paid.max(CREDIT_BYTES));
        if response.max_read_bytes.min(response.max_write_bytes) < LEAST_TRANSFER_BYTES {
            let wrong = Malformed::at(Field::MaxTransferSize, HEADER_BYTES + 32);
            return Err(in_response_to(wrong.into(), Command::Negotiate as u16));
        }
        let cipher = negotiated
            .cipher
            .filter(|_| self.conversation.protection.encrypts());
        let signs = negotiated.sign_all && cipher.is_none() && !guest;
        Ok(NegotiatedSession {
            dialect: response.dialect,
            signing: signs.then_some(negotiated.signing_algorithm),
            cipher,
            guest,
            authentication: (!guest).then_some(match self.options.ticket {
                Some(_) => Authentication::Kerberos,
                None => Authentication::Ntlm,
            }),
            capabilities: response.capabilities,
            leases: response.dialect >= Dialect::Smb210 && response.capabilities & capabilities::LEASING != 0,
            // Directory handles are not durable, so their leases end with the connection.
            directory_leases: response.leases_directories() && !self.options.durable_handles,
            continuously_available: false,
            max_transact_bytes: response.max_transact_bytes,
            max_read_bytes: response.max_read_bytes.min(most),
            max_write_bytes: response.max_write_bytes.min(most),
            channels: self.options.channels,
        })
    }

    /// Disconnects from the share and logs off.
    pub(super) async fn log_off(&mut self) -> Result<(), Failure> {
        for command in [Command::TreeDisconnect, Command::Logoff] {
            self.conversation
                .begin_own(false, |message| message.empty(command))?;
            self.exchange().await?;
        }
        Ok(())
    }
}

/// Dialects and GUID of the client, for NEGOTIATE and for its validation.
pub(super) struct Asked {
    dialects: Vec<Dialect>,
    client_guid: [u8; 16],
}

impl Asked {
    pub(super) fn of(options: &Options, client: u32) -> Self {
        Self {
            dialects: dialects(options),
            client_guid: client_guid(options.guid_seed, client),
        }
    }

    /// Returns the NEGOTIATE request without a salt, because the validation has none.
    pub(super) fn request<'a>(&'a self, options: &'a Options) -> NegotiateRequest<'a> {
        NegotiateRequest {
            dialects: &self.dialects,
            security_mode: security_mode(options.signing),
            capabilities: capabilities_of(options),
            client_guid: self.client_guid,
            salt: Default::default(),
            ciphers: match options.encryption {
                Encryption::Off => &[],
                Encryption::WhenRequired | Encryption::Required => &options.ciphers,
            },
            signing_algorithms: &options.signing_algorithms,
        }
    }
}

/// Adds the likely cause to a failure of NEGOTIATE. A server that sends a malformed response does not speak SMB2. A
/// server that closes the connection may also have reached its connection limit.
fn not_smb(failure: Failure) -> Failure {
    match failure.fault {
        Fault::MalformedMessage => Failure {
            detail: Refusal::NotSmb.detail(0),
            ..failure
        },
        Fault::ClosedEarly | Fault::ConnectionReset => Failure {
            detail: Refusal::HungUp.detail(0),
            ..failure
        },
        _ => failure,
    }
}

/// Chooses signing and encryption from the server's NEGOTIATE response and the options. Fails if they are
/// incompatible.
fn choose(options: &Options, response: NegotiateResponse, preauth: Preauth) -> Result<Negotiated, Failure> {
    let signing_algorithm = match response.dialect {
        Dialect::Smb202 | Dialect::Smb210 => SigningAlgorithm::HmacSha256,
        Dialect::Smb300 | Dialect::Smb302 => SigningAlgorithm::Aes128Cmac,
        // Without a signing context in the response, AES-128-CMAC applies.
        Dialect::Smb311 => response.signing_algorithm.unwrap_or(SigningAlgorithm::Aes128Cmac),
    };
    let offered = match response.dialect {
        Dialect::Smb311 => response.cipher.filter(|cipher| options.ciphers.contains(cipher)),
        Dialect::Smb300 | Dialect::Smb302 if response.capabilities & capabilities::ENCRYPTION != 0 => {
            Some(Cipher::Aes128Ccm)
        }
        _ => None,
    };
    let cipher = match options.encryption {
        Encryption::Off => None,
        Encryption::WhenRequired => offered,
        Encryption::Required => Some(offered.ok_or(Refusal::NoEncryption.failure(0))?),
    };
    let must_encrypt = options.encryption == Encryption::Required;
    let server_requires = response.security_mode & security::SIGNING_REQUIRED != 0;
    if server_requires && options.signing == Signing::Off && !must_encrypt {
        return Err(Refusal::SigningWanted.failure(0));
    }
    Ok(Negotiated {
        response,
        signing_algorithm,
        sign_all: server_requires || options.signing == Signing::Required,
        cipher,
        must_encrypt,
        preauth,
    })
}

fn dialects(options: &Options) -> Vec<Dialect> {
    let range = options.min_dialect..=options.max_dialect;
    Dialect::ALL
        .into_iter()
        .filter(|dialect| range.contains(dialect))
        .collect()
}

pub(super) fn security_mode(signing: Signing) -> u8 {
    match signing {
        Signing::Off | Signing::WhenRequired => security::SIGNING_ENABLED,
        Signing::Required => security::SIGNING_REQUIRED,
    }
}

fn capabilities_of(options: &Options) -> u32 {
    let encryption = match options.encryption {
        Encryption::Off => 0,
        Encryption::WhenRequired | Encryption::Required => capabilities::ENCRYPTION,
    };
    let persistent = if options.durable_handles {
        capabilities::PERSISTENT_HANDLES
    } else {
        0
    };
    let channels = if options.channels > 1 {
        capabilities::MULTI_CHANNEL
    } else {
        0
    };
    capabilities::LEASING
        | capabilities::LARGE_MTU
        | capabilities::DIRECTORY_LEASING
        | encryption
        | persistent
        | channels
}

/// Returns the client's GUID. Each client needs its own: Samba passes all connections with the same GUID to
/// one process.
pub(super) fn client_guid(seed: u64, client: u32) -> [u8; 16] {
    let digest = Sha256::digest(format!("serverdyno client {seed} {client}"));
    let mut guid = [0; 16];
    guid.copy_from_slice(&digest[..16]);
    guid
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    // A call for at most 256 bytes always returns all of them.
    getrandom(&mut bytes[..], GetRandomFlags::empty()).map_err(|_| Fault::OtherIo)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_a_different_guid() {
        let guids: std::collections::BTreeSet<_> = (0..100)
            .flat_map(|client| [client_guid(1, client), client_guid(2, client)])
            .collect();
        assert_eq!(guids.len(), 200);
    }

    #[test]
    fn all_dialects_of_the_range_are_offered() {
        let options = Options {
            min_dialect: Dialect::Smb210,
            max_dialect: Dialect::Smb302,
            ..Options::default()
        };
        assert_eq!(
            dialects(&options),
            [Dialect::Smb210, Dialect::Smb300, Dialect::Smb302]
        );
    }

    #[test]
    fn options_are_printed_without_the_password() {
        let options = Options {
            password: "correct horse".to_owned(),
            ..Options::default()
        };
        assert!(!format!("{options:?}").contains("horse"));
    }
}
