//! Where load may go, as far as it is the same for every protocol: addresses, what loopback is, and what a host that is
//! not loopback must show to agree.
//!
//! Not for: asking the question, which each protocol's crate does in its own words (`dyno_http::Target`,
//! `dyno_smb::SmbTarget`); those are the only ways to a destination.

mod address;
mod consent;
mod escapes;
mod namespace;

pub use address::{is_loopback, name_and_port, names_loopback, resolve};
pub use consent::{consent_document, Consent};
pub use escapes::unescaped;
pub use namespace::Namespace;

use dyno_measure::Failure;
use std::io;

/// Why there is no target.
#[derive(Debug)]
pub enum TargetError {
    /// The URL can't be used.
    Url(String),
    /// The host can't be found or reached.
    Io(io::Error),
    /// The host was asked for its consent, and there is no answer that could be read: why, and what to try.
    Answer(Failure, Option<&'static str>),
    /// The host was reached and gave no session to ask it for consent in.
    Session {
        /// The failure, in words.
        why: String,
        advice: &'static str,
    },
    /// The host has not shown that load is welcome; the text says how it can.
    Consent(String),
}
