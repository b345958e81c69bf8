//! What to try where a server gave no answer: whose side to look at. Not for failures under load: those are counted.

use dyno_measure::{Failure, Fault};

/// What to try about an answer that did not come; None where there is nothing to be said beyond the failure's words.
#[must_use]
pub fn advice(failure: &Failure) -> Option<&'static str> {
    match failure.fault {
        Fault::ConnectionRefused => Some("Start the server, or check the address and the port: nothing listens there."),
        Fault::ConnectTimeout | Fault::Unreachable => {
            Some("Check the address, and that no firewall lies between: the host does not answer.")
        }
        Fault::ResponseTimeout => Some(
            "Look at the server's log: it accepts connections and does not answer in time. Something else than a web \
             server may also listen there.",
        ),
        Fault::ClosedEarly | Fault::ConnectionReset => Some(
            "Look at the server's log: it ends connections without a complete answer. Where it speaks TLS on this \
             port, name another one; https is not supported.",
        ),
        Fault::MalformedHead => Some("Check the port: what answers there does not speak HTTP/1, or breaks its rules."),
        Fault::HeadTooLarge | Fault::MalformedChunk | Fault::BodyTooLarge | Fault::ExcessData => Some(
            "The server, or a proxy in front of it, breaks the rules of HTTP/1.1: look at its log and its configuration.",
        ),
        _ => None,
    }
}
