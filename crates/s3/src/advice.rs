//! Table of remedies for errors. The first row that applies is used. The texts call settings by their names in plans
//! and URLs.

use crate::answer::Trace;
use crate::client::Payload;
use crate::code::{is_of_server, is_unsupported, kind_in, name_in, status_in, text_in, FOREIGN};
use crate::request::Kind;
use dyno_measure::{Detail, Failure, Fault};
use dyno_net::tls::IN_PLAIN_HTTP;

/// Circumstances on which remedies depend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances {
    pub is_anonymous: bool,
    pub payload: Payload,
    pub has_checksum: bool,
    pub is_secure: bool,
    /// Whether the host name in requests begins with the bucket's name.
    pub is_virtual: bool,
}

/// A refusal by the server.
struct Refusal<'a> {
    is: &'a Circumstances,
    status: u32,
    kind: Option<Kind>,
    /// The server's text in lower case; empty if it sent none.
    text: String,
}

impl Refusal<'_> {
    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.contains(word))
    }

    /// Returns whether the refused request had an object's content.
    fn is_of_content(&self) -> bool {
        matches!(self.kind, Some(Kind::PutObject | Kind::UploadPart))
    }

    fn lacks(&self, kind: Kind) -> bool {
        is_unsupported(self.status) && self.kind == Some(kind)
    }
}

/// A row: names of errors, or none for any error, what else must hold, and the remedy.
struct Row {
    names: &'static [&'static str],
    circumstance: fn(&Refusal<'_>) -> bool,
    text: &'static str,
}

fn always(_: &Refusal<'_>) -> bool {
    true
}

fn anonymous(refusal: &Refusal<'_>) -> bool {
    refusal.is.is_anonymous
}

fn virtual_host(refusal: &Refusal<'_>) -> bool {
    refusal.is.is_virtual
}

/// Whether the server gives no other reason than a missing permission.
fn is_bare(refusal: &Refusal<'_>) -> bool {
    let words = [
        "access denied",
        "not authorized",
        "not allowed",
        "permission",
        "forbidden",
    ];
    refusal.text.is_empty() || refusal.says(&words)
}

fn checksum(refusal: &Refusal<'_>) -> bool {
    refusal.is.has_checksum && (refusal.is_of_content() || refusal.kind == Some(Kind::CreateMultipartUpload))
}

fn chunked(refusal: &Refusal<'_>) -> bool {
    refusal.is.payload == Payload::Chunked && refusal.is_of_content()
}

const VIRTUAL: &str =
    "With --addressing virtual, the server must recognise the bucket in the host's name. Set the server's own domain \
     (such as MINIO_DOMAIN), or use --addressing path. If the domain is set, create the bucket.";

const CHUNKS: &str =
    "The server, or a proxy in front of it, may not support payloads in chunks (aws-chunked): try --payload unsigned or \
     --payload signed.";

const OF_ANOTHER_PROGRAM: &str =
    "S3 servers explain a refusal in an error document. This refusal has none: it probably comes from a proxy in \
     front of the server that forbids the method or the path (nginx: limit_except, deny; a web application firewall), \
     or the URL is not that of an S3 endpoint. Allow GET, HEAD, PUT, POST and DELETE in the proxy, or give the URL of \
     the S3 server itself.";

const ROWS: &[Row] = &[
    Row {
        names: &[],
        circumstance: |refusal| refusal.status == 400 && refusal.says(&["https port", "https server"]),
        text: "The port speaks TLS: use s3s:// in place of s3://.",
    },
    Row {
        names: &[],
        circumstance: |refusal| refusal.status == 400 && refusal.says(&["api port"]),
        text: "This is not the port of the S3 interface. MinIO usually has S3 on port 9000, and its console on port 9001.",
    },
    Row {
        names: &[],
        circumstance: |refusal| {
            matches!(refusal.status, 403 | 200)
                && refusal.says(&["object lock", "object-lock", "retention", "legal hold", "worm"])
        },
        text: "The bucket has Object Lock: objects can't be removed before their retention ends. Use a bucket without \
               it.",
    },
    Row {
        names: &[],
        circumstance: |refusal| refusal.says(&["aws2-hmac"]),
        text: "The server accepts only Signature Version 2, which dyno does not speak.",
    },
    Row {
        names: &[],
        circumstance: |refusal| {
            refusal.is.payload == Payload::Unsigned && refusal.says(&["unsigned-payload", "unsigned payload"])
        },
        text: "The server accepts no unsigned payloads here: try --payload signed.",
    },
    Row {
        names: &[],
        circumstance: |refusal| refusal.lacks(Kind::HeadObject),
        text: "The server, or a proxy in front of it, does not support HEAD: leave head out of --mix.",
    },
    Row {
        names: &[],
        circumstance: |refusal| refusal.kind == Some(Kind::HeadObject) && refusal.status == 403,
        text: "An answer to HEAD has no text with the reason. If GETs with this access key succeed, a proxy may turn HEAD \
               into GET, which breaks the signature (nginx with proxy_cache: proxy_cache_convert_head off). Otherwise \
               the access key needs the permission to get objects.",
    },
    Row {
        names: &["NotImplemented", "MethodNotAllowed"],
        circumstance: |refusal| refusal.lacks(Kind::CopyObject),
        text: "The server may not support copies: leave copy out of --mix.",
    },
    Row {
        names: &["NotImplemented", "MethodNotAllowed"],
        circumstance: |refusal| refusal.lacks(Kind::DeleteObjects),
        text: "The server can't delete several objects with one request: leave delete_many out of --mix.",
    },
    Row {
        names: &["NotImplemented", "MethodNotAllowed"],
        circumstance: |refusal| refusal.lacks(Kind::CreateMultipartUpload),
        text: "The server may not support multipart uploads: try --part-bytes 0.",
    },
    Row {
        names: &[
            "AccessDenied",
            "AllAccessDisabled",
            "InvalidAccessKeyId",
        ],
        circumstance: anonymous,
        text: "The requests were not signed: export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
    },
    Row {
        names: &["InvalidAccessKeyId", "XAdminUserNotFound"],
        circumstance: always,
        text: "The server does not know the access key's ID.",
    },
    Row {
        names: &["SignatureDoesNotMatch"],
        circumstance: chunked,
        text: CHUNKS,
    },
    Row {
        names: &["SignatureDoesNotMatch"],
        circumstance: always,
        text: "Check the secret of the access key, and the region. A proxy that changes the Host header or the path \
               breaks signatures, too.",
    },
    Row {
        names: &["RequestTimeTooSkewed"],
        circumstance: always,
        text: "The clocks of this machine and the server differ by more than 15 minutes: correct the one that is wrong.",
    },
    Row {
        names: &["ExpiredToken", "InvalidToken", "InvalidTokenId"],
        circumstance: always,
        text: "The session token has expired or is not valid: get new credentials. A key that needs no token must come \
               without one: unset AWS_SESSION_TOKEN, and remove aws_session_token from its profile.",
    },
    Row {
        names: &["AuthorizationHeaderMalformed", "PermanentRedirect", "BucketRegionError", "TemporaryRedirect"],
        circumstance: always,
        text: "The bucket is in another region: give --region with the name that the server expects. In a cloud, the \
             endpoint must be in that region, too.",
    },
    Row {
        names: &["NoSuchBucket", "InvalidBucketName", "MethodNotAllowed", "NoSuchKey"],
        circumstance: virtual_host,
        text: VIRTUAL,
    },
    Row {
        names: &["InvalidBucketName"],
        circumstance: always,
        text: "The server accepts no bucket with this name. Bucket names in S3 have 3 to 63 characters, only a-z, \
             0-9, - and dots.",
    },
    Row {
        names: &["NoSuchBucket"],
        circumstance: always,
        text: "Create the bucket, or check the URL (s3://HOST[:PORT]/BUCKET). If the server expects the bucket in the host's name, \
               give --addressing virtual.",
    },
    Row {
        names: &["AccessDenied"],
        circumstance: is_bare,
        text: "The access key needs the permissions to put, get, list and delete objects below the prefix, to list the \
               bucket's multipart uploads (s3:ListBucketMultipartUploads), and to abort them. If it has them, a proxy \
               in front of the server may remove the Authorization header.",
    },
    Row {
        names: &["SlowDown", "RequestLimitExceeded", "TooManyRequests", "ServiceUnavailable"],
        circumstance: always,
        text: "The server, or a proxy in front of it, limits the rate of requests or the connections: give --max-rate \
               below the limit (it applies to the whole run), or use fewer clients (-c). dyno repeats no request during \
               a load level.",
    },
    Row {
        names: &["NotImplemented", "InvalidRequest", "InvalidArgument", "InvalidDigest", "XAmzContentSHA256Mismatch"],
        circumstance: chunked,
        text: CHUNKS,
    },
    Row {
        names: &["NotImplemented", "InvalidRequest", "InvalidArgument"],
        circumstance: checksum,
        text: "The server may not know the checksum headers of a PUT: try --checksum none.",
    },
    Row {
        names: &["EntityTooSmall"],
        circumstance: always,
        text: "All parts of a multipart upload except the last must have at least 5 MiB: give a larger --part-bytes.",
    },
    Row {
        names: &["EntityTooLarge"],
        circumstance: always,
        text: "The object is too large for a single PUT on this server: give --part-bytes below the server's limit.",
    },
];

/// Returns a suggested remedy for a failure, or None if there is nothing to add to its message.
pub(crate) fn advice(failure: &Failure, is: &Circumstances) -> Option<&'static str> {
    let Some(status) = status_in(failure) else {
        return of_fault(failure, is).or_else(|| of_http(failure, is));
    };
    let refusal = Refusal {
        is,
        status,
        kind: kind_in(failure),
        text: text_in(failure).unwrap_or_default().to_ascii_lowercase(),
    };
    let name = match (name_in(failure), status) {
        (Some(FOREIGN), _) => return Some(OF_ANOTHER_PROGRAM),
        (Some(name), _) => name,
        (None, 429) => "SlowDown",
        (None, 501) => "NotImplemented",
        (None, _) => "",
    };
    let applies =
        |row: &&Row| (row.names.is_empty() || row.names.contains(&name)) && (row.circumstance)(&refusal);
    let row = ROWS.iter().find(applies);
    row.map(|row| row.text)
        .or_else(|| of_status(status).filter(|_| name.is_empty()))
        .or_else(|| of_fault(failure, is))
}

/// Returns the remedy for a status without a known code.
fn of_status(status: u32) -> Option<&'static str> {
    match status {
        301 | 302 | 307 | 308 => Some(
            "The server redirects the request, and dyno does not follow redirects: curl -i shows the Location. If it begins \
             with https://, use s3s:// in place of s3://. If the bucket is in another region, give --region.",
        ),
        503 => Some(
            "The server is not available, or a proxy in front of it can't reach it: look at the logs of both. If one of \
             them limits the rate of requests or the connections, give --max-rate below the limit, or use fewer \
             clients (-c).",
        ),
        413 => Some(
            "The server, or a proxy in front of it, accepts no body of this size: raise its limit \
             (nginx: client_max_body_size, 0 for none), or give a smaller --size, or --part-bytes below \
             the limit.",
        ),
        _ => None,
    }
}

fn of_fault(failure: &Failure, is: &Circumstances) -> Option<&'static str> {
    match failure.fault {
        Fault::ErrorStatus if is_of_server(failure) => {
            Some("The server reports an internal error: its log may have the cause.")
        }
        Fault::NoSpace => Some("The server has no space left, or the bucket's quota is used up."),
        Fault::ObjectMissing => Some(
            "The server lost an object that it had acknowledged, or somebody else removes objects below the prefix.",
        ),
        Fault::WrongContent | Fault::WrongLength | Fault::WrongEtag if Trace::Coded.is_in(failure) => Some(
            "A proxy in front of the server compresses or encodes contents: turn this off for the bucket (nginx: gzip \
             off).",
        ),
        Fault::WrongEtag if Trace::Weak.is_in(failure) => Some(
            "Proxies that compress contents send weak ETags (W/), which S3 does not have: turn compression off for the \
             bucket.",
        ),
        Fault::StaleObject | Fault::ListMissing | Fault::ListUnexpected => Some(
            "S3 promises that a read or list shows every write that was acknowledged before. A cache in front of the \
             server (nginx: proxy_cache) or another node may have answered.",
        ),
        Fault::WrongContent | Fault::WrongLength | Fault::WrongEtag if Trace::Cached.is_in(failure) => Some(
            "A cache in front of the server answered: exclude the bucket from it, or give the URL of the server itself.",
        ),
        Fault::WrongContent | Fault::WrongLength if is.payload == Payload::Chunked => Some(
            "The server may store the framing of chunks as content: try --payload unsigned or --payload signed.",
        ),
        Fault::WrongContent | Fault::WrongLength => Some(
            "The content differs from that of the acknowledged PUT: look at the server's disks, and at caches \
             and proxies in front of it. Or somebody else puts objects below the prefix.",
        ),
        Fault::WrongEtag | Fault::ListWrong if Trace::InParts.is_in(failure) => Some(
            "The ETag or size differs from the server's answer to the PUT. Some servers change the ETag of \
             multipart uploads: try --part-bytes above the size of the objects.",
        ),
        Fault::WrongEtag | Fault::ListWrong => Some(
            "The ETag or size differs from the server's answer to the PUT. A cache or proxy in front of the server may \
             change it, or somebody else puts objects below the prefix.",
        ),
        Fault::MalformedMessage if is.is_virtual => Some(VIRTUAL),
        Fault::MalformedMessage => {
            Some("The response is not valid in S3: check that the URL is that of an S3 server.")
        }
        _ => None,
    }
}

/// Returns the remedy for a failure of HTTP or TLS. Some remedies of `dyno_http` name URLs and options that S3 does
/// not have.
fn of_http(failure: &Failure, is: &Circumstances) -> Option<&'static str> {
    let is_plain = matches!(failure.detail, Detail::Status(status) if status.table.name == IN_PLAIN_HTTP);
    match failure.fault {
        _ if is_plain => return Some("The port speaks plain HTTP: use s3:// in place of s3s://."),
        Fault::HandshakeTimeout | Fault::HandshakeRefused | Fault::MalformedRecord => {
            return Some(
                "Check that the port speaks TLS, and look at the server's log. If the port does not speak TLS, use \
                 s3:// in place of s3s://.",
            )
        }
        Fault::MalformedHead | Fault::ClosedEarly | Fault::ConnectionReset if !is.is_secure => {
            return Some(
                "Check the port: the program there gives no complete answer over HTTP/1.1. If it speaks TLS, use s3s:// \
                 in place of s3://. Otherwise look at the server's log.",
            )
        }
        Fault::ResponseTimeout => {
            return Some(
                "The server accepts connections, but does not answer in time: look at its log, or allow more time \
                 with --timeout. The program that listens there may also not be an S3 server.",
            )
        }
        Fault::IdleClose => {
            return Some(
                "The server closes idle connections before the clients use them again: raise its keep-alive timeout, or \
                 that of the proxy in front of it, above the clients' pauses (nginx: keepalive_timeout; HAProxy: timeout \
                 http-keep-alive).",
            )
        }
        Fault::WrongCertificateName if is.is_virtual => {
            return Some(
                "With --addressing virtual the certificate must be for BUCKET.HOST: *.HOST covers only a bucket without \
                 dots. Use --addressing path, or another certificate. --insecure accepts any certificate.",
            )
        }
        Fault::WrongCertificateName => {
            return Some(
                "Use a URL with a name from the server's certificate: /etc/hosts can map it to any address. \
                 --insecure accepts any certificate.",
            )
        }
        _ => {}
    }
    let below = dyno_http::Circumstances {
        tls: is.is_secure,
        ..dyno_http::Circumstances::default()
    };
    dyno_http::advice(failure, &below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::traced;
    use crate::code::{explained, failure, in_answer_to};

    fn check(failure: impl Into<Failure>, payload: Payload, expected: &str) {
        let is = Circumstances {
            is_anonymous: false,
            payload,
            has_checksum: true,
            is_secure: false,
            is_virtual: false,
        };
        let failure = failure.into();
        let found = advice(&failure, &is);
        assert!(
            found.is_some_and(|text| text.contains(expected)),
            "{failure}: {found:?}"
        );
    }

    #[test]
    fn a_wrong_answer_and_a_server_error_have_different_remedies() {
        check(Fault::WrongContent, Payload::Unsigned, "acknowledged PUT");
        check(Fault::WrongLength, Payload::Chunked, "framing");
        let in_parts = traced(Fault::WrongEtag.into(), [Trace::InParts]);
        check(in_parts, Payload::Chunked, "--part-bytes");
        check(Fault::ListWrong, Payload::Signed, "cache or proxy");
        for (trace, expected) in [
            (Trace::Weak, "weak ETags"),
            (Trace::Coded, "gzip off"),
            (Trace::Cached, "A cache"),
        ] {
            check(
                traced(Fault::WrongEtag.into(), [trace]),
                Payload::Signed,
                expected,
            );
        }
        check(failure(500, Some("InternalError")), Payload::Signed, "its log");
        check(failure(403, Some("AccessDenied")), Payload::Signed, "permissions");
        let put = |failure| in_answer_to(failure, Kind::PutObject);
        check(put(failure(501, None)), Payload::Unsigned, "--checksum none");
        check(failure(429, None), Payload::Unsigned, "--max-rate");
        let mismatch = || failure(403, Some("SignatureDoesNotMatch"));
        check(put(mismatch()), Payload::Chunked, "--payload unsigned");
        check(mismatch(), Payload::Chunked, "Check the secret");
        let head = |status| in_answer_to(failure(status, None), Kind::HeadObject);
        check(head(405), Payload::Signed, "leave head out");
        check(head(403), Payload::Signed, "convert_head");
        for status in [401, 403, 405, 501] {
            check(failure(status, Some(FOREIGN)), Payload::Signed, "limit_except");
        }
        check(failure(413, None), Payload::Unsigned, "client_max_body_size");
        let text = explained(failure(501, Some("NotImplemented")), None, "A header");
        let lacked = in_answer_to(text, Kind::DeleteObjects);
        assert!(
            lacked
                .to_string()
                .ends_with("501 NotImplemented: A header (in answer to DeleteObjects)"),
            "{lacked}"
        );
        check(lacked, Payload::Unsigned, "leave delete_many out");
        check(Fault::IdleClose, Payload::Signed, "HAProxy: timeout");
        check(
            failure(400, Some("InvalidBucketName")),
            Payload::Signed,
            "3 to 63",
        );
        let locked = explained(
            failure(403, Some("AccessDenied")),
            Some("AccessDenied"),
            "protected by object lock.\r\n",
        );
        assert!(
            locked
                .to_string()
                .ends_with("AccessDenied: protected by object lock."),
            "{locked}"
        );
        check(locked, Payload::Signed, "retention");
    }
    #[test]
    fn a_reason_that_the_server_gives_replaces_the_guesses() {
        let is = Circumstances {
            is_anonymous: false,
            payload: Payload::Unsigned,
            has_checksum: true,
            is_secure: false,
            is_virtual: false,
        };
        for (status, code, text, kind, shown) in [
            (
                403,
                "AccessDenied",
                "Bucket is requester pays",
                Kind::GetObject,
                "",
            ),
            (
                403,
                "InvalidObjectState",
                "storage class",
                Kind::GetObject,
                "403: InvalidObjectState: storage class",
            ),
            (
                403,
                "AccountProblem",
                "unpaid",
                Kind::ListObjects,
                "403 AccountProblem: unpaid",
            ),
            (
                400,
                "InvalidRequest",
                "bad",
                Kind::ListObjects,
                "400 InvalidRequest: bad",
            ),
        ] {
            let refused = explained(failure(status, Some(code)), Some(code), text);
            let refused = in_answer_to(refused, kind);
            assert!(refused.to_string().ends_with(shown), "{refused}");
            assert_eq!(advice(&refused, &is), None, "{refused}");
        }
        let old = "Please use AWS2-HMAC-SHA1.";
        let unsigned = "UNSIGNED-PAYLOAD is only allowed over TLS";
        for (text, expected) in [(old, "Version 2"), (unsigned, "--payload signed")] {
            check(
                explained(failure(400, Some("InvalidRequest")), None, text),
                Payload::Unsigned,
                expected,
            );
        }
    }
}
