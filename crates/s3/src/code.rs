//! Errors of S3 servers and the names of their codes.

use crate::request::Kind;
use dyno_measure::{named_enum, plain_text, Detail, Failure, Fault, KeptTexts, ProtocolStatus, StatusTable};

/// Codes that messages name. They are from Amazon's "List of error codes", limited to those that these requests can
/// cause, and from other servers. Only append to the list: failures contain indices into it.
const CODES: &[&str] = &[
    "AccessDenied",
    "AccountProblem",
    "AllAccessDisabled",
    "AuthorizationHeaderMalformed",
    "BadDigest",
    "BucketRegionError",
    "ConditionalRequestConflict",
    "EntityTooLarge",
    "EntityTooSmall",
    "ExpiredToken",
    "IncompleteBody",
    "InsufficientStorage",
    "InternalError",
    "InvalidAccessKeyId",
    "InvalidArgument",
    "InvalidBucketName",
    "InvalidDigest",
    "InvalidPart",
    "InvalidPartOrder",
    "InvalidRange",
    "InvalidRequest",
    "InvalidToken",
    "KeyTooLongError",
    "MalformedXML",
    "MethodNotAllowed",
    "MissingContentLength",
    "NoSuchBucket",
    "NoSuchKey",
    "NoSuchUpload",
    "NotImplemented",
    "OperationAborted",
    "PermanentRedirect",
    "PreconditionFailed",
    "QuotaExceeded",
    "RequestLimitExceeded",
    "RequestTimeTooSkewed",
    "RequestTimeout",
    "ServiceUnavailable",
    "SignatureDoesNotMatch",
    "SlowDown",
    "TemporaryRedirect",
    "TooManyRequests",
    "XAdminUserNotFound",
    "XAmzContentSHA256Mismatch",
    "XMinioStorageFull",
    FOREIGN,
    "InvalidTokenId",
];

/// Text in place of a code if a program that is not an S3 server refused the request.
pub(crate) const FOREIGN: &str = "without an error document of S3";

/// Codes whose cause the server's message does not add to. It may name keys, or differ in each answer.
const SELF_EXPLAINED: &[&str] = &[
    "InternalError",
    "InvalidAccessKeyId",
    "NoSuchBucket",
    "NoSuchKey",
    "NoSuchUpload",
    "RequestLimitExceeded",
    "RequestTimeTooSkewed",
    "ServiceUnavailable",
    "SignatureDoesNotMatch",
    "SlowDown",
    "TooManyRequests",
    FOREIGN,
];
/// Bit positions, in a failure, of the request's kind, of a code's number and of a text's number. All count from 1. The
/// HTTP status is in the bits below.
const KIND_SHIFT: u32 = 10;
const CODE_SHIFT: u32 = 16;
const TEXT_SHIFT: u32 = 24;
const STATUS_BITS: u32 = (1 << KIND_SHIFT) - 1;
/// Maximum length of a server's text in a message.
const MOST_TEXT_CHARACTERS: usize = 200;

static TEXTS: KeptTexts = KeptTexts::new();

static STATUSES: StatusTable = StatusTable {
    name: "S3",
    write: |code, formatter| {
        write!(formatter, "status {}", code & STATUS_BITS)?;
        name_of(code).map_or(Ok(()), |name| write!(formatter, " {name}"))?;
        text_of(code).map_or(Ok(()), |text| write!(formatter, ": {text}"))?;
        // Servers send no text with an answer to HEAD, and the status of an unknown request does not name it.
        let kind =
            kind_of(code).filter(|kind| *kind == Kind::HeadObject || is_unsupported(code & STATUS_BITS));
        kind.map_or(Ok(()), |kind| {
            write!(formatter, " (in answer to {})", kind.name())
        })
    },
};

named_enum! {
    /// Defect of a response that is valid HTTP but not valid in S3.
    pub(crate) enum Broken {
        Range "a request for a part of an object was not answered with status 206"
        NoRange "a request for a whole object was answered with status 206, which is for parts"
        NoTag "the response to a PUT has no ETag"
        Document "the XML is not valid in S3, or exceeds a limit"
    }
}

static RULES: StatusTable = StatusTable {
    name: "S3 rules",
    write: Broken::write_rule,
};

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        Self {
            fault: Fault::MalformedMessage,
            detail: Detail::Status(ProtocolStatus {
                code: broken as u32,
                table: &RULES,
            }),
        }
    }
}

fn name_of(code: u32) -> Option<&'static str> {
    let place = ((code >> CODE_SHIFT) & 0xff).checked_sub(1)?;
    CODES.get(place as usize).copied()
}

fn text_of(code: u32) -> Option<String> {
    TEXTS.get((code >> TEXT_SHIFT).checked_sub(1)?)
}

fn kind_of(code: u32) -> Option<Kind> {
    let place = ((code >> KIND_SHIFT) & 0x3f).checked_sub(1)?;
    Kind::ALL.get(place as usize).copied()
}

/// Adds the kind of the request that was refused.
pub(crate) fn in_answer_to(failure: Failure, kind: Kind) -> Failure {
    match failure.detail {
        Detail::Status(status) if status.table.name == STATUSES.name => {
            let code = status.code & !(0x3f << KIND_SHIFT) | (kind as u32 + 1) << KIND_SHIFT;
            Failure {
                detail: Detail::Status(STATUSES.status(code)),
                ..failure
            }
        }
        _ => failure,
    }
}

/// Returns the kind of the request that a server refused with a status.
pub(crate) fn kind_in(failure: &Failure) -> Option<Kind> {
    match failure.detail {
        Detail::Status(status) if status.table.name == STATUSES.name => kind_of(status.code),
        _ => None,
    }
}

/// Returns whether a status says that the server does not support the request.
pub(crate) fn is_unsupported(status: u32) -> bool {
    matches!(status, 405 | 501)
}

/// Returns the server's text in a failure.
pub(crate) fn text_in(failure: &Failure) -> Option<String> {
    match failure.detail {
        Detail::Status(status) if status.table.name == STATUSES.name => text_of(status.code),
        _ => None,
    }
}

/// Adds the server's text to a failure, unless its code says all. `code`: the server's, which is added if no list has it.
pub(crate) fn explained(failure: Failure, code: Option<&str>, text: &str) -> Failure {
    let unknown = code.filter(|_| name_in(&failure).is_none());
    let text = match unknown {
        Some(code) if text.is_empty() => code.to_owned(),
        Some(code) => format!("{code}: {text}"),
        None => text.to_owned(),
    };
    let (Detail::Status(status), true) = (
        failure.detail,
        name_in(&failure).is_none_or(|name| !SELF_EXPLAINED.contains(&name)),
    ) else {
        return failure;
    };
    if status.table.name != STATUSES.name {
        return failure;
    }
    let text = plain_text(text.trim().as_bytes(), MOST_TEXT_CHARACTERS);
    if text.is_empty() {
        return failure;
    }
    let number = TEXTS.keep(text).saturating_add(1).min(0xff);
    let code = (status.code & ((1 << TEXT_SHIFT) - 1)) | (number << TEXT_SHIFT);
    Failure {
        detail: Detail::Status(STATUSES.status(code)),
        ..failure
    }
}

/// Returns whether a response with this status and without a code shows that a program other than an S3 server refused
/// the request. Other statuses have causes of their own.
pub(crate) fn is_foreign(status: u16) -> bool {
    matches!(status, 401 | 403 | 405 | 501)
}

/// Returns the name of the error in a failure; None: the server sent none, or one that is not in the list.
pub(crate) fn name_in(failure: &Failure) -> Option<&'static str> {
    match failure.detail {
        Detail::Status(status) if status.table.name == STATUSES.name => name_of(status.code),
        _ => None,
    }
}

/// Returns the HTTP status in a failure that a server reported.
pub(crate) fn status_in(failure: &Failure) -> Option<u32> {
    match failure.detail {
        Detail::Status(status) if status.table.name == STATUSES.name => Some(status.code & STATUS_BITS),
        _ => None,
    }
}

/// Returns whether a failure shows that a request was not carried out: it did not reach the server, or was refused.
#[must_use]
pub fn was_refused(failure: &Failure) -> bool {
    let is_unsent = matches!(
        failure.fault,
        Fault::ConnectionRefused
            | Fault::ConnectTimeout
            | Fault::Unreachable
            | Fault::HandshakeRefused
            | Fault::HandshakeTimeout
            | Fault::NothingInCommon
            | Fault::CertificateExpired
            | Fault::CertificateInvalid
            | Fault::UntrustedCertificate
            | Fault::WrongCertificateName
    );
    is_unsent || status_in(failure).is_some_and(|status| (400..500).contains(&status))
}

/// Returns whether the server may still carry out a change after this failure: it sent no answer, or an answer that is
/// not a refusal.
#[must_use]
pub fn may_act_later(failure: &Failure) -> bool {
    let is_told = matches!(
        failure.fault,
        Fault::SlowDown | Fault::NoSpace | Fault::AccessDenied
    );
    !is_told && !was_refused(failure)
}

/// Returns whether a failure has a status that reports an internal error of the server.
#[must_use]
pub fn is_of_server(failure: &Failure) -> bool {
    // Copies and completions that fail late have status 200.
    status_in(failure).is_some_and(|status| status >= 500 || status == 200)
}

/// Returns the failure of a response with an HTTP status and a code.
pub(crate) fn failure(status: u16, code: Option<&str>) -> Failure {
    let place = code.and_then(|code| CODES.iter().position(|known| *known == code));
    let number = place.map_or(0, |place| (place as u32 + 1) << CODE_SHIFT);
    Failure {
        fault: fault(status, code),
        detail: Detail::Status(ProtocolStatus {
            code: number | u32::from(status),
            table: &STATUSES,
        }),
    }
}

fn fault(status: u16, code: Option<&str>) -> Fault {
    match (status, code) {
        (_, Some("SlowDown" | "RequestLimitExceeded" | "TooManyRequests")) | (429, None) => Fault::SlowDown,
        (_, Some("QuotaExceeded" | "InsufficientStorage" | "XMinioStorageFull")) | (507, _) => Fault::NoSpace,
        (404, Some("NoSuchKey") | None) => Fault::ObjectMissing,
        (
            _,
            Some(
                "AccessDenied"
                | "AllAccessDisabled"
                | "InvalidAccessKeyId"
                | "XAdminUserNotFound"
                | "SignatureDoesNotMatch"
                | "RequestTimeTooSkewed"
                | "ExpiredToken"
                | "InvalidToken"
                | "InvalidTokenId",
            ),
        )
        | (401 | 403, _) => Fault::AccessDenied,
        _ => Fault::ErrorStatus,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, code: Option<&str>, fault: Fault, text: &str) {
        let failure = failure(status, code);
        assert_eq!(failure.fault, fault);
        let shown = failure.to_string();
        assert!(shown.ends_with(text), "{shown}");
        assert_eq!(status_in(&failure), Some(status.into()));
    }

    #[test]
    fn an_error_has_the_name_of_its_code_and_a_side() {
        check(503, Some("SlowDown"), Fault::SlowDown, ": status 503 SlowDown");
        // The response to HEAD has no code.
        check(503, None, Fault::ErrorStatus, ": status 503");
        check(
            404,
            Some("NoSuchKey"),
            Fault::ObjectMissing,
            ": status 404 NoSuchKey",
        );
        check(404, None, Fault::ObjectMissing, ": status 404");
        check(
            404,
            Some("NoSuchBucket"),
            Fault::ErrorStatus,
            ": status 404 NoSuchBucket",
        );
        check(403, None, Fault::AccessDenied, ": status 403");
        check(
            403,
            Some("RequestTimeTooSkewed"),
            Fault::AccessDenied,
            ": status 403 RequestTimeTooSkewed",
        );
        check(
            507,
            Some("XMinioStorageFull"),
            Fault::NoSpace,
            " XMinioStorageFull",
        );
        check(500, Some("<script>"), Fault::ErrorStatus, ": status 500");
        check(
            403,
            Some(FOREIGN),
            Fault::AccessDenied,
            ": status 403 without an error document of S3",
        );
        assert!(was_refused(&failure(405, Some(FOREIGN))));
    }

    #[test]
    fn a_change_may_happen_later_unless_the_server_refused_or_never_received_it() {
        for fault in [Fault::ResponseTimeout, Fault::ClosedEarly, Fault::ConnectionReset] {
            assert!(may_act_later(&fault.into()), "{fault:?}");
        }
        for (status, code) in [
            (500, Some("InternalError")),
            (504, None),
            (200, Some("InternalError")),
        ] {
            assert!(may_act_later(&failure(status, code)), "{status}");
        }
        for (status, code) in [
            (503, Some("SlowDown")),
            (403, None),
            (507, None),
            (412, Some("PreconditionFailed")),
            (200, Some("AccessDenied")),
        ] {
            assert!(!may_act_later(&failure(status, code)), "{status}");
        }
        assert!(!may_act_later(&Fault::ConnectionRefused.into()));
    }
}
