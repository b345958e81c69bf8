//! A refusal by the server is reported once, to the affected caller. The loss of a session is reported, too.

use crate::clock::MS;
use crate::rig::{alone, client, passed, server, together};
use crate::server::Refusal;
use dyno_files::{Access, CacheOptions, Call, CallKind, Disposition, Files, Reply};
use dyno_measure::Fault;
use std::cell::Cell;

fn refuse(kind: CallKind, after: u32) -> Refusal {
    Refusal {
        client: 0,
        kind,
        after,
        with: Fault::NoSpace,
    }
}

#[test]
fn a_refused_write_back_is_reported_by_the_close_which_still_closes() {
    let server = server(1);
    server.borrow_mut().put("one", &[0; 8192], false);
    alone(async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        let handle = user.edit("one").await;
        user.write(handle, 0, &[1; 4096]).await;
        server.borrow_mut().refusals.push(refuse(CallKind::Write, 0));
        assert_eq!(user.call(Call::Close { handle }).await, Err(Fault::NoSpace));
        assert_eq!(user.call(Call::Close { handle }).await, Err(Fault::SessionLost));
        // One report is enough, and data that was not written is not visible.
        let handle = user.edit("one").await;
        assert_eq!(user.read(handle, 0, 10).await, [0; 10]);
        user.finish().await;
    });
}

#[test]
fn a_refused_write_back_is_reported_by_the_flush() {
    let server = server(1);
    server.borrow_mut().put("one", &[0; 8192], false);
    alone(async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        let handle = user.edit("one").await;
        user.write(handle, 0, &[1; 4096]).await;
        server.borrow_mut().refusals.push(refuse(CallKind::Write, 0));
        assert_eq!(user.call(Call::Flush { handle }).await, Err(Fault::NoSpace));
        assert_eq!(user.call(Call::Flush { handle }).await, Ok(Reply::Done));
    });
}

#[test]
fn a_refused_write_back_caused_by_a_break_is_reported_by_the_next_call() {
    let server = server(2);
    server.borrow_mut().put("one", &[0; 8192], false);
    let step = Cell::new(0);
    together(vec![
        Box::pin(async {
            let mut user = client(&server, 0, CacheOptions::default()).await;
            let handle = user.edit("one").await;
            user.write(handle, 0, &[1; 4096]).await;
            server.borrow_mut().refusals.push(refuse(CallKind::Write, 0));
            step.set(1);
            while step.get() < 2 {
                user.idle(MS).await;
            }
            let read = Call::Read {
                handle,
                offset: 0,
                bytes: 10,
            };
            assert_eq!(user.call(read).await, Err(Fault::NoSpace));
            assert_eq!(user.read(handle, 0, 10).await, [0; 10]);
        }),
        Box::pin(async {
            let mut user = client(&server, 1, CacheOptions::default()).await;
            while step.get() < 1 {
                user.idle(MS).await;
            }
            // The other client still answers.
            user.open("one").await;
            step.set(2);
            user.idle(10 * MS).await;
        }),
    ]);
    assert_eq!(server.borrow().wrong_answers, 0);
}

#[test]
fn a_refused_write_back_is_reported_at_the_end_of_the_session() {
    let server = server(1);
    server.borrow_mut().put("one", &[0; 8192], false);
    alone(async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        let handle = user.edit("one").await;
        user.write(handle, 0, &[1; 4096]).await;
        server.borrow_mut().refusals.push(refuse(CallKind::Write, 0));
        assert_eq!(user.files.finish().await.unwrap_err().fault, Fault::NoSpace);
        assert_eq!(server.borrow().open_handles(), 0);
    });
}

#[test]
fn after_a_refused_write_back_the_servers_size_applies() {
    let server = server(1);
    alone(async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        let handle = user.make("one").await;
        user.write(handle, 0, &[1; 4096]).await;
        user.write(handle, 4096, &[2; 100_000]).await;
        server.borrow_mut().refusals.push(refuse(CallKind::Write, 1));
        assert_eq!(user.call(Call::Flush { handle }).await, Err(Fault::NoSpace));
        let Ok(Reply::Info(info)) = user.call(Call::QueryHandle { handle }).await else {
            panic!("an open file has a size");
        };
        assert_eq!(info.bytes, 65_536);
        assert_eq!(user.read(handle, 60_000, 60_000).await, [2; 5536]);
    });
}

#[test]
fn a_full_volume_is_reported_by_the_extending_write() {
    let server = server(1);
    alone(async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        let handle = user.make("one").await;
        server.borrow_mut().refusals.push(refuse(CallKind::Write, 0));
        assert_eq!(user.try_write(handle, 0, b"abc").await, Err(Fault::NoSpace));
        user.close(handle).await;
        assert_eq!(server.borrow().content("one"), Some(&b""[..]));
    });
}

#[test]
fn a_refused_fetch_is_reported_by_the_read_or_write_that_needed_it() {
    let server = server(1);
    server.borrow_mut().put("one", &[3; 200_000], false);
    alone(async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        let handle = user.edit("one").await;
        server.borrow_mut().refusals.push(refuse(CallKind::Read, 1));
        let read = Call::Read {
            handle,
            offset: 0,
            bytes: 65_534,
        };
        assert_eq!(user.call(read).await, Err(Fault::NoSpace));
        assert_eq!(user.read(handle, 0, 65_534).await, [3; 65_534]);
        server.borrow_mut().refusals.push(refuse(CallKind::Read, 0));
        assert_eq!(user.try_write(handle, 100_000, b"abc").await, Err(Fault::NoSpace));
        user.write(handle, 100_000, b"abc").await;
        user.close(handle).await;
        assert_eq!(
            &server.borrow().content("one").unwrap()[99_999..100_004],
            b"\x03abc\x03"
        );
    });
}

#[test]
fn a_refused_deferred_close_is_reported_by_the_next_call() {
    let server = server(1);
    server.borrow_mut().put("one", b"x", false);
    alone(async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        let handle = user.open("one").await;
        user.close(handle).await;
        server.borrow_mut().refusals.push(refuse(CallKind::Close, 0));
        user.idle(11_000 * MS).await;
        assert_eq!(
            user.call(Call::QuerySpace { directory: "" }).await,
            Err(Fault::NoSpace)
        );
        assert!(user.call(Call::QuerySpace { directory: "" }).await.is_ok());
    });
}

#[test]
fn a_lost_session_is_reported_and_its_state_is_dropped() {
    let server = server(1);
    server.borrow_mut().put("one", b"old", false);
    alone(async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        let handle = user.edit("one").await;
        user.write(handle, 0, b"new").await;
        server.borrow_mut().cut(0);
        assert_eq!(user.call(Call::Flush { handle }).await, Err(Fault::SessionLost));
        user.files.finish().await.unwrap();
        user.files.connect().await.unwrap();
        assert_eq!(user.call(Call::Flush { handle }).await, Err(Fault::SessionLost));
        let handle = user.open("one").await;
        assert_eq!(user.read(handle, 0, 10).await, b"old");
    });
}

#[test]
fn a_session_lost_during_a_write_back_is_reported_by_that_call() {
    let server = server(1);
    server.borrow_mut().put("one", &[0; 8192], false);
    let closing = Cell::new(false);
    server.borrow_mut().held = vec![CallKind::Write];
    let task = async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        let handle = user.edit("one").await;
        user.write(handle, 0, &[1; 4096]).await;
        closing.set(true);
        assert_eq!(user.call(Call::Close { handle }).await, Err(Fault::SessionLost));
        assert_eq!(
            user.call(Call::QuerySpace { directory: "" }).await,
            Err(Fault::SessionLost)
        );
    };
    crate::clock::run(vec![Box::pin(task)], || {
        if closing.get() {
            server.borrow_mut().cut(0);
        }
        closing.replace(false)
    });
}

#[test]
fn a_refused_open_does_not_affect_open_handles() {
    let server = server(1);
    server.borrow_mut().put("one", &[5; 10], false);
    alone(async {
        let mut user = client(&server, 0, CacheOptions::modern()).await;
        let reader = user.open("one").await;
        user.read(reader, 0, 10).await;
        server.borrow_mut().refusals.push(refuse(CallKind::Open, 0));
        let refused = user.try_open("one", Access::ReadWrite, Disposition::Open).await;
        assert_eq!(refused, Err(Fault::NoSpace));
        passed(&server);
        assert_eq!(user.read(reader, 0, 10).await, [5; 10]);
        assert_eq!(passed(&server), [""; 0]);
        user.finish().await;
        assert_eq!(server.borrow().open_handles(), 0);
    });
}
