//! Hints for servers that gave no usable answer, from a table of failures and circumstances. Failures under
//! load are only counted.

mod status;
mod tls;

use crate::circumstances::Circumstances;
use crate::coding::{CODINGS, NOT_GZIP};
use crate::failures::{BODILESS, CHUNKED, SILENCE};
use crate::h2::{error_code, ENDED};
use crate::head::{is_redirect, status_of, Redirect, UNSUPPORTED_CODING};
use dyno_measure::{Detail, Failure, Fault};
use dyno_net::{NO_CONNECTION, NO_FILES};
use rustix::io::Errno;

/// A failure, reduced to what the table distinguishes.
struct Case {
    fault: Fault,
    status: u32,
    /// TLS alert (RFC 8446, section 6). 0 (close_notify): no alert.
    alert: u32,
    redirect: Redirect,
    /// Name of the table that the failure's detail refers to.
    table: &'static str,
    /// Whether the length of the body is wrong.
    has_other_length: bool,
    /// Whether a body is labelled gzip and is not gzip.
    is_not_gzip: bool,
    /// Error code of HTTP/2 (RFC 9113, section 7). 0 (NO_ERROR): none.
    http2_code: u32,
    /// Error of the system call that failed.
    errno: Option<Errno>,
    /// Whether the failure names a violated rule of HTTP. If so, the server speaks HTTP.
    names_rule: bool,
    is: Circumstances,
}

impl Case {
    fn new(failure: &Failure, is: &Circumstances) -> Self {
        let code_of = |table: &str| match failure.detail {
            Detail::Status(status) if status.table.name == table => status.code,
            _ => 0,
        };
        let (status, redirect) = status_of(code_of("HTTP"));
        let table = match failure.detail {
            Detail::Status(status) | Detail::Refused { step: status, .. } => status.table.name,
            _ => "",
        };
        Self {
            fault: failure.fault,
            status,
            redirect,
            alert: code_of("TLS alert"),
            table,
            is_not_gzip: code_of(CODINGS.name) == NOT_GZIP,
            has_other_length: matches!(failure.detail, Detail::Length { .. }),
            http2_code: error_code(code_of("HTTP/2")),
            errno: match failure.detail {
                Detail::Errno(number) => Some(Errno::from_raw_os_error(number)),
                _ => None,
            },
            names_rule: table.ends_with("rules"),
            is: *is,
        }
    }

    /// Returns whether the server certainly refuses the size of the request's head.
    fn refuses_head(&self) -> bool {
        matches!(self.status, 414 | 431 | 494)
    }

    /// Returns whether the size of the request's head is the probable cause.
    fn may_refuse_head(&self) -> bool {
        // HTTP/2 code 11 is ENHANCE_YOUR_CALM.
        let refused = matches!(self.status, 400 | 413 | 502) || self.http2_code == 11;
        // A server that answers other requests knows the host and speaks HTTP.
        let asking = &self.is.asking;
        let is_apart = self.status == 400 && self.is.answers_others && asking.is_notable();
        refused && asking.is_large() || is_apart
    }

    /// Returns whether the requests name no site: the server may not know their host.
    fn names_no_site(&self) -> bool {
        (self.is.is_address || self.is.is_localhost) && !self.is.asking.has_host && !self.is.answers_others
    }

    /// Returns whether the connection ended before the first byte of an answer.
    fn ends_silently(&self) -> bool {
        self.table == SILENCE || self.fault == Fault::ConnectionReset
    }

    /// Returns whether the server may have closed the connection because of the request's body.
    fn may_refuse_body(&self) -> bool {
        let ended = self.ends_silently() || self.fault == Fault::ClosedEarly;
        ended && self.is.asking.has_large_body() && !self.is.http2
    }
}

/// Returns the response header that explains a failure in more detail, or None.
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
    let case = Case::new(failure, is);
    let mut rows = [tls::TLS, PROTOCOL, status::STATUS, CONNECTION, CONTENT]
        .into_iter()
        .flatten();
    rows.find(|(fits, _)| fits(&case)).map(|(_, hint)| *hint)
}

/// Returns a sentence on the size of the request if the size caused, or may have caused, the failure.
#[must_use]
pub fn size_of_request(failure: &Failure, is: &Circumstances) -> Option<String> {
    let (case, bytes) = (Case::new(failure, is), is.asking.head_bytes);
    let body_bytes = is.asking.body_bytes;
    if body_bytes > 0 && (case.may_refuse_body() || case.status == 413) {
        return Some(format!("The body that dyno sends has {body_bytes} bytes."));
    }
    let sent = format!("The request line and the headers that dyno sends have {bytes} bytes");
    if bytes > 0 && (case.refuses_head() || case.may_refuse_head()) {
        return Some(format!("{sent}."));
    }
    let is_possible = (case.status == 400 || case.http2_code == 11) && is.asking.is_notable();
    is_possible.then(|| format!("{sent}, which may be more than the server accepts."))
}

type Row = (fn(&Case) -> bool, &'static str);

/// A hint for a server that closes connections, or does not answer: a filter may be the cause.
macro_rules! or_filtered {
    ($hint:literal) => {
        concat!(
            $hint,
            " If curl gets an answer, the server may filter clients by their headers: try -H 'User-Agent: Mozilla/5.0'."
        )
    };
}

const PROTOCOL: &[Row] = &[
    (
        |case| {
            let broken = matches!(
                case.fault,
                Fault::NotHttp2 | Fault::ClosedEarly | Fault::ConnectionReset
            );
            let is_unknown = !case.is.tls && !case.is.answers_others;
            case.is.http2 && is_unknown && broken && case.table != ENDED
        },
        "Without TLS, the server must speak HTTP/2 with prior knowledge (nginx: `http2 on`, before 1.25.1 `listen \
         ... http2`; Apache: `Protocols h2c http/1.1`). If it can't, leave out --http2.",
    ),
    (
        |case| case.table == UNSUPPORTED_CODING,
        "dyno asks for no transfer coding: switch off this coding in the server, or in the proxy in \
         front of it. curl -v shows the coding as Transfer-Encoding.",
    ),
    (
        |case| case.names_rule && case.fault == Fault::MalformedHead,
        "The server, or a proxy in front of it, violates this rule of HTTP: curl -v shows the head of the \
         answer. Find the program or filter that sets this field.",
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
        |case| case.table == BODILESS,
        "The server, or a proxy in front of it, sends a body where HTTP allows none. Look at the program or filter \
         that answers this request: it may send an error page, or the body of a GET, regardless of method and status.",
    ),
    (
        |case| matches!(case.fault, Fault::MalformedChunk | Fault::ExcessData),
        "The server, or a proxy in front of it, violates the framing rules of HTTP/1.1: check its log and \
        configuration.",
    ),
];

const CONNECTION: &[Row] = &[
    (
        // ENHANCE_YOUR_CALM
        |case| case.http2_code == 11,
        "The server treats this many requests as an attack, and closes the connection: use fewer --streams, or a \
         lower --rate (or --max-rate), or raise its limits per client.",
    ),
    (
        // INADEQUATE_SECURITY
        |case| case.http2_code == 12,
        "The server refuses the TLS version or cipher for HTTP/2: use TLS 1.3 (--tls-min 1.3), or leave out --http2.",
    ),
    (
        // HTTP_1_1_REQUIRED
        |case| case.http2_code == 13,
        "The server serves this URL only over HTTP/1.1, as IIS does with Windows log-on: leave out --http2.",
    ),
    (
        |case| matches!(case.fault, Fault::StreamReset | Fault::StreamRefused | Fault::GoingAway),
        or_filtered!("The server ends this request without a complete answer: look at its log."),
    ),
    (
        |case| case.table == ENDED,
        or_filtered!(
            "The server closed an HTTP/2 connection before it had answered all requests: look at its log. It may have \
             restarted, or one of its processes may have crashed. Or it limits the requests or the time of a connection \
             (nginx: keepalive_requests, keepalive_time) without answering the last requests: use fewer --streams."
        ),
    ),
    (
        |case| case.is.is_unix && case.errno == Some(Errno::NOENT),
        "The socket's file does not exist: start the server, or check the path of the socket.",
    ),
    (
        |case| case.is.is_unix && case.errno == Some(Errno::ACCESS),
        "The user that runs dyno has no access to the socket: allow this user to write to the socket's file and to \
         enter its directories (chmod, or the group of the server).",
    ),
    (
        |case| case.is.is_unix && case.errno == Some(Errno::PROTOTYPE),
        "This is not a stream socket (SOCK_STREAM), which web servers use: check the path of the socket.",
    ),
    (
        |case| case.is.is_unix && case.fault == Fault::ConnectionRefused,
        "The socket's file exists, but nothing listens on it: it may be left over from a server that has ended, or \
         may not be a socket. Start the server, or check the path.",
    ),
    (
        |case| case.fault == Fault::ConnectionRefused,
        "Start the server, or check the address and the port: nothing listens there.",
    ),
    (
        |case| case.fault == Fault::ConnectTimeout,
        NO_CONNECTION,
    ),
    (|case| case.fault == Fault::NoFiles, NO_FILES),
    (
        |case| case.fault == Fault::Unreachable,
        "The host does not answer: check the address, and that no firewall blocks the connection.",
    ),
    (
        |case| case.fault == Fault::ResponseTimeout && case.table == "HTTP begun",
        "The answer begins, but does not end in time. If it never ends, like an event stream or a live video, \
         use another URL. Otherwise, allow more time with --timeout.",
    ),
    (
        |case| case.fault == Fault::ResponseTimeout && case.has_other_length,
        "The server declares more bytes than arrived in time. If it is only slow, allow more time with --timeout. \
         Otherwise its Content-Length may be wrong (a filter changes the body and keeps the length), or the server \
         hangs.",
    ),
    (
        |case| case.fault == Fault::ResponseTimeout && case.is.answers_others,
        "The server answers other requests, but not these in time: look at its log, or allow more time with \
         --timeout. If it, or a firewall, limits the connections of one address, use fewer clients or --max-rate.",
    ),
    (
        |case| case.fault == Fault::ResponseTimeout && case.names_no_site(),
        "The server accepts connections, but does not answer in time: look at its log, or allow more time with \
         --timeout. If it drops requests for unknown hosts (HAProxy: silent-drop), use the site's name with \
         --resolve NAME:PORT:ADDRESS, or give -H 'Host: NAME'. The program that listens there may also not be a \
         web server.",
    ),
    (
        |case| case.fault == Fault::ResponseTimeout,
        or_filtered!(
            "The server accepts connections, but does not answer in time: look at its log, or allow more time with \
             --timeout. The program that listens there may also not be a web server."
        ),
    ),
    (
        |case| case.fault == Fault::IdleClose,
        "The server closes idle connections before the clients use them again: raise its keep-alive timeout above \
         the clients' pauses (nginx: keepalive_timeout; Apache: KeepAliveTimeout; Node: server.keepAliveTimeout), or \
         use --no-keep-alive. dyno does not repeat such a request, because the server may have executed it.",
    ),
    (
        |case| case.may_refuse_body(),
        "The server may refuse the request before it has read the body, and its answer is lost: the body may be too \
         large, or the server may want a log-in (--auth, --cookie). Try a small body, and look at the server's log.",
    ),
    (
        |case| case.ends_silently() && case.names_no_site() && case.is.tls,
        or_filtered!(
            "The server may drop requests for hosts that it does not know (nginx: return 444), and the URL does \
             not name a site: use the site's name with --resolve NAME:PORT:ADDRESS, which also sends it in the \
             handshake (SNI), or give -H 'Host: NAME'. A TCP load balancer or tunnel there (HAProxy, ssh -L) may have \
             no running backend. Otherwise, the server's log may say why it closes connections without an answer."
        ),
    ),
    (
        |case| case.ends_silently() && case.names_no_site(),
        or_filtered!(
            "The server may drop requests for hosts that it does not know (nginx: return 444), and the URL does \
             not name a site: use the site's name with --resolve NAME:PORT:ADDRESS, or give -H 'Host: NAME'. If \
             it speaks TLS on this port, use https:// in place of http://; if it expects the PROXY protocol, use \
             --proxy-protocol (v1 or v2). A TCP load balancer or tunnel there (HAProxy, ssh -L) may have no \
             running backend. Otherwise, the server's log may say why it closes connections without an answer."
        ),
    ),
    (
        |case| case.fault == Fault::ClosedEarly && (case.table == CHUNKED || case.has_other_length),
        "The connection ends in the middle of the body: look at the server's log. A worker may have ended (a time \
         limit, out of memory), a proxy's disk may be full, or a filter or compression may have made the declared \
         length wrong.",
    ),
    (
        |case| {
            let ended = matches!(
                case.fault,
                Fault::ClosedEarly | Fault::ConnectionReset | Fault::Truncated
            );
            ended && case.is.answers_others
        },
        "The server answers other requests, but closes connections without a complete answer: look at its log. If \
         it, or a firewall, limits the connections of one address, use fewer clients or --max-rate.",
    ),
    (
        |case| {
            let ended = matches!(
                case.fault,
                Fault::ClosedEarly | Fault::ConnectionReset | Fault::Truncated
            );
            ended && case.is.tls
        },
        or_filtered!(
            "The server closes connections without a complete answer: look at its log. A TCP load balancer or tunnel \
             there (HAProxy, ssh -L) may have no running backend."
        ),
    ),
    (
        |case| matches!(case.fault, Fault::ClosedEarly | Fault::ConnectionReset),
        or_filtered!(
            "The server closes connections without a complete answer: look at its log. If it speaks TLS on this \
             port, use https:// in place of http://; if it expects the PROXY protocol, use --proxy-protocol (v1 \
             or v2). A TCP load balancer or tunnel there (HAProxy, ssh -L) may have no running backend."
        ),
    ),
];

const CONTENT: &[Row] = &[
    (
        |case| case.fault == Fault::WrongLength && case.is.asking.is_head,
        "The answer to HEAD has no body: leave out --expect-bytes.",
    ),
    (
        |case| case.fault == Fault::WrongLength && case.is.asking.for_coding,
        "--expect-bytes counts the bytes of the body as sent, and the server compressed this body: give the \
         number of received bytes, or leave out Accept-Encoding.",
    ),
    (
        |case| case.fault == Fault::WrongLength,
        "The body does not have the expected length: look at it with curl. Correct --expect-bytes if it is \
         given. Otherwise the server, or a device in between, changes or truncates the body.",
    ),
    (
        |case| case.fault == Fault::WrongStatus,
        "The suite also requests files that must not exist, and expects 404 for them. The server answers with another \
         page, as single-page applications do (nginx: try_files ... /index.html; use =404): switch this off for the \
         test.",
    ),
    (
        |case| case.fault == Fault::WrongPage,
        "A cache, a filter or another program answered in place of the dynamic page: check what is between dyno and the server.",
    ),
    (
        |case| case.fault == Fault::MissingValue,
        "The step's header, cookie, regex or json_pointer finds nothing in the answer (dyno searches the first 256 \
         KiB of a body): look at the answer with another client.",
    ),
    (
        |case| case.fault == Fault::UnusableValue,
        "Check the value: it is longer than 4 KiB, or it contains characters that would end the path or header into \
         which it is inserted. ${name:url} encodes such characters.",
    ),
    (
        |case| case.is_not_gzip,
        "The server labels a body as gzip that is not compressed: leave out Content-Encoding where it is set (nginx: \
         add_header; S3: the object's metadata), or store the body compressed.",
    ),
    (
        |case| case.fault == Fault::BrokenCoding,
        "Request the URL with another client, such as curl --compressed: the server, or a device in between, \
         truncates or damages the compressed body.",
    ),
];
