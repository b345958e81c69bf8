//! Levels with correct servers: every operation is counted once, in the right place, and there are no errors.

use super::running::{faults, left, level, prepared, run};
use super::server::{Connection, Server, OK};
use dyno_engine::{Arrival, EngineSpec, LevelSpec, LevelTally, LoadError, WindowSpec};
use serde_json::json;
use std::net::Shutdown;
use std::time::Duration;

/// Runs `level` and checks that the totals equal the server's counts.
fn check(server: &Server, level: LevelSpec) -> LevelTally {
    let clients = level.clients;
    let tally = run(level);
    assert_eq!(faults(&tally), []);
    assert_eq!(left(&tally), 0);
    assert_eq!(tally.by_client.len(), clients);
    assert_eq!(tally.operations_total, server.requests());
    assert_eq!(tally.generator.connections, server.connections());
    assert!(tally.operations_total >= clients as u64);
    tally
}

#[test]
fn with_keep_alive_the_total_equals_the_servers_count() {
    let server = Server::answering(OK);
    let tally = check(&server, level(server.address));
    assert_eq!((tally.generator.connections, tally.generator.reconnects), (2, 0));
    let operations: u64 = tally.by_operation.iter().map(|class| class.count).sum();
    assert_eq!(tally.bytes_in, operations * OK.len() as u64);
    assert_eq!(tally.by_operation[0].bytes_read, operations * 5);
}

#[test]
fn with_a_connection_per_request_the_total_equals_the_servers_count() {
    for (version, close) in [("1.0", "ordinary"), ("1.1", "ordinary"), ("1.1", "reset")] {
        let server = Server::answering(OK);
        let tally = check(
            &server,
            LevelSpec {
                client: json!({"version": version, "keep_alive": false, "close": close}),
                ..level(server.address)
            },
        );
        assert_eq!(tally.generator.connections, tally.operations_total);
    }
}

#[test]
fn a_server_that_closes_first_on_request_is_counted_in_the_same_way() {
    for version in ["1.0", "1.1"] {
        let server = Server::start(|mut connection| {
            connection.request();
            connection.send(OK);
        });
        let tally = check(
            &server,
            LevelSpec {
                client: json!({"version": version, "keep_alive": false}),
                ..level(server.address)
            },
        );
        assert_eq!(tally.generator.connections, tally.operations_total);
        assert_eq!(tally.generator.reconnects, 0);
    }
}

#[test]
fn several_engine_threads_share_the_clients_and_their_tallies_add_up() {
    let server = Server::answering(OK);
    let tally = check(
        &server,
        LevelSpec {
            clients: 5,
            threads: 2,
            engine: EngineSpec {
                threads: 2,
                cpus: vec![],
            },
            ..level(server.address)
        },
    );
    assert_eq!(tally.generator.connections, 10);
    assert!(tally.by_client.iter().all(|client| client.operations > 0));
}

#[test]
fn operations_begun_before_the_end_finish_and_count_but_not_in_the_window() {
    let server = Server::start(|mut connection| {
        while connection.request().is_some() {
            std::thread::sleep(Duration::from_millis(300));
            connection.send(OK);
        }
    });
    let tally = check(&server, level(server.address));
    assert_eq!(tally.operations_total, 2);
    assert_eq!(tally.by_operation[0].count, 0);
    assert_eq!((tally.bytes_in, tally.bytes_out), (0, 0));
}

#[test]
fn operations_in_the_ramps_are_performed_but_only_those_in_the_window_count() {
    let server = Server::answering(OK);
    let window = WindowSpec {
        length_s: 0.3,
        ramp_up_s: 0.1,
        ramp_down_s: 0.1,
    };
    let tally = check(
        &server,
        LevelSpec {
            window,
            ..level(server.address)
        },
    );
    assert!(tally.by_operation[0].count < tally.operations_total);
}

#[test]
fn the_rate_limit_applies_to_all_clients_together() {
    let server = Server::answering(OK);
    let tally = check(
        &server,
        LevelSpec {
            clients: 4,
            threads: 2,
            max_rate_per_s: Some(100.0),
            ..level(server.address)
        },
    );
    assert!(
        tally.operations_total <= 21,
        "{} in 200 ms",
        tally.operations_total
    );
}

#[test]
fn a_tiny_rate_limit_is_a_limit() {
    let server = Server::answering(OK);
    for max_rate_per_s in [1e-3, 1e-9, 1e-300] {
        let tally = run(LevelSpec {
            clients: 3,
            max_rate_per_s: Some(max_rate_per_s),
            ..level(server.address)
        });
        assert_eq!(tally.operations_total, 1, "{max_rate_per_s} a second");
    }
}

#[test]
fn a_server_that_closes_idle_connections_causes_reconnects_but_no_errors() {
    let server = Server::start(|mut connection| {
        connection.request();
        connection.send(OK);
    });
    let tally = check(&server, level(server.address));
    assert_eq!(tally.generator.connections, tally.operations_total);
    assert_eq!(tally.generator.reconnects, tally.operations_total - 2);
}

/// Closes its sending direction after one answer, and keeps reading without answering, like Apache after a
/// long idle time.
fn linger(mut connection: Connection) {
    connection.request();
    connection.send(OK);
    let _ = connection.stream.shutdown(Shutdown::Write);
    connection.outwait();
}

#[test]
fn a_server_that_closes_only_its_direction_causes_reconnects_but_no_errors() {
    for think_time_s in [0.0, 0.02] {
        let server = Server::start(linger);
        let tally = run(LevelSpec {
            arrival: Arrival::Closed { think_time_s },
            ..level(server.address)
        });
        assert_eq!(faults(&tally), [], "{think_time_s} s of think time");
        assert_eq!(tally.generator.connections, server.connections());
        assert_eq!(tally.generator.connections, tally.operations_total);
        assert!(tally.generator.reconnects > 0);
    }
}

#[test]
fn an_answer_in_many_pieces_is_one_operation() {
    let server = Server::start(|mut connection| {
        let _ = connection.stream.set_nodelay(true);
        while connection.request().is_some() {
            for byte in
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".chunks(3)
            {
                connection.send(byte);
            }
        }
    });
    let tally = check(&server, level(server.address));
    assert_eq!(tally.by_operation[0].bytes_read, 5 * tally.by_operation[0].count);
}

#[test]
fn a_stopped_level_ends_early() {
    let server = Server::start(|mut connection| connection.outwait());
    let mut long = level(server.address);
    long.window.length_s = 3_600.0;
    let mut load = dyno_engine::Load::start(&prepared(&long, None)).expect("the level starts");
    assert!(load.result().is_err());
    load.stop();
    assert!(load.wait(Duration::from_secs(60)), "a stopped level hangs");
    let tally = load.result().expect("it has ended");
    assert!(tally.stopped);
    assert_eq!(tally.operations_total, 0);
}

#[test]
fn a_level_that_cannot_be_set_up_ends_at_once_with_the_reason() {
    let server = Server::answering(OK);
    let mut impossible = level(server.address);
    impossible.window.length_s = 3_600.0;
    impossible.engine = EngineSpec {
        threads: 2,
        cpus: vec![0, 1023],
    };
    let mut load = dyno_engine::Load::start(&prepared(&impossible, None)).expect("the level starts");
    assert!(load.wait(Duration::from_secs(60)), "the other thread goes on");
    assert!(matches!(load.result(), Err(LoadError::System(_))));
}
