//! Signatures and encryption of one session's messages: put on what goes out, held against what comes in.

use super::inbox::Inbox;
use crate::crypto::{Opener, Sealer, Signer, TRANSFORM_BYTES};
use crate::wire::{flags, Field, Header, Malformed, Message, MAX_PARTS, TRANSFORM_ID};
use dyno_measure::{Failure, Fault};
use std::fmt;

/// What is known of keys, and what they are used for. Begins with none.
#[derive(Default)]
pub struct Protection {
    signer: Option<Signer>,
    sign_all: bool,
    /// What can be encrypted with.
    cipher: Option<(Sealer, Opener)>,
    encrypts: bool,
}

impl fmt::Debug for Protection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Protection")
            .field("sign_all", &self.sign_all)
            .field("encrypts", &self.encrypts)
            .finish_non_exhaustive()
    }
}

impl Protection {
    /// Signs with `signer` from here on: everything, or what is asked for alone.
    pub fn sign(&mut self, signer: Signer, everything: bool) {
        self.signer = Some(signer);
        self.sign_all = everything;
    }

    /// What to encrypt with, once `encrypt` is called.
    pub fn set_cipher(&mut self, sealer: Sealer, opener: Opener) {
        self.cipher = Some((sealer, opener));
    }

    /// Encrypts everything from here on; what is encrypted is not signed. False where there is no cipher.
    #[must_use]
    pub fn encrypt(&mut self) -> bool {
        self.encrypts = self.cipher.is_some();
        self.encrypts
    }

    /// Whether everything is encrypted now.
    #[must_use]
    pub fn encrypts(&self) -> bool {
        self.encrypts
    }

    /// Room that a message needs in front of its first header.
    #[must_use]
    pub fn room(&self) -> usize {
        if self.encrypts {
            TRANSFORM_BYTES
        } else {
            0
        }
    }

    /// Whether a message must be in one piece, because its bytes are changed or summed up.
    #[must_use]
    pub fn needs_whole_messages(&self) -> bool {
        self.sign_all || self.encrypts
    }

    /// Protects a finished and stamped message; `always_sign` also where signing was not agreed on.
    ///
    /// # Errors
    /// Where it can't be encrypted: such a message must not be sent.
    pub fn protect(
        &mut self,
        message: &mut Message,
        session_id: u64,
        always_sign: bool,
    ) -> Result<(), Failure> {
        if let Some((sealer, _)) = self.cipher.as_mut().filter(|_| self.encrypts) {
            let sealed = sealer.seal(session_id, message.frame_mut());
            return sealed.map_err(|_| Fault::OtherIo.into());
        }
        let Some(signer) = self.signer.as_ref().filter(|_| self.sign_all || always_sign) else {
            return Ok(());
        };
        for index in 0..MAX_PARTS {
            if let Some(part) = message.part_mut(index) {
                signer.sign(part);
            }
        }
        Ok(())
    }

    /// Decrypts the message that `inbox` has just begun, where it must be. The announcement of a break belongs to no
    /// session (MS-SMB2 3.3.4.6, 3.3.4.7), and so comes plain; all that it can do is to make us give caching up.
    ///
    /// # Errors
    /// Where encryption was agreed on and it isn't, or does not open; or the other way about.
    pub fn open(&self, inbox: &mut Inbox, session_id: u64) -> Result<(), Failure> {
        let Some(rest) = inbox.rest() else {
            return Ok(());
        };
        let message = &inbox.bytes()[rest.clone()];
        let is_encrypted = message.starts_with(&TRANSFORM_ID);
        let Some((_, opener)) = self.cipher.as_ref().filter(|_| self.encrypts) else {
            return if is_encrypted {
                Err(Malformed::at(Field::ProtocolId, 0).into())
            } else {
                Ok(())
            };
        };
        if !is_encrypted {
            let header = Header::parse(message)?;
            return if header.answers_nothing() && header.next == 0 {
                Ok(())
            } else {
                Err(Fault::WrongSignature.into())
            };
        }
        let plain_bytes = opener
            .open(session_id, inbox.bytes_mut(rest.clone()))
            .map_err(|_| Fault::WrongSignature)?
            .len();
        inbox.advance(rest.len() - plain_bytes);
        Ok(())
    }

    /// Holds the signature of one part of a message against its bytes, where it must have one, or has.
    ///
    /// # Errors
    /// Where it is missing or wrong.
    pub fn verify(&self, header: &Header, part: &[u8]) -> Result<(), Failure> {
        let Some(signer) = self.signer.as_ref().filter(|_| !self.encrypts) else {
            return Ok(());
        };
        let right = if header.has(flags::SIGNED) {
            signer.verify(part)
        } else {
            !self.sign_all
        };
        if right {
            Ok(())
        } else {
            Err(Fault::WrongSignature.into())
        }
    }
}
