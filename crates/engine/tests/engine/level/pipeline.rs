//! HTTP/1.1 pipelining: several threads of a client on one connection, answered in order.

use super::running::{faults, level, problems, run, until_all_have_left};
use super::server::{Connection, Server, OK};
use dyno_engine::LevelSpec;
use dyno_measure::Fault;
use serde_json::json;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

fn pipelined(server: &Server, requests: usize) -> LevelSpec {
    let mut level = level(server.address);
    level.client = json!({"pipeline": requests});
    level.threads = requests;
    level
}

/// Returns the number of complete requests received in one read, or None once the client has closed the
/// connection.
fn batch(connection: &mut Connection, partial: &mut Vec<u8>) -> Option<usize> {
    let mut buffer = [0; 16 * 1024];
    let count = connection
        .stream
        .read(&mut buffer)
        .ok()
        .filter(|count| *count > 0)?;
    partial.extend_from_slice(&buffer[..count]);
    let mut requests = 0;
    while let Some(end) = partial.windows(4).position(|four| four == b"\r\n\r\n") {
        partial.drain(..end + 4);
        connection.count();
        requests += 1;
    }
    Some(requests)
}

#[test]
fn threads_of_a_client_share_a_connection_and_answers_together_lead_to_requests_together() {
    for (threads, pipeline, connections) in [(8, 8, 2), (8, 4, 4), (3, 100, 2)] {
        let largest = Arc::new(AtomicUsize::new(0));
        let seen = largest.clone();
        let server = Server::start(move |mut connection| {
            let mut partial = Vec::new();
            while let Some(requests) = batch(&mut connection, &mut partial) {
                seen.fetch_max(requests, Ordering::Relaxed);
                if !connection.send(OK.repeat(requests)) {
                    return;
                }
            }
        });
        let tally = run(LevelSpec {
            threads,
            ..pipelined(&server, pipeline)
        });
        assert_eq!(tally.errors, []);
        assert!(tally.operations_total > 100);
        assert_eq!(
            server.connections(),
            connections,
            "{threads} threads, {pipeline} each"
        );
        assert_eq!(largest.load(Ordering::Relaxed), threads.min(pipeline));
        // At the end, some requests had been sent whose answers were no longer expected.
        let under_way = server.requests() - tally.operations_total;
        assert!(under_way <= 2 * threads as u64, "{under_way} more were asked");
    }
}

#[test]
fn requests_after_the_last_response_of_a_server_are_repeated() {
    const LAST: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let server = Server::start(|mut connection| {
        let (mut partial, mut answered) = (Vec::new(), 0);
        while let Some(requests) = batch(&mut connection, &mut partial) {
            for _ in 0..requests {
                answered += 1;
                if answered == 10 {
                    connection.send(LAST);
                    return connection.outwait();
                }
                connection.send(OK);
            }
        }
    });
    let tally = run(pipelined(&server, 8));
    assert_eq!(tally.errors, []);
    assert!(tally.operations_total > 20 && tally.generator.connections > 2);
    assert!(server.connections() <= tally.generator.connections + 2);
}

/// A new request must not precede requests that were not processed.
#[test]
fn a_server_that_closes_after_each_response_gets_all_requests_in_turn() {
    const LAST: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let server = Server::start(|mut connection| {
        if batch(&mut connection, &mut Vec::new()).is_some() {
            connection.send(LAST);
            connection.outwait();
        }
    });
    // More than the ten repeats of a request that was refused for another reason.
    let mut level = pipelined(&server, 12);
    (level.clients, level.timeout_s, level.window.length_s) = (1, 2.0, 3.0);
    let tally = run(level);
    assert_eq!(tally.errors, []);
    assert!(tally.operations_total > 12, "{}", tally.operations_total);
}

#[test]
fn a_malformed_response_is_counted_by_its_kind() {
    for (answer, fault) in [
        ("not HTTP at all\r\n\r\n", Fault::MalformedHead),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            Fault::MalformedChunk,
        ),
        ("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", Fault::ErrorStatus),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
            Fault::ClosedEarly,
        ),
    ] {
        let server = Server::start(move |mut connection| {
            let mut partial = Vec::new();
            if batch(&mut connection, &mut partial).is_some() {
                connection.send(answer);
            }
        });
        let found = faults(&run(until_all_have_left(pipelined(&server, 4))));
        assert!(
            found.iter().any(|(found, _)| *found == fault),
            "{fault:?}: {found:?}"
        );
        assert!(
            found.iter().all(|(found, _)| *found == fault
                || *found == Fault::ClosedEarly
                || *found == Fault::ConnectionReset),
            "{found:?}"
        );
    }
}

#[test]
fn a_late_answer_is_an_error_of_its_request_but_later_answers_are_awaited() {
    let server = Server::start(|mut connection| {
        let mut partial = Vec::new();
        // The first batch of each connection is never answered.
        batch(&mut connection, &mut partial);
        connection.outwait();
    });
    let mut level = pipelined(&server, 4);
    level.timeout_s = 0.2;
    let found = faults(&run(until_all_have_left(level)));
    assert!(matches!(found[..], [(Fault::ResponseTimeout, _)]), "{found:?}");
}

#[test]
fn pipelining_needs_http_1_1_and_keep_alive() {
    let server = Server::answering(OK);
    for client in [
        json!({"pipeline": 2, "version": "1.0"}),
        json!({"pipeline": 2, "version": "2"}),
        json!({"pipeline": 2, "keep_alive": false}),
        json!({"pipeline": 2, "close": "reset"}),
        json!({"pipeline": 0}),
    ] {
        let mut level = pipelined(&server, 2);
        level.client = client;
        assert!(problems(&level).contains("client.pipeline"));
    }
    let mut sessions = pipelined(&server, 2);
    sessions.workload = json!({"name": "session", "steps": [{"name": "a", "method": "GET", "path": "/"}]});
    assert!(problems(&sessions).contains("client.pipeline"));
}
