//! Bodies in a requested content coding: a sample is decoded, however the requests are sent.

use super::http2::peer::{field, frame, Peer, DATA, END_HEADERS, END_STREAM, HEADERS, STATUS_200};
use super::running::{faults, level, run, until_all_have_left, with_client};
use super::server::Server;
use dyno_engine::{LevelSpec, LevelTally};
use dyno_measure::{Fault, Side};
use serde_json::json;

/// `hello`.
const GZIP: &[u8] =
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00\x00\x00";
const CUT: &[u8] = GZIP.split_at(GZIP.len() - 1).0;

fn http1(body: &'static [u8]) -> Server {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    Server::answering([head.as_bytes(), body].concat())
}

fn http2(body: &'static [u8]) -> Server {
    Server::start(move |connection| {
        let Some(mut peer) = Peer::begin(connection, &[]) else {
            return;
        };
        let head = [STATUS_200, &field("content-encoding", "gzip")].concat();
        while let Some(stream) = peer.request() {
            let answer = [
                frame(HEADERS, END_HEADERS, stream, &head),
                frame(DATA, END_STREAM, stream, body),
            ];
            peer.send(&answer.concat());
        }
    })
}

fn accepting(level: LevelSpec, coding: &str) -> LevelSpec {
    let request = json!({
        "method": "GET", "headers": [["Accept-Encoding", coding]], "body": null, "status": [], "bytes": null,
    });
    with_client(level, "request", request)
}

fn in_session(mut level: LevelSpec, coding: &str) -> LevelSpec {
    let step = json!({
        "name": "step", "method": "GET", "path": "/", "headers": [["Accept-Encoding", coding]],
    });
    level.workload = json!({"name": "session", "steps": [step]});
    level
}

/// Returns a level for each way of sending requests to a server that answers with this body.
fn all_ways(body: &'static [u8], coding: &str) -> Vec<(&'static str, LevelSpec)> {
    let over_1 = || level(http1(body).address);
    let over_2 = || with_client(level(http2(body).address), "version", json!("2"));
    vec![
        ("HTTP/1.1", accepting(over_1(), coding)),
        (
            "pipelining",
            accepting(with_client(over_1(), "pipeline", json!(2)), coding),
        ),
        ("HTTP/2", accepting(over_2(), coding)),
        ("session", in_session(over_1(), coding)),
        ("session over HTTP/2", in_session(over_2(), coding)),
    ]
}

/// Returns the counts of bodies.
fn bodies(tally: &LevelTally) -> Vec<(&str, u64)> {
    let rows = tally.requests.iter();
    let rows = rows.map(|row| (row.request.as_str(), row.count));
    rows.filter(|(name, _)| name.starts_with("body")).collect()
}

#[test]
fn a_truncated_body_is_an_error_even_if_its_length_is_right() {
    for (name, level) in all_ways(CUT, "gzip") {
        let tally = run(until_all_have_left(level));
        assert_eq!(faults(&tally), [(Fault::BrokenCoding, 2)], "{name}");
        assert_eq!(tally.errors[0].side, Side::Check.name(), "{name}");
        assert!(tally.errors[0].example.contains("gzip"), "{name}");
    }
}

#[test]
fn a_sample_of_complete_bodies_is_decoded_and_counted() {
    for (name, level) in all_ways(GZIP, "br, gzip") {
        let tally = run(level);
        assert_eq!(faults(&tally), [], "{name}");
        let [(row, count)] = bodies(&tally)[..] else {
            panic!("{name}: {:?}", tally.requests)
        };
        assert_eq!(row, "body decoded (gzip)", "{name}");
        // One per 10 ms of a level of 200 ms, and the first.
        assert!((1..=21).contains(&count), "{name}: {count}");
    }
}

#[test]
fn nothing_is_decoded_without_a_requested_coding_or_without_checks() {
    for (name, level) in all_ways(CUT, "identity") {
        let tally = run(level);
        assert_eq!((faults(&tally), bodies(&tally)), (vec![], vec![]), "{name}");
    }
    for (name, mut level) in all_ways(CUT, "gzip") {
        level.verify_share = 0.0;
        let tally = run(level);
        assert_eq!((faults(&tally), bodies(&tally)), (vec![], vec![]), "{name}");
    }
}
