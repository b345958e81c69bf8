//! Hints for TLS handshakes and for the certificates of both sides.

use super::{Case, Row};
use dyno_measure::Fault;
use dyno_net::tls::{CERTIFICATE_KEY, CERTIFICATE_VERSION, IN_PLAIN_HTTP};

const HTTP2_OVER_TLS: &str =
    "Switch HTTP/2 on in the server (nginx: `http2 on`, before 1.25.1 `listen ... http2`; Apache: \
                              `Protocols h2 http/1.1`), or leave out --http2.";

fn refuses_certificate(case: &Case) -> bool {
    let refused =
        matches!(case.alert, 40 | 42..=49 | 51 | 80) || matches!(case.status, 400 | 403 | 495 | 496);
    refused && case.is.has_certificate && case.is.certificate_asked
}

pub(super) const TLS: &[Row] = &[
    (
        |case| case.is.http2 && (case.alert == 120 || case.fault == Fault::NotHttp2 && case.is.tls),
        HTTP2_OVER_TLS,
    ),
    (
        |case| {
            let refused = case.alert != 0
                || matches!(case.status, 400 | 403 | 495 | 496)
                || matches!(case.fault, Fault::ClosedEarly | Fault::ConnectionReset | Fault::Truncated);
            case.alert == 116 || refused && case.is.certificate_asked && !case.is.has_certificate
        },
        "The server asks for a client certificate: give --cert FILE and --key FILE.",
    ),
    (
        |case| refuses_certificate(case) && case.is.certificate.has_p521_key,
        "The server does not accept the client certificate of --cert: its key is on the curve P-521, which works only \
         over TLS 1.3 (--tls-min 1.3). Otherwise check that the server trusts its authority, that its file contains \
         the whole chain, that it has not expired, and that it may be used for clients (extendedKeyUsage clientAuth).",
    ),
    (
        |case| refuses_certificate(case) && case.is.certificate.lacks_issuer,
        "The server does not accept the client certificate of --cert: its file contains one certificate, and another \
         authority has issued it. If that is an intermediate authority (openssl x509 -noout -issuer -in FILE), append \
         its certificate to the file. Otherwise check that the server trusts the authority, that the certificate has \
         not expired, and that it may be used for clients (extendedKeyUsage clientAuth).",
    ),
    (
        refuses_certificate,
        "The server does not accept the client certificate of --cert: check that the server trusts its authority, \
         that its file contains the whole chain, that it has not expired, and that it may be used for clients \
         (extendedKeyUsage clientAuth).",
    ),
    (
        |case| {
            let after = case.status == 403 && case.is.has_certificate && !case.is.certificate_asked;
            case.is.tls && (after || case.fault == Fault::Renegotiation)
        },
        "The server asked for no client certificate in the handshake. It may want one afterwards, for a part of its \
         URLs (Apache: SSLVerifyClient in <Location> or <Directory>), which dyno does not support: set \
         SSLVerifyClient for the whole virtual host. Otherwise check the server's access rules.",
    ),
    (
        |case| case.table == "certificate names",
        "The certificate has no subjectAltName, and its common name (CN) does not count (RFC 9525): issue one with \
         subjectAltName=DNS:HOST. --insecure accepts any certificate.",
    ),
    (
        |case| case.is.tls && case.is.is_address && matches!(case.alert, 80 | 112),
        "The URL names an address, so no server name (SNI) is sent, and the server may have no certificate without \
         one. Use its name in the URL; --resolve HOST:PORT:ADDRESS connects to this address.",
    ),
    (
        |case| matches!(case.alert, 80 | 112),
        "The server may have no certificate for the host of the URL (SNI): use a name that it serves; --resolve \
         HOST:PORT:ADDRESS connects to any address. The server's log has details.",
    ),
    (
        |case| case.alert == 70,
        "The server supports none of the TLS versions that dyno offers: 1.2 and 1.3, unless --tls-min, --tls-max \
         or --ciphers excludes one.",
    ),
    (
        |case| case.fault == Fault::NothingInCommon && case.is.offers_less,
        "Leave out --ciphers, --tls-min and --tls-max: the server may support nothing that they allow. Its \
         log says which TLS versions and ciphers it supports.",
    ),
    (
        |case| case.fault == Fault::NothingInCommon,
        "Look at the server's versions of TLS, ciphers and groups: dyno supports TLS 1.2 and 1.3, only with \
         authenticated encryption, and key exchange over X25519, P-256 or P-384 (nginx: ssl_ecdh_curve). The \
         key of the server's certificate must be RSA, P-256, P-384 or Ed25519, not P-521, RSA-PSS or DSA. The \
         server may also have no certificate for the host of the URL. Its log shows the cause.",
    ),
    (
        |case| case.is.proxy_protocol && (case.fault == Fault::MalformedRecord || case.status == 400),
        "The server may not expect the PROXY protocol: leave out --proxy-protocol, or switch it on in the server.",
    ),
    (
        |case| case.table == IN_PLAIN_HTTP,
        "The port speaks plain HTTP: use http:// in place of https://.",
    ),
    (
        |case| matches!(case.fault, Fault::HandshakeTimeout | Fault::HandshakeRefused | Fault::MalformedRecord),
        "Check that the port speaks TLS, and look at the server's log: it does not complete the handshake. \
         If the port does not speak TLS, use http:// in place of https://. A TCP load balancer or tunnel \
         there may have no running backend.",
    ),
    (
        |case| case.fault == Fault::UntrustedCertificate,
        "Name the authority that signed the server's certificate, or the certificate itself if it is self-signed: \
         --ca-file FILE. If that does not help, the server may omit its intermediate certificate: its file must \
         contain the whole chain (nginx: ssl_certificate; `openssl s_client -connect HOST:PORT -showcerts` shows what \
         it sends). --insecure accepts any certificate.",
    ),
    (
        |case| case.fault == Fault::WrongCertificateName,
        "Use a URL with a name from the server's certificate; --resolve HOST:PORT:ADDRESS connects to any \
         address.",
    ),
    (
        |case| case.table == "certificate begins",
        "Set this machine's clock if it is wrong. Otherwise give the server a certificate that is valid now. \
         --insecure accepts any certificate.",
    ),
    (
        |case| case.table == "certificate purpose",
        "Give the server a certificate whose extendedKeyUsage has serverAuth. --insecure accepts any certificate.",
    ),
    (
        |case| case.table == CERTIFICATE_VERSION,
        "The server's certificate has X.509 version 1, which can have no subjectAltName: issue one of \
         version 3 (openssl req -x509 -addext subjectAltName=DNS:HOST; openssl x509 -req -extfile). \
         --insecure accepts this one.",
    ),
    (
        |case| case.table == CERTIFICATE_KEY,
        "Give the server a certificate whose key is P-256, P-384, Ed25519, or RSA with 2,048 to 8,192 bits. \
         dyno supports no others, even with --insecure, though curl may accept them.",
    ),
    (
        |case| matches!(case.fault, Fault::CertificateExpired | Fault::CertificateInvalid),
        "Give the server another certificate. --insecure accepts any certificate.",
    ),
];
