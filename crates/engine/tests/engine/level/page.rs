//! The dynamic page under load, with a minimal server that answers correctly or wrongly.

use super::running::{level, run, until_all_have_left};
use super::server::Server;
use dyno_engine::{LevelSpec, LevelTally};
use serde_json::json;
use std::net::SocketAddr;

/// Returns a load level with only dynamic pages.
fn pages(address: SocketAddr) -> LevelSpec {
    let mut level = level(address);
    level.workload = json!({"name": "webbench-dynamic", "dynamic_share": 1.0});
    level
}

fn whole(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn page(query: &str) -> Vec<u8> {
    dyno_page::render("cgi", |name| {
        Some(match name {
            "REQUEST_METHOD" => "GET".to_owned(),
            "SCRIPT_NAME" => dyno_page::PATH.to_owned(),
            "QUERY_STRING" => query.to_owned(),
            _ => "any".to_owned(),
        })
    })
}

/// Returns the result of a level of pages with a server that answers each query with `answer`.
fn answered_by(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static, ends: bool) -> LevelTally {
    let server = Server::start(move |mut connection| {
        while let Some(path) = connection.request() {
            let query = path.split_once('?').map_or("", |(_, query)| query);
            if !connection.send(answer(query)) {
                return;
            }
        }
    });
    let level = pages(server.address);
    run(if ends { until_all_have_left(level) } else { level })
}

#[test]
fn pages_that_answer_their_own_requests_are_successes() {
    let tally = answered_by(|query| whole("200 OK", &page(query)), false);
    assert_eq!(tally.errors, []);
    assert!(tally.operations_total > 0);
    let row = tally
        .by_operation
        .iter()
        .find(|row| row.operation == "GET dynamic");
    let row = row.expect("a class of its own");
    assert_eq!(row.bytes_read, row.count * 1024);
}

#[test]
fn pages_in_pieces_are_assembled() {
    let tally = answered_by(
        |query| {
            let page = page(query);
            let (first, rest) = page.split_at(300);
            let chunk = |part: &[u8]| [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            [&head[..], &chunk(first), &chunk(rest), b"0\r\n\r\n"].concat()
        },
        false,
    );
    assert_eq!(tally.errors, []);
}

#[test]
fn a_wrong_page_is_counted_under_its_defect() {
    let check = |fault: &str, answer: fn(&str) -> Vec<u8>| {
        let tally = answered_by(answer, true);
        let [error] = &tally.errors[..] else {
            panic!("{:?}", tally.errors)
        };
        assert_eq!((error.fault.as_str(), tally.operations_total), (fault, 0));
    };
    check("wrong_length", |_| whole("200 OK", b"short"));
    check("wrong_length", |query| {
        whole("200 OK", &[&page(query)[..], b"x"].concat())
    });
    check("wrong_page", |_| whole("200 OK", &page("n=0000000000000000")));
    check("wrong_page", |_| whole("200 OK", &[0; 1024]));
    check("no_program", |_| whole("404 Not Found", b""));
    check("no_program", |_| whole("403 Forbidden", b""));
    check("program_failed", |_| whole("500 Internal Server Error", b""));
    check("program_failed", |_| whole("502 Bad Gateway", b""));
    check("error_status", |_| whole("302 Found", b""));
}

#[test]
fn a_share_over_tls_needs_a_secure_url() {
    let mut level = level(([127, 0, 0, 1], 9).into());
    level.workload = json!({"name": "webbench-dynamic", "dynamic_share": 0.5, "secure_share": 0.5});
    let problem = super::running::problems(&level);
    assert!(problem.contains("target.secure_url"), "{problem}");
    level.workload = json!({"name": "webbench-dynamic", "dynamic_share": 0.9, "secure_share": 0.5});
    assert!(super::running::problems(&level).contains("workload: out of bounds"));
}
