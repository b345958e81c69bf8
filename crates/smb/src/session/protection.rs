//! Signs or encrypts a session's outgoing messages, and verifies or decrypts the incoming ones.

use super::inbox::Inbox;
use crate::crypto::{Opener, Sealer, Signer, TRANSFORM_BYTES};
use crate::wire::{flags, Field, Header, Malformed, Message, MAX_PARTS, TRANSFORM_ID};
use dyno_measure::{Failure, Fault};
use std::fmt;

/// Keys of a session, and whether they sign or encrypt all messages. Starts without keys.
#[derive(Default)]
pub struct Protection {
    signer: Option<Signer>,
    sign_all: bool,
    /// The negotiated cipher with its keys; None: the session can't encrypt.
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
    /// Signs messages with `signer` from now on: all if `everything`, otherwise only those that `protect` is
    /// told to sign.
    pub fn sign(&mut self, signer: Signer, everything: bool) {
        self.signer = Some(signer);
        self.sign_all = everything;
    }

    /// Sets the cipher that `encrypt` activates.
    pub fn set_cipher(&mut self, sealer: Sealer, opener: Opener) {
        self.cipher = Some((sealer, opener));
    }

    /// Encrypts all messages from now on, instead of signing them. Returns false without a cipher.
    pub fn encrypt(&mut self) -> bool {
        self.encrypts = self.cipher.is_some();
        self.encrypts
    }

    /// Returns whether all messages are encrypted now.
    pub fn encrypts(&self) -> bool {
        self.encrypts
    }

    /// Returns the space that a message needs before its first header, in bytes.
    pub fn room(&self) -> usize {
        if self.encrypts {
            TRANSFORM_BYTES
        } else {
            0
        }
    }

    /// Returns whether messages must be contiguous, because their bytes are encrypted or signed.
    pub fn needs_whole_messages(&self) -> bool {
        self.sign_all || self.encrypts
    }

    /// Protects a finished and stamped message; `always_sign` signs it even if signing was not negotiated.
    ///
    /// # Errors
    /// The message can't be encrypted, and must not be sent.
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

    /// Decrypts the current message of `inbox` if necessary. A break notification belongs to no session
    /// (MS-SMB2 3.3.4.6, 3.3.4.7) and may arrive unencrypted; it can only make the client give up caching.
    ///
    /// # Errors
    /// The message is not encrypted although encryption was negotiated, or vice versa, or can't be
    /// decrypted.
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

    /// Verifies the signature of a part of a message, if the part is or must be signed.
    ///
    /// # Errors
    /// The signature is missing or wrong.
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
