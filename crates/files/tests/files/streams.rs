//! Sequential reads and writes of a file: which requests are in flight, and which calls wait for them. Also tests a
//! break, a refusal and the end of the session during the stream.

use crate::clock::{run, until, MS};
use crate::rig::{alone, client, passed, server, together, Shared, User};
use crate::server::Refusal;
use dyno_files::{CacheOptions, Call, CallKind, Files, Handle};
use dyno_measure::Fault;
use std::cell::Cell;

const PAGE: u64 = 4096;
const KIB: u64 = 1024;

/// Returns options with reads of 16 KiB and a read-ahead of four reads.
pub fn streaming() -> CacheOptions {
    CacheOptions {
        read_run_bytes: 16 << 10,
        read_ahead_bytes: 64 << 10,
        ..CacheOptions::modern()
    }
}

/// Returns bytes that differ for each position and version.
fn content(bytes: u64, version: u64) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at / 251 + at + version * 131) as u8)
        .collect()
}

fn put(server: &Shared, bytes: u64) {
    server.borrow_mut().put("file", &content(bytes, 0), false);
}

/// Returns the number of requests that the server has received and not answered.
fn held_back(server: &Shared) -> usize {
    server.borrow().waiting_clients().len()
}

/// Makes calls of these kinds wait; all others are executed on arrival.
fn hold(server: &Shared, kinds: &[CallKind]) {
    let mut server = server.borrow_mut();
    (server.held, server.by_hand) = (kinds.to_vec(), false);
    server.carry_out_all();
}

/// Reads `pages` pages from the start of the file. Read-ahead is still in flight afterwards.
async fn read_on(user: &mut User, handle: Handle, pages: u64) {
    for page in 0..pages {
        let data = user.read(handle, page * PAGE, PAGE as u32).await;
        assert_eq!(data, &content((page + 1) * PAGE, 0)[(page * PAGE) as usize..]);
    }
}

#[test]
fn read_ahead_keeps_requests_of_full_size_in_flight() {
    let server = server(1);
    put(&server, 200 * KIB);
    alone(async {
        let mut user = client(&server, 0, streaming()).await;
        let handle = user.open("file").await;
        user.read(handle, 0, 4096).await;
        assert_eq!(passed(&server), ["open", "read 0+4096"]);
        user.read(handle, 4096, 4096).await;
        let begun = [
            "read 4096+4096",
            "read 8192+16384",
            "read 24576+16384",
            "read 40960+16384",
            "read 57344+16384",
        ];
        assert_eq!(passed(&server), begun);
        // Three more pages leave no space for a whole piece; the fourth does.
        for page in 2..5 {
            user.read(handle, page * PAGE, 4096).await;
        }
        assert_eq!(passed(&server), [""; 0]);
        user.read(handle, 5 * PAGE, 4096).await;
        assert_eq!(passed(&server), ["read 73728+16384"]);
    });
}

#[test]
fn a_whole_file_is_requested_once_up_to_its_end() {
    let server = server(1);
    let bytes = 200 * KIB + 77;
    put(&server, bytes);
    alone(async {
        let mut user = client(&server, 0, streaming()).await;
        let handle = user.open("file").await;
        let mut data = Vec::new();
        while (data.len() as u64) < bytes {
            data.extend(user.read(handle, data.len() as u64, 10_000).await);
        }
        assert_eq!(data, content(bytes, 0));
        assert_eq!(user.read(handle, bytes, 10_000).await, [0; 0]);
        let asked: u64 = server.borrow().log.iter().map(|call| call.bytes).sum();
        assert_eq!(asked, bytes);
        assert_eq!(user.files.counts().reads_through, 0);
    });
}

#[test]
fn random_reads_fetch_nothing_ahead() {
    let server = server(1);
    put(&server, 200 * KIB);
    alone(async {
        let mut user = client(&server, 0, streaming()).await;
        let handle = user.open("file").await;
        for page in [3, 9, 5, 20] {
            user.read(handle, page * PAGE, 4096).await;
        }
        let reads = [
            "read 12288+4096",
            "read 36864+4096",
            "read 20480+4096",
            "read 81920+4096",
        ];
        assert_eq!(passed(&server)[1..], reads);
    });
}

#[test]
fn a_read_waits_only_for_its_own_pages() {
    let server = server(1);
    put(&server, 200 * KIB);
    let step = Cell::new(0);
    together(vec![
        Box::pin(async {
            let mut user = client(&server, 0, streaming()).await;
            let handle = user.open("file").await;
            user.read(handle, 0, 4096).await;
            server.borrow_mut().by_hand = true;
            step.set(1);
            user.read(handle, 4096, 4096).await;
            // Four pieces are requested and have not arrived.
            assert_eq!(held_back(&server), 4);
            step.set(2);
            user.read(handle, 8192, 16_384).await;
            step.set(3);
        }),
        Box::pin(async {
            until(|| step.get() == 1 && held_back(&server) == 5).await;
            assert!(server.borrow_mut().carry_out_any(0));
            until(|| step.get() == 2).await;
            assert!(server.borrow_mut().carry_out_any(0));
            until(|| step.get() == 3).await;
        }),
    ]);
}

/// Reads with read-ahead in flight, then makes `call`, which must not reach the server before the reads are answered.
/// Returns the requests from the moment when the reads are released.
fn after_a_stream(call: impl AsyncFnOnce(&mut User, Handle)) -> Vec<String> {
    let server = server(1);
    put(&server, 200 * KIB);
    let calling = Cell::new(false);
    let task = async {
        let mut user = client(&server, 0, streaming()).await;
        let handle = user.edit("file").await;
        user.read(handle, 0, 4096).await;
        server.borrow_mut().by_hand = true;
        user.read(handle, 4096, 4096).await;
        passed(&server);
        calling.set(true);
        call(&mut user, handle).await;
    };
    let nudge = || {
        let mut server = server.borrow_mut();
        if !calling.get() {
            return server.carry_out_any(0);
        }
        // The newest first: a call that does not wait for the others overtakes them.
        let newest = server.waiting_clients().len().saturating_sub(1);
        !server.waiting_clients().is_empty() && server.carry_out_any(newest)
    };
    run(vec![Box::pin(task)], nudge);
    passed(&server)
}

const AHEAD: [&str; 4] = [
    "read 57344+16384",
    "read 40960+16384",
    "read 24576+16384",
    "read 8192+16384",
];

#[test]
fn every_other_call_waits_for_read_ahead_in_flight() {
    let flushed = after_a_stream(async |user, handle| {
        user.call(Call::Flush { handle }).await.unwrap();
    });
    assert_eq!(flushed, [&AHEAD[..], &["flush"]].concat());
    let ended = after_a_stream(async |user, handle| {
        user.call(Call::SetEnd { handle, bytes: 9000 }).await.unwrap();
        assert_eq!(user.read(handle, 8192, 9000).await.len(), 808);
    });
    assert_eq!(ended[..5], [&AHEAD[..], &["set end"]].concat());
    let locked = after_a_stream(async |user, handle| {
        let (offset, bytes) = (0, 10);
        user.call(Call::Lock {
            handle,
            offset,
            bytes,
        })
        .await
        .unwrap();
    });
    assert_eq!(locked, [&AHEAD[..], &["lock"]].concat());
    let opened = after_a_stream(async |user, _| {
        user.make("other").await;
    });
    assert_eq!(opened, [&AHEAD[..], &["create"]].concat());
    let renamed = after_a_stream(async |user, _| {
        let (from, to) = ("file", "else");
        user.call(Call::Rename { from, to }).await.unwrap();
    });
    assert_eq!(renamed, [&AHEAD[..], &["rename"]].concat());
    let finished = after_a_stream(async |user, handle| {
        user.close(handle).await;
        user.finish().await;
    });
    assert_eq!(finished, [&AHEAD[..], &["close"]].concat());
}

#[test]
fn a_write_into_read_ahead_in_flight_is_read_back() {
    let passed = after_a_stream(async |user, handle| {
        user.write(handle, 9000, b"mine").await;
        user.call(Call::Flush { handle }).await.unwrap();
        assert_eq!(user.read(handle, 9000, 4).await, b"mine");
    });
    assert_eq!(passed, [&AHEAD[..], &["write 8192+4096", "flush"]].concat());
}

#[test]
fn a_break_during_read_ahead_is_obeyed_afterwards_and_drops_the_data() {
    let server = server(2);
    put(&server, 200 * KIB);
    let (step, opened) = (Cell::new(0), Cell::new(false));
    let reader = async {
        let mut user = client(&server, 0, streaming()).await;
        let handle = user.edit("file").await;
        user.read(handle, 0, 4096).await;
        server.borrow_mut().by_hand = true;
        step.set(1);
        user.read(handle, 4096, 4096).await;
        assert_eq!(held_back(&server), 4);
        hold(&server, &[CallKind::Read]);
        step.set(2);
        while step.get() < 4 {
            user.idle(MS).await;
        }
        let data = user.read(handle, 8192, 4096).await;
        assert_eq!(data, &content(200 * KIB, 1)[8192..12_288]);
    };
    let writer = async {
        until(|| step.get() == 2).await;
        let mut user = client(&server, 1, CacheOptions::modern()).await;
        let handle = user.edit("file").await;
        opened.set(true);
        user.write(handle, 0, &content(200 * KIB, 1)).await;
        user.close(handle).await;
        user.finish().await;
        step.set(4);
    };
    run(vec![Box::pin(reader), Box::pin(writer)], || match step.get() {
        1 => server.borrow_mut().carry_out_any(0),
        2 => {
            // The reader has received the break, and its acknowledgement must wait for the reads.
            assert!(!opened.get() && held_back(&server) == 5);
            step.set(3);
            hold(&server, &[]);
            true
        }
        _ => false,
    });
    assert_eq!(server.borrow().wrong_answers, 0);
}

#[test]
fn failed_read_ahead_is_requested_again_when_needed() {
    let server = server(1);
    put(&server, 200 * KIB);
    let refuse = |after| Refusal {
        client: 0,
        kind: CallKind::Read,
        after,
        with: Fault::NoSpace,
    };
    alone(async {
        let mut user = client(&server, 0, streaming()).await;
        let handle = user.open("file").await;
        read_on(&mut user, handle, 1).await;
        // Refuse the second piece of the read-ahead.
        server.borrow_mut().refusals.push(refuse(2));
        read_on(&mut user, handle, 6).await;
        passed(&server);
        // The failure is reported only if the read is refused again.
        server.borrow_mut().refusals.push(refuse(0));
        let read = Call::Read {
            handle,
            offset: 6 * PAGE,
            bytes: 4096,
        };
        assert_eq!(user.call(read).await, Err(Fault::NoSpace));
        assert_eq!(passed(&server)[0], "read 24576+4096");
        read_on(&mut user, handle, 20).await;
        user.finish().await;
        assert_eq!(server.borrow().open_handles(), 0);
    });
}

#[test]
fn a_session_lost_during_read_ahead_leaves_nothing_behind() {
    let server = server(1);
    put(&server, 200 * KIB);
    alone(async {
        let mut user = client(&server, 0, streaming()).await;
        let handle = user.open("file").await;
        read_on(&mut user, handle, 1).await;
        read_on(&mut user, handle, 2).await;
        server.borrow_mut().cut(0);
        let (offset, bytes) = (8192, 4096);
        let read = Call::Read {
            handle,
            offset,
            bytes,
        };
        assert_eq!(user.call(read).await, Err(Fault::SessionLost));
        user.files.finish().await.unwrap();
        user.files.connect().await.unwrap();
        let handle = user.open("file").await;
        read_on(&mut user, handle, 20).await;
        user.close(handle).await;
        user.finish().await;
    });
}

/// Returns options with writes of 16 KiB and little memory, so that an eighth of it is soon dirty.
pub fn writing() -> CacheOptions {
    CacheOptions {
        most_bytes: CacheOptions::LEAST_BYTES,
        write_run_bytes: 16 << 10,
        ..streaming()
    }
}

async fn write_on(user: &mut User, handle: Handle, pages: std::ops::Range<u64>) {
    let all = content(pages.end * PAGE, 0);
    for page in pages {
        let at = page * PAGE;
        user.write(handle, at, &all[at as usize..][..4096]).await;
    }
}

#[test]
fn sequential_writes_are_sent_in_whole_runs_while_writing_continues() {
    let server = server(1);
    alone(async {
        let mut user = client(&server, 0, writing()).await;
        let handle = user.make("file").await;
        hold(&server, &[CallKind::Write]);
        write_on(&mut user, handle, 0..31).await;
        assert_eq!(held_back(&server), 0);
        write_on(&mut user, handle, 31..50).await;
        assert_eq!(held_back(&server), 5);
        hold(&server, &[]);
        let runs = ["write 0+16384", "write 16384+16384", "write 32768+16384"];
        assert_eq!(passed(&server)[..4], [&["create"], &runs[..]].concat());
        user.close(handle).await;
        assert_eq!(server.borrow().content("file"), Some(&content(50 * PAGE, 0)[..]));
        user.finish().await;
    });
}

/// Writes until five runs are in flight, then makes `call`. Only then does the server execute the runs, newest first.
fn after_writes(call: impl AsyncFnOnce(&mut User, Handle)) -> Vec<String> {
    let server = server(1);
    let calling = Cell::new(false);
    let task = async {
        let mut user = client(&server, 0, writing()).await;
        let handle = user.make("file").await;
        server.borrow_mut().by_hand = true;
        write_on(&mut user, handle, 0..50).await;
        passed(&server);
        calling.set(true);
        call(&mut user, handle).await;
    };
    run(vec![Box::pin(task)], || {
        let waiting = held_back(&server);
        waiting > 0
            && server
                .borrow_mut()
                .carry_out_any(if calling.get() { waiting - 1 } else { 0 })
    });
    passed(&server)
}

const BEHIND: [&str; 5] = [
    "write 65536+16384",
    "write 49152+16384",
    "write 32768+16384",
    "write 16384+16384",
    "write 0+16384",
];

#[test]
fn every_call_but_a_write_elsewhere_waits_for_write_behind_in_flight() {
    let read = after_writes(async |user, handle| {
        assert_eq!(user.read(handle, 0, 8192).await, content(8192, 0));
    });
    assert_eq!(read, BEHIND);
    let written = after_writes(async |user, handle| {
        user.write(handle, 16_000, b"mine").await;
        assert_eq!(user.read(handle, 16_000, 4).await, b"mine");
    });
    assert_eq!(written, BEHIND);
    let ended = after_writes(async |user, handle| {
        user.call(Call::SetEnd { handle, bytes: 10 }).await.unwrap();
    });
    assert_eq!(ended[..5], BEHIND);
    let opened = after_writes(async |user, _| {
        user.make("other").await;
    });
    assert_eq!(opened, [&BEHIND[..], &["create"]].concat());
}

#[test]
fn a_refused_write_behind_is_reported_once_and_the_servers_size_applies() {
    let server = server(1);
    alone(async {
        let mut user = client(&server, 0, writing()).await;
        let handle = user.make("file").await;
        server.borrow_mut().refusals.push(Refusal {
            client: 0,
            kind: CallKind::Write,
            after: 2,
            with: Fault::NoSpace,
        });
        write_on(&mut user, handle, 0..50).await;
        assert_eq!(user.call(Call::Flush { handle }).await, Err(Fault::NoSpace));
        assert_eq!(user.read(handle, 32_768, 16_384).await, [0; 16_384]);
        assert_eq!(
            user.read(handle, 49_152, 4096).await,
            &content(53_248, 0)[49_152..]
        );
        user.close(handle).await;
        user.finish().await;
    });
}
