//! Derives a session's keys from the key of the authentication (MS-SMB2 3.1.4.2, NIST SP 800-108 in counter
//! mode).

use crate::wire::{Cipher, Dialect};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;

/// A key of 128 or 256 bits.
#[derive(Clone, PartialEq, Eq)]
pub struct CipherKey {
    bytes: [u8; 32],
    length: usize,
}

impl CipherKey {
    /// Returns the 16 or 32 bytes of the key.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Debug for CipherKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CipherKey({} bits)", self.length * 8)
    }
}

/// Keys of one session, for both sides. They are never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// Signs messages in both directions.
    pub signing: [u8; 16],
    /// Encrypts the client's messages. Unused before SMB 3.0, which introduced encryption.
    pub client_to_server: CipherKey,
    /// Encrypts the server's messages.
    pub server_to_client: CipherKey,
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Keys {
    /// Derives the keys of a session from the `session_key` of its authentication. `preauth` is the
    /// session's [`super::Preauth`] value, used from SMB 3.1.1 on. Kerberos may return more than 16 bytes:
    /// 256-bit ciphers use all of them, everything else the first 16.
    pub fn derive(dialect: Dialect, cipher: Option<Cipher>, session_key: &[u8], preauth: &[u8; 64]) -> Self {
        let mut short_key = [0; 16];
        let common = session_key.len().min(short_key.len());
        short_key[..common].copy_from_slice(&session_key[..common]);
        let (length, cipher_key) = match cipher {
            Some(Cipher::Aes256Ccm | Cipher::Aes256Gcm) => (32, session_key),
            _ => (16, &short_key[..]),
        };
        let newest = dialect >= Dialect::Smb311;
        // Labels and contexts include the terminating zero of a C string.
        let key = |from: &[u8], length, label: (&[u8], &[u8]), context: &[u8]| {
            let (label, context) = if newest {
                (label.1, &preauth[..])
            } else {
                (label.0, context)
            };
            derive(from, label, context, length)
        };
        let signing = key(
            &short_key,
            16,
            (b"SMB2AESCMAC\0", b"SMBSigningKey\0"),
            b"SmbSign\0",
        );
        Self {
            signing: if dialect < Dialect::Smb300 {
                short_key
            } else {
                *signing.bytes.first_chunk().unwrap_or(&short_key)
            },
            client_to_server: key(
                cipher_key,
                length,
                (b"SMB2AESCCM\0", b"SMBC2SCipherKey\0"),
                b"ServerIn \0",
            ),
            server_to_client: key(
                cipher_key,
                length,
                (b"SMB2AESCCM\0", b"SMBS2CCipherKey\0"),
                b"ServerOut\0",
            ),
        }
    }
}

/// Computes one round of SP 800-108's counter mode with HMAC-SHA256. The 256 bits of one round suffice for
/// SMB.
fn derive(key: &[u8], label: &[u8], context: &[u8], length: usize) -> CipherKey {
    let bits = u32::try_from(length * 8).unwrap_or(0);
    let mut round = Hmac::<Sha256>::new_from_slice(key).expect("HMAC accepts keys of any length");
    round.update(&1u32.to_be_bytes());
    round.update(label);
    round.update(&[0]);
    round.update(context);
    round.update(&bits.to_be_bytes());
    let mut bytes: [u8; 32] = round.finalize().into_bytes().into();
    bytes[length..].fill(0);
    CipherKey { bytes, length }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::vectors::{array, bytes, BLOG_PREAUTH, BLOG_SESSION_KEY};

    fn keys(dialect: Dialect, session_key: &str) -> Keys {
        Keys::derive(
            dialect,
            Some(Cipher::Aes128Ccm),
            &array::<16>(session_key),
            &array(BLOG_PREAUTH),
        )
    }

    fn check(keys: &Keys, signing: &str, client_to_server: &str, server_to_client: &str) {
        assert_eq!(keys.signing.as_slice(), bytes(signing));
        assert_eq!(keys.client_to_server.bytes(), bytes(client_to_server));
        assert_eq!(keys.server_to_client.bytes(), bytes(server_to_client));
    }

    // Microsoft, "SMB 2 and SMB 3 security in Windows 10: the anatomy of signing and cryptographic keys"
    // (2017), appendix; and "Encryption in SMB 3.0: a protocol perspective" (2012).
    #[test]
    fn the_published_keys_of_3_0_are_derived() {
        check(
            &keys(Dialect::Smb300, "7CD451825D0450D235424E44BA6E78CC"),
            "0B7E9C5CAC36C0F6EA9AB275298CEDCE",
            "FAD27796665B313EBB578F388632B4F7",
            "B0F0427F7CEB416D1D9DCC0CD4F99447",
        );
        check(
            &keys(Dialect::Smb302, "B4546771B515F766A86735532DD6C4F0"),
            "F773CD23C18FD1E08EE510CADA7CF852",
            "261B72350558F2E9DCF613070383EDBF",
            "8FE2B57EC34D2DB5B1A9727F526BBDB5",
        );
    }

    #[test]
    fn the_published_keys_of_3_1_1_are_derived() {
        check(
            &keys(Dialect::Smb311, BLOG_SESSION_KEY),
            "73FE7A9A77BEF0BDE49C650D8CCB5F76",
            "629BCBC54422A0F572B97F45989B6073",
            "E2AF0DCEFAC68DA71A0DFBD0D1350D74",
        );
    }

    #[test]
    fn before_3_0_the_session_key_signs() {
        let keys = keys(Dialect::Smb210, BLOG_SESSION_KEY);
        assert_eq!(keys.signing.as_slice(), bytes(BLOG_SESSION_KEY));
    }

    #[test]
    fn keys_of_256_bits_do_not_extend_those_of_128() {
        let of = |cipher| Keys::derive(Dialect::Smb311, Some(cipher), &[7; 16], &[9; 64]);
        let (short, long) = (of(Cipher::Aes128Gcm), of(Cipher::Aes256Gcm));
        assert_eq!(short.client_to_server.bytes().len(), 16);
        assert_eq!(long.client_to_server.bytes().len(), 32);
        assert_ne!(
            long.client_to_server.bytes()[..16],
            *short.client_to_server.bytes()
        );
        assert_eq!(long.signing, short.signing);
    }

    #[test]
    fn keys_are_not_printed() {
        let keys = keys(Dialect::Smb311, BLOG_SESSION_KEY);
        assert_eq!(
            format!("{keys:?} {:?}", keys.client_to_server),
            "Keys { .. } CipherKey(128 bits)"
        );
    }
}
