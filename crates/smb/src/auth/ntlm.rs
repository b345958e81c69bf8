//! NTLM messages and keys (MS-NLMP) for both sides: only NTLMv2 with extended session security.

use super::AuthError;
use hmac::{Hmac, Mac};
use md4::Md4;
use md5::{Digest, Md5};
use rc4::{KeyInit, Rc4, StreamCipher};

const SIGNATURE: &[u8; 8] = b"NTLMSSP\0";
/// Upper bound on the size of a server's target info, which repeats the names of the server and its domain.
const MAX_TARGET_INFO_BYTES: usize = 4096;
/// The Version field: Windows 10, NTLM revision 15. It must be present, because the integrity code follows it.
pub(super) const VERSION: [u8; 8] = [10, 0, 0x61, 0x4a, 0, 0, 0, 15];

/// Negotiation flags (MS-NLMP 2.2.2.5).
pub(super) mod flags {
    pub const UNICODE: u32 = 0x0000_0001;
    pub const REQUEST_TARGET: u32 = 0x0000_0004;
    pub const SIGN: u32 = 0x0000_0010;
    pub const SEAL: u32 = 0x0000_0020;
    pub const NTLM: u32 = 0x0000_0200;
    pub const ANONYMOUS: u32 = 0x0000_0800;
    pub const ALWAYS_SIGN: u32 = 0x0000_8000;
    pub const TARGET_TYPE_SERVER: u32 = 0x0002_0000;
    pub const EXTENDED_SESSION_SECURITY: u32 = 0x0008_0000;
    pub const TARGET_INFO: u32 = 0x0080_0000;
    pub const VERSION: u32 = 0x0200_0000;
    pub const KEY_128: u32 = 0x2000_0000;
    pub const KEY_EXCHANGE: u32 = 0x4000_0000;

    /// Flags that both sides of this crate offer.
    pub const OURS: u32 = UNICODE
        | REQUEST_TARGET
        | SIGN
        | NTLM
        | ALWAYS_SIGN
        | EXTENDED_SESSION_SECURITY
        | TARGET_INFO
        | VERSION
        | KEY_128
        | KEY_EXCHANGE;
    /// Flags that the other side must set.
    pub const NEEDED: u32 = UNICODE | EXTENDED_SESSION_SECURITY | KEY_128;
}

/// Types of the AV_PAIRs in a target info (MS-NLMP 2.2.2.1).
pub(super) mod av {
    pub const END: u16 = 0;
    pub const COMPUTER_NAME: u16 = 1;
    pub const DOMAIN_NAME: u16 = 2;
    pub const DNS_COMPUTER_NAME: u16 = 3;
    pub const DNS_DOMAIN_NAME: u16 = 4;
    pub const FLAGS: u16 = 6;
    pub const TIMESTAMP: u16 = 7;
    /// Value of `FLAGS`: an integrity code is present.
    pub const HAS_MIC: u32 = 2;
}

/// Offset of the integrity code in an AUTHENTICATE message, at the end of the header that this crate
/// writes.
pub(super) const MIC_AT: usize = 72;
/// Length of the header of an AUTHENTICATE message with an integrity code.
pub(super) const AUTHENTICATE_BYTES: usize = MIC_AT + 16;

#[derive(Debug, Clone, Copy)]
pub(super) struct Challenge<'a> {
    pub(super) flags: u32,
    pub(super) nonce: [u8; 8],
    pub(super) target_info: &'a [u8],
}

impl<'a> Challenge<'a> {
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, AuthError> {
        check_kind(message, 2)?;
        let flags = u32::from_le_bytes(at(message, 20)?);
        if flags & flags::NEEDED != flags::NEEDED {
            return Err(AuthError::Unsupported);
        }
        let target_info = if flags & flags::TARGET_INFO == 0 {
            &[]
        } else {
            payload(message, 40)?
        };
        if target_info.len() > MAX_TARGET_INFO_BYTES {
            return Err(AuthError::Malformed);
        }
        Ok(Self {
            flags,
            nonce: at(message, 24)?,
            target_info,
        })
    }
}

/// Checks that `message` is an NTLM message of this type.
pub(super) fn check_kind(message: &[u8], kind: u32) -> Result<(), AuthError> {
    if at(message, 0)? == *SIGNATURE && u32::from_le_bytes(at(message, 8)?) == kind {
        Ok(())
    } else {
        Err(AuthError::Malformed)
    }
}

/// Returns the signature and the type with which a message begins.
pub(super) fn begin(kind: u32) -> Vec<u8> {
    [&SIGNATURE[..], &kind.to_le_bytes()].concat()
}

/// Returns `N` bytes of a received message, starting at `offset`.
pub(super) fn at<const N: usize>(message: &[u8], offset: usize) -> Result<[u8; N], AuthError> {
    let rest = message.get(offset..).and_then(<[u8]>::first_chunk);
    rest.copied().ok_or(AuthError::Malformed)
}

/// Returns the payload to which the fields at `offset` (length, maximum length, offset) point.
pub(super) fn payload(message: &[u8], offset: usize) -> Result<&[u8], AuthError> {
    let length = usize::from(u16::from_le_bytes(at(message, offset)?));
    let place = u32::from_le_bytes(at(message, offset + 4)?) as usize;
    if length == 0 {
        return Ok(&[]);
    }
    let end = place.checked_add(length).ok_or(AuthError::Malformed)?;
    message.get(place..end).ok_or(AuthError::Malformed)
}

/// Appends `content` and makes the fields at `offset` point to it.
pub(super) fn put_payload(message: &mut Vec<u8>, offset: usize, content: &[u8]) -> Result<(), AuthError> {
    let length = u16::try_from(content.len()).map_err(|_| AuthError::Malformed)?;
    let place = u32::try_from(message.len()).map_err(|_| AuthError::Malformed)?;
    message[offset..offset + 2].copy_from_slice(&length.to_le_bytes());
    message[offset + 2..offset + 4].copy_from_slice(&length.to_le_bytes());
    message[offset + 4..offset + 8].copy_from_slice(&place.to_le_bytes());
    message.extend_from_slice(content);
    Ok(())
}

/// Returns the AV_PAIRs of a target info, which must have an end marker unless it is empty.
pub(super) fn pairs(target_info: &[u8]) -> Result<Vec<(u16, &[u8])>, AuthError> {
    let mut pairs = Vec::new();
    let mut rest = target_info;
    while !rest.is_empty() {
        let kind = u16::from_le_bytes(at(rest, 0)?);
        let length = usize::from(u16::from_le_bytes(at(rest, 2)?));
        let value = rest.get(4..4 + length).ok_or(AuthError::Malformed)?;
        if kind == av::END {
            return Ok(pairs);
        }
        pairs.push((kind, value));
        rest = &rest[4 + length..];
    }
    if target_info.is_empty() {
        Ok(pairs)
    } else {
        Err(AuthError::Malformed)
    }
}

/// Appends an AV_PAIR. Fails if the value is longer than 65,535 bytes.
pub(super) fn put_pair(target_info: &mut Vec<u8>, kind: u16, value: &[u8]) -> Result<(), AuthError> {
    let length = u16::try_from(value.len()).map_err(|_| AuthError::Malformed)?;
    target_info.extend(kind.to_le_bytes());
    target_info.extend(length.to_le_bytes());
    target_info.extend_from_slice(value);
    Ok(())
}

/// Encodes a string in UTF-16, little-endian, like all NTLM strings.
pub(super) fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Decodes a string from UTF-16.
pub(super) fn text(bytes: &[u8]) -> Result<String, AuthError> {
    if bytes.len() % 2 != 0 {
        return Err(AuthError::Malformed);
    }
    let units = bytes
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    char::decode_utf16(units)
        .collect::<Result<_, _>>()
        .map_err(|_| AuthError::Malformed)
}

/// Returns `name` in upper case as in Windows: every character maps to a single character.
pub(super) fn capitals(name: &str) -> String {
    let capital = |character: char| {
        let mut capitals = character.to_uppercase();
        match (capitals.next(), capitals.next()) {
            (Some(capital), None) => capital,
            _ => character,
        }
    };
    name.chars().map(capital).collect()
}

/// Returns NTOWFv2 (3.3.2), the key that NTLMv2 derives from a password.
pub(super) fn password_key(user: &str, password: &str, domain: &str) -> [u8; 16] {
    let hash = Md4::digest(utf16(password));
    hmac_md5(&hash, &[&utf16(&capitals(user)), &utf16(domain)])
}

/// Returns the HMAC-MD5 of the concatenated parts.
pub(super) fn hmac_md5(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let mut code = <Hmac<Md5> as Mac>::new_from_slice(key).expect("HMAC accepts keys of any length");
    for part in parts {
        code.update(part);
    }
    code.finalize().into_bytes().into()
}

/// Encrypts or decrypts `data` in place.
pub(super) fn rc4(key: &[u8; 16], data: &mut [u8]) {
    Rc4::new(key.into()).apply_keystream(data);
}

/// Sender of signed data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    Client,
    Server,
}

/// Returns the `mechListMIC`: NTLM's first signature, over the list of mechanisms (3.4.4.2, 3.4.5.2,
/// 3.4.5.3).
pub(super) fn list_mic(session_key: &[u8; 16], flags: u32, from: From, mechanisms: &[u8]) -> [u8; 16] {
    let direction = match from {
        From::Client => "client-to-server",
        From::Server => "server-to-client",
    };
    let key = |purpose: &str| -> [u8; 16] {
        let constant = format!("session key to {direction} {purpose} key magic constant\0");
        Md5::new()
            .chain_update(session_key)
            .chain_update(constant)
            .finalize()
            .into()
    };
    let sequence = 0u32.to_le_bytes();
    let mut sum = hmac_md5(&key("signing"), &[&sequence, mechanisms]);
    if flags & flags::KEY_EXCHANGE != 0 {
        rc4(&key("sealing"), &mut sum[..8]);
    }
    let mut mic = [0; 16];
    mic[0] = 1;
    mic[4..12].copy_from_slice(&sum[..8]);
    mic
}

#[cfg(test)]
mod tests {
    use super::super::spnego::{self, Mechanism};
    use super::*;
    use crate::crypto::vectors::{array, bytes, BLOG_SESSION_KEY, BLOG_SESSION_SETUPS, BLOG_SIGNED_RESPONSE};

    #[test]
    fn the_key_of_a_password_equals_the_published_one() {
        // MS-NLMP 4.2.4.1.1.
        let key = password_key("User", "Password", "Domain");
        assert_eq!(key, array("0c868a403bfd7a93a3001ef22ef02e3f"));
        assert_eq!(key, password_key("uSER", "Password", "Domain"));
        assert_ne!(key, password_key("User", "password", "Domain"));
    }

    #[test]
    fn the_codes_of_the_published_conversation_are_reproduced() {
        let session_key = array(BLOG_SESSION_KEY);
        let last = bytes(BLOG_SESSION_SETUPS[2].0);
        let response = spnego::parse_response(&last[64 + 24..], Mechanism::Ntlm).expect("well formed");
        let flags = u32::from_le_bytes(at(response.token.expect("there is one"), 60).expect("long enough"));
        let list = spnego::mechanisms(Mechanism::Ntlm);
        let mic = list_mic(&session_key, flags, From::Client, &list);
        assert_eq!(response.mic, Some(&mic[..]));
        let mic = list_mic(&session_key, flags, From::Server, &list);
        assert!(bytes(BLOG_SIGNED_RESPONSE).ends_with(&mic));
    }

    #[test]
    fn pairs_without_an_end_or_beyond_it_are_refused() {
        let info = bytes("02000400 41004200 0700 0800 0102030405060708 00000000 ffff");
        let pairs_found = pairs(&info).expect("well formed");
        assert_eq!(pairs_found, [(2, &info[4..8]), (7, &info[12..20])]);
        for length in 1..24 {
            assert_eq!(
                pairs(&info[..length]),
                Err(AuthError::Malformed),
                "{length} bytes"
            );
        }
        assert_eq!(pairs(&[]), Ok(Vec::new()));
    }

    #[test]
    fn names_survive_encoding_and_decoding() {
        assert_eq!(text(&utf16("Jörg 𝄞")), Ok("Jörg 𝄞".to_owned()));
        assert_eq!(text(&[0x41]), Err(AuthError::Malformed));
        assert_eq!(text(&[0x00, 0xd8]), Err(AuthError::Malformed));
        assert_eq!(capitals("jörg ß"), "JÖRG ß");
    }
}
