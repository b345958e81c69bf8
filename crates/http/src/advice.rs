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
             port, use https:// in place of http://.",
        ),
        Fault::MalformedHead => Some(
            "Check the port: what answers there does not speak HTTP/1, or breaks its rules. Where it speaks TLS, use \
             https:// in place of http://.",
        ),
        Fault::NotHttp2 => Some(
            "Switch HTTP/2 on in the server, or ask for HTTP/1.1: leave out --http2, or `version` in the section `http` of \
             a suite. Without TLS the server must take HTTP/2 with prior knowledge.",
        ),
        Fault::HeadTooLarge | Fault::MalformedChunk | Fault::BodyTooLarge | Fault::ExcessData => Some(
            "The server, or a proxy in front of it, breaks the rules of HTTP/1.1: look at its log and its configuration.",
        ),
        Fault::HandshakeTimeout | Fault::HandshakeRefused | Fault::MalformedRecord => {
            Some(
                "Check that the port speaks TLS, and look at the server's log: it does not carry the handshake through. \
                 Where the port speaks no TLS, use http:// in place of https://.",
            )
        }
        Fault::NothingInCommon => Some(
            "Look at the server's versions of TLS and ciphers: TLS 1.2 and 1.3 are spoken here, with ephemeral key \
             exchange and authenticated encryption alone.",
        ),
        Fault::UntrustedCertificate => Some(
            "Name the authority that signed the server's certificate, or this certificate where it signed itself: \
             --ca-file of dyno load, `trust` in a plan. --insecure accepts any.",
        ),
        Fault::WrongCertificateName => {
            Some("Use a URL with a name that the server's certificate is for.")
        }
        Fault::NoProgram => Some(
            "Give the server the dynamic page: `dynamic` in its settings in the plan; for a server of your own see \
             docs/dynamic.md.",
        ),
        Fault::ProgramFailed => Some(
            "Look at the server's log: it could not start the program of the dynamic page, or the program ended early, \
             or nothing answers at its socket.",
        ),
        Fault::WrongPage => Some(
            "Look at what stands between: a cache, a filter or another program answered in place of the dynamic page.",
        ),
        Fault::MissingValue => Some(
            "Look at the answer with another client: the step's header, cookie, expression or pointer is not in it, or \
             not within the first 256 KiB of its body.",
        ),
        Fault::UnusableValue => Some(
            "Look at the value: it has more than 4 KiB, or characters that would end the path or the header in which it \
             shall stand; ${name:url} encodes them.",
        ),
        Fault::BrokenCoding => Some(
            "Ask for the URL with another client, such as curl --compressed: the server, or what stands between, cuts short or \
             damages the body that it has compressed.",
        ),
        Fault::CertificateExpired | Fault::CertificateInvalid => Some("Give the server another certificate."),
        _ => None,
    }
}
