//! A server that runs out of file descriptors. The test has its own process, because the limit applies per
//! process.

use dyno_testserver::http::{Documents, Options, Server};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn answers(client: &mut TcpStream) -> bool {
    client
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a socket option");
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("a connection");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("an answer");
    answer.starts_with(b"HTTP/1.1 200 OK\r\n")
}

#[test]
fn connections_that_could_not_be_accepted_are_served_later() {
    let server = Server::start(&Options::on_loopback(Documents::Fixed(10))).expect("a free port");
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(64),
            maximum,
        },
    )
    .expect("a lower bound");
    let null = || File::open("/dev/null");
    let mut taken: Vec<File> = std::iter::from_fn(|| null().ok()).collect();
    // Each client needs a descriptor, and so does its accepted socket. An odd number of free descriptors
    // makes one client wait for the server.
    taken.truncate(taken.len() - 5);
    let mut clients: Vec<TcpStream> =
        std::iter::from_fn(|| TcpStream::connect(server.address()).ok()).collect();
    null().expect_err("no descriptor is left");
    drop(taken);
    assert!(clients.len() >= 3);
    assert!(clients.iter_mut().all(answers));
}
