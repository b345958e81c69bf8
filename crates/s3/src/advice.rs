//! Table of remedies for errors. The first row that applies is used. The texts call settings by their names in plans
//! and URLs.

use crate::client::Payload;
use crate::code::{is_of_server, name_in, status_in, text_in, DELETE_OBJECTS, FOREIGN};
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

/// A row: names of errors, the circumstance that must hold, and the remedy.
struct Row {
    names: &'static [&'static str],
    circumstance: fn(&Circumstances) -> bool,
    text: &'static str,
}

fn always(_: &Circumstances) -> bool {
    true
}

fn anonymous(is: &Circumstances) -> bool {
    is.is_anonymous
}

fn virtual_host(is: &Circumstances) -> bool {
    is.is_virtual
}

const VIRTUAL: &str =
    "With --addressing virtual, the server must recognise the bucket in the host's name. Set the server's own domain \
     (such as MINIO_DOMAIN), or use --addressing path. If the domain is set, create the bucket.";

const OF_ANOTHER_PROGRAM: &str =
    "S3 servers explain a refusal in an error document. This refusal has none: it probably comes from a proxy in \
     front of the server that forbids the method or the path (nginx: limit_except, deny; a web application firewall), \
     or the URL is not that of an S3 endpoint. Allow GET, HEAD, PUT, POST and DELETE in the proxy, or give the URL of \
     the S3 server itself.";

fn checksum(is: &Circumstances) -> bool {
    is.has_checksum && !chunked(is)
}

fn chunked(is: &Circumstances) -> bool {
    is.payload == Payload::Chunked
}

const ROWS: &[Row] = &[
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
        names: &["ExpiredToken", "InvalidToken"],
        circumstance: always,
        text: "The session token has expired or is not valid: get new credentials.",
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
        circumstance: always,
        text: "The access key needs the permissions to put, get, list and delete objects below the prefix, to list the \
               bucket's multipart uploads (s3:ListBucketMultipartUploads), and to abort them.",
    },
    Row {
        names: &["SlowDown", "RequestLimitExceeded", "TooManyRequests", "ServiceUnavailable"],
        circumstance: always,
        text: "The server limits the rate of requests: give --max-rate below the limit (it applies to the \
               whole run), or use fewer clients. dyno repeats no request during a load level.",
    },
    Row {
        names: &["NotImplemented", "InvalidRequest", "InvalidArgument", "InvalidDigest", "XAmzContentSHA256Mismatch"],
        circumstance: chunked,
        text: "The server may not support payloads in chunks: try --payload unsigned or --payload signed.",
    },
    Row {
        names: &["NotImplemented", "InvalidRequest", "InvalidArgument"],
        circumstance: checksum,
        text: "The server may not know the checksum headers of a PUT: try --checksum none. Otherwise it does \
               not support one of the operations: see --mix.",
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
    if let Some(text) = text_in(failure).and_then(|text| of_text(failure, &text.to_ascii_lowercase())) {
        return Some(text);
    }
    let name = match (name_in(failure), status_in(failure)) {
        (Some(FOREIGN), _) => return Some(OF_ANOTHER_PROGRAM),
        (Some(name), _) => name,
        // The response to HEAD has no body, so it has no code.
        (None, Some(403)) => "AccessDenied",
        (None, Some(301 | 302 | 307 | 308)) => {
            return Some(
                "The server redirects the request, and dyno does not follow redirects: curl -i shows the Location. If \
                 it begins with https://, use s3s:// in place of s3://. If the bucket is in another region, give \
                 --region.",
            )
        }
        (None, Some(503)) => {
            return Some(
                "The server is not available, or a proxy in front of it can't reach it: look at the logs of both. If it \
                 limits the rate of requests, give --max-rate below the limit.",
            )
        }
        (None, Some(501)) => "NotImplemented",
        (None, Some(413)) => {
            return Some(
                "The server, or a proxy in front of it, accepts no body of this size: raise its limit \
                 (nginx: client_max_body_size, 0 for none), or give a smaller --size, or --part-bytes below \
                 the limit.",
            )
        }
        (None, Some(_)) => return of_fault(failure, is),
        (None, None) => return of_fault(failure, is).or_else(|| of_http(failure, is)),
    };
    let row = ROWS
        .iter()
        .find(|row| row.names.contains(&name) && (row.circumstance)(is));
    row.map(|row| row.text).or_else(|| of_fault(failure, is))
}

/// Returns the remedy for an error, from the server's text in lower case.
fn of_text(failure: &Failure, text: &str) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match status_in(failure) {
        Some(400) if has(&["https port", "https server"]) => {
            Some("The port speaks TLS: use s3s:// in place of s3://.")
        }
        Some(400) if has(&["api port"]) => {
            Some("This is not the port of the S3 interface. MinIO usually has S3 on port 9000, and its console on port 9001.")
        }
        Some(405 | 501) if text.starts_with(&DELETE_OBJECTS.to_ascii_lowercase()) => {
            Some("The server can't delete several objects with one request: leave delete_many out of --mix.")
        }
        Some(403 | 200) if has(&["object lock", "object-lock", "retention", "legal hold", "worm"]) => Some(
            "The bucket has Object Lock: objects can't be removed before their retention ends. Use a bucket without \
             it.",
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
        Fault::StaleObject | Fault::ListMissing | Fault::ListUnexpected => Some(
            "S3 promises that a read or list shows every write that was acknowledged before. A cache or \
             another node may have answered.",
        ),
        Fault::WrongContent | Fault::WrongLength if chunked(is) => Some(
            "The server may store the framing of chunks as content: try --payload unsigned or --payload signed.",
        ),
        Fault::WrongContent | Fault::WrongLength => Some(
            "The content differs from that of the acknowledged PUT: look at the server's disks, and at caches \
             and proxies in front of it. Or somebody else puts objects below the prefix.",
        ),
        Fault::WrongEtag | Fault::ListWrong => Some(
            "The ETag or size differs from the server's answer to the PUT. Some servers change the ETag of \
             multipart uploads: try --part-bytes above the size of the objects.",
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
    use crate::code::{explained, failure, unsupported};

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
        check(Fault::WrongEtag, Payload::Chunked, "--part-bytes");
        check(Fault::ListWrong, Payload::Signed, "--part-bytes");
        check(failure(500, Some("InternalError")), Payload::Signed, "its log");
        check(failure(403, Some("AccessDenied")), Payload::Signed, "permissions");
        check(failure(501, None), Payload::Unsigned, "--checksum none");
        for status in [401, 403, 405, 501] {
            check(failure(status, Some(FOREIGN)), Payload::Signed, "limit_except");
        }
        check(failure(413, None), Payload::Unsigned, "client_max_body_size");
        let lacked = unsupported(
            explained(failure(501, Some("NotImplemented")), "A header"),
            DELETE_OBJECTS,
        );
        assert!(
            lacked
                .to_string()
                .ends_with("501 NotImplemented: DeleteObjects (POST ?delete): A header"),
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
}
