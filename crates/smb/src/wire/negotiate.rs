//! NEGOTIATE: dialects, capabilities and, from SMB 3.1.1 on, contexts (MS-SMB2 2.2.3, 2.2.4).

use super::bytes::{array, pad_to_8, put, range, size_at, u16_at, u32_at, Parsed};
use super::command::Command;
use super::header::HEADER_BYTES;
use super::malformed::{Field, Malformed};
use super::message::Message;
use super::response::parse_structure;
use dyno_measure::named_enum;

/// Length of the salt of the pre-authentication hash.
pub const SALT_BYTES: usize = 32;

const BODY: usize = HEADER_BYTES;
const MAX_CONTEXTS: u16 = 16;
pub const CONTEXT_PREAUTH: u16 = 1;
pub const CONTEXT_ENCRYPTION: u16 = 2;
pub const CONTEXT_SIGNING: u16 = 8;
pub const SHA_512: u16 = 1;
const MAX_RESPONSE: u32 = 65536;
const FSCTL_VALIDATE_NEGOTIATE_INFO: u32 = 0x0014_0204;
const IS_FSCTL: u32 = 1;
/// Size of the VALIDATE_NEGOTIATE_INFO response (2.2.32.6).
const NEGOTIATED_AGAIN_BYTES: u32 = 24;

/// Capabilities of either side (2.2.3).
pub mod capabilities {
    pub const LEASING: u32 = 0x02;
    /// Requests of more than 64 KiB.
    pub const LARGE_MTU: u32 = 0x04;
    /// Several connections per session.
    pub const MULTI_CHANNEL: u32 = 0x08;
    /// Handles that survive a restart of the server.
    pub const PERSISTENT_HANDLES: u32 = 0x10;
    pub const DIRECTORY_LEASING: u32 = 0x20;
    /// Encryption with SMB 3.0 and 3.0.2; SMB 3.1.1 negotiates it in a context.
    pub const ENCRYPTION: u32 = 0x40;
}

/// Security mode bits (2.2.3).
pub mod security {
    pub const SIGNING_ENABLED: u8 = 1;
    /// The sender requires signing.
    pub const SIGNING_REQUIRED: u8 = 2;
}

named_enum! {
    /// Protocol dialects, from the oldest.
    pub enum Dialect: u16 {
        Smb202 = 0x0202 "2.0.2"
        Smb210 = 0x0210 "2.1"
        Smb300 = 0x0300 "3.0"
        Smb302 = 0x0302 "3.0.2"
        Smb311 = 0x0311 "3.1.1"
    }
}

named_enum! {
    /// Ciphers, in the order that Windows 11 prefers. Before SMB 3.1.1 there is only AES-128-CCM.
    pub enum Cipher: u16 {
        Aes128Gcm = 2 "AES-128-GCM"
        Aes128Ccm = 1 "AES-128-CCM"
        Aes256Gcm = 4 "AES-256-GCM"
        Aes256Ccm = 3 "AES-256-CCM"
    }
}

named_enum! {
    /// Signing algorithms, in the order that Windows 11 prefers. SMB 2.0.2 and 2.1 use HMAC-SHA256. SMB 3.0 and 3.0.2
    /// use AES-128-CMAC. SMB 3.1.1 negotiates the algorithm.
    pub enum SigningAlgorithm: u16 {
        Aes128Gmac = 2 "AES-128-GMAC"
        Aes128Cmac = 1 "AES-128-CMAC"
        HmacSha256 = 0 "HMAC-SHA256"
    }
}

#[derive(Debug, Clone, Copy)]
pub struct NegotiateRequest<'a> {
    pub dialects: &'a [Dialect],
    /// Bits of `security`.
    pub security_mode: u8,
    /// Bits of `capabilities`; sent only if SMB 3 is among the dialects.
    pub capabilities: u32,
    /// Unique per client.
    pub client_guid: [u8; 16],
    pub salt: [u8; SALT_BYTES],
    /// Ciphers to offer, by preference; empty: no encryption.
    pub ciphers: &'a [Cipher],
    pub signing_algorithms: &'a [SigningAlgorithm],
}

impl NegotiateRequest<'_> {
    fn capabilities_sent(&self) -> u32 {
        if self.dialects.last() >= Some(&Dialect::Smb300) {
            self.capabilities
        } else {
            0
        }
    }

    fn guid_sent(&self) -> [u8; 16] {
        if self.dialects.last() > Some(&Dialect::Smb202) {
            self.client_guid
        } else {
            [0; 16]
        }
    }
}

impl Message {
    /// Adds an IOCTL with FSCTL_VALIDATE_NEGOTIATE_INFO (2.2.31, 2.2.31.4), which repeats `request`.
    pub fn validate_negotiation(&mut self, request: &NegotiateRequest<'_>) {
        self.part(Command::Ioctl, 1, MAX_RESPONSE);
        let input_bytes = 24 + 2 * request.dialects.len();
        let mut fixed = [0; 56];
        put(&mut fixed, 0, 57u16.to_le_bytes());
        put(&mut fixed, 4, FSCTL_VALIDATE_NEGOTIATE_INFO.to_le_bytes());
        put(&mut fixed, 8, [0xff; 16]);
        put(&mut fixed, 24, (HEADER_BYTES as u32 + 56).to_le_bytes());
        put(
            &mut fixed,
            28,
            u32::try_from(input_bytes).unwrap_or(0).to_le_bytes(),
        );
        put(&mut fixed, 44, NEGOTIATED_AGAIN_BYTES.to_le_bytes());
        put(&mut fixed, 48, IS_FSCTL.to_le_bytes());
        let body = self.body();
        body.extend_from_slice(&fixed);
        body.extend_from_slice(&request.capabilities_sent().to_le_bytes());
        body.extend_from_slice(&request.guid_sent());
        body.extend_from_slice(&u16::from(request.security_mode).to_le_bytes());
        body.extend_from_slice(&count(request.dialects));
        for dialect in request.dialects {
            body.extend_from_slice(&(*dialect as u16).to_le_bytes());
        }
    }
}

/// Fields of a VALIDATE_NEGOTIATE_INFO response (2.2.32.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NegotiatedAgain {
    /// Bits of `capabilities`.
    pub capabilities: u32,
    pub server_guid: [u8; 16],
    /// Bits of `security`.
    pub security_mode: u8,
    pub dialect: u16,
}

/// Parses the response to `Message::validate_negotiation`.
pub fn parse_negotiated_again(message: &[u8]) -> Parsed<NegotiatedAgain> {
    parse_structure(message, 49)?;
    if u32_at(message, BODY + 4)? != FSCTL_VALIDATE_NEGOTIATE_INFO {
        return Err(Malformed::at(Field::CtlCode, BODY + 4));
    }
    let (offset, length) = (size_at(message, BODY + 32)?, size_at(message, BODY + 36)?);
    let wrong = Malformed::at(Field::IoctlOutput, BODY + 32);
    if length != NEGOTIATED_AGAIN_BYTES as usize {
        return Err(wrong);
    }
    let output = &message[range(message, offset, length, BODY + 48, wrong)?];
    Ok(NegotiatedAgain {
        capabilities: u32_at(output, 0)?,
        server_guid: array(output, 4)?,
        security_mode: (u16_at(output, 20)? & 3) as u8,
        dialect: u16_at(output, 22)?,
    })
}

pub fn write_negotiate(message: &mut Message, request: &NegotiateRequest<'_>) {
    message.part(Command::Negotiate, 1, MAX_RESPONSE);
    let part_start = message.part_start();
    let newest = request.dialects.last().copied();
    let mut fixed = [0; 36];
    put(&mut fixed, 0, 36u16.to_le_bytes());
    put(&mut fixed, 2, count(request.dialects));
    fixed[4] = request.security_mode;
    put(&mut fixed, 8, request.capabilities_sent().to_le_bytes());
    put(&mut fixed, 12, request.guid_sent());
    let body = message.body();
    let body_start = body.len();
    body.extend_from_slice(&fixed);
    for dialect in request.dialects {
        body.extend_from_slice(&(*dialect as u16).to_le_bytes());
    }
    if newest == Some(Dialect::Smb311) {
        pad_to_8(body, part_start);
        let offset = u32::try_from(body.len() - part_start).unwrap_or(0);
        let contexts = write_contexts(body, part_start, request);
        put(&mut body[body_start..], 28, offset.to_le_bytes());
        put(&mut body[body_start..], 32, contexts.to_le_bytes());
    }
}

fn count<T>(items: &[T]) -> [u8; 2] {
    u16::try_from(items.len()).unwrap_or(0).to_le_bytes()
}

fn write_contexts(body: &mut Vec<u8>, part_start: usize, request: &NegotiateRequest<'_>) -> u16 {
    let mut contexts = 0;
    let mut write = |kind: u16, parts: &[&[u8]]| {
        pad_to_8(body, part_start);
        let length: usize = parts.iter().map(|part| part.len()).sum();
        body.extend_from_slice(&kind.to_le_bytes());
        body.extend_from_slice(&u16::try_from(length).unwrap_or(0).to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        for part in parts {
            body.extend_from_slice(part);
        }
        contexts += 1;
    };
    let salt_length = (SALT_BYTES as u16).to_le_bytes();
    write(
        CONTEXT_PREAUTH,
        &[
            &1u16.to_le_bytes(),
            &salt_length,
            &SHA_512.to_le_bytes(),
            &request.salt,
        ],
    );
    if !request.ciphers.is_empty() {
        let codes: Vec<u8> = request
            .ciphers
            .iter()
            .flat_map(|one| (*one as u16).to_le_bytes())
            .collect();
        write(CONTEXT_ENCRYPTION, &[&count(request.ciphers), &codes]);
    }
    if !request.signing_algorithms.is_empty() {
        let algorithms = request.signing_algorithms;
        let codes: Vec<u8> = algorithms
            .iter()
            .flat_map(|one| (*one as u16).to_le_bytes())
            .collect();
        write(CONTEXT_SIGNING, &[&count(algorithms), &codes]);
    }
    contexts
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NegotiateResponse {
    pub dialect: Dialect,
    /// Bits of `security`.
    pub security_mode: u8,
    pub server_guid: [u8; 16],
    /// Bits of `capabilities`.
    pub capabilities: u32,
    /// Maximum size of a listing or other information.
    pub max_transact_bytes: u32,
    pub max_read_bytes: u32,
    pub max_write_bytes: u32,
    /// The server's cipher; only in SMB 3.1.1.
    pub cipher: Option<Cipher>,
    /// The server's signing algorithm; only in SMB 3.1.1.
    pub signing_algorithm: Option<SigningAlgorithm>,
}

impl NegotiateResponse {
    /// Returns whether the server grants directory leases, which exist from SMB 3.0 on.
    pub fn leases_directories(&self) -> bool {
        self.dialect >= Dialect::Smb300 && self.capabilities & capabilities::DIRECTORY_LEASING != 0
    }

    /// Parses a NEGOTIATE response. `message` begins with the header.
    ///
    /// # Errors
    /// The response is malformed, or selects a value that no client offers.
    pub fn parse(message: &[u8]) -> Parsed<Self> {
        parse_structure(message, 65)?;
        let dialect = Dialect::of_code(u16_at(message, BODY + 4)?)
            .ok_or(Malformed::at(Field::DialectRevision, BODY + 4))?;
        let token_offset = usize::from(u16_at(message, BODY + 56)?);
        let token_bytes = usize::from(u16_at(message, BODY + 58)?);
        let wrong_token = Malformed::at(Field::SecurityBuffer, BODY + 56);
        range(message, token_offset, token_bytes, BODY + 64, wrong_token)?;
        let mut response = Self {
            dialect,
            security_mode: (u16_at(message, BODY + 2)? & 3) as u8,
            server_guid: array(message, BODY + 8)?,
            capabilities: u32_at(message, BODY + 24)?,
            max_transact_bytes: u32_at(message, BODY + 28)?,
            max_read_bytes: u32_at(message, BODY + 32)?,
            max_write_bytes: u32_at(message, BODY + 36)?,
            cipher: None,
            signing_algorithm: None,
        };
        if dialect == Dialect::Smb311 {
            response.parse_contexts(message)?;
        }
        Ok(response)
    }

    fn parse_contexts(&mut self, message: &[u8]) -> Parsed<()> {
        let contexts = u16_at(message, BODY + 6)?;
        if contexts > MAX_CONTEXTS {
            return Err(Malformed::at(Field::NegotiateContextCount, BODY + 6));
        }
        let mut offset = size_at(message, BODY + 60)?;
        let mut hash_chosen = false;
        for _ in 0..contexts {
            let kind = u16_at(message, offset)?;
            let length = usize::from(u16_at(message, offset + 2)?);
            let wrong = Malformed::at(Field::NegotiateContext, offset);
            let data = &message[range(message, offset + 8, length, BODY + 64, wrong)?];
            let only_choice = |at: usize| match u16_at(data, 0) {
                // The context has exactly one value.
                Ok(1) => u16_at(data, at).map_err(|_| wrong),
                _ => Err(wrong),
            };
            match kind {
                CONTEXT_PREAUTH => hash_chosen = only_choice(4)? == SHA_512,
                // None if the server selected no cipher, or an unknown one.
                CONTEXT_ENCRYPTION => {
                    let code = only_choice(2)?;
                    self.cipher = Cipher::of_code(code);
                }
                CONTEXT_SIGNING => {
                    let code = only_choice(2)?;
                    self.signing_algorithm = Some(SigningAlgorithm::of_code(code).ok_or(wrong)?);
                }
                _ => {}
            }
            offset = (offset + 8 + length).next_multiple_of(8);
        }
        if hash_chosen {
            Ok(())
        } else {
            Err(Malformed::at(Field::NegotiateContext, BODY + 60))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Link;

    fn request(dialects: &[Dialect]) -> Vec<u8> {
        let mut message = Message::default();
        message.begin(Link::default(), 0);
        write_negotiate(
            &mut message,
            &NegotiateRequest {
                dialects,
                security_mode: security::SIGNING_ENABLED,
                capabilities: capabilities::LEASING,
                client_guid: [7; 16],
                salt: [9; SALT_BYTES],
                ciphers: &Cipher::ALL,
                signing_algorithms: &SigningAlgorithm::ALL,
            },
        );
        message.end();
        message.plain().to_vec()
    }

    #[test]
    fn older_dialects_are_offered_without_newer_features() {
        let oldest = request(&[Dialect::Smb202]);
        assert_eq!(oldest.len(), 64 + 36 + 2);
        assert_eq!(oldest[64 + 8..64 + 36], [0; 28]);
        let second = request(&[Dialect::Smb202, Dialect::Smb210]);
        assert_eq!(second[64 + 8..64 + 12], [0; 4]);
        assert_eq!(second[64 + 12..64 + 28], [7; 16]);
    }

    #[test]
    fn the_newest_dialect_adds_three_aligned_contexts() {
        let newest = request(&Dialect::ALL);
        let offset = size_at(&newest, 64 + 28).expect("an offset");
        assert_eq!((offset % 8, u16_at(&newest, 64 + 32)), (0, Ok(3)));
        assert_eq!(u16_at(&newest, offset), Ok(CONTEXT_PREAUTH));
        assert_eq!(newest.len(), offset + 48 + 24 + 8 + 8);
    }

    fn response(contexts: &[(u16, &[u8])]) -> Vec<u8> {
        let mut message = vec![0; 128];
        put(&mut message, 64, 65u16.to_le_bytes());
        put(&mut message, 68, 0x0311u16.to_le_bytes());
        put(&mut message, 70, count(contexts));
        put(&mut message, 124, 128u32.to_le_bytes());
        for (kind, data) in contexts {
            pad_to_8(&mut message, 0);
            message.extend(kind.to_le_bytes());
            message.extend(count(data));
            message.extend([0; 4]);
            message.extend(*data);
        }
        message
    }

    const PREAUTH: (u16, &[u8]) = (1, &[1, 0, 0, 0, 1, 0]);

    #[test]
    fn the_choices_of_a_server_are_parsed() {
        let parsed = NegotiateResponse::parse(&response(&[PREAUTH, (2, &[1, 0, 2, 0]), (8, &[1, 0, 2, 0])]));
        let parsed = parsed.expect("well formed");
        assert_eq!(parsed.cipher, Some(Cipher::Aes128Gcm));
        assert_eq!(parsed.signing_algorithm, Some(SigningAlgorithm::Aes128Gmac));
    }

    #[test]
    fn a_response_without_a_choice_or_with_an_unoffered_one_is_refused() {
        let mut other_dialect = response(&[PREAUTH]);
        put(&mut other_dialect, 68, 0x02ffu16.to_le_bytes());
        let mut far_contexts = response(&[PREAUTH]);
        put(&mut far_contexts, 124, u32::MAX.to_le_bytes());
        let mut many_contexts = response(&[PREAUTH]);
        put(&mut many_contexts, 70, u16::MAX.to_le_bytes());
        for message in [
            vec![0; 64],
            response(&[]),
            response(&[(1, &[1, 0, 0, 0, 2, 0])]),
            response(&[(1, &[2, 0, 0, 0, 1, 0, 1, 0])]),
            response(&[PREAUTH, (8, &[1, 0, 9, 0])]),
            response(&[PREAUTH, (8, &[1, 0])]),
            other_dialect,
            far_contexts,
            many_contexts,
        ] {
            assert!(NegotiateResponse::parse(&message).is_err(), "{message:?}");
        }
    }
}
