//! Outside loopback, a target opens only with the right document at the right path.

use super::testbed::{Testbed, SERVER};
use dyno_http::{Opening, Target};
use dyno_measure::Fault;
use dyno_net::Peer;
use dyno_net::{consent_document, TargetError};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;

const TOKEN: &str = "Zr4u7xKq9LmN2pWs";
const PATH: &str = "/.well-known/serverdyno/Zr4u7xKq9LmN2pWs";

/// Maps a request path to the response.
type Answer = fn(path: &str, host: &str) -> String;

fn page(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Answers connections and returns the requested paths, until the namespace or process ends.
fn serve(listener: &TcpListener, answer: Answer, host: &str) {
    while let Ok((mut stream, _)) = listener.accept() {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match stream.read(&mut byte) {
                Ok(1) => request.push(byte[0]),
                _ => break,
            }
        }
        let request = String::from_utf8_lossy(&request);
        let Some(path) = request.split(' ').nth(1) else {
            continue;
        };
        // The client may close before everything is sent.
        let _ = stream.write_all(answer(path, host).as_bytes());
    }
}

/// Opens a target on another host whose server answers with `answer`.
fn open(testbed: &Testbed, answer: Answer, token: Option<&str>) -> Result<Target, TargetError> {
    let listener = testbed
        .server
        .run(|| TcpListener::bind((SERVER, 0)).expect("a port is free"));
    let host = listener.local_addr().expect("it listens").to_string();
    let served_host = host.clone();
    std::thread::spawn(move || serve(&listener, answer, &served_host));
    testbed
        .client
        .run(|| Target::open(&format!("http://{host}/some/page"), token, &Opening::default()))
}

fn check_refused(what: &str, answer: Answer, token: Option<&str>) {
    let Some(testbed) = Testbed::new() else { return };
    let opened = open(&testbed, answer, token);
    assert!(
        matches!(opened, Err(TargetError::Consent(_))),
        "{what}: {opened:?}"
    );
}

fn right(path: &str, host: &str) -> String {
    if path == PATH {
        page("200 OK", &consent_document(host, TOKEN))
    } else {
        page("404 Not Found", "")
    }
}

#[test]
fn the_right_document_opens_the_target_at_the_address_that_served_it() {
    let Some(testbed) = Testbed::new() else { return };
    let target = open(&testbed, right, Some(TOKEN)).expect("consent was given");
    assert!(!target.is_loopback());
    assert!(matches!(target.peer(), Peer::Tcp(address) if address.ip() == SERVER));
    assert_eq!(target.host(), target.peer().to_string());
    assert_eq!(target.path(), "/some/page");
}

#[test]
fn blanks_around_the_document_are_accepted() {
    let Some(testbed) = Testbed::new() else { return };
    let answer: Answer = |_, host| page("200 OK", &format!(" {}\r\n", consent_document(host, TOKEN)));
    assert!(open(&testbed, answer, Some(TOKEN)).is_ok());
}

#[test]
fn without_a_token_or_with_a_weak_one_no_request_is_sent() {
    let Some(testbed) = Testbed::new() else { return };
    let listener = testbed
        .server
        .run(|| TcpListener::bind((SERVER, 0)).expect("a port is free"));
    let url = format!("http://{}/", listener.local_addr().expect("it listens"));
    for token in [
        None,
        Some(""),
        Some("short"),
        Some("../../../../../../etc"),
        Some("Zr4u7xKq9LmN2pWs/x"),
    ] {
        let opened = testbed
            .client
            .run(|| Target::open(&url, token, &Opening::default()));
        assert!(
            matches!(opened, Err(TargetError::Consent(_))),
            "{token:?}: {opened:?}"
        );
    }
    listener.set_nonblocking(true).expect("it listens");
    let asked = listener.accept().map_err(|error| error.kind());
    assert!(matches!(asked, Err(ErrorKind::WouldBlock)), "{asked:?}");
}

#[test]
fn a_server_without_the_document_is_refused() {
    check_refused("404", |_, _| page("404 Not Found", "not here"), Some(TOKEN));
}

#[test]
fn a_server_that_answers_everything_is_refused() {
    check_refused("200 to all", |_, _| page("200 OK", "welcome"), Some(TOKEN));
    check_refused("200, empty", |_, _| page("200 OK", ""), Some(TOKEN));
}

#[test]
fn a_server_that_echoes_the_request_is_refused() {
    check_refused("the path", |path, _| page("200 OK", path), Some(TOKEN));
    let token: Answer = |path, _| page("200 OK", path.rsplit('/').next().unwrap_or_default());
    check_refused("the token", token, Some(TOKEN));
}

#[test]
fn a_redirect_to_the_right_document_is_refused() {
    let redirect: Answer = |path, host| {
        let document = consent_document(host, TOKEN);
        let length = document.len();
        if path == PATH {
            format!(
                "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: {length}\r\n\r\n{document}"
            )
        } else {
            page("200 OK", &document)
        }
    };
    check_refused("redirect", redirect, Some(TOKEN));
}

#[test]
fn the_right_document_with_another_status_is_refused() {
    for answer in [
        |_: &str, host: &str| page("404 Not Found", &consent_document(host, TOKEN)),
        |_: &str, host: &str| page("203 Non-Authoritative", &consent_document(host, TOKEN)),
        |_: &str, host: &str| page("500 Error", &consent_document(host, TOKEN)),
    ] {
        check_refused("status", answer, Some(TOKEN));
    }
}

#[test]
fn a_document_for_another_host_port_or_token_is_refused() {
    for answer in [
        |_: &str, _: &str| page("200 OK", &consent_document("10.77.0.1", TOKEN)),
        |_: &str, _: &str| page("200 OK", &consent_document("10.77.0.1:1", TOKEN)),
        |_: &str, _: &str| page("200 OK", &consent_document("other.example:80", TOKEN)),
        |_: &str, host: &str| page("200 OK", &consent_document(host, "another0token0of0it")),
    ] {
        check_refused("another's document", answer, Some(TOKEN));
    }
}

#[test]
fn a_page_that_contains_more_than_the_document_is_refused() {
    check_refused(
        "more than the document",
        |_, host| page("200 OK", &format!("{}\nand more", consent_document(host, TOKEN))),
        Some(TOKEN),
    );
    check_refused(
        "the document and then no end",
        |_, host| {
            format!(
                "HTTP/1.1 200 OK\r\n\r\n{}{}",
                consent_document(host, TOKEN),
                " ".repeat(100_000)
            )
        },
        Some(TOKEN),
    );
}

#[test]
fn an_incomplete_or_malformed_response_is_reported_as_such() {
    let cases: [(&str, Answer, Fault); 4] = [
        (
            "garbage",
            |_, host| consent_document(host, TOKEN),
            Fault::MalformedHead,
        ),
        ("nothing", |_, _| String::new(), Fault::ClosedEarly),
        (
            "cut off",
            |_, host| {
                let document = consent_document(host, TOKEN);
                format!("HTTP/1.1 200 OK\r\nContent-Length: 65\r\n\r\n{document}")
            },
            Fault::ClosedEarly,
        ),
        (
            "a length that nothing has",
            |_, _| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 1_u64 << 63),
            Fault::BodyTooLarge,
        ),
    ];
    for (what, answer, fault) in cases {
        let Some(testbed) = Testbed::new() else { return };
        match open(&testbed, answer, Some(TOKEN)) {
            Err(TargetError::Answer(failure, _)) => assert_eq!(failure.fault, fault, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}

#[test]
fn an_own_address_outside_loopback_needs_consent_too() {
    let Some(testbed) = Testbed::new() else { return };
    let listener = testbed
        .server
        .run(|| TcpListener::bind((SERVER, 0)).expect("a port is free"));
    let host = listener.local_addr().expect("it listens").to_string();
    let opened = testbed
        .server
        .run(|| Target::open(&format!("http://{host}/"), None, &Opening::default()));
    assert!(matches!(opened, Err(TargetError::Consent(_))), "{opened:?}");
}

#[test]
fn an_absent_server_is_not_a_target() {
    let Some(testbed) = Testbed::new() else { return };
    let opened = testbed
        .client
        .run(|| Target::open("http://10.77.0.1:9/", Some(TOKEN), &Opening::default()));
    assert!(
        matches!(opened, Err(TargetError::Answer(failure, _)) if failure.fault == Fault::ConnectionRefused),
        "{opened:?}"
    );
}
