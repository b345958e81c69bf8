//! Faults: why an operation failed and which side caused it. They are counted by kind, never compared as
//! text.

use crate::{named_enum, ProtocolStatus, StatusTable};
use std::fmt;

named_enum! {
    /// The side that caused a fault, as named in records: the server under test, the network, or the generator, whose
    /// faults invalidate all figures of the level. The fourth side, "check", means that a well-formed answer had the
    /// wrong content.
    pub enum Side {
        Server "server"
        Network "network"
        Client "client"
        Check "check"
    }
}

named_enum! {
    /// Kinds of failure. Their names appear in records.
    pub enum Fault {
        ConnectionRefused "connection_refused" "nothing accepted the connection"
        ResponseTimeout "response_timeout" "connected, but the response did not end in time"
        ClosedEarly "closed_early" "the connection was closed before the response was complete"
        HeadTooLarge "head_too_large" "the response's head is larger than dyno's limit"
        MalformedHead "malformed_head" "the response's head is not HTTP"
        MalformedChunk "malformed_chunk" "the response's chunked coding is broken"
        BodyTooLarge "body_too_large" "the response's body is larger than dyno's limit"
        ExcessData "excess_data" "more bytes arrived than the response declared"
        ErrorStatus "error_status" "the server answered with a status that is not a success"
        ConnectionReset "connection_reset" "the connection was reset"
        MalformedMessage "malformed_message" "a message from the server violates the protocol"
        WrongSignature "wrong_signature" "the signature or encryption of a message is wrong"
        NoCredit "no_credit" "the server granted no credit for another request"
        SessionRefused "session_refused" "the server refused the protocol, the log-on or the share"
        SessionLost "session_lost" "the server ended the session or lost the file's handle"
        AccessDenied "access_denied" "the server denied access"
        SharingViolation "sharing_violation" "another client has the file open"
        LockConflict "lock_conflict" "another client has locked the range"
        NoSpace "no_space" "the server's volume is full"
        HandshakeTimeout "handshake_timeout" "connected, but the TLS handshake did not end in time"
        HandshakeRefused "handshake_refused" "the server refused the TLS handshake"
        NothingInCommon "nothing_in_common" "client and server share no TLS version, cipher, key exchange or protocol"
        CertificateExpired "certificate_expired" "the server's certificate is expired or not valid yet"
        CertificateInvalid "certificate_invalid" "the server's certificate or its signature is wrong"
        MalformedRecord "malformed_record" "the server sent invalid TLS data"
        Renegotiation "renegotiation" "the server asked for a TLS renegotiation, which is refused, and gave up"
        TlsAlert "tls_alert" "the server ended the TLS session with an alert"
        Truncated "truncated" "the connection was closed without TLS's close_notify before the response was complete"
        NoProgram "no_program" "the server has no dynamic page at the path that the suite requests"
        ProgramFailed "program_failed" "the server reports that the program of the dynamic page failed"
        NotHttp2 "not_http2" "the server does not speak HTTP/2"
        MalformedFrame "malformed_frame" "a frame violates HTTP/2"
        BrokenCompression "broken_compression" "the compressed headers violate HPACK"
        WindowExceeded "window_exceeded" "the server violates the flow control of HTTP/2"
        FrameFlood "frame_flood" "the server keeps sending frames that are not part of a response"
        IdleClose "idle_close" "the server closed a kept connection while the next request was sent"
        StreamReset "stream_reset" "the server reset the stream"
        StreamRefused "stream_refused" "the server kept refusing the request, although it allows this many \
        streams"
        GoingAway "going_away" "the server ended the connection before the response was complete"
        ConnectTimeout "connect_timeout" "the connection was not established in time"
        Unreachable "unreachable" "there is no route to the address"
        NoPorts "no_ports" "this machine ran out of local ports"
        NoFiles "no_files" "this process ran out of file descriptors"
        NoMemory "no_memory" "the kernel had no memory for a socket"
        OtherIo "other_io" "a system call failed unexpectedly"
        StreamsOverLimit "streams_over_limit" "the generator opened more streams than the server allows"
        WrongStatus "wrong_status" "the server served a file that must not exist"
        WrongLength "wrong_length" "the received length differs from the expected length"
        WrongContent "wrong_content" "the received content differs from the file's content"
        BrokenCoding "broken_coding" "the response's body can't be decoded"
        StaleContent "stale_content" "a shared block was older than a version that was read before"
        LostUpdate "lost_update" "a client overwrote another client's write of a shared block without \
        having read it"
        WrongPage "wrong_page" "the dynamic page does not match its request"
        MissingValue "missing_value" "the answer lacks a value that later steps of the session need"
        UnusableValue "unusable_value" "a value from an answer can't be sent in a later step of the session"
        UntrustedCertificate "untrusted_certificate" "no trusted authority has signed the server's \
        certificate"
        WrongCertificateName "wrong_certificate_name" "the server's certificate is for another name"
        NotFound "not_found" "a file that must exist is missing"
        AlreadyThere "already_there" "a file exists that must not exist"
        SlowDown "slow_down" "the server asked for fewer requests"
        ObjectMissing "object_missing" "an object whose PUT was acknowledged is missing"
        StaleObject "stale_object" "an object has the content or ETag from before its last PUT"
        WrongEtag "wrong_etag" "an object's ETag differs from the one that its PUT returned"
        ListMissing "list_missing" "an object is missing from the list"
        ListUnexpected "list_unexpected" "the list has an object that was deleted, or that was never put"
        ListWrong "list_wrong" "the list reports a different size or ETag of an object than its PUT"
    }
}

impl Fault {
    pub fn side(self) -> Side {
        match self {
            Self::ConnectionRefused
            | Self::ResponseTimeout
            | Self::ClosedEarly
            | Self::HeadTooLarge
            | Self::MalformedHead
            | Self::MalformedChunk
            | Self::BodyTooLarge
            | Self::ExcessData
            | Self::ErrorStatus
            | Self::ConnectionReset
            | Self::MalformedMessage
            | Self::WrongSignature
            | Self::NoCredit
            | Self::SessionRefused
            | Self::SessionLost
            | Self::AccessDenied
            | Self::SharingViolation
            | Self::LockConflict
            | Self::NoSpace
            | Self::HandshakeTimeout
            | Self::HandshakeRefused
            | Self::NothingInCommon
            | Self::CertificateExpired
            | Self::CertificateInvalid
            | Self::MalformedRecord
            | Self::Renegotiation
            | Self::TlsAlert
            | Self::Truncated
            | Self::NoProgram
            | Self::ProgramFailed
            | Self::NotHttp2
            | Self::MalformedFrame
            | Self::BrokenCompression
            | Self::WindowExceeded
            | Self::FrameFlood
            | Self::IdleClose
            | Self::StreamReset
            | Self::StreamRefused
            | Self::GoingAway
            | Self::SlowDown => Side::Server,
            Self::ConnectTimeout | Self::Unreachable => Side::Network,
            Self::NoPorts | Self::NoFiles | Self::NoMemory | Self::OtherIo | Self::StreamsOverLimit => {
                Side::Client
            }
            Self::WrongStatus
            | Self::WrongLength
            | Self::WrongContent
            | Self::BrokenCoding
            | Self::StaleContent
            | Self::LostUpdate
            | Self::WrongPage
            | Self::MissingValue
            | Self::UnusableValue
            | Self::UntrustedCertificate
            | Self::WrongCertificateName
            | Self::NotFound
            | Self::AlreadyThere
            | Self::ObjectMissing
            | Self::StaleObject
            | Self::WrongEtag
            | Self::ListMissing
            | Self::ListUnexpected
            | Self::ListWrong => Side::Check,
        }
    }
}

/// Details of a failure. Converted to text only for the first failure of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    None,
    /// Error number of a system call.
    Errno(i32),
    /// Status of the response.
    Status(ProtocolStatus),
    /// The session was refused: at which step or why, and the status if there was one.
    Refused {
        /// Step or reason. Its text replaces that of the fault.
        step: ProtocolStatus,
        /// Status sent by the server.
        status: Option<ProtocolStatus>,
    },
    /// Lengths of a body, in bytes.
    Length {
        expected: u64,
        got: u64,
    },
    /// Name of a session value.
    Value(ValueName),
}

/// Name of a value that a session takes from an answer. Stored inline, so that a failure needs no allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ValueName {
    bytes: [u8; Self::MOST_BYTES],
    length: u8,
}

impl ValueName {
    pub const MOST_BYTES: usize = 30;

    /// Creates a name. Returns None unless it has 1 to 30 letters, digits and underscores and does not begin
    /// with a digit.
    pub fn new(name: &str) -> Option<Self> {
        let spelled = name
            .bytes()
            .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
        let begins = name.bytes().next().is_some_and(|first| !first.is_ascii_digit());
        let mut bytes = [0; Self::MOST_BYTES];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        let length = u8::try_from(name.len()).ok()?;
        (spelled && begins).then_some(Self { bytes, length })
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl fmt::Debug for ValueName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.as_str())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    pub fault: Fault,
    pub detail: Detail,
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self {
            fault,
            detail: Detail::None,
        }
    }
}

impl StatusTable {
    pub const fn failure(&'static self, fault: Fault, code: u32) -> Failure {
        Failure {
            fault,
            detail: Detail::Status(self.status(code)),
        }
    }

    /// Returns the failure of a session that was refused at a step of this table, with the server's status, if any.
    pub const fn refusal(&'static self, step: u32, status: Option<ProtocolStatus>) -> Failure {
        Failure {
            fault: Fault::SessionRefused,
            detail: Detail::Refused {
                step: self.status(step),
                status,
            },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.fault.words();
        match self.detail {
            Detail::None => write!(formatter, "{words}"),
            Detail::Errno(number) => {
                // A local directory has no server.
                let words = match self.fault {
                    Fault::ErrorStatus => "the file system refused a call",
                    Fault::AccessDenied => "access was denied",
                    _ => words,
                };
                write!(
                    formatter,
                    "{words}: {}",
                    std::io::Error::from_raw_os_error(number)
                )
            }
            Detail::Status(status) => write!(formatter, "{words}: {status}"),
            Detail::Refused { step, status: None } => write!(formatter, "{step}"),
            Detail::Refused {
                step,
                status: Some(status),
            } => write!(formatter, "{step}: {status}"),
            Detail::Length { expected, got } => {
                write!(formatter, "{words}: received {got} bytes, expected {expected}")
            }
            Detail::Value(name) => write!(formatter, "{words}: {}", name.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static STATUSES: StatusTable = StatusTable {
        name: "statuses",
        write: |code, formatter| write!(formatter, "status {code}"),
    };
    static STEPS: StatusTable = StatusTable {
        name: "steps",
        write: |_, formatter| write!(formatter, "the log-on was refused"),
    };

    fn check(detail: Detail, text: &str) {
        let failure = Failure {
            fault: Fault::SessionRefused,
            detail,
        };
        assert_eq!(failure.to_string(), text);
    }

    #[test]
    fn the_status_follows_the_text_of_a_fault_but_a_refused_step_replaces_it() {
        let of = |code, table| ProtocolStatus { code, table };
        check(
            Detail::Status(of(503, &STATUSES)),
            "the server refused the protocol, the log-on or the share: status 503",
        );
        let step = of(0, &STEPS);
        check(Detail::Refused { step, status: None }, "the log-on was refused");
        let status = Some(of(503, &STATUSES));
        check(
            Detail::Refused { step, status },
            "the log-on was refused: status 503",
        );
    }

    #[test]
    fn the_text_names_the_missing_value_of_a_session() {
        let name = ValueName::new("csrf_2").expect("a name");
        let failure = Failure {
            fault: Fault::MissingValue,
            detail: Detail::Value(name),
        };
        assert!(failure.to_string().ends_with(" need: csrf_2"), "{failure}");
        for wrong in ["", "2", "a-b", "a b", "\u{e9}", &"a".repeat(31)] {
            assert_eq!(ValueName::new(wrong), None, "{wrong}");
        }
        assert!(ValueName::new(&"a".repeat(30)).is_some());
    }

    #[test]
    fn every_fault_is_listed_at_its_discriminant_and_has_a_unique_name() {
        let names: std::collections::BTreeSet<_> = Fault::ALL.iter().map(|fault| fault.name()).collect();
        assert_eq!(names.len(), Fault::ALL.len());
        for (index, fault) in Fault::ALL.iter().enumerate() {
            assert_eq!(*fault as usize, index);
        }
    }
}
