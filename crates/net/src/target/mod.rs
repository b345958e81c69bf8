//! What all protocols' load targets have in common: addresses, loopback, and the consent that any other host must give.
//!
//! Each protocol's crate requests the consent in its own way (`dyno_http::Target`, `dyno_smb::SmbTarget`).
//! These types are the only way to send load.

mod address;
mod consent;
mod escapes;
mod namespace;

pub use address::{is_loopback, is_plain_host, name_and_port, names_loopback, resolve};
pub use consent::{consent_document, BeforeLoad, Consent, Document};
pub use escapes::unescaped;
pub use namespace::Namespace;

use dyno_measure::Failure;
use std::io;

/// Hint for this process's limit of file descriptors.
pub const NO_FILES: &str = "Raise the limit of open files (ulimit -n), or use fewer clients.";

/// Hint for a server that answered before, and then gave no answer in time.
pub const SILENT_LATER: &str =
    "The server answered before, and then gave no answer in time: it may be overloaded, hang or have been stopped. Look at \
     its log.";

/// Hint for a connection that was not established in time.
pub const NO_CONNECTION: &str =
    "Check the address, and that no firewall blocks the connection. If the server runs on this machine, it hangs, or \
     its queue of new connections is full: ss -ltn shows the queue.";

/// Why a target could not be opened.
#[derive(Debug)]
pub enum TargetError {
    /// The URL can't be used.
    Url(String),
    /// The host can't be found or reached.
    Io(io::Error),
    /// The host gave no usable response to the request for consent. Holds the failure and a hint.
    Answer(Failure, Option<&'static str>),
    /// The host was reached, but refused a session, so its consent can't be read.
    Session {
        /// The failure as text.
        why: String,
        advice: Option<&'static str>,
    },
    /// The host has not consented to load. The text says how to.
    Consent(String),
}

impl TargetError {
    /// Returns the error of a session that could not be opened at `place`.
    pub fn of_session(place: &str, failure: &Failure, advice: Option<&'static str>) -> Self {
        Self::Session {
            why: format!("{place}: {failure}"),
            advice,
        }
    }
}
