//! Levels with servers that make one mistake. The mistake is counted once per operation, with its kind and
//! side, and nothing hangs.

use super::running::{fault, faults, left, level, run, until_all_have_left};
use super::server::{Connection, Server, OK};
use dyno_engine::{Arrival, LevelSpec};
use dyno_measure::{Fault, Side};
use dyno_workload::Tree;
use rustix::net::sockopt::set_socket_linger;
use serde_json::json;
use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::LazyLock;
use std::time::Duration;

const CLIENTS: usize = 3;

/// Checks that each client leaves with exactly one error, of the expected kind and side.
fn check_level(server: &Server, level: LevelSpec, fault: Fault, side: Side) {
    let tally = run(until_all_have_left(LevelSpec {
        clients: CLIENTS,
        ..level
    }));
    assert_eq!(faults(&tally), [(fault, CLIENTS as u64)]);
    assert_eq!(fault.side(), side);
    assert_eq!(left(&tally), CLIENTS);
    let made = tally.generator.connections;
    assert_eq!(made, server.connections_once(made));
}

fn check(fault: Fault, serve: impl Fn(Connection) + Send + Sync + 'static) {
    let server = Server::start(serve);
    check_level(&server, level(server.address), fault, Side::Server);
    assert_eq!(server.connections(), CLIENTS as u64);
}

/// Checks a server that gives the same answer to each request, and then waits until the client closes the
/// connection.
fn check_answer(fault: Fault, answer: &'static str) {
    check(fault, move |mut connection| {
        connection.request();
        connection.send(answer);
        connection.outwait();
    });
}

/// Like `check`, with a short time limit per operation.
fn check_timeout(serve: impl Fn(Connection) + Send + Sync + 'static) {
    let server = Server::start(serve);
    let mut hasty = level(server.address);
    hasty.timeout_s = 0.1;
    check_level(&server, hasty, Fault::ResponseTimeout, Side::Server);
}

#[test]
fn an_answer_that_is_not_http() {
    check_answer(Fault::MalformedHead, "garbage\r\n\r\n");
    check_answer(
        Fault::MalformedHead,
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    );
    check_answer(
        Fault::MalformedHead,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    );
}

#[test]
fn a_broken_chunk() {
    check_answer(
        Fault::MalformedChunk,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnothex\r\n",
    );
}

#[test]
fn more_bytes_than_declared() {
    check_answer(
        Fault::ExcessData,
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!",
    );
}

#[test]
fn bytes_without_a_request() {
    let server = Server::start(|mut connection| {
        connection.request();
        connection.send(OK);
        connection.send("and more");
        connection.outwait();
    });
    // On a busy machine, the server may pause between its two messages, but hardly for this long.
    let thinking = LevelSpec {
        arrival: Arrival::Closed { think_time_s: 1.5 },
        ..level(server.address)
    };
    check_level(&server, thinking, Fault::ExcessData, Side::Server);
}

#[test]
fn an_error_status() {
    check_answer(
        Fault::ErrorStatus,
        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
    );
    check_answer(
        Fault::ErrorStatus,
        "HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
    );
    check_answer(
        Fault::ErrorStatus,
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    );
}

#[test]
fn a_close_before_the_answer_is_complete() {
    check(Fault::ClosedEarly, |mut connection| {
        connection.request();
    });
    for answer in [
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        check(Fault::ClosedEarly, move |mut connection| {
            connection.request();
            connection.send(answer);
        });
    }
}

#[test]
fn a_reset() {
    check(Fault::ConnectionReset, |mut connection| {
        connection.request();
        set_socket_linger(&connection.stream, Some(Duration::ZERO)).expect("it is a socket");
    });
}

#[test]
fn an_immediate_close_is_the_servers_fault_whether_it_appears_as_an_end_or_a_reset() {
    let server = Server::start(drop);
    let tally = run(until_all_have_left(level(server.address)));
    assert_eq!(tally.errors.iter().map(|error| error.count).sum::<u64>(), 2);
    for error in &tally.errors {
        assert!(matches!(
            fault(&error.fault),
            Fault::ClosedEarly | Fault::ConnectionReset
        ));
        assert_eq!(error.side, "server");
    }
}

#[test]
fn an_endless_head() {
    check(Fault::HeadTooLarge, |mut connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\n");
        while connection.send("X: y\r\n".repeat(10)) {}
    });
    check(Fault::HeadTooLarge, |mut connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\nX: ");
        while connection.send([b'y'; 4096]) {}
    });
    check(Fault::HeadTooLarge, |mut connection| {
        connection.request();
        while connection.send("HTTP/1.1 100 Continue\r\n\r\n") {}
    });
}

#[test]
fn no_answer_in_time() {
    check_timeout(|mut connection| connection.outwait());
    check_timeout(|mut connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello");
        connection.outwait();
    });
}

#[test]
fn an_endless_dripping_answer() {
    check_timeout(|mut connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\n\r\n");
        while connection.send("x") {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

#[test]
fn an_endless_body_at_full_speed() {
    check_timeout(|mut connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\n\r\n");
        while connection.send([b'x'; 262_144]) {}
    });
}

#[test]
fn a_closed_port_is_not_hammered() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    drop(listener);
    let tally = run(level(address));
    let [(fault, count)] = faults(&tally)[..] else {
        panic!("{:?}", tally.errors)
    };
    assert_eq!((fault, fault.side()), (Fault::ConnectionRefused, Side::Server));
    // Pauses of 10, 20, 30 ms ... allow six attempts per client in 200 ms.
    assert!((2..=12).contains(&count), "{count} attempts");
    assert_eq!(tally.generator.connections, 0);
}

#[test]
fn a_client_leaves_with_all_its_threads_after_the_given_number_of_errors() {
    let server = Server::answering("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    let tally = run(LevelSpec {
        clients: 2,
        threads: 2,
        leave_after_errors: Some(3),
        ..until_all_have_left(level(server.address))
    });
    assert_eq!(left(&tally), 2);
    // The other thread of a client may be waiting for an answer when the client leaves.
    assert!(
        tally
            .by_client
            .iter()
            .all(|client| (3..=4).contains(&client.errors)),
        "{:?}",
        tally.by_client
    );
}

#[test]
fn a_client_that_fails_after_the_end_participated_to_the_end() {
    let server = Server::start(|mut connection| {
        connection.request();
        std::thread::sleep(Duration::from_millis(300));
    });
    let tally = run(LevelSpec {
        leave_after_errors: Some(1),
        ..level(server.address)
    });
    assert_eq!(faults(&tally), [(Fault::ClosedEarly, 2)]);
    assert_eq!((left(&tally), tally.errors[0].in_window), (0, 0));
}

/// The document tree, by path.
static DOCUMENTS: LazyLock<HashMap<String, Vec<u8>>> = LazyLock::new(|| {
    let tree = Tree::load();
    tree.files()
        .iter()
        .map(|file| (file.path.clone(), file.content()))
        .collect()
});

/// Checks a server of the tree whose answers `change` alters.
fn check_tree(fault: Option<(Fault, Side)>, change: impl Fn(&mut Vec<u8>, &mut u16) + Send + Sync + 'static) {
    let server = Server::start(move |mut connection| {
        while let Some(path) = connection.request() {
            let found = DOCUMENTS.get(&path);
            let (mut body, mut status) = (found.cloned().unwrap_or_default(), found.map_or(404, |_| 200));
            change(&mut body, &mut status);
            let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n", body.len());
            connection.send([head.as_bytes(), &body].concat());
        }
    });
    let mut webbench = level(server.address);
    webbench.workload = json!({"name": "webbench-static"});
    match fault {
        Some((fault, side)) => check_level(&server, webbench, fault, side),
        None => assert_eq!(faults(&run(webbench)), []),
    }
}

#[test]
fn the_unchanged_tree_has_no_error() {
    check_tree(None, |_, _| {});
}

#[test]
fn a_file_with_one_wrong_byte() {
    check_tree(Some((Fault::WrongContent, Side::Check)), |body, _| {
        if let Some(byte) = body.last_mut() {
            *byte ^= 1;
        }
    });
}

#[test]
fn a_file_with_one_byte_too_few_or_too_many() {
    check_tree(Some((Fault::WrongLength, Side::Check)), |body, _| {
        body.pop();
    });
    check_tree(Some((Fault::WrongLength, Side::Check)), |body, status| {
        if *status == 200 {
            body.push(0);
        }
    });
}

#[test]
fn a_file_that_is_served_but_must_not_exist() {
    check_tree(Some((Fault::WrongStatus, Side::Check)), |_, status| *status = 200);
}
