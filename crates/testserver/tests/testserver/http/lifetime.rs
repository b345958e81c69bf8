//! Starting, sharing a port, stopping.

use super::client::{server_of, server_with_fault, Client};
use dyno_testserver::http::{Documents, Options, Server};
use rustix::thread::{sched_getaffinity, CpuSet};
use std::fs;
use std::io::ErrorKind;
use std::net::TcpStream;

fn options(threads: usize) -> Options {
    Options {
        threads,
        ..Options::on_loopback(Documents::Fixed(10))
    }
}

/// Returns the number of sockets in this network namespace that listen on a port of 127.0.0.1 (proc(5),
/// `/proc/net/tcp`, state 0A).
fn listeners(port: u16) -> usize {
    let table = fs::read_to_string("/proc/self/net/tcp").expect("Linux");
    let local = format!("0100007F:{port:04X}");
    let listens = |line: &&str| {
        let mut columns = line.split_whitespace().skip(1);
        columns.next().is_some_and(|address| address == local) && columns.nth(1) == Some("0A")
    };
    table.lines().filter(listens).count()
}

#[test]
fn several_threads_listen_on_one_port_and_all_their_connections_are_answered() {
    let server = Server::start(&options(2)).expect("a free port");
    assert_eq!(listeners(server.port()), 2);
    let mut clients: Vec<_> = (0..32).map(|_| Client::of(&server)).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").status, 200);
    }
    assert_eq!(server.requests(), 32);
}

#[test]
fn the_port_of_a_server_with_one_thread_cannot_be_shared() {
    let server = server_of(Documents::Fixed(10));
    assert_eq!(listeners(server.port()), 1);
    for threads in [1, 2] {
        let second = Server::start(&Options {
            bind: server.address(),
            ..options(threads)
        });
        assert_eq!(
            second.expect_err("the port is taken").kind(),
            ErrorKind::AddrInUse
        );
    }
}

#[test]
fn stopping_closes_every_connection_and_frees_the_port() {
    // Use a separate address, so that no other test gets the freed port.
    let server = Server::start(&Options {
        bind: "127.88.0.1:0".parse().expect("an address"),
        ..options(2)
    })
    .expect("a free port");
    let mut clients: Vec<_> = (0..8).map(|_| Client::of(&server)).collect();
    for client in &mut clients {
        client.get("/");
    }
    server.stop();
    server.stop();
    for client in &mut clients {
        assert!(client.rest().is_empty());
    }
    assert_eq!(server.requests(), 8);
    let refused = TcpStream::connect(server.address()).expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_dropped_server_stops_even_during_an_answer() {
    let server = server_with_fault("delay=3600000ms", 10);
    let mut client = Client::of(&server);
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    drop(server);
    assert!(!matches!(client.try_read(), Ok(1..)));
}

#[test]
fn threads_run_on_the_given_cpus() {
    let allowed = sched_getaffinity(None).expect("our own affinity");
    let cpu = (0..CpuSet::MAX_CPU)
        .find(|cpu| allowed.is_set(*cpu))
        .expect("we run somewhere");
    let server = Server::start(&Options {
        cpus: vec![cpu],
        ..options(1)
    });
    let pinned = fs::read_dir("/proc/self/task")
        .expect("Linux")
        .flatten()
        .any(|task| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            status.contains("Name:\treference-0\n")
                && status.contains(&format!("Cpus_allowed_list:\t{cpu}\n"))
        });
    assert!(pinned);
    drop(server.expect("a CPU of ours"));
}

#[test]
fn a_server_that_cannot_start_returns_an_error() {
    let kind = |options: &Options| Server::start(options).expect_err("not possible").kind();
    assert_eq!(kind(&options(0)), ErrorKind::InvalidInput);
    for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU] {
        let nowhere = Options {
            cpus: vec![cpu],
            ..options(1)
        };
        assert_eq!(kind(&nowhere), ErrorKind::InvalidInput);
    }
    let foreign = Options {
        bind: "192.0.2.1:0".parse().expect("an address"),
        ..options(1)
    };
    assert_eq!(kind(&foreign), ErrorKind::AddrNotAvailable);
}
