//! Requests that no client should send.

use super::raw::{server, start, Client};
use dyno_testserver::s3::{AccessKey, Options};

#[test]
fn a_request_whose_end_is_unknown_is_refused_and_the_connection_closed() {
    let server = server();
    for head in [
        "PUT /volume1/k HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "PUT /volume1/k HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999\r\n\r\n",
        "PUT /volume1/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
        "BREW /volume1/k HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n",
        "no HTTP at all\r\n\r\n",
    ] {
        let mut client = Client::of(&server);
        client.send(head);
        let answer = client.try_answer(true).expect("an answer");
        assert!((400..500).contains(&answer.status), "{head}: {}", answer.status);
        assert_eq!(client.rest(), b"", "{head}");
    }
    assert_eq!(Client::of(&server).put("k", b"x").status, 200);
}

#[test]
fn several_requests_in_one_packet_are_all_answered() {
    let server = server();
    let mut client = Client::of(&server);
    let put = "PUT /volume1/k HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    let chunked =
        "PUT /volume1/l HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let get = "GET /volume1/l HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    client.send([put, chunked, get].concat());
    let answers: Vec<_> = (0..3)
        .map(|_| client.try_answer(true).expect("an answer"))
        .collect();
    assert_eq!(answers[2].text(), "abc");
    assert_eq!(client.rest(), b"");
}

#[test]
fn a_client_that_waits_for_100_continue_gets_it_once() {
    let server = server();
    let mut client = Client::of(&server);
    client.send("PUT /volume1/k HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(client.try_answer(false).expect("an answer").status, 100);
    client.send("abc");
    assert_eq!(client.try_answer(true).expect("an answer").status, 200);
}

#[test]
fn without_the_key_nothing_is_shown_or_stored() {
    let server = start(&Options {
        access_key: Some(AccessKey {
            id: "id".to_owned(),
            secret: "secret".to_owned(),
        }),
        ..Options::on_loopback("volume1")
    });
    let mut client = Client::of(&server);
    let old = "x-amz-content-sha256: UNSIGNED-PAYLOAD\r\nx-amz-date: 20200101T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 \
        Credential=id/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00\r\n";
    assert!(client.put("k", b"x").is(403, "AccessDenied"));
    assert!(client.ask("GET", "/", "", b"").is(403, "AccessDenied"));
    assert!(client
        .ask("GET", "/volume1/k", old, b"")
        .is(403, "RequestTimeTooSkewed"));
    let nobody = old.replace("Credential=id", "Credential=other");
    assert!(client
        .ask("GET", "/volume1/k", &nobody, b"")
        .is(403, "InvalidAccessKeyId"));
    assert!(client.ask("GET", "/other", "", b"").is(403, "AccessDenied"));
}
