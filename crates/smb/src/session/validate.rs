//! FSCTL_VALIDATE_NEGOTIATE_INFO (MS-SMB2 3.2.5.5): proves that nobody changed the negotiation. NEGOTIATE
//! is not signed, so client and server repeat its contents in signed messages.
//!
//! Only for SMB 3.0 and 3.0.2: 3.1.1 derives its keys from the negotiation, and 2.x servers don't know the
//! request. A guest has no key for the signature.

use super::setup::{Asked, Negotiated};
use super::Session;
use crate::wire::{flags, in_response_to, parse_negotiated_again, Command, Dialect, Header, NegotiatedAgain};
use crate::{status, Refusal};
use dyno_measure::{Failure, Fault};

/// Statuses of signed responses from servers that don't support the request. MS-SMB2 requires 3.x servers to support
/// the request, but some do not.
const UNKNOWN_TO_IT: [u32; 3] = [
    status::NOT_SUPPORTED,
    status::INVALID_DEVICE_REQUEST,
    status::FILE_CLOSED,
];

impl Session {
    /// Sends the request if the dialect needs it, and compares the response with the NEGOTIATE response.
    ///
    /// # Errors
    /// The response differs or is not protected. The session must not be used.
    pub(super) async fn validate_negotiation(
        &mut self,
        negotiated: &Negotiated,
        guest: bool,
    ) -> Result<(), Failure> {
        let response = &negotiated.response;
        if guest || !matches!(response.dialect, Dialect::Smb300 | Dialect::Smb302) {
            return Ok(());
        }
        let asked = Asked::of(&self.options, self.client);
        self.conversation.begin_own(true, |message| {
            message.validate_negotiation(&asked.request(&self.options))
        })?;
        let (status, _, range) = self.exchange().await?;
        let part = &self.inbox.bytes()[range];
        let is_protected = self.conversation.protection.encrypts() || Header::parse(part)?.has(flags::SIGNED);
        if !is_protected {
            return Err(Fault::WrongSignature.into());
        }
        if UNKNOWN_TO_IT.contains(&status) {
            return Ok(());
        }
        if status != status::SUCCESS {
            return Err(Refusal::Changed.failure(status));
        }
        let understood = NegotiatedAgain {
            capabilities: response.capabilities,
            server_guid: response.server_guid,
            security_mode: response.security_mode,
            dialect: response.dialect as u16,
        };
        let again = parse_negotiated_again(part)
            .map_err(|wrong| in_response_to(wrong.into(), Command::Ioctl as u16))?;
        if again == understood {
            Ok(())
        } else {
            Err(Failure {
                fault: Fault::WrongSignature,
                ..Refusal::Changed.failure(0)
            })
        }
    }
}
