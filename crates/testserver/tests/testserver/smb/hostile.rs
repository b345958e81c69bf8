//! Clients that violate the protocol: a recorded session is sent again with changed bytes, and the server
//! must keep working.

use super::client::{create, run, Client};
use dyno_files::{Ask, Caching, Call, FileClient, LeaseKey, Open, Stability};
use dyno_testserver::smb::{Options, Server};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const ROUNDS: u64 = 400;
const PATIENCE: Duration = Duration::from_secs(10);

/// Forwards one connection to `to`, and records the client's data.
fn relay(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let kept = Arc::new(Mutex::new(Vec::new()));
    let record = kept.clone();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("the client comes");
        let mut server = TcpStream::connect(to).expect("the server is there");
        let (mut back, mut from) = (
            client.try_clone().expect("a socket"),
            server.try_clone().expect("a socket"),
        );
        thread::spawn(move || std::io::copy(&mut from, &mut back));
        let mut buffer = [0; 65_536];
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            record
                .lock()
                .expect("nobody panics")
                .extend_from_slice(&buffer[..count]);
            server.write_all(&buffer[..count]).expect("it is taken");
        }
        let _ = server.shutdown(Shutdown::Write);
    });
    (address, kept)
}

/// Returns the recorded messages of a session with many kinds of calls.
fn recording() -> Vec<u8> {
    let server = Server::start(&Options::on_loopback("share")).expect("it starts");
    let (address, kept) = relay(server.address());
    run(|executor| async move {
        let guest = dyno_smb::Options {
            guest: true,
            ..dyno_smb::Options::default()
        };
        let mut client = Client::new(&executor, address, guest, "share");
        client.session.connect().await.expect("a session");
        client.make_directory("d").await;
        let ask = Ask::Lease(LeaseKey(1), Caching::ALL);
        let (handle, ..) = client.open(&Open { ask, ..create("d/x") }).await;
        let find = Call::Find {
            directory: "d",
            pattern: "*",
        };
        for call in [
            Call::Write {
                handle,
                offset: 5,
                data: &[7; 3000],
                stability: Stability::Unstable,
            },
            Call::Read {
                handle,
                offset: 0,
                bytes: 4000,
            },
            Call::Flush { handle },
            Call::Lock {
                handle,
                offset: 1,
                bytes: 9,
            },
            Call::Unlock {
                handle,
                offset: 1,
                bytes: 9,
            },
            Call::SetEnd { handle, bytes: 100 },
            Call::SetTimes { handle },
            Call::QueryHandle { handle },
            Call::Close { handle },
            find,
            Call::QuerySpace { directory: "" },
            Call::QueryPath { path: "d/x" },
            Call::Rename {
                from: "d/x",
                to: "d/y",
            },
            Call::Delete { path: "d/y" },
            Call::RemoveDirectory { path: "d" },
        ] {
            client.call(&call).await.expect("it is done");
        }
        client.session.disconnect().await;
    });
    let recorded = kept.lock().expect("nobody panics").clone();
    recorded
}

/// Sends `bytes`, and returns everything that the server sends until it closes the connection.
fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).expect("it accepts");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut sender = socket.try_clone().expect("a socket");
    // The server may close the connection before everything is sent.
    let _ = sender.write_all(bytes);
    let _ = sender.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    let _ = socket.read_to_end(&mut answers);
    answers
}

/// Returns the ranges of the messages within the frames, without the frames' lengths.
fn frames(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(length) = bytes[at..].first_chunk::<4>() {
        let end = at + 4 + u32::from_be_bytes(*length) as usize;
        found.push(at + 4..end);
        at = end;
    }
    found
}

#[test]
fn whatever_is_sent_the_server_keeps_running_and_leaves_no_file_open() {
    let recorded = recording();
    let places = frames(&recorded);
    assert!(places.len() > 20);
    let whole = {
        let server = Server::start(&Options::on_loopback("share")).expect("it starts");
        send(server.address(), &recorded).len()
    };
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut longest = 0;
    for round in 0..ROUNDS {
        let mut bytes = recorded.clone();
        // Rarely change the log-on, because there is more to break after it.
        let first = if round % 8 == 0 { 0 } else { 4 };
        for _ in 0..=random(4) {
            let place = &places[first + random(places.len() - first)];
            let at = place.start + random(place.len().min(160));
            bytes[at] = [0, 1, 0x7f, 0xff, random(256) as u8][random(5)];
        }
        let server = Server::start(&Options::on_loopback("share")).expect("it starts");
        longest = longest.max(send(server.address(), &bytes).len());
        // The same thread answers the next client.
        let answer = send(server.address(), &recorded[..places[0].end]);
        assert!(answer.get(4..8) == Some(b"\xfeSMB"), "round {round}");
        assert_eq!(server.open_files(), 0, "round {round}");
    }
    // Most sessions must reach their end, so that messages after the log-on are tested.
    assert!(whole > 4000 && longest > whole / 2, "{longest} of {whole}");
}
