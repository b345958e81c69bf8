//! Objects and listings of a server without a fault.

use super::raw::{server, start, Client};
use dyno_testserver::s3::{Flush, Options};
use std::time::Duration;

#[test]
fn an_object_is_stored_read_in_parts_copied_and_removed() {
    let server = server();
    let mut client = Client::of(&server);
    let put = client.ask(
        "PUT",
        "/volume1/a%20b",
        "x-amz-meta-x: y\r\nContent-Type: text/plain\r\n",
        b"hello world",
    );
    assert_eq!(
        (put.status, put.field("ETag")),
        (200, "\"5eb63bbbe01eeed093cb22bb8f5acdc3\"")
    );
    let whole = client.get("/a%20b");
    assert_eq!(
        (whole.status, whole.text(), whole.field("x-amz-meta-x")),
        (200, "hello world", "y")
    );
    assert_eq!(
        (whole.field("Content-Type"), whole.field("ETag")),
        ("text/plain", put.field("ETag"))
    );
    let part = client.ask("GET", "/volume1/a%20b", "Range: bytes=4-6\r\n", b"");
    assert_eq!(
        (part.status, part.text(), part.field("Content-Range")),
        (206, "o w", "bytes 4-6/11")
    );
    let head = client.ask("HEAD", "/volume1/a%20b", "", b"");
    assert_eq!((head.status, head.field("Content-Length")), (200, "11"));
    let copy = client.ask("PUT", "/volume1/c", "x-amz-copy-source: /volume1/a%20b\r\n", b"");
    assert_eq!(
        copy.elements("ETag"),
        ["&quot;5eb63bbbe01eeed093cb22bb8f5acdc3&quot;"]
    );
    assert_eq!(client.ask("DELETE", "/volume1/a%20b", "", b"").status, 204);
    assert!(client.get("/a%20b").is(404, "NoSuchKey"));
    assert_eq!(client.get("/c").field("x-amz-meta-x"), "y");
    assert!(client.ask("GET", "/other/c", "", b"").is(404, "NoSuchBucket"));
    assert_eq!(client.ask("HEAD", "/volume1/nothing", "", b"").status, 404);
    let counts: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect();
    let expected = [
        ("PutObject", 1),
        ("GetObject", 5),
        ("HeadObject", 2),
        ("DeleteObject", 1),
        ("CopyObject", 1),
    ];
    assert_eq!(counts, expected);
}

#[test]
fn conditions_and_checksums_are_checked_before_anything_is_stored() {
    let server = server();
    let mut client = Client::of(&server);
    let mut put = |fields: &str| client.ask("PUT", "/volume1/k", fields, b"hello world");
    assert!(put("x-amz-checksum-crc32: AAAAAA==\r\n").is(400, "BadDigest"));
    assert!(put("Content-MD5: AAAAAAAAAAAAAAAAAAAAAA==\r\n").is(400, "BadDigest"));
    assert!(put("x-amz-content-sha256: 0\r\n").is(400, "InvalidRequest"));
    let right = put("If-None-Match: *\r\nx-amz-checksum-crc32: DUoRhQ==\r\n");
    assert_eq!(
        (right.status, right.field("x-amz-checksum-crc32")),
        (200, "DUoRhQ==")
    );
    assert!(put("If-None-Match: *\r\n").is(412, "PreconditionFailed"));
    let get = client.ask("GET", "/volume1/k", "x-amz-checksum-mode: ENABLED\r\n", b"");
    assert_eq!(get.field("x-amz-checksum-crc32"), "DUoRhQ==");
    let chunks =
        "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\nx-amz-trailer: x-amz-checksum-crc32\r\n\
        x-amz-decoded-content-length: 11\r\nContent-Encoding: aws-chunked\r\n";
    let body = b"5\r\nhello\r\n6\r\n world\r\n0\r\nx-amz-checksum-crc32:DUoRhQ==\r\n\r\n";
    assert_eq!(client.ask("PUT", "/volume1/chunked", chunks, body).status, 200);
    let get = client.get("/chunked");
    assert_eq!((get.text(), get.field("Content-Encoding")), ("hello world", ""));
    let without = b"b\r\nhello world\r\n0\r\n\r\n";
    assert!(client
        .ask("PUT", "/volume1/x", chunks, without)
        .is(400, "IncompleteBody"));
    assert!(client.get("/x").is(404, "NoSuchKey"));
}

#[test]
fn every_key_is_listed_once_over_all_pages() {
    let server = server();
    let mut client = Client::of(&server);
    let mut keys: Vec<String> = (0..23)
        .map(|number| format!("p/{:02}/{number}", number / 3))
        .collect();
    keys.extend(["p".to_owned(), "p/".to_owned(), "q".to_owned(), "p/~ä".to_owned()]);
    for key in &keys {
        assert_eq!(client.put(&key.replace('ä', "%C3%A4"), b"x").status, 200);
    }
    let mut below: Vec<_> = keys.iter().filter(|key| key.starts_with("p/")).cloned().collect();
    below.sort();
    for (parameters, wanted) in [("", &below[..]), ("&start-after=p/05/15", &below[17..])] {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let page = client.get(&format!("?list-type=2&prefix=p/&max-keys=4{parameters}{token}"));
            found.extend(page.elements("Key").into_iter().map(str::to_owned));
            match page.elements("NextContinuationToken")[..] {
                [next] => token = format!("&continuation-token={next}"),
                _ => break,
            }
            assert_eq!(page.elements("KeyCount"), ["4"]);
        }
        assert_eq!(found, wanted, "{parameters}");
    }
    let (mut prefixes, mut marker) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("?prefix=p/&delimiter=/&max-keys=3&marker={marker}"));
        prefixes.extend(page.elements("Prefix").into_iter().skip(1).map(str::to_owned));
        match page.elements("NextMarker")[..] {
            [next] => next.clone_into(&mut marker),
            _ => break,
        }
    }
    let expected: Vec<_> = (0..8).map(|number| format!("p/{number:02}/")).collect();
    assert_eq!(prefixes, expected);
    assert!(client
        .get("?list-type=2&continuation-token=xyz")
        .is(400, "InvalidArgument"));
}

#[test]
fn many_keys_are_deleted_at_once() {
    let server = server();
    let mut client = Client::of(&server);
    client.put("a%26b", b"x");
    client.put("kept", b"x");
    let document = "<Delete><Object><Key>a&amp;b</Key></Object><Object><Key>missing</Key></Object></Delete>";
    let removed = client.ask("POST", "/volume1?delete", "", document.as_bytes());
    assert_eq!(removed.elements("Key"), ["a&amp;b", "missing"]);
    assert_eq!(client.get("?list-type=2").elements("Key"), ["kept"]);
    assert!(client
        .ask("POST", "/volume1?delete", "", b"<Delete>")
        .is(400, "MalformedXML"));
}

#[test]
fn a_restart_loses_objects_only_if_they_were_not_flushed() {
    for (flush, status, lost) in [(Flush::Honour, 200, 0), (Flush::Ignore, 404, 1)] {
        let server = start(&Options {
            flush,
            objects: vec![("initial".to_owned(), b"x".to_vec())],
            ..Options::on_loopback("volume1")
        });
        assert_eq!(Client::of(&server).put("k", b"x").status, 200);
        assert_eq!(server.restart(Duration::ZERO).expect("the port is free"), lost);
        let mut client = Client::of(&server);
        assert_eq!(client.get("/k").status, status);
        assert_eq!(client.get("/initial").status, 200);
    }
}

#[test]
fn a_full_server_accepts_no_more_objects() {
    let server = start(&Options {
        capacity_bytes: 100,
        ..Options::on_loopback("volume1")
    });
    let mut client = Client::of(&server);
    assert_eq!(client.put("a", &[0; 60]).status, 200);
    assert!(client.put("b", &[0; 60]).is(507, "InsufficientStorage"));
    client.ask("DELETE", "/volume1/a", "", b"");
    assert_eq!(client.put("b", &[0; 60]).status, 200);
}
