//! Hints for response statuses.

use super::Row;
use crate::circumstances::Challenge;
use crate::head::{is_redirect, Redirect};
use dyno_measure::Fault;

macro_rules! too_long {
    ($subject:literal) => {
        concat!(
            $subject,
            " longer than the server accepts: raise its limits (nginx: large_client_header_buffers; Apache: \
             LimitRequestLine, LimitRequestFieldSize; HAProxy: tune.bufsize; lighttpd: \
             server.max-request-field-size; Node: maxHeaderSize), or shorten them."
        )
    };
}

pub(super) const STATUS: &[Row] = &[
    (
        |case| case.fault == Fault::NoProgram,
        "Give the server the dynamic page: set `dynamic` in its settings in the plan. For your own server, \
         see docs/dynamic.md.",
    ),
    (
        |case| case.fault == Fault::ProgramFailed,
        "The server could not start the program of the dynamic page, the program ended early, or nothing listens \
         on the program's socket: look at the server's log.",
    ),
    (|case| case.refuses_head(), too_long!("The URL or the headers are")),
    (|case| case.may_refuse_head(), too_long!("The URL or the headers are probably")),
    (
        |case| case.status == 400 && case.names_no_site() && !case.is.tls && !case.is.http2,
        "If the port speaks TLS, use https:// in place of http://. If the server does not know the host \
         (IIS: Invalid Hostname; Django: ALLOWED_HOSTS), use the site's name with --resolve \
         NAME:PORT:ADDRESS, or give -H 'Host: NAME'. Otherwise look at the request: curl -v shows why the \
         server rejects it.",
    ),
    (
        |case| case.status == 400 && case.names_no_site(),
        "If the server does not know the host (IIS: Invalid Hostname; Django: ALLOWED_HOSTS), use the site's \
         name with --resolve NAME:PORT:ADDRESS, or give -H 'Host: NAME'. Otherwise look at the request: curl \
         -v shows why the server rejects it.",
    ),
    (
        |case| case.status == 400 && !case.is.tls && !case.is.http2 && !case.is.answers_others,
        "If the port speaks TLS, use https:// in place of http://. Otherwise look at the request: curl -v \
         shows why the server rejects it, such as an unknown Host or a header that is too long.",
    ),
    (
        |case| case.status == 400,
        "Look at the request: curl -v shows why the server rejects it, such as an unknown host or a header \
         that is too long.",
    ),
    (
        |case| case.status == 401 && case.is.challenge == Challenge::Foreign,
        "The server asks for credentials with a scheme that dyno does not support: dyno supports only basic and \
         bearer. Allow one of them in the server for the test, or log in with curl and give the cookie with --cookie.",
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
         --auth names the scheme that curl -i shows in WWW-Authenticate. dyno supports only basic and \
         bearer, not Digest, Negotiate or NTLM.",
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
        "The server asks for credentials: export DYNO_AUTHORIZATION=user:password and give --auth basic, or \
         export a token and give --auth bearer. curl -i shows the scheme in WWW-Authenticate; dyno does not \
         support Digest, Negotiate or NTLM.",
    ),
    (
        |case| case.status == 403 && case.is.tls && case.is.is_address && !case.is.answers_others,
        "The URL names an address, so no server name (SNI) is sent. Some servers then answer 403: use the \
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
        "If curl gets the same status, check the server's access rules, and that its user may read the file; \
         a directory without an index page gives 403, too. If curl gets another status, the server filters \
         clients by their headers: dyno sends no Accept, and User-Agent: serverdyno. Try -H 'Accept: */*' \
         and -H 'User-Agent: Mozilla/5.0'. If the status is right, use --expect-status 403.",
    ),
    (
        |case| case.status == 403,
        "The server forbids this URL: check its access rules, and that its user may read the file; a directory \
         without an index page gives 403, too. If the status is right, use --expect-status 403.",
    ),
    (
        |case| case.status == 404 && case.names_no_site(),
        "Check the URL with curl -i: it does not name a site, so the server may answer for a different one. \
         Use the site's name with --resolve NAME:PORT:ADDRESS, or give -H 'Host: NAME'. If the status is \
         right, use --expect-status 404.",
    ),
    (
        |case| matches!(case.status, 404 | 410),
        "Check the URL with curl -i. If the status is right, use --expect-status 404 (or 410).",
    ),
    (
        |case| matches!(case.status, 405 | 501),
        "The server does not allow this method for this URL: use another one with --method.",
    ),
    (
        |case| case.status == 406,
        "The server has no content of the types in the header Accept: request other types, such as -H 'Accept: \
        */*'.",
    ),
    (
        |case| case.status == 407,
        "This is a proxy that asks for credentials: give the URL of the server itself.",
    ),
    (
        |case| case.status == 408,
        "The server did not get the whole request in time (nginx: client_header_timeout, \
         client_body_timeout; Apache: RequestReadTimeout; HAProxy: timeout http-request): raise its limit, \
         or send smaller requests.",
    ),
    (
        |case| case.status == 409 && case.is.asking.to_change,
        "All requests are identical, and the server may refuse to create the same object twice: --session FILE sends \
         a different body with each request (docs/sessions.md). If the status is right, use --expect-status 201,409.",
    ),
    (
        |case| case.status == 411,
        "The server requires a body with a length: give a body with --data, or an empty one with --method POST and \
         --data ''.",
    ),
    (
        |case| case.status == 413,
        "The server does not accept a body of this size: raise its limit (nginx: client_max_body_size; \
         Apache: LimitRequestBody).",
    ),
    (
        |case| case.status == 415,
        "The server does not accept this type of body: set the right type with --content-type.",
    ),
    (
        |case| case.status == 416,
        "The header Range begins after the end of the file: remove it, or use a smaller offset.",
    ),
    (
        |case| case.status == 421,
        "The server does not serve the host of the Host header on this connection: use this host in the URL; \
         --resolve HOST:PORT:ADDRESS connects to any address.",
    ),
    (
        |case| case.status == 426 && case.is.http2,
        "The server requires another protocol for this URL: curl -i shows it in the header Upgrade. For HTTP/1.1, \
         leave out --http2. dyno does not support WebSocket.",
    ),
    (
        |case| case.status == 426,
        "The server requires another protocol: curl -i shows it in the header Upgrade. If there is no such header \
         (Envoy), leave out --http 1.0. For h2c, use --http2; for TLS, use https:// in place of http://. dyno does \
         not support WebSocket.",
    ),
    (
        |case| case.status == 429,
        "The server limits the rate of requests: send fewer requests with --rate (or --max-rate), or raise \
         its limit. curl -i shows the limit, if the server sends it (Retry-After, RateLimit).",
    ),
    (
        |case| case.redirect == Redirect::LogIn,
        "The server asks for a log-in: give the cookie of a session with --cookie NAME=VALUE, or log in with \
         --session (docs/sessions.md).",
    ),
    (
        |case| case.redirect == Redirect::Cookie,
        "The server may want the cookie that it sets: give it with --cookie NAME=VALUE (curl -I shows it in \
         Set-Cookie), or use --session (docs/sessions.md). Otherwise use the URL of the header Location.",
    ),
    (
        |case| is_redirect(case.status) && case.is.redirects_to_itself,
        "The server redirects to the URL that was requested. It may want a header that is missing, such as -H \
         'X-Forwarded-Proto: https' or -H 'Accept-Language: en', or a cookie (--cookie NAME=VALUE). Otherwise this is \
         a redirect loop of the server.",
    ),
    (
        |case| is_redirect(case.status),
        "The server redirects, and dyno does not follow redirects: use the URL in the header Location. If that is a \
         log-in page, give --cookie NAME=VALUE. If the status is right, give it with --expect-status.",
    ),
    (
        |case| case.status == 304,
        "The server answers that nothing has changed, because the request has If-None-Match or \
         If-Modified-Since: use --expect-status 304.",
    ),
    (
        |case| case.status == 504,
        "A proxy waited too long for its backend server (HAProxy: timeout server; nginx: proxy_read_timeout; \
         Apache: ProxyTimeout): the backend is slow, hangs or can't be reached. Load the backend directly, \
         or raise the proxy's limit.",
    ),
    (
        |case| case.status == 511,
        "A device between dyno and the server, such as a captive portal or a proxy, asks for a log-in: log \
         in there, or use another network. This is not the server's answer.",
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
         connections, or no server behind it is up. Look at its log, or send fewer requests (--rate, fewer clients).",
    ),
    (
        |case| case.status == 505,
        "The server does not speak this version of HTTP: use another version with --http.",
    ),
    (|case| case.status >= 500, "Look at the server's error log: the request fails inside the server."),
    (
        |case| case.fault == Fault::ErrorStatus,
        "curl -i shows the whole answer. If the status is right, give it with --expect-status.",
    ),
];
