//! Who the client says that it is: NTLMv2 (MS-NLMP) inside SPNEGO (RFC 4178), as SESSION_SETUP carries it.
//!
//! Pure: bytes in, bytes out; randomness and time are arguments. A log-on is two tokens of ours and one of the server:
//!
//! ```text
//! client: first_token()                     -> SESSION_SETUP request
//!         second_token(token of response)   -> SESSION_SETUP request, session key
//! server: Acceptor::challenge(first token)  -> SESSION_SETUP response, Challenged
//!         Challenged::identify(second)      -> who it is, with which session key; last_token() goes back
//! ```
//!
//! The server's half is there for a reference server and for tests. One mechanism is offered, so there is nothing that a
//! third party could have downgraded, and the server's `mechListMIC` is not held against anything; ours is sent, as
//! Windows clients do. Not for: Kerberos, NTLMv1, LM, channel bindings, names of services (a server with
//! `SmbServerNameHardeningLevel` above 0 refuses such a client).

mod client;
mod ntlm;
mod server;
mod spnego;

pub use client::{first_token, Logon};
pub use server::{last_token, offer_token, Acceptor, Challenged, Identity};

use dyno_measure::{Failure, Fault};

/// Why a log-on went no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// A token breaks its format.
    #[error("an authentication token is malformed")]
    Malformed,
    /// The other side speaks another mechanism, or an NTLM without what NTLMv2 needs.
    #[error("the other side does not do NTLMv2 with 128-bit keys")]
    Unsupported,
    /// The server ended the negotiation.
    #[error("the log-on was rejected")]
    Rejected,
    /// There is no such user.
    #[error("no such user")]
    UnknownUser,
    /// The user proved no knowledge of the password.
    #[error("wrong password")]
    WrongPassword,
    /// The messages were changed on their way.
    #[error("the messages of the log-on do not fit its integrity code")]
    Tampered,
}

impl From<AuthError> for Failure {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Malformed => Fault::MalformedMessage.into(),
            _ => Fault::SessionRefused.into(),
        }
    }
}
