//! Restarts of the server: what it loses, and how this project's client reacts.

use super::raw::{url, Raw, EXPORT, OK, VERSIONS};
use dyno_files::{
    Access, Ask, Cache, CacheOptions, Call, Disposition, FileClient, Files, Handle, Open, Reply, Stability,
};
use dyno_measure::monotonic_ns;
use dyno_net::{Dialer, Executor};
use dyno_nfs::wire::{parse, parse_read, parse_write, Committed, FileHandle, Payload, Request};
use dyno_nfs::NfsTarget;
use dyno_testserver::nfs::{Flush, Options, Server};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

const PATIENCE_NS: u64 = 20_000_000_000;
const NO_OUTAGE: Duration = Duration::ZERO;

fn server(flush: Flush) -> Server {
    let options = Options {
        flush,
        ..Options::on_loopback(EXPORT)
    };
    Server::start(&options).expect("it starts")
}

/// Writes data. Returns the verifier.
fn write(raw: &mut Raw, file: FileHandle, data: &[u8], stability: Stability) -> u64 {
    let offset = 0;
    let reply = raw.ask(&Request::Write {
        file,
        offset,
        data: Payload::Whole(data),
        stability,
    });
    let most = u32::try_from(data.len()).expect("short");
    parse_write(reply.results(), most, stability)
        .expect("well formed")
        .verifier
        .0
}

fn commit(raw: &mut Raw, file: FileHandle) -> u64 {
    let (offset, bytes) = (0, 0);
    let reply = raw.ask(&Request::Commit { file, offset, bytes });
    let committed: Committed = parse(reply.results()).expect("well formed");
    committed.verifier.0
}

fn content(raw: &mut Raw, file: FileHandle) -> Vec<u8> {
    let (offset, bytes) = (0, 1 << 20);
    let reply = raw.ask(&Request::Read { file, offset, bytes });
    let read = parse_read(reply.results(), bytes).expect("well formed");
    reply.results[read.data].to_vec()
}

#[test]
fn a_restart_loses_only_unstable_writes_and_changes_the_verifier() {
    let server = server(Flush::Honour);
    let mut raw = Raw::connect(server.address());
    let root = raw.root();
    let [lost, committed, stable] = ["lost", "committed", "stable"].map(|name| raw.create(root, name));
    let before = write(&mut raw, lost, b"1234", Stability::File);
    for file in [lost, committed] {
        assert_eq!(write(&mut raw, file, b"unstable", Stability::Unstable), before);
    }
    assert_eq!(commit(&mut raw, committed), before);
    write(&mut raw, stable, b"stable", Stability::Data);
    assert_eq!(content(&mut raw, lost), b"unstable");
    assert_eq!(server.restart(NO_OUTAGE).expect("the port"), 1);
    assert!(raw.receive().is_none(), "every connection is closed");
    let mut raw = Raw::connect(server.address());
    assert_eq!(content(&mut raw, lost), b"1234");
    assert_eq!(content(&mut raw, committed), b"unstable");
    assert_eq!(content(&mut raw, stable), b"stable");
    assert_ne!(commit(&mut raw, lost), before);
    assert_eq!(server.restart(NO_OUTAGE).expect("the port"), 0);
    assert_eq!(server.restarts(), 2);
}

#[test]
fn a_server_that_ignores_flushes_loses_acknowledged_data() {
    let server = server(Flush::Ignore);
    let mut raw = Raw::connect(server.address());
    let root = raw.root();
    let [committed, stable] = ["committed", "stable"].map(|name| raw.create(root, name));
    write(&mut raw, committed, b"unstable", Stability::Unstable);
    commit(&mut raw, committed);
    write(&mut raw, stable, b"stable", Stability::File);
    assert_eq!(server.restart(NO_OUTAGE).expect("the port"), 2);
    let mut raw = Raw::connect(server.address());
    for file in [committed, stable] {
        assert_eq!(content(&mut raw, file), b"");
    }
}

#[test]
fn a_server_with_several_threads_survives_repeated_restarts() {
    let options = Options {
        threads: 3,
        fault: Some("restart=1ms".parse().expect("a fault")),
        ..Options::on_loopback(EXPORT)
    };
    let server = Server::start(&options).expect("it starts");
    let begun = server.restarts();
    while server.restarts() < begun + 5 {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(server); // Even in the middle of a restart.
}

/// Returns data to write, in which all pages differ.
fn pages() -> Vec<u8> {
    (0..3_u32 << 20)
        .map(|place| (place / 4096 * 7 + place % 251) as u8)
        .collect()
}

async fn call<F: Files>(files: &mut F, executor: &Executor, call: &Call<'_>) -> Reply {
    executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    files.call(call, &mut |_: &[u8]| {}).await.expect("it is done")
}

/// Connects and writes a file without closing it.
async fn written<F: Files>(files: &mut F, executor: &Executor) -> Handle {
    executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    files.connect().await.expect("a session");
    let open = Call::Open(Open {
        path: "outage",
        access: Access::ReadWrite,
        disposition: Disposition::Create,
        directory: false,
        delete_on_close: false,
        ask: Ask::Nothing,
    });
    let Reply::Opened { handle, .. } = call(files, executor, &open).await else {
        panic!("it is made");
    };
    for (piece, data) in (0_u64..).zip(pages().chunks(64 << 10)) {
        let write = Call::Write {
            handle,
            offset: piece * (64 << 10),
            data,
            stability: Stability::Unstable,
        };
        call(files, executor, &write).await;
    }
    handle
}

#[test]
fn our_client_writes_data_again_that_a_restart_has_lost() {
    VERSIONS.into_iter().for_each(written_again);
}

fn written_again(version: &str) {
    let server = server(Flush::Honour);
    let url = url(server.port(), version);
    let target = NfsTarget::open(&url, vec![], dyno_nfs::Options::default(), None, None).expect("loopback");
    let (tell, told) = mpsc::channel();
    let (let_go, wait) = mpsc::channel::<()>();
    let client = std::thread::spawn(move || {
        let executor = Executor::new().expect("an epoll instance");
        let dialer = Rc::new(Dialer::new(executor.clone(), target.address(), 0));
        let session = target.session(&executor, &dialer, EXPORT, 1);
        let mut files = Cache::new(session, CacheOptions::close_to_open());
        let own = executor.clone();
        executor.spawn(async move {
            let handle = written(&mut files, &own).await;
            files
                .idle_until(monotonic_ns() + 50_000_000)
                .await
                .expect("a session");
            tell.send(()).expect("the test waits");
            wait.recv().expect("the test says so");
            call(&mut files, &own, &Call::Close { handle }).await;
            files.finish().await.expect("all is written");
            let requests: BTreeMap<_, _> = files.client().requests_by_name().into_iter().collect();
            // Three writes would suffice for all data.
            assert!(requests["WRITE"] > 3, "{requests:?}");
        });
        executor.run(|| false).expect("the loop runs");
    });
    told.recv().expect("the client has written");
    assert_eq!(
        server.restart(Duration::from_millis(200)).expect("the port"),
        1,
        "the file was not stable"
    );
    let_go.send(()).expect("the client waits");
    client.join().expect("the client goes on");
    let mut raw = Raw::connect(server.address());
    let root = raw.root();
    let file = raw.look_up(root, "outage").expect("it is there");
    let mut read = Vec::new();
    for piece in 0..3 {
        let (offset, bytes) = (piece << 20, 1 << 20);
        let reply = raw.ask(&Request::Read { file, offset, bytes });
        let part = parse_read(reply.results(), bytes).expect("well formed");
        read.extend_from_slice(&reply.results[part.data]);
    }
    assert!(read == pages());
    assert_eq!(
        server.restart(NO_OUTAGE).expect("the port"),
        0,
        "all of it is stable"
    );
    assert_eq!(raw.receive().map(|_| OK), None);
}
