//! Authentication in SESSION_SETUP: NTLMv2 (MS-NLMP) or Kerberos (RFC 4120) inside SPNEGO (RFC 4178).
//!
//! Pure: bytes in, bytes out. Randomness and time are arguments. NTLM takes two tokens from the client and one from
//! the server, Kerberos one from each:
//!
//! ```text
//! client: first_token()                     -> SESSION_SETUP request
//!         second_token(token of response)   -> SESSION_SETUP request, session key
//! server: Acceptor::challenge(first token)  -> SESSION_SETUP response, Challenged
//!         Challenged::identify(second)      -> identity and session key; last_token() is the answer
//!
//! client: ServiceTicket::of_cache(cache)    -> ticket from a cache of MIT Kerberos
//!         ticket.request(fresh).token()     -> SESSION_SETUP request
//!         request.session_key(token of response)  -> session key, after the server has proven that it read the ticket
//! ```
//!
//! The server side of NTLM is for the reference server and tests. Each log-on offers a single mechanism, so no third
//! party can downgrade it. The server's `mechListMIC` is therefore not verified. The client sends its own, like
//! Windows clients. This module sends no requests to a KDC, and supports no NTLMv1, LM, channel bindings or service
//! names (a server with `SmbServerNameHardeningLevel` above 0 refuses this client).

mod client;
mod der;
mod kerberos;
mod ntlm;
mod server;
mod spnego;
mod ticket;

pub use client::{first_token, Logon};
pub use kerberos::{Fresh, Request};
pub(crate) use kerberos::{
    EXPIRED, KERBEROS_ERRORS, MODIFIED, NOT_US, NOT_YET_VALID, NO_KEY, OLD_KEY, REPEATED, SKEW,
};
pub use server::{last_token, offer_token, Acceptor, Challenged, Identity};
pub use ticket::{ServiceTicket, TicketError};

use crate::Refusal;
use dyno_measure::{Failure, Fault};

/// Reason why a log-on failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// A token is malformed.
    #[error("an authentication token is malformed")]
    Malformed,
    /// The other side uses another mechanism, or does not support NTLMv2 with 128-bit keys.
    #[error("the other side does not support NTLMv2 with 128-bit keys, or the offered kind of Kerberos")]
    Unsupported,
    /// The server ended the negotiation.
    #[error("the log-on was rejected")]
    Rejected,
    /// The user does not exist.
    #[error("no such user")]
    UnknownUser,
    /// The user did not prove knowledge of the password.
    #[error("wrong password")]
    WrongPassword,
    /// A message was changed in transit.
    #[error("the integrity code of the log-on does not match its messages")]
    Tampered,
    /// The ticket expired before the log-on.
    #[error("the ticket has expired")]
    TicketExpired,
    /// The server returned this Kerberos error code.
    #[error("the server answered with Kerberos error {0}")]
    Kerberos(u32),
    /// The server did not show that it can read the ticket.
    #[error("the server did not prove that the ticket is for it")]
    Unproven,
    /// A message can't be encrypted, because the system provided no random bytes.
    #[error("a message could not be encrypted")]
    NotEncrypted,
}

impl From<AuthError> for Failure {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Malformed => Fault::MalformedMessage.into(),
            AuthError::TicketExpired => Refusal::TicketExpired.failure(0),
            AuthError::Unproven => Refusal::Unproven.failure(0),
            AuthError::Kerberos(code) => Refusal::Ticket.because(KERBEROS_ERRORS.status(code)),
            AuthError::NotEncrypted => Fault::OtherIo.into(),
            _ => Fault::SessionRefused.into(),
        }
    }
}
