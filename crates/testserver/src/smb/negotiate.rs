//! NEGOTIATE (MS-SMB2 2.2.3, 2.2.4, 3.3.5.4): dialect, capabilities, contexts, and the later validation.

use super::bytes::{length, slice, u128_at, u16_at, u32_at, u8_at, Put};
use super::host::Host;
use super::message::{command, AnswerHeader, Request, FRAME_BYTES, HEADER_BYTES};
use super::options::{Encryption, Options, Signing};
use super::session::Terms;
use super::status::Status;
use super::volume::Moment;
use crate::common::random;
use dyno_smb::auth::offer_token;
use dyno_smb::crypto::Preauth;
use dyno_smb::wire::{
    capabilities, Cipher, Dialect, SigningAlgorithm, CONTEXT_ENCRYPTION, CONTEXT_PREAUTH, CONTEXT_SIGNING,
    SHA_512,
};

/// Maximum size of a read, a write or a listing: the limit of Windows for SMB 2.1 clients.
pub(crate) const MOST_BYTES: u32 = 1 << 20;
/// The same limit without multi-credit requests.
pub(crate) const CREDIT_BYTES: u32 = 65_536;

/// Header length of the shortest message, an SMB 1 NEGOTIATE.
pub(super) const SMB1_HEADER_BYTES: usize = 32;
/// Start of an SMB 1 message.
pub(crate) const SMB1_ID: [u8; 4] = *b"\xffSMB";

const BODY: usize = HEADER_BYTES;
const SMB1_NEGOTIATE: u8 = 0x72;
/// Any dialect from 2.1 on; a second NEGOTIATE selects the dialect.
const WILDCARD_DIALECT: u16 = 0x02ff;
const SIGNING_ENABLED: u16 = 1;
pub(super) const SIGNING_REQUIRED: u16 = 2;
const MOST_DIALECTS: usize = 64;
const MOST_CONTEXTS: u16 = 16;
const SALT_BYTES: u16 = 32;

#[derive(Default)]
pub(crate) struct Negotiated {
    pub(crate) dialect: Option<Dialect>,
    pub(crate) client_guid: u128,
    client_capabilities: u32,
    pub(super) client_security: u16,
    pub(crate) cipher: Option<Cipher>,
    signing: Option<SigningAlgorithm>,
    pub(crate) preauth: Preauth,
    began_with_smb1: bool,
    /// Whether the response has a context with signing capabilities.
    answers_signing: bool,
    answers_encryption: bool,
}

impl Negotiated {
    pub(crate) fn signing_algorithm(&self) -> SigningAlgorithm {
        match self.dialect {
            Some(Dialect::Smb311) => self.signing.unwrap_or(SigningAlgorithm::Aes128Cmac),
            Some(Dialect::Smb300 | Dialect::Smb302) => SigningAlgorithm::Aes128Cmac,
            _ => SigningAlgorithm::HmacSha256,
        }
    }

    /// Returns the properties that must be the same for all connections of a session.
    pub(super) fn terms(&self) -> Terms {
        Terms {
            dialect: self.dialect,
            cipher: self.cipher,
            signing: self.signing_algorithm(),
        }
    }

    /// Returns whether a session may have several connections with these properties (MS-SMB2 3.3.5.4).
    pub(super) fn has_channels(&self) -> bool {
        self.dialect >= Some(Dialect::Smb300) && self.client_capabilities & capabilities::MULTI_CHANNEL != 0
    }

    fn has_large_messages(&self) -> bool {
        self.dialect.is_some_and(|dialect| dialect >= Dialect::Smb210)
    }
}

impl Negotiated {
    /// Negotiates with the client that sent `request`, and appends the answer to `out`.
    pub(super) fn negotiate(
        host: &Host,
        request: &Request<'_>,
        moment: Moment,
        out: &mut Vec<u8>,
    ) -> Result<Self, Status> {
        request.check_structure(36)?;
        let part = request.part;
        let offered = offered_dialects(part)?;
        let options = &host.options;
        let spoken = options.min_dialect..=options.max_dialect;
        let best = Dialect::ALL
            .into_iter()
            .rev()
            .find(|dialect| spoken.contains(dialect) && offered.contains(&(*dialect as u16)));
        let dialect = best.ok_or(Status::NOT_SUPPORTED)?;
        let mut negotiated = Negotiated {
            dialect: Some(dialect),
            client_guid: u128_at(part, BODY + 12)?,
            client_capabilities: u32_at(part, BODY + 8)?,
            client_security: u16_at(part, BODY + 4)?,
            ..Negotiated::default()
        };
        match dialect {
            Dialect::Smb311 => negotiated.read_contexts(part, options)?,
            Dialect::Smb300 | Dialect::Smb302 => {
                let both = negotiated.client_capabilities & capabilities::ENCRYPTION != 0
                    && options.encryption != Encryption::Off;
                negotiated.cipher = both.then_some(Cipher::Aes128Ccm);
            }
            Dialect::Smb202 | Dialect::Smb210 => {}
        }
        negotiated.write(host, dialect as u16, moment, out);
        Ok(negotiated)
    }

    /// Answers an SMB 1 NEGOTIATE from a client that also speaks SMB 2 (MS-SMB2 3.3.5.3.1). The answer selects SMB
    /// 2.0.2, or leaves the choice of a newer dialect to a second NEGOTIATE.
    pub(super) fn negotiate_from_smb1(
        host: &Host,
        message: &[u8],
        moment: Moment,
        credits: u16,
        out: &mut Vec<u8>,
    ) -> Result<Self, Status> {
        if u8_at(message, 4)? != SMB1_NEGOTIATE || u8_at(message, SMB1_HEADER_BYTES)? != 0 {
            return Err(Status::INVALID_PARAMETER);
        }
        let bytes = usize::from(u16_at(message, SMB1_HEADER_BYTES + 1)?);
        let names = slice(message, SMB1_HEADER_BYTES + 3, bytes)?;
        let offers = |name: &[u8]| names.split(|byte| *byte == 0).any(|one| one == name);
        let options = &host.options;
        let (dialect, code) = if offers(b"\x02SMB 2.???") && options.max_dialect > Dialect::Smb202 {
            (None, WILDCARD_DIALECT)
        } else if offers(b"\x02SMB 2.002") && options.min_dialect == Dialect::Smb202 {
            (Some(Dialect::Smb202), Dialect::Smb202 as u16)
        } else {
            return Err(Status::NOT_SUPPORTED);
        };
        let negotiated = Self {
            dialect,
            began_with_smb1: true,
            ..Self::default()
        };
        let start = out.len();
        out.zeros(FRAME_BYTES + HEADER_BYTES);
        negotiated.write(host, code, moment, out);
        let header = AnswerHeader {
            command: command::NEGOTIATE,
            credits,
            ..AnswerHeader::default()
        };
        header.write(&mut out[start + FRAME_BYTES..]);
        let bytes = length(out.len() - start - FRAME_BYTES);
        out[start..start + FRAME_BYTES].copy_from_slice(&bytes.to_be_bytes());
        Ok(negotiated)
    }

    fn capabilities(&self, options: &Options) -> u32 {
        let mut capabilities = 0;
        if self.has_large_messages() {
            capabilities |= capabilities::LARGE_MTU;
            if options.oplocks && options.leases {
                capabilities |= capabilities::LEASING;
            }
        }
        if self.cipher.is_some() && self.dialect < Some(Dialect::Smb311) {
            capabilities |= capabilities::ENCRYPTION;
        }
        if self.has_channels() {
            capabilities |= capabilities::MULTI_CHANNEL;
        }
        if options.continuously_available && self.dialect >= Some(Dialect::Smb300) {
            capabilities |= capabilities::PERSISTENT_HANDLES;
        }
        if self.leases_directories(options) {
            capabilities |= capabilities::DIRECTORY_LEASING;
        }
        capabilities
    }

    /// Returns whether directories are leased: from SMB 3.0 on, to clients with that capability (MS-SMB2
    /// 3.3.5.4).
    pub(crate) fn leases_directories(&self, options: &Options) -> bool {
        options.oplocks
            && options.leases
            && options.directory_leases
            && self.dialect >= Some(Dialect::Smb300)
            && self.client_capabilities & capabilities::DIRECTORY_LEASING != 0
    }

    fn write(&self, host: &Host, dialect: u16, moment: Moment, out: &mut Vec<u8>) {
        let start = out.len();
        let most = if self.has_large_messages() {
            MOST_BYTES
        } else {
            CREDIT_BYTES
        };
        let token = offer_token();
        out.u16(65);
        out.u16(security_mode(&host.options));
        out.u16(dialect);
        out.u16(0);
        out.extend_from_slice(&host.guid.to_le_bytes());
        out.u32(self.capabilities(&host.options));
        out.u32(most);
        out.u32(most);
        out.u32(most);
        out.u64(moment.filetime);
        out.u64(0);
        out.u16(HEADER_BYTES as u16 + 64);
        out.u16(token.len() as u16);
        out.u32(0);
        out.extend_from_slice(&token);
        if self.dialect == Some(Dialect::Smb311) {
            out.resize(start + (out.len() - start).next_multiple_of(8), 0);
            let offset = HEADER_BYTES + out.len() - start;
            out.set_u32(start + 60, length(offset));
            let count = self.write_contexts(out);
            out.set_u16(start + 6, count);
        }
    }

    fn write_contexts(&self, out: &mut Vec<u8>) -> u16 {
        out.u16(CONTEXT_PREAUTH);
        out.u16(6 + SALT_BYTES);
        out.u32(0);
        out.u16(1);
        out.u16(SALT_BYTES);
        out.u16(SHA_512);
        out.extend_from_slice(&random::<{ SALT_BYTES as usize }>());
        let encryption = self.cipher.map_or(0, |cipher| cipher as u16);
        let signing = self.signing_algorithm() as u16;
        let choices = [
            (self.answers_encryption, CONTEXT_ENCRYPTION, encryption),
            (self.answers_signing, CONTEXT_SIGNING, signing),
        ];
        let mut count = 1;
        // Each context is aligned to 8 bytes. The first has 46 bytes, each other one 12.
        let mut before = 46;
        for (_, kind, code) in choices.into_iter().filter(|choice| choice.0) {
            out.zeros(usize::next_multiple_of(before, 8) - before);
            out.u16(kind);
            out.u16(4);
            out.u32(0);
            out.u16(1);
            out.u16(code);
            before = 12;
            count += 1;
        }
        count
    }

    /// Handles FSCTL_VALIDATE_NEGOTIATE_INFO (MS-SMB2 3.3.5.15.12): checks that the client's view of the
    /// negotiation equals the server's.
    pub(super) fn validate(&self, host: &Host, input: &[u8], out: &mut Vec<u8>) -> Result<(), Status> {
        if self.began_with_smb1 {
            // A client that negotiated only with SMB 1 sent nothing that could be checked.
            return Err(Status::INVALID_DEVICE_REQUEST);
        }
        let same = u32_at(input, 0)? == self.client_capabilities
            && u128_at(input, 4)? == self.client_guid
            && u16_at(input, 20)? == self.client_security;
        if !same {
            return Err(Status::ACCESS_DENIED);
        }
        out.u32(self.capabilities(&host.options));
        out.extend_from_slice(&host.guid.to_le_bytes());
        out.u16(security_mode(&host.options));
        out.u16(self.dialect.map_or(0, |dialect| dialect as u16));
        Ok(())
    }

    /// Parses the contexts of SMB 3.1.1. There must be a supported hash. For each other kind of algorithm,
    /// chooses the first that is supported.
    fn read_contexts(&mut self, part: &[u8], options: &Options) -> Result<(), Status> {
        let count = u16_at(part, BODY + 32)?;
        if count > MOST_CONTEXTS {
            return Err(Status::INVALID_PARAMETER);
        }
        let mut offset = u32_at(part, BODY + 28)? as usize;
        let mut knows_hash = false;
        for _ in 0..count {
            let kind = u16_at(part, offset)?;
            let bytes = usize::from(u16_at(part, offset + 2)?);
            let data = slice(part, offset + 8, bytes)?;
            match kind {
                CONTEXT_PREAUTH => knows_hash = codes(data, 4)?.contains(&SHA_512),
                CONTEXT_ENCRYPTION => {
                    self.answers_encryption = true;
                    if options.encryption != Encryption::Off {
                        let known = |code: &u16| Cipher::of_code(*code);
                        self.cipher = codes(data, 2)?.iter().find_map(known);
                    }
                }
                CONTEXT_SIGNING => {
                    let known = |code: &u16| SigningAlgorithm::of_code(*code);
                    self.signing = codes(data, 2)?.iter().find_map(known);
                    self.answers_signing = self.signing.is_some();
                }
                _ => {}
            }
            offset = (offset + 8 + bytes).next_multiple_of(8);
        }
        if knows_hash {
            Ok(())
        } else {
            Err(Status::INVALID_PARAMETER)
        }
    }
}

fn security_mode(options: &Options) -> u16 {
    match options.signing {
        Signing::Auto => SIGNING_ENABLED,
        Signing::Required => SIGNING_ENABLED | SIGNING_REQUIRED,
    }
}

/// Returns the codes in a context, which starts with the number of codes.
fn codes(data: &[u8], from: usize) -> Result<Vec<u16>, Status> {
    let count = usize::from(u16_at(data, 0)?);
    (0..count).map(|index| u16_at(data, from + 2 * index)).collect()
}

fn offered_dialects(part: &[u8]) -> Result<Vec<u16>, Status> {
    let count = usize::from(u16_at(part, BODY + 2)?);
    if count == 0 || count > MOST_DIALECTS {
        return Err(Status::INVALID_PARAMETER);
    }
    (0..count)
        .map(|index| u16_at(part, BODY + 36 + 2 * index))
        .collect()
}
