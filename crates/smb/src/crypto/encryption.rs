//! Encrypted messages (MS-SMB2 2.2.41, 3.1.4.3): a transform header, then the messages encrypted with
//! AES-CCM or AES-GCM.

use super::kdf::CipherKey;
use crate::wire::{Cipher, TRANSFORM_ID};
use aes::{Aes128, Aes256};
use aes_gcm::{AeadInPlace, Aes128Gcm, Aes256Gcm, KeyInit, Tag};
use ccm::consts::{U11, U16};
use ccm::Ccm;
use dyno_measure::{Failure, Fault};
use std::fmt;

/// Length of the transform header.
pub const TRANSFORM_BYTES: usize = 52;

const TAG_AT: usize = 4;
const NONCE_AT: usize = 20;
/// The header is authenticated from the nonce to the end.
const AUTHENTICATED_BYTES: usize = TRANSFORM_BYTES - NONCE_AT;
/// Value of the header's Flags/EncryptionAlgorithm field: encrypted (3.1.1) or AES-128-CCM (3.0); both are
/// 1.
const ENCRYPTED: [u8; 2] = [1, 0];

/// Reason why a frame could not be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unopened {
    /// The header is malformed.
    #[error("the header of an encrypted message is malformed")]
    Malformed,
    #[error("an encrypted message belongs to another session")]
    OtherSession,
    /// The authentication tag does not match.
    #[error("an encrypted message does not verify")]
    WrongTag,
}

impl From<Unopened> for Failure {
    fn from(error: Unopened) -> Self {
        match error {
            Unopened::Malformed => Fault::MalformedMessage.into(),
            Unopened::OtherSession | Unopened::WrongTag => Fault::WrongSignature.into(),
        }
    }
}

/// The frame could not be encrypted and must not be sent: it is too short for a header, has 2^32 bytes or
/// more, or no nonces are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a message could not be encrypted")]
pub struct Unsealed;

/// Header of an encrypted frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transform {
    /// The session whose keys encrypt the frame.
    pub session_id: u64,
    tag: [u8; 16],
    nonce: [u8; 16],
    authenticated: [u8; AUTHENTICATED_BYTES],
}

impl Transform {
    /// Parses the header of a complete frame.
    ///
    /// # Errors
    /// [`Unopened::Malformed`] if the frame has no transform header, or if its length differs from the length
    /// in the header.
    pub fn parse(frame: &[u8]) -> Result<Self, Unopened> {
        let (header, body) = frame
            .split_first_chunk::<TRANSFORM_BYTES>()
            .ok_or(Unopened::Malformed)?;
        let length = u32::from_le_bytes(field(header, 36));
        if header[..4] != TRANSFORM_ID || header[42..44] != ENCRYPTED || length as usize != body.len() {
            return Err(Unopened::Malformed);
        }
        Ok(Self {
            session_id: u64::from_le_bytes(field(header, 44)),
            tag: field(header, TAG_AT),
            nonce: field(header, NONCE_AT),
            authenticated: field(header, NONCE_AT),
        })
    }
}

/// Returns `N` bytes of the header from offset `at`. They must lie inside the header.
fn field<const N: usize>(header: &[u8; TRANSFORM_BYTES], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[at..at + N]);
    bytes
}

/// A cipher with its key. Boxed, because expanded keys are long and differ in length.
enum Aead {
    Ccm128(Box<Ccm<Aes128, U16, U11>>),
    Ccm256(Box<Ccm<Aes256, U16, U11>>),
    Gcm128(Box<Aes128Gcm>),
    Gcm256(Box<Aes256Gcm>),
}

impl Aead {
    /// Panics if the key's length does not fit the cipher; [`super::Keys`] ensures that it fits.
    fn new(cipher: Cipher, key: &CipherKey) -> Self {
        let key = key.bytes();
        let fits = "the key was derived for this cipher";
        match cipher {
            Cipher::Aes128Ccm => Self::Ccm128(Box::new(KeyInit::new_from_slice(key).expect(fits))),
            Cipher::Aes256Ccm => Self::Ccm256(Box::new(KeyInit::new_from_slice(key).expect(fits))),
            Cipher::Aes128Gcm => Self::Gcm128(Box::new(KeyInit::new_from_slice(key).expect(fits))),
            Cipher::Aes256Gcm => Self::Gcm256(Box::new(KeyInit::new_from_slice(key).expect(fits))),
        }
    }

    /// Encrypts `body` in place. CCM uses 11 bytes of the nonce field, GCM 12.
    fn encrypt(&self, nonce: &[u8; 16], authenticated: &[u8], body: &mut [u8]) -> Option<Tag> {
        let (short, long) = (nonce[..11].into(), nonce[..12].into());
        let tag = match self {
            Self::Ccm128(aead) => aead.encrypt_in_place_detached(short, authenticated, body),
            Self::Ccm256(aead) => aead.encrypt_in_place_detached(short, authenticated, body),
            Self::Gcm128(aead) => aead.encrypt_in_place_detached(long, authenticated, body),
            Self::Gcm256(aead) => aead.encrypt_in_place_detached(long, authenticated, body),
        };
        tag.ok()
    }

    fn decrypt(&self, nonce: &[u8; 16], authenticated: &[u8], body: &mut [u8], tag: &Tag) -> bool {
        let (short, long) = (nonce[..11].into(), nonce[..12].into());
        let done = match self {
            Self::Ccm128(aead) => aead.decrypt_in_place_detached(short, authenticated, body, tag),
            Self::Ccm256(aead) => aead.decrypt_in_place_detached(short, authenticated, body, tag),
            Self::Gcm128(aead) => aead.decrypt_in_place_detached(long, authenticated, body, tag),
            Self::Gcm256(aead) => aead.decrypt_in_place_detached(long, authenticated, body, tag),
        };
        done.is_ok()
    }
}

/// Encrypts the frames that one side of a session sends over one connection. A sealer counts its nonces and
/// never uses one twice under its key. It is therefore not `Clone`, and each connection of a session has a
/// sealer with its own number, because all connections share a key.
pub struct Sealer {
    aead: Aead,
    channel: u16,
    sealed: u64,
}

impl Sealer {
    /// Creates a sealer with the key of the sending direction.
    pub fn new(cipher: Cipher, key: &CipherKey) -> Self {
        Self::of_channel(cipher, key, 0)
    }

    /// Creates a sealer for another connection of the session. Each connection needs a different number.
    pub fn of_channel(cipher: Cipher, key: &CipherKey, channel: u16) -> Self {
        Self {
            aead: Aead::new(cipher, key),
            channel,
            sealed: 0,
        }
    }

    /// Encrypts a frame in place. The frame is [`TRANSFORM_BYTES`] of space, followed by the plain messages.
    ///
    /// # Errors
    /// The frame can't be encrypted, or the key has encrypted 2^64 frames.
    pub fn seal(&mut self, session_id: u64, frame: &mut [u8]) -> Result<(), Unsealed> {
        self.sealed = self.sealed.checked_add(1).ok_or(Unsealed)?;
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.sealed.to_le_bytes());
        nonce[8..10].copy_from_slice(&self.channel.to_le_bytes());
        self.seal_with(&nonce, session_id, frame)
    }

    fn seal_with(&self, nonce: &[u8; 16], session_id: u64, frame: &mut [u8]) -> Result<(), Unsealed> {
        let (header, body) = frame.split_first_chunk_mut::<TRANSFORM_BYTES>().ok_or(Unsealed)?;
        let length = u32::try_from(body.len()).map_err(|_| Unsealed)?;
        header[..4].copy_from_slice(&TRANSFORM_ID);
        header[NONCE_AT..36].copy_from_slice(nonce);
        header[36..40].copy_from_slice(&length.to_le_bytes());
        header[40..42].fill(0);
        header[42..44].copy_from_slice(&ENCRYPTED);
        header[44..].copy_from_slice(&session_id.to_le_bytes());
        let tag = self
            .aead
            .encrypt(nonce, &header[NONCE_AT..], body)
            .ok_or(Unsealed)?;
        header[TAG_AT..NONCE_AT].copy_from_slice(&tag);
        Ok(())
    }
}

/// Decrypts the frames of the other side of a session.
pub struct Opener(Aead);

impl Opener {
    /// Creates an opener with the key of the receiving direction.
    pub fn new(cipher: Cipher, key: &CipherKey) -> Self {
        Self(Aead::new(cipher, key))
    }

    /// Decrypts a complete frame in place and returns the plain messages.
    ///
    /// # Errors
    /// The frame can't be decrypted. Its contents are then undefined.
    pub fn open<'a>(&self, session_id: u64, frame: &'a mut [u8]) -> Result<&'a mut [u8], Unopened> {
        let transform = Transform::parse(frame)?;
        if transform.session_id != session_id {
            return Err(Unopened::OtherSession);
        }
        let body = &mut frame[TRANSFORM_BYTES..];
        let tag = transform.tag.into();
        if self
            .0
            .decrypt(&transform.nonce, &transform.authenticated, body, &tag)
        {
            Ok(body)
        } else {
            Err(Unopened::WrongTag)
        }
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sealer({} sealed)", self.sealed)
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Opener")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::vectors::{array, bytes};
    use crate::crypto::Keys;
    use crate::wire::Dialect;

    const SESSION: u64 = 0x1122_3344_5566_7788;

    fn keys(cipher: Cipher) -> Keys {
        Keys::derive(Dialect::Smb311, Some(cipher), &[1; 16], &[2; 64])
    }

    fn frame(body: &[u8]) -> Vec<u8> {
        [&[0; TRANSFORM_BYTES][..], body].concat()
    }

    // Microsoft, "Encryption in SMB 3.0: a protocol perspective" (2012): a WRITE, its response, a READ and
    // its response.
    const CCM_SESSION: u64 = 0x0008_e400_1400_0011;
    const CCM_PLAIN: &str = "FE534D4240000100000000000900400008000000000000000400000000000000
        FFFE0000010000001100001400E4080000000000000000000000000000000000
        3100700017000000000000000000000015010000390000020100000039020000
        00000000000000007000000000000000536D623320656E6372797074696F6E20
        74657374696E67";
    const CCM_SEALED: &str = "FD534D4281A286535415445DAE393921E44FA42E66E69A111892584FB5ED524A
        744DA3EE87000000000001001100001400E4080025C8FEE16605A437832D1CD5
        2DA9F4645333482A175FE5384563F45FCDAFAEF38BC62BA4D5C62897996625A4
        4C29BE5658DE2E6117585779E7B59FFD971278D08580D7FA899E410E910EABF5
        AA1DB43050B33B49182637759AC15D84BFCDF5B6B238993C0F4CF4D6012023F6
        C627297075D84B7803912D0A9639634453595EF3E33FFE4E7AC2AB";
    const CCM_RESPONSE: &str = "FD534D42ABD518B68C2F04D7879F482B689EB83F870000000000000011000014
        00E4080067000000000001001100001400E40800493D6FE2BDBEB435CF5F5469
        70C7BB57BF20E713C75A3D045507E0D68E5C0346659D6FFB8AC1504A786CA2BB
        89C9E7FE4F313E910A04180D2D0EA7DF636329E5A3285984500EF86FE9D55DA4
        FAB9531CFDD4C551D47F3C73124BB4590A45052B694048B991CCF5";

    #[test]
    fn the_published_frames_of_3_0_are_reproduced() {
        let session_key: [u8; 16] = array("B4546771B515F766A86735532DD6C4F0");
        let keys = Keys::derive(Dialect::Smb300, Some(Cipher::Aes128Ccm), &session_key, &[0; 64]);
        let mut sealed = frame(&bytes(CCM_PLAIN));
        let sealer = Sealer::new(Cipher::Aes128Ccm, &keys.client_to_server);
        sealer
            .seal_with(
                &array("66E69A111892584FB5ED524A744DA3EE"),
                CCM_SESSION,
                &mut sealed,
            )
            .expect("it has room");
        // The last five bytes of the field are sent but don't belong to the nonce.
        assert_eq!(sealed, bytes(CCM_SEALED));

        let opener = Opener::new(Cipher::Aes128Ccm, &keys.server_to_client);
        let mut response = bytes(CCM_RESPONSE);
        let plain = opener.open(CCM_SESSION, &mut response).expect("it verifies");
        assert_eq!(&plain[plain.len() - 23..], b"Smb3 encryption testing");
    }

    // Microsoft, "SMB 3.1.1 Encryption in Windows 10" (2015): a WRITE and its response.
    const GCM_SESSION: u64 = 0x0000_1000_0000_0025;
    const GCM_PREAUTH: &str =
        "B23F3CBFD69487D9832B79B1594A367CDD950909B774C3A4C412B4FCEA9EDDDBA7DB256BA2EA30E9
        77F11F9B113247578E0E915C6D2A513B8F2FCA5707DC8770";
    const GCM_PLAIN: &str = "FE534D4240000100000000000900010008000000000000000500000000000000FFFE000001000000
        25000000001000000000000000000000000000000000000031007000170000000000000000000000
        0600000004000000010000000400000000000000000000007000000000000000536D623320656E63
        72797074696F6E2074657374696E67";
    const GCM_SEALED: &str =
        "FD534D42BD73D97D2BC9001BCAFAC0FDFF5FEEBCC7D6822D269CAF48904C664C0000000087000000
        0000010025000000001000006ECDD2A7AFC7B47763057A041B8FD4DAFFE990B70C9E09D36C084E02
        D14EF247F8BDE38ACF6256F8B1D3B56F77FBDEB312FEA5E92CBCC1ED8FB2EBBFAA75E49A4A394BB4
        4576545567C24D4C014D47C9FBDFDAFD2C4F9B72F8D256452620A299F48E29E53D6B61D1C13A19E9
        1AF013F00D17E3ABC2FC3D36C8C1B6B93973253852DBD442E46EE8";
    const GCM_RESPONSE: &str =
        "FD534D42ACBE1CB7ED343ADF1725EF144D90D4B0E06831DD2E8EB7B4000000000000000050000000
        00000100250000000010000026BBBF949983A6C1C796559D0F2C510CB651D1F7B6AC8DED32A2A0B8
        F2D793A815C6F6B848D69767A215841A42D400AE6DDB5F0B44173A014973321FDD7950DA6179159B
        82E03C9E18A050FF0EA1C967";

    #[test]
    fn the_published_frames_of_3_1_1_are_reproduced() {
        let session_key: [u8; 16] = array("419FDDF34C1E001909D362AE7FB6AF79");
        let cipher = Cipher::Aes128Gcm;
        let keys = Keys::derive(Dialect::Smb311, Some(cipher), &session_key, &array(GCM_PREAUTH));
        assert_eq!(
            keys.client_to_server.bytes(),
            bytes("A2F5E80E5D59103034F32E52F698E5EC")
        );
        assert_eq!(
            keys.server_to_client.bytes(),
            bytes("748C50868C90F302962A5C35F5F9A8BF")
        );
        let mut sealed = frame(&bytes(GCM_PLAIN));
        let sealer = Sealer::new(cipher, &keys.client_to_server);
        sealer
            .seal_with(
                &array("C7D6822D269CAF48904C664C00000000"),
                GCM_SESSION,
                &mut sealed,
            )
            .expect("it has room");
        assert_eq!(sealed, bytes(GCM_SEALED));

        let opener = Opener::new(cipher, &keys.server_to_client);
        let mut response = bytes(GCM_RESPONSE);
        let plain = opener.open(GCM_SESSION, &mut response).expect("it verifies");
        assert_eq!(plain[..4], *b"\xfeSMB");
        assert_eq!(plain.len(), 80);
    }

    #[test]
    fn a_sealed_frame_opens_only_with_the_same_key() {
        for cipher in Cipher::ALL {
            let keys = keys(cipher);
            let mut sealer = Sealer::new(cipher, &keys.client_to_server);
            for length in [0, 1, 64, 65_536] {
                let body: Vec<u8> = (0..length).map(|place| place as u8).collect();
                let mut sealed = frame(&body);
                sealer.seal(SESSION, &mut sealed).expect("it has room");
                let mut stolen = sealed.clone();
                let other = Opener::new(cipher, &keys.server_to_client);
                assert_eq!(other.open(SESSION, &mut stolen), Err(Unopened::WrongTag));
                let opener = Opener::new(cipher, &keys.client_to_server);
                assert_eq!(opener.open(SESSION, &mut sealed).expect("it verifies"), body);
            }
        }
    }

    #[test]
    fn a_frame_with_any_changed_bit_does_not_open() {
        for cipher in Cipher::ALL {
            let keys = keys(cipher);
            let mut sealed = frame(&[7; 70]);
            Sealer::new(cipher, &keys.client_to_server)
                .seal(SESSION, &mut sealed)
                .expect("it has room");
            let opener = Opener::new(cipher, &keys.client_to_server);
            for place in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[place] ^= 0x20;
                let error = opener.open(SESSION, &mut changed).expect_err("it was changed");
                let expected = match place {
                    0..4 | 36..40 | 42..44 => Unopened::Malformed,
                    44..52 => Unopened::OtherSession,
                    _ => Unopened::WrongTag,
                };
                assert_eq!(error, expected, "{cipher:?} at {place}");
            }
            for length in [0, 1, 51, 52, sealed.len() - 1] {
                let mut cut = sealed[..length].to_vec();
                assert_eq!(opener.open(SESSION, &mut cut), Err(Unopened::Malformed));
            }
        }
    }

    #[test]
    fn a_frame_without_space_or_a_sealer_without_nonces_is_refused() {
        let cipher = Cipher::Aes256Gcm;
        let mut sealer = Sealer::new(cipher, &keys(cipher).client_to_server);
        assert_eq!(sealer.seal(SESSION, &mut [0; TRANSFORM_BYTES - 1]), Err(Unsealed));
        sealer.sealed = u64::MAX - 1;
        assert_eq!(sealer.seal(SESSION, &mut [0; TRANSFORM_BYTES]), Ok(()));
        assert_eq!(sealer.seal(SESSION, &mut [0; TRANSFORM_BYTES]), Err(Unsealed));
    }

    #[test]
    fn no_nonce_is_used_twice() {
        let cipher = Cipher::Aes128Gcm;
        let mut nonces = std::collections::HashSet::new();
        for channel in [0, 1, u16::MAX] {
            let mut sealer = Sealer::of_channel(cipher, &keys(cipher).client_to_server, channel);
            for _ in 0..1000 {
                let mut sealed = frame(&[0; 4]);
                sealer.seal(SESSION, &mut sealed).expect("it has room");
                nonces.insert(sealed[NONCE_AT..NONCE_AT + 11].to_vec());
            }
        }
        assert_eq!(nonces.len(), 3000);
    }
}
