//! Message signatures (MS-SMB2 3.1.4.1, 3.1.5.1).
//!
//! Messages are signed in place and verified without a copy: the signature field is hashed as zeros.

use crate::wire::{SigningAlgorithm, HEADER_BYTES};
use aes::cipher::{BlockEncrypt, KeyInit};
use aes::Aes128;
use cmac::Cmac;
use ghash::{universal_hash::UniversalHash, GHash};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;

const FLAGS_AT: usize = 16;
const SIGNED: u8 = 8;
const SIGNATURE_AT: usize = 48;
const CANCEL: [u8; 2] = [0x0c, 0];

/// Computes and verifies the signatures of one session. The key is expanded once, and the expanded state is
/// copied for each message.
pub struct Signer(State);

enum State {
    Hmac(Box<Hmac<Sha256>>),
    Cmac(Box<Cmac<Aes128>>),
    Gmac { cipher: Box<Aes128>, hash: GHash },
}

impl Signer {
    pub fn new(algorithm: SigningAlgorithm, key: &[u8; 16]) -> Self {
        Self(match algorithm {
            SigningAlgorithm::HmacSha256 => State::Hmac(Box::new(
                Mac::new_from_slice(key).expect("HMAC accepts keys of any length"),
            )),
            SigningAlgorithm::Aes128Cmac => State::Cmac(Box::new(KeyInit::new(key.into()))),
            SigningAlgorithm::Aes128Gmac => {
                let cipher = Aes128::new(key.into());
                let mut hash_key = [0; 16].into();
                cipher.encrypt_block(&mut hash_key);
                State::Gmac {
                    cipher: Box::new(cipher),
                    hash: GHash::new(&hash_key),
                }
            }
        })
    }

    /// Signs one message of a compound, including its padding, and sets its signed flag. Leaves anything
    /// shorter than a header unchanged.
    pub fn sign(&self, message: &mut [u8]) {
        if message.len() < HEADER_BYTES {
            return;
        }
        message[FLAGS_AT] |= SIGNED;
        let signature = self.signature(message);
        message[SIGNATURE_AT..HEADER_BYTES].copy_from_slice(&signature);
    }

    /// Returns whether one message of a compound, including its padding, has the correct signature.
    pub fn verify(&self, message: &[u8]) -> bool {
        message.len() >= HEADER_BYTES && self.signature(message) == message[SIGNATURE_AT..HEADER_BYTES]
    }

    /// Returns the signature of a message, which must not be shorter than a header.
    fn signature(&self, message: &[u8]) -> [u8; 16] {
        let (before, after) = (&message[..SIGNATURE_AT], &message[HEADER_BYTES..]);
        match &self.0 {
            State::Hmac(state) => {
                let whole: [u8; 32] = code(state.as_ref(), before, after).into();
                *whole.first_chunk().unwrap_or(&[0; 16])
            }
            State::Cmac(state) => code(state.as_ref(), before, after).into(),
            State::Gmac { cipher, hash } => gmac(cipher, hash, before, after),
        }
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithm = match self.0 {
            State::Hmac(_) => SigningAlgorithm::HmacSha256,
            State::Cmac(_) => SigningAlgorithm::Aes128Cmac,
            State::Gmac { .. } => SigningAlgorithm::Aes128Gmac,
        };
        write!(formatter, "Signer({})", algorithm.name())
    }
}

fn code<M: Mac + Clone>(prepared: &M, before: &[u8], after: &[u8]) -> hmac::digest::Output<M> {
    let mut state = prepared.clone();
    state.update(before);
    state.update(&[0; 16]);
    state.update(after);
    state.finalize().into_bytes()
}

/// Computes GMAC: GCM of an empty plaintext with the message as additional data (NIST SP 800-38D, section 3). The parts
/// of the message are hashed in place. All but the last consist of whole blocks.
fn gmac(cipher: &Aes128, prepared: &GHash, before: &[u8], after: &[u8]) -> [u8; 16] {
    let mut hash = prepared.clone();
    hash.update_padded(before);
    hash.update_padded(&[0; 16]);
    hash.update_padded(after);
    let mut lengths = [0; 16];
    let bits = (HEADER_BYTES + after.len()) as u64 * 8;
    lengths[..8].copy_from_slice(&bits.to_be_bytes());
    hash.update(&[lengths.into()]);

    let mut first = [0; 16];
    first[..12].copy_from_slice(&nonce(before));
    first[15] = 1;
    let mut mask = first.into();
    cipher.encrypt_block(&mut mask);
    let mut tag: [u8; 16] = hash.finalize().into();
    for (byte, mask) in tag.iter_mut().zip(mask) {
        *byte ^= mask;
    }
    tag
}

/// Returns the nonce: the message ID, and flags for the sender and for CANCEL, which reuses the ID of the
/// request that it cancels.
fn nonce(header: &[u8]) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&header[24..32]);
    nonce[8] = header[FLAGS_AT] & 1 | u8::from(header[12..14] == CANCEL) << 1;
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::vectors::{array, bytes, BLOG_SIGNED_RESPONSE};
    use aes_gcm::{AeadInPlace, Aes128Gcm};

    fn message(length: usize) -> Vec<u8> {
        let mut message: Vec<u8> = (0..length).map(|place| (place * 7 + place / 251) as u8).collect();
        message[FLAGS_AT] = 1;
        message
    }

    fn signed(algorithm: SigningAlgorithm, key: &[u8; 16], message: &[u8]) -> Vec<u8> {
        let mut message = message.to_vec();
        Signer::new(algorithm, key).sign(&mut message);
        message
    }

    #[test]
    fn a_signed_message_verifies_but_not_with_any_changed_bit() {
        for algorithm in SigningAlgorithm::ALL {
            let signer = Signer::new(algorithm, &[3; 16]);
            for length in [64, 65, 79, 80, 81, 200] {
                let mut message = signed(algorithm, &[3; 16], &message(length));
                assert!(signer.verify(&message), "{algorithm:?} {length}");
                assert_eq!(message[FLAGS_AT] & SIGNED, SIGNED);
                for place in 0..length {
                    message[place] ^= 0x10;
                    assert!(!signer.verify(&message), "{algorithm:?} {length} {place}");
                    message[place] ^= 0x10;
                }
                assert!(!signer.verify(&message[..length - 1]));
                assert!(!Signer::new(algorithm, &[4; 16]).verify(&message));
            }
            assert!(!signer.verify(&[]) && !signer.verify(&[0; 63]));
        }
    }

    #[test]
    fn the_published_signature_of_3_1_1_verifies() {
        let signer = Signer::new(
            SigningAlgorithm::Aes128Cmac,
            &array("73FE7A9A77BEF0BDE49C650D8CCB5F76"),
        );
        let mut message = bytes(BLOG_SIGNED_RESPONSE);
        assert!(signer.verify(&message));
        let signature = message[48..64].to_vec();
        message[48..64].fill(0xaa);
        signer.sign(&mut message);
        assert_eq!(message[48..64], signature);
    }

    #[test]
    fn hmac_is_computed_over_a_zeroed_signature_and_truncated() {
        let message = signed(SigningAlgorithm::HmacSha256, &[5; 16], &message(100));
        let mut zeroed = message.clone();
        zeroed[48..64].fill(0);
        let mut mac: Hmac<Sha256> = Mac::new_from_slice(&[5; 16]).unwrap();
        mac.update(&zeroed);
        assert_eq!(message[48..64], mac.finalize().into_bytes()[..16]);
    }

    #[test]
    fn gmac_is_gcm_of_an_empty_text_with_the_specified_nonce() {
        let of = |flags: u8, command: u8, last: [u8; 4]| {
            let mut message = message(123);
            message[FLAGS_AT] = flags;
            message[12..14].copy_from_slice(&[command, 0]);
            let message = signed(SigningAlgorithm::Aes128Gmac, &[6; 16], &message);
            let mut nonce = message[24..32].to_vec();
            nonce.extend(last);
            let mut zeroed = message.clone();
            zeroed[48..64].fill(0);
            let gcm = Aes128Gcm::new(&[6; 16].into());
            let tag = gcm
                .encrypt_in_place_detached(nonce.as_slice().into(), &zeroed, &mut [])
                .unwrap();
            assert_eq!(message[48..64], *tag);
        };
        of(0, 9, [0, 0, 0, 0]);
        of(1, 9, [1, 0, 0, 0]);
        of(0, 12, [2, 0, 0, 0]);
        of(1, 12, [3, 0, 0, 0]);
    }
}
