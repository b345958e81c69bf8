//! Hints for servers that gave no usable answer: a table of failures and circumstances. Failures under load
//! are counted instead.

use crate::circumstances::{Challenge, Circumstances};
use crate::head::{is_redirect, status_of, Redirect};
use crate::response::{CHUNKED, SILENCE};
use dyno_measure::{Detail, Failure, Fault};
use dyno_net::tls::IN_PLAIN_HTTP;
use rustix::io::Errno;

/// A failure, reduced to what the table distinguishes.
struct Case {
    fault: Fault,
    status: u32,
    /// TLS alert (RFC 8446, section 6). 0 (close_notify) means no alert.
    alert: u32,
    redirect: Redirect,
    /// Name of the table that the failure's detail refers to.
    table: &'static str,
    /// Whether the body ended before its length.
    is_cut: bool,
    /// Error code of HTTP/2 (RFC 9113, section 7). 0 (NO_ERROR) means none.
    http2_code: u32,
    /// Error of the system call that failed.
    errno: Option<Errno>,
    /// Whether the failure names a broken rule of HTTP, which shows that the server speaks HTTP.
    names_rule: bool,
    is: Circumstances,
}

impl Case {
    /// Returns whether the requests name no site, so that the server may not know their host.
    fn names_no_site(&self) -> bool {
        (self.is.is_address || self.is.is_localhost) && !self.is.asking.has_host
    }

    /// Returns whether the connection ended without one byte of an answer.
    fn ends_silently(&self) -> bool {
        self.table == SILENCE || self.fault == Fault::ConnectionReset
    }
}

/// Returns the name of the response header that explains a failure further.
#[must_use]
pub fn explaining(failure: &Failure) -> Option<&'static str> {
    let Detail::Status(status) = failure.detail else {
        return None;
    };
    match status_of(status.code).0 {
        _ if status.table.name != "HTTP" => None,
        401 => Some("WWW-Authenticate"),
        405 => Some("Allow"),
        code => is_redirect(code).then_some("Location"),
    }
}

/// Returns a hint for a failure, or None if no row of the table matches. The first matching row counts.
#[must_use]
pub fn advice(failure: &Failure, is: &Circumstances) -> Option<&'static str> {
    let code_of = |table: &str| match failure.detail {
        Detail::Status(status) if status.table.name == table => status.code,
        _ => 0,
    };
    let (status, redirect) = status_of(code_of("HTTP"));
    let table = match failure.detail {
        Detail::Status(status) => status.table.name,
        _ => "",
    };
    let case = Case {
        fault: failure.fault,
        status,
        redirect,
        alert: code_of("TLS alert"),
        table,
        is_cut: failure.fault == Fault::ClosedEarly
            && (table == CHUNKED || matches!(failure.detail, Detail::Length { .. })),
        http2_code: code_of("HTTP/2"),
        errno: match failure.detail {
            Detail::Errno(number) => Some(Errno::from_raw_os_error(number)),
            _ => None,
        },
        names_rule: table.ends_with("rules"),
        is: *is,
    };
    let mut rows = [TLS, PROTOCOL, STATUS, CONNECTION, CONTENT].into_iter().flatten();
    rows.find(|(fits, _)| fits(&case)).map(|(_, hint)| *hint)
}

type Row = (fn(&Case) -> bool, &'static str);

const HTTP2_OVER_TLS: &str =
    "Switch HTTP/2 on in the server (nginx: `http2 on`, before 1.25.1 `listen ... http2`; Apache: \
                              `Protocols h2 http/1.1`), or leave out --http2.";

const TLS: &[Row] = &[
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
        |case| {
            let refused = matches!(case.alert, 40 | 42..=46 | 48 | 49 | 51 | 80)
                || matches!(case.status, 400 | 403 | 495 | 496);
            refused && case.is.has_certificate && case.is.certificate_asked
        },
        "The server does not accept the client certificate of --cert: check that its authority is one that the \
         server trusts, that it has not expired, and that it may be used for clients (extendedKeyUsage clientAuth).",
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
         subjectAltName=DNS:HOST. --insecure accepts any.",
    ),
    (
        |case| case.is.tls && case.is.is_address && matches!(case.alert, 80 | 112),
        "The URL names an address, so no server name (SNI) is sent, and the server may have no certificate without \
         one. Use its name in the URL; --resolve HOST:PORT:ADDRESS connects to this address.",
    ),
    (
        |case| matches!(case.alert, 80 | 112),
        "The server may have no certificate for the host of the URL (SNI): use a name that it serves; --resolve \
         HOST:PORT:ADDRESS connects to any address. Its log says more.",
    ),
    (
        |case| case.alert == 70,
        "The server speaks none of the versions of TLS that are offered: 1.2 and 1.3, or those of --tls-min and \
         --tls-max.",
    ),
    (
        |case| case.fault == Fault::NothingInCommon,
        "Look at the server's versions of TLS, ciphers and groups: TLS 1.2 and 1.3 are spoken here, with \
         authenticated encryption alone, and key exchange over X25519, P-256 or P-384 (nginx: ssl_ecdh_curve). The \
         key of its certificate must be of RSA, P-256, P-384 or Ed25519, not of P-521, RSA-PSS or DSA. Or it has no certificate for the host of the URL: its log \
         says which.",
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
        "Check that the port speaks TLS, and look at the server's log: it does not carry the handshake through. \
         Where the port speaks no TLS, use http:// in place of https://. A TCP load balancer or tunnel there may have \
         no backend that runs.",
    ),
    (
        |case| case.fault == Fault::UntrustedCertificate,
        "Name the authority that signed the server's certificate, or this certificate where it signed itself: \
         --ca-file FILE. If that is done, the server may not send its intermediate \
         certificate: its file must hold the whole chain (nginx: ssl_certificate; `openssl s_client -connect \
         HOST:PORT -showcerts` shows what it sends). --insecure accepts any.",
    ),
    (
        |case| case.fault == Fault::WrongCertificateName,
        "Use a URL with a name that the server's certificate is for; --resolve HOST:PORT:ADDRESS connects to any \
         address.",
    ),
    (
        |case| case.table == "certificate begins",
        "Set this machine's clock if it is wrong. Otherwise give the server a certificate that is valid now. \
         --insecure accepts any.",
    ),
    (
        |case| case.table == "certificate purpose",
        "Give the server a certificate whose extendedKeyUsage has serverAuth. --insecure accepts any.",
    ),
    (
        |case| matches!(case.fault, Fault::CertificateExpired | Fault::CertificateInvalid),
        "Give the server another certificate. --insecure accepts any.",
    ),
];

const PROTOCOL: &[Row] = &[
    (
        |case| {
            let broken = matches!(
                case.fault,
                Fault::NotHttp2 | Fault::MalformedFrame | Fault::ClosedEarly | Fault::ConnectionReset
            );
            case.is.http2 && !case.is.tls && broken
        },
        "Without TLS the server must speak HTTP/2 with prior knowledge (nginx: `http2 on`, before 1.25.1 `listen \
         ... http2`; Apache: `Protocols h2c http/1.1`). Otherwise leave out --http2.",
    ),
    (
        |case| case.names_rule && case.fault == Fault::MalformedHead,
        "The server, or a proxy in front of it, breaks this rule of HTTP: curl -v shows the head of the answer. Look \
         at what sets this field there.",
    ),
    (
        |case| case.fault == Fault::MalformedHead,
        "Check the port: the program there does not speak HTTP/1. If it speaks only HTTP/2, use --http2. If \
        it speaks TLS, use https:// instead of http://.",
    ),
    (
        |case| case.fault == Fault::HeadTooLarge,
        "The limits are set by dyno, not by HTTP: raise them with --max-head-bytes or --max-head-fields.",
    ),
    (
        |case| case.fault == Fault::BodyTooLarge,
        "The limit of 2^40 bytes is set by dyno, not by HTTP: load a smaller document.",
    ),
    (
        |case| matches!(case.fault, Fault::MalformedChunk | Fault::ExcessData),
        "The server, or a proxy in front of it, violates the framing rules of HTTP/1.1: check its log and \
        configuration.",
    ),
];

const STATUS: &[Row] = &[
    (
        |case| case.fault == Fault::NoProgram,
        "Give the server the dynamic page: `dynamic` in its settings in the plan; for a server of your own see \
         docs/dynamic.md.",
    ),
    (
        |case| case.fault == Fault::ProgramFailed,
        "Look at the server's log: it could not start the program of the dynamic page, or the program ended early, \
         or nothing answers at its socket.",
    ),
    (
        |case| case.status == 400 && case.names_no_site() && !case.is.tls && !case.is.http2,
        "If the port speaks TLS, use https:// in place of http://. If the server does not know the host (IIS: Invalid \
         Hostname; Django: ALLOWED_HOSTS), use the site's name with --resolve NAME:PORT:ADDRESS, or give -H 'Host: \
         NAME'. Otherwise look at the request: curl -v shows what the server says against it.",
    ),
    (
        |case| case.status == 400 && case.names_no_site(),
        "If the server does not know the host (IIS: Invalid Hostname; Django: ALLOWED_HOSTS), use the site's name with \
         --resolve NAME:PORT:ADDRESS, or give -H 'Host: NAME'. Otherwise look at the request: curl -v shows what the \
         server says against it.",
    ),
    (
        |case| case.status == 400 && !case.is.tls && !case.is.http2,
        "If the port speaks TLS, use https:// in place of http://. Otherwise look at the request: curl -v shows \
         what the server says against it, such as an unknown Host or a header that is too long.",
    ),
    (
        |case| case.status == 400,
        "Look at the request: curl -v shows what the server says against it, such as an unknown host or a header that \
         is too long.",
    ),
    (
        |case| case.status == 401 && case.is.challenge == Challenge::Foreign,
        "The server asks for credentials by a scheme that dyno does not speak: dyno speaks basic and bearer alone. \
         Allow one of them in the server for the test, or log in with curl and give its cookie with --cookie.",
    ),
    (
        |case| {
            case.status == 401 && case.is.asking.has_credentials && case.is.challenge == Challenge::Basic
        },
        "The server does not accept the credentials: check the user and the password, and give --auth basic.",
    ),
    (
        |case| {
            case.status == 401 && case.is.asking.has_credentials && case.is.challenge == Challenge::Bearer
        },
        "The server does not accept the credentials: check the token, which may have expired, and give --auth bearer.",
    ),
    (
        |case| case.status == 401 && case.is.asking.has_credentials,
        "The server does not accept the credentials: check the user and the password, or the token, and that \
         --auth names the scheme that curl -i shows in WWW-Authenticate. dyno speaks basic and bearer alone, no \
         Digest, Negotiate or NTLM.",
    ),
    (
        |case| case.status == 401 && case.is.challenge == Challenge::Basic,
        "The server asks for credentials: export DYNO_AUTHORIZATION=user:password and give --auth basic.",
    ),
    (
        |case| case.status == 401 && case.is.challenge == Challenge::Bearer,
        "The server asks for credentials: export a token as DYNO_AUTHORIZATION and give --auth bearer.",
    ),
    (
        |case| case.status == 401,
        "The server asks for credentials: export DYNO_AUTHORIZATION=user:password and give --auth basic, or export \
         a token and give --auth bearer. curl -i shows the scheme in WWW-Authenticate; dyno speaks no Digest, \
         Negotiate or NTLM.",
    ),
    (
        |case| case.status == 403 && case.is.tls && case.is.is_address,
        "The URL names an address, so no server name (SNI) is sent, which some servers answer with 403: use the \
         server's name in the URL, and --resolve HOST:PORT:ADDRESS. Otherwise check its access rules.",
    ),
    (
        |case| case.status == 403 && case.is.asking.to_change,
        "The server may want a log-in or a CSRF token for this method: --session FILE logs in and takes both from \
         the answers (docs/sessions.md), or give them with --cookie and -H. Otherwise check the server's access \
         rules. If the status is right, use --expect-status 403.",
    ),
    (
        |case| case.status == 403 && !case.is.asking.like_browser,
        "If curl gets the same status, check the server's access rules, and that its user may read the file; a \
         directory without an index page gives 403, too. If curl gets another, the server filters clients by their \
         headers: dyno sends no Accept, and User-Agent: serverdyno. Try -H 'Accept: */*' and -H 'User-Agent: \
         Mozilla/5.0'. If the status is right, use --expect-status 403.",
    ),
    (
        |case| case.status == 403,
        "The server forbids this URL: check its access rules, and that its user may read the file; a directory \
         without an index page gives 403, too. If the status is right, use --expect-status 403.",
    ),
    (
        |case| case.status == 404 && case.names_no_site(),
        "Check the URL with curl -i: it names no site, and the server may answer for another one than you mean. Use \
         the site's name with --resolve NAME:PORT:ADDRESS, or give -H 'Host: NAME'. If the status is right, use \
         --expect-status 404.",
    ),
    (
        |case| matches!(case.status, 404 | 410),
        "Check the URL with curl -i. If the status is right, use --expect-status 404 (or 410).",
    ),
    (
        |case| matches!(case.status, 405 | 501),
        "The server does not take this method for this URL: use another --method.",
    ),
    (
        |case| case.status == 406,
        "The server has no content of the type in the header Accept: use another one, such as -H 'Accept: \
        */*'.",
    ),
    (
        |case| case.status == 407,
        "This is a proxy that asks for credentials: give the URL of the server itself.",
    ),
    (
        |case| case.status == 408,
        "The server did not get the whole request in time (nginx: client_header_timeout, client_body_timeout; Apache: \
         RequestReadTimeout; HAProxy: timeout http-request): raise its limit, or send less at once.",
    ),
    (
        |case| case.status == 409 && case.is.asking.to_change,
        "All requests are equal, and the server may make the same thing only once: --session FILE sends a body of its \
         own with each (docs/sessions.md). If the status is right, use --expect-status 201,409.",
    ),
    (
        |case| case.status == 411,
        "The server wants a body with a length: give one with --data, or with --method POST and --data ''.",
    ),
    (
        |case| case.status == 413,
        "The server does not take a body of this size: raise its bound (nginx: client_max_body_size; Apache: \
         LimitRequestBody).",
    ),
    (
        |case| matches!(case.status, 414 | 431),
        "The URL or the headers are longer than the server takes: raise its bounds (nginx: \
         large_client_header_buffers; Apache: LimitRequestLine, LimitRequestFieldSize), or shorten them.",
    ),
    (
        |case| case.status == 415,
        "The server does not take this type of body: name it with --content-type.",
    ),
    (
        |case| case.status == 416,
        "The header Range begins after the end of the file: remove it, or use a smaller offset.",
    ),
    (
        |case| case.status == 421,
        "The server does not serve the name of the Host header on this connection: use this name in the URL; \
         --resolve HOST:PORT:ADDRESS connects to any address.",
    ),
    (
        |case| case.status == 426 && case.is.http2,
        "The server wants another protocol for this URL: curl -i shows it as Upgrade. Leave out --http2 for HTTP/1.1. WebSocket is not supported.",
    ),
    (
        |case| case.status == 426,
        "The server wants another protocol: curl -i shows it as Upgrade. For h2c use --http2; for TLS use https:// \
         in place of http://. WebSocket is not supported.",
    ),
    (
        |case| case.status == 429,
        "The server limits the rate of requests: send fewer requests with --rate (or --max-rate), or raise its \
         limit. curl -i shows the limit, if the server tells it (Retry-After, RateLimit).",
    ),
    (
        |case| case.redirect == Redirect::LogIn,
        "The server asks for a log-in: give the cookie of a session with --cookie NAME=VALUE, or log in with \
         --session (docs/sessions.md).",
    ),
    (
        |case| case.redirect == Redirect::Cookie,
        "The server may want the cookie that it sets: give it with --cookie NAME=VALUE, as curl -I shows it as \
         Set-Cookie, or use --session (docs/sessions.md). Otherwise use the URL of the header Location.",
    ),
    (
        |case| is_redirect(case.status) && case.is.redirects_to_itself,
        "The server redirects to the URL that was requested. It may want a header that is missing, such as -H \
         'X-Forwarded-Proto: https' or -H 'Accept-Language: en', or a cookie (--cookie NAME=VALUE). Otherwise this is \
         a redirect loop of the server.",
    ),
    (
        |case| is_redirect(case.status),
        "The server redirects, and no redirect is followed: use the URL of the header Location. If that is a log-in \
         page, give --cookie NAME=VALUE. If the status is right, use --expect-status with it.",
    ),
    (
        |case| case.status == 304,
        "The server says that nothing has changed, as If-None-Match or If-Modified-Since ask: use --expect-status \
         304.",
    ),
    (
        |case| case.status == 504,
        "A proxy waited for its backend server for too long (HAProxy: timeout server; nginx: proxy_read_timeout; \
         Apache: ProxyTimeout): the backend is slow, hangs or can't be reached. Load the backend directly, or raise \
         the proxy's limit.",
    ),
    (
        |case| case.status == 511,
        "A device on the way, such as a captive portal or a proxy, asks for a log-in: log in there, or take another \
         network. This is not the server's answer.",
    ),
    (
        |case| case.status == 502,
        "This is a proxy whose backend server does not respond: start that server, and check the proxy's log.",
    ),
    (
        |case| matches!(case.status, 520..=527 | 530),
        "Cloudflare returns this status if the origin server does not respond, or responds incorrectly. Start the \
         origin server, check its log, and load it directly with --resolve HOST:PORT:ADDRESS.",
    ),
    (
        |case| case.status == 503,
        "The server refuses requests: it is overloaded, under maintenance, or limits the rate or the number of \
         connections, or no server behind it is up. Look at its log, or ask less often (--rate, fewer clients).",
    ),
    (
        |case| case.status == 505,
        "The server does not speak this version of HTTP: use another --http.",
    ),
    (|case| case.status >= 500, "Look at the server's error log: the request fails inside the server."),
    (
        |case| case.fault == Fault::ErrorStatus,
        "curl -i shows the whole answer. If the status is right, use --expect-status with it.",
    ),
];

const CONNECTION: &[Row] = &[
    (
        // ENHANCE_YOUR_CALM
        |case| case.http2_code == 11,
        "The server takes so many requests for an attack, and ends the connection: use fewer --streams, or a lower \
         --rate (or --max-rate), or raise its limits for one client.",
    ),
    (
        // INADEQUATE_SECURITY
        |case| case.http2_code == 12,
        "The server refuses the TLS version or cipher for HTTP/2: use TLS 1.3 (--tls-min 1.3), or leave out --http2.",
    ),
    (
        // HTTP_1_1_REQUIRED
        |case| case.http2_code == 13,
        "The server serves this URL over HTTP/1.1 alone, as IIS does with Windows log-on: leave out --http2.",
    ),
    (
        |case| matches!(case.fault, Fault::StreamReset | Fault::StreamRefused | Fault::GoingAway),
        "Look at the server's log: it ends this request without a complete answer. curl shows whether another client \
         gets one.",
    ),
    (
        |case| case.is.is_unix && case.errno == Some(Errno::NOENT),
        "The socket's file does not exist: start the server, or check the path of the socket.",
    ),
    (
        |case| case.is.is_unix && case.errno == Some(Errno::ACCESS),
        "The user that runs dyno may not use the socket: let it write to the socket's file and enter its directories \
         (chmod, or the group of the server).",
    ),
    (
        |case| case.is.is_unix && case.errno == Some(Errno::PROTOTYPE),
        "The socket is not of the kind that web servers listen on (SOCK_STREAM): check the path of the socket.",
    ),
    (
        |case| case.is.is_unix && case.fault == Fault::ConnectionRefused,
        "The file is there, but nobody listens on it: it may be left over from a server that has ended, or be no socket \
         at all. Start the server, or check the path.",
    ),
    (
        |case| case.fault == Fault::ConnectionRefused,
        "Start the server, or check the address and the port: nothing listens there.",
    ),
    (
        |case| matches!(case.fault, Fault::ConnectTimeout | Fault::Unreachable),
        "Check the address, and that no firewall lies between: the host does not answer.",
    ),
    (
        |case| case.fault == Fault::ResponseTimeout && case.table == "HTTP begun",
        "The answer begins and does not end in time. If it never ends, as an event stream or a live video, use \
         another URL. Otherwise --timeout gives it longer.",
    ),
    (
        |case| case.fault == Fault::ResponseTimeout && case.names_no_site(),
        "Look at the server's log: it accepts connections and does not answer in time. --timeout gives it longer. \
         If it drops requests for unknown hosts (HAProxy: silent-drop), use the site's name with --resolve \
         NAME:PORT:ADDRESS, or give -H 'Host: NAME'. Something else than a web server may also listen there.",
    ),
    (
        |case| case.fault == Fault::ResponseTimeout,
        "Look at the server's log: it accepts connections and does not answer in time. --timeout gives it longer. \
         Something else than a web server may also listen there.",
    ),
    (
        |case| case.fault == Fault::IdleClose,
        "The server closes idle connections before the clients use them again: raise its keep-alive timeout above \
         their pauses (nginx: keepalive_timeout; Apache: KeepAliveTimeout; Node: server.keepAliveTimeout), or use \
         --no-keep-alive. Such a request is not sent again, because the server may \
         have carried it out.",
    ),
    (
        |case| case.ends_silently() && case.names_no_site() && case.is.tls,
        "The server may drop requests for hosts that it does not know (nginx: return 444), and the URL names no \
         site: use the site's name with --resolve NAME:PORT:ADDRESS, which also sends it in the handshake (SNI), or \
         give -H 'Host: NAME'. Otherwise look at the server's log: it ends connections without an answer. A TCP load \
         balancer or tunnel there (HAProxy, ssh -L) may have no backend that runs.",
    ),
    (
        |case| case.ends_silently() && case.names_no_site(),
        "The server may drop requests for hosts that it does not know (nginx: return 444), and the URL names no \
         site: use the site's name with --resolve NAME:PORT:ADDRESS, or give -H 'Host: NAME'. If it speaks TLS on \
         this port, use https:// in place of http://; if it expects the PROXY protocol, use --proxy-protocol (v1 or v2). A TCP \
         load balancer or tunnel there (HAProxy, ssh -L) may have no backend that runs. Otherwise look at its log: \
         it ends connections without a complete answer.",
    ),
    (
        |case| case.is_cut,
        "The connection ends in the middle of the body: look at the server's log. A worker may have ended (a time \
         limit, out of memory), a proxy may have a full disk, or the length is wrong (a filter, a compression).",
    ),
    (
        |case| {
            let ended = matches!(
                case.fault,
                Fault::ClosedEarly | Fault::ConnectionReset | Fault::Truncated
            );
            ended && case.is.tls
        },
        "Look at the server's log: it ends connections without a complete answer. A TCP load balancer or tunnel there \
         (HAProxy, ssh -L) may have no backend that runs.",
    ),
    (
        |case| matches!(case.fault, Fault::ClosedEarly | Fault::ConnectionReset),
        "Look at the server's log: it ends connections without a complete answer. If it speaks TLS on this port, \
         use https:// in place of http://; if it expects the PROXY protocol, use --proxy-protocol (v1 or v2). A TCP load \
         balancer or tunnel there (HAProxy, ssh -L) may have no backend that runs.",
    ),
];

const CONTENT: &[Row] = &[
    (
        |case| case.fault == Fault::WrongLength && case.is.asking.is_head,
        "The answer to HEAD has no body: leave out --expect-bytes.",
    ),
    (
        |case| case.fault == Fault::WrongLength && case.is.asking.for_coding,
        "--expect-bytes counts the body as it is sent, which is compressed here: give the number of bytes that \
         came, or leave out Accept-Encoding.",
    ),
    (
        |case| case.fault == Fault::WrongPage,
        "A cache, a filter or another program answered in place of the dynamic page: check what is between dyno and the server.",
    ),
    (
        |case| case.fault == Fault::MissingValue,
        "Look at the answer with another client: the step's header, cookie, expression or pointer is not in it, or \
         not within the first 256 KiB of its body.",
    ),
    (
        |case| case.fault == Fault::UnusableValue,
        "Check the value: it is longer than 4 KiB, or it contains characters that would end the path or header into \
         which it is inserted. ${name:url} encodes such characters.",
    ),
    (
        |case| case.fault == Fault::BrokenCoding,
        "Ask for the URL with another client, such as curl --compressed: the server, or what stands between, cuts \
         short or damages the body that it has compressed.",
    ),
];
