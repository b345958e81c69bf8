//! Each fault does what its description says and affects nothing else.

use super::raw::{server_with_fault, Client};
use dyno_testserver::s3::faults;

/// Connects to a server whose fault affects every second request.
macro_rules! struck {
    ($server:ident, $client:ident, $fault:literal) => {
        let $server = server_with_fault($fault);
        let mut $client = Client::of(&$server);
    };
}

#[test]
fn every_listed_fault_is_tested_below() {
    assert_eq!(faults().len(), 19);
}

#[test]
fn faulty_writes_are_acknowledged() {
    struck!(lost, client, "lost-put=2");
    assert_eq!(
        [client.put("a", b"x").status, client.put("b", b"x").status],
        [200, 200]
    );
    assert_eq!(client.get("?list-type=2").elements("Key"), ["a"]);
    struck!(torn, client, "torn-put=2");
    client.put("a", b"abcd");
    let etag = client.put("b", b"abcd").field("ETag").to_owned();
    let read = client.get("/b");
    assert_eq!(
        (client.get("/a").text(), read.text(), read.field("ETag")),
        ("abcd", "ab", etag.as_str())
    );
    struck!(etags, client, "wrong-etag=2");
    let told = [client.put("a", b"x"), client.put("b", b"x")].map(|put| put.field("ETag").to_owned());
    assert!(told[0] != told[1] && told[0].len() == told[1].len());
    struck!(kept, client, "lost-delete=1");
    client.put("a", b"x");
    assert_eq!(client.ask("DELETE", "/volume1/a", "", b"").status, 204);
    assert_eq!(client.get("/a").status, 200);
    drop((lost, torn, etags, kept));
}

#[test]
fn faulty_reads_return_wrong_data() {
    struck!(wrong, client, "wrong-content=2");
    client.put("a", b"abcde");
    assert_eq!(
        [client.get("/a").body, client.get("/a").body],
        [b"abcde", b"abbde"]
    );
    struck!(stale, client, "stale-read=2");
    client.put("a", b"old");
    client.put("a", b"new");
    assert_eq!([client.get("/a").body, client.get("/a").body], [b"new", b"old"]);
    client.put("b", b"first");
    assert_eq!([client.get("/b").status, client.get("/b").status], [200, 404]);
    struck!(short, client, "short-body=1");
    client.put("a", b"abcd");
    let read = client.get("/a");
    assert_eq!((read.field("Content-Length"), read.text()), ("4", "ab"));
    drop((wrong, stale, short));
}

#[test]
fn faulty_listings_have_no_mark() {
    struck!(cut, client, "truncated-list=2");
    client.put("a", b"x");
    client.put("b", b"x");
    let pages = [client.get("?list-type=2"), client.get("?list-type=2")];
    assert_eq!(pages[1].elements("Key"), ["a"]);
    assert!(pages.iter().all(|page| page.elements("IsTruncated") == ["false"]));
    struck!(ghost, client, "ghost-entry=1");
    client.put("a", b"x");
    assert_eq!(client.get("?list-type=2").elements("Key"), ["a", "a-ghost"]);
    struck!(endless, client, "endless-list");
    client.put("a", b"x");
    let first = client.get("?list-type=2");
    assert_eq!(first.elements("IsTruncated"), ["true"]);
    let token = first.elements("NextContinuationToken")[0].to_owned();
    let next = client.get(&format!("?list-type=2&continuation-token={token}"));
    assert_eq!(next.elements("Key"), ["a"]);
    struck!(xml, client, "bad-xml=1");
    assert!(!client.get("?list-type=2").text().ends_with("</ListBucketResult>"));
    drop((cut, ghost, endless, xml));
}

#[test]
fn refused_requests_change_nothing() {
    struck!(slow, client, "slow-down=2");
    client.put("a", b"x");
    assert!(client.put("b", b"x").is(503, "SlowDown"));
    client.put("c", b"x");
    assert!(client.get("?list-type=2").is(503, "SlowDown"));
    assert_eq!(client.get("?list-type=2").elements("Key"), ["a", "c"]);
    struck!(broken, client, "status-500=1");
    assert!(client.put("a", b"x").is(500, "InternalError"));
    struck!(late, client, "late-error=1");
    client.put("a", b"x");
    let copied = client.ask("PUT", "/volume1/b", "x-amz-copy-source: volume1/a\r\n", b"");
    assert!(copied.is(200, "InternalError"));
    assert!(client.get("/b").is(404, "NoSuchKey"));
    drop((slow, broken, late));
}

#[test]
fn faults_of_connections_close_them() {
    for (fault, is_stored) in [("close=1", true), ("early-close=1", true), ("garbage=1", true)] {
        let server = server_with_fault(fault);
        let mut client = Client::of(&server);
        client.request("PUT", "/volume1/a", "", b"x");
        let bytes = client.rest();
        assert!(!bytes.windows(4).any(|part| part == b"\r\n\r\n"), "{fault}");
        // This server's listings are damaged too, so use only its counts.
        let puts = server
            .requests()
            .iter()
            .find(|(name, _)| *name == "PutObject")
            .map(|(_, count)| *count);
        assert_eq!(puts, Some(u64::from(is_stored)), "{fault}");
    }
    let server = server_with_fault("delay=1ms");
    assert_eq!(Client::of(&server).put("a", b"x").status, 200);
    let server = server_with_fault("stall");
    let mut client = Client::of(&server);
    client.request("PUT", "/volume1/a", "", b"x");
    // Requests for buckets are answered normally, on another connection.
    assert_eq!(Client::of(&server).ask("HEAD", "/volume1", "", b"").status, 200);
}
