//! Hash over all messages that precede the keys (MS-SMB2 3.1.4.4.1, SMB 3.1.1).

use sha2::{Digest, Sha512};

/// The current hash. `Clone`, because each session continues from the hash after the connection's
/// NEGOTIATE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preauth([u8; 64]);

impl Preauth {
    /// Returns the hash before the first message.
    pub fn new() -> Self {
        Self([0; 64])
    }

    /// Adds the next message, sent or received: from its header to its end, without the frame length.
    pub fn update(&mut self, message: &[u8]) {
        let hash = Sha512::new().chain_update(self.0).chain_update(message);
        self.0 = hash.finalize().into();
    }

    /// Returns the value for the key derivation.
    pub fn value(&self) -> &[u8; 64] {
        &self.0
    }
}

impl Default for Preauth {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::vectors::{bytes, BLOG_NEGOTIATE, BLOG_PREAUTH, BLOG_SESSION_SETUPS};

    #[test]
    fn the_published_conversation_gives_the_published_hashes() {
        let mut preauth = Preauth::new();
        for (message, value) in BLOG_NEGOTIATE.iter().chain(&BLOG_SESSION_SETUPS) {
            preauth.update(&bytes(message));
            assert_eq!(preauth.value().as_slice(), bytes(value));
        }
        assert_eq!(preauth.value().as_slice(), bytes(BLOG_PREAUTH));
    }

    #[test]
    fn any_changed_bit_changes_the_value() {
        let mut original = bytes(BLOG_NEGOTIATE[0].0);
        let mut one = Preauth::new();
        one.update(&original);
        original[40] ^= 1;
        let mut other = Preauth::new();
        other.update(&original);
        assert_ne!(one, other);
    }
}
