//! Breaks at inconvenient moments, and clients that compete for files.

use crate::clock::{run, until, MS};
use crate::connection::Connection;
use crate::rig::{alone, client, passed, server, some_cases, together, User};
use dyno_files::{
    Access, Ask, CacheOptions, Caching, Call, CallKind, Disposition, FileClient, Grant, Handle, LeaseKey,
    Open, Policy, Reply,
};
use dyno_measure::Fault;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};

fn leases() -> CacheOptions {
    CacheOptions {
        policy: Policy::Lease(Caching::ALL),
        ..CacheOptions::default()
    }
}

#[test]
fn another_client_that_opens_sees_what_was_written() {
    for options in [CacheOptions::default(), leases(), CacheOptions::modern()] {
        let server = server(2);
        let written = Cell::new(false);
        let read = Cell::new(false);
        together(vec![
            Box::pin(async {
                let mut user = client(&server, 0, options).await;
                let handle = user.make("one").await;
                user.write(handle, 0, b"first").await;
                written.set(true);
                while !read.get() {
                    user.idle(MS).await;
                }
                // The other client's later writes are visible, although this client had cached the file.
                assert_eq!(user.read(handle, 0, 10).await, b"other");
                user.finish().await;
            }),
            Box::pin(async {
                let mut user = client(&server, 1, options).await;
                while !written.get() {
                    user.idle(MS).await;
                }
                let handle = user.edit("one").await;
                assert_eq!(user.read(handle, 0, 10).await, b"first");
                user.write(handle, 0, b"other").await;
                read.set(true);
                user.idle(100 * MS).await;
                user.finish().await;
            }),
        ]);
        assert_eq!(server.borrow().wrong_answers, 0);
        assert_eq!(server.borrow().content("one"), Some(&b"other"[..]));
    }
}

#[test]
fn a_kept_handle_is_closed_when_another_client_wants_the_file() {
    let server = server(2);
    server.borrow_mut().put("one", b"x", false);
    let kept = Cell::new(false);
    together(vec![
        Box::pin(async {
            let mut user = client(&server, 0, CacheOptions::default()).await;
            let handle = user.open("one").await;
            user.close(handle).await;
            kept.set(true);
            user.idle(10 * MS).await;
            assert_eq!(passed(&server), ["open", "close", "open"]);
        }),
        Box::pin(async {
            let mut user = client(&server, 1, CacheOptions::default()).await;
            while !kept.get() {
                user.idle(MS).await;
            }
            user.open("one").await;
            user.idle(20 * MS).await;
        }),
    ]);
    assert_eq!(server.borrow().wrong_answers, 0, "closing answers a break");
}

/// Creates a file, then opens the one that the other client has created and still has open.
async fn wants(user: &mut User, own: &str, other: &str, together: &Cell<u32>, options: CacheOptions) {
    let handle = user.make(own).await;
    user.write(handle, 0, own.as_bytes()).await;
    together.set(together.get() + 1);
    while together.get() < 2 {
        user.idle(MS).await;
    }
    let theirs = user.edit(other).await;
    assert_eq!(user.read(theirs, 0, 100).await, other.as_bytes(), "{options:?}");
    user.idle(10 * MS).await;
    user.finish().await;
}

#[test]
fn two_clients_that_open_each_others_files_both_continue() {
    for options in [CacheOptions::default(), leases()] {
        let server = server(2);
        let count = Cell::new(0);
        together(vec![
            Box::pin(async {
                let mut user = client(&server, 0, options).await;
                wants(&mut user, "mine", "yours", &count, options).await;
            }),
            Box::pin(async {
                let mut user = client(&server, 1, options).await;
                wants(&mut user, "yours", "mine", &count, options).await;
            }),
        ]);
        assert_eq!(server.borrow().wrong_answers, 0);
    }
}

#[test]
fn a_break_during_a_write_back_is_answered_afterwards() {
    let server = server(2);
    let (closing, answered) = (Cell::new(false), Cell::new(false));
    let task = |opened: &'static str| opened;
    server.borrow_mut().held = vec![CallKind::Write];
    server.borrow_mut().allocation_bytes = 1 << 20;
    server.borrow_mut().put("one", &[0; 8192], false);
    let holder = async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        let handle = user.edit("one").await;
        user.write(handle, 0, &[8; 4096]).await;
        closing.set(true);
        user.close(handle).await;
        user.idle(10 * MS).await;
    };
    let other = async {
        let mut user = client(&server, 1, CacheOptions::default()).await;
        while !closing.get() {
            user.idle(MS).await;
        }
        let handle = user.open(task("one")).await;
        assert_eq!(user.read(handle, 0, 10).await, [8; 10]);
        answered.set(true);
    };
    // No task progresses until the write is released. By then, the holder has received the break.
    let mut nudges = 0;
    run(vec![Box::pin(holder), Box::pin(other)], || {
        let mut server = server.borrow_mut();
        if !closing.get() || server.held.is_empty() {
            return false;
        }
        nudges += 1;
        assert!(!answered.get());
        if nudges == 5 {
            server.held.clear();
            server.carry_out_all();
        }
        true
    });
    assert!(answered.get());
    assert_eq!(
        passed(&server),
        ["open", "write 0+4096", "close", "open", "read 0+4096"]
    );
}

#[test]
fn a_break_that_arrives_before_the_open_has_ended_is_obeyed() {
    // The first client's open is granted and broken before the client handles either message.
    for policy in [Policy::Oplock(Caching::ALL), Policy::Lease(Caching::ALL)] {
        let server = server(2);
        server.borrow_mut().put("one", b"x", false);
        let options = CacheOptions {
            policy,
            ..CacheOptions::default()
        };
        let done = Cell::new(0);
        let user = |number: usize| {
            let (server, done) = (&server, &done);
            async move {
                let mut user = client(server, number, options).await;
                let handle = user.edit("one").await;
                assert_eq!(user.read(handle, 0, 5).await, b"x");
                done.set(done.get() + 1);
                while done.get() < 2 {
                    user.idle(MS).await;
                }
                user.finish().await;
            }
        };
        server.borrow_mut().by_hand = true;
        run(vec![Box::pin(user(0)), Box::pin(user(1))], || {
            let mut server = server.borrow_mut();
            let any = server.carry_out_any(0);
            // Both opens have reached the server before either is answered. From now on, the server executes calls
            // automatically.
            server.by_hand = false;
            server.carry_out_all();
            any
        });
        assert_eq!(server.borrow().wrong_answers, 0);
    }
}

#[test]
fn breaks_of_unknown_grants_are_not_answered() {
    let server = server(1);
    server.borrow_mut().put("one", b"x", false);
    alone(async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        user.open("one").await;
        for grant in [Grant::Handle(Handle(77)), Grant::Lease(LeaseKey(5))] {
            server.borrow_mut().send_break(0, grant, Caching::NONE);
        }
        user.idle(MS).await;
        user.open("one").await;
    });
    assert_eq!(server.borrow().wrong_answers, 0);
    assert_eq!(passed(&server), ["open"]);
}

#[test]
fn a_server_that_sends_endless_breaks_ends_the_session() {
    let server = server(1);
    server.borrow_mut().held = vec![CallKind::Open];
    let opening = Cell::new(false);
    let task = async {
        let mut user = client(&server, 0, leases()).await;
        opening.set(true);
        let opened = user.try_open("one", Access::Read, Disposition::Open).await;
        assert_eq!(opened, Err(Fault::MalformedMessage));
    };
    run(vec![Box::pin(task)], || {
        for key in 0..10_000 {
            // Breaks of leases that the open in progress might get: the client can't know.
            let grant = Grant::Lease(LeaseKey(1 << 64 | key));
            server.borrow_mut().send_break(0, grant, Caching::NONE);
        }
        opening.replace(false)
    });
}

#[test]
fn a_level_ii_oplock_keeps_reads_until_somebody_writes() {
    let server = server(2);
    server.borrow_mut().put("one", &[1; 100], false);
    let step = Cell::new(0);
    together(vec![
        Box::pin(async {
            let mut user = client(&server, 0, CacheOptions::default()).await;
            let handle = user.open("one").await;
            user.read(handle, 0, 10).await;
            step.set(1);
            while step.get() < 2 {
                user.idle(MS).await;
            }
            passed(&server);
            // The oplock is now level II: data read before the break is still valid.
            assert_eq!(user.read(handle, 0, 10).await, [1; 10]);
            assert_eq!(passed(&server), [""; 0]);
            step.set(3);
            // The break arrives while this client is not polling, and is handled before the next call is
            // answered.
            until(|| step.get() == 4).await;
            assert_eq!(user.read(handle, 0, 10).await, [2; 10]);
        }),
        Box::pin(async {
            let mut user = client(&server, 1, CacheOptions::default()).await;
            while step.get() < 1 {
                user.idle(MS).await;
            }
            let handle = user.edit("one").await;
            step.set(2);
            while step.get() < 3 {
                user.idle(MS).await;
            }
            user.write(handle, 0, &[2; 10]).await;
            step.set(4);
            user.idle(10 * MS).await;
        }),
    ]);
    assert_eq!(server.borrow().wrong_answers, 0);
}

/// Samba grants such leases if a file is locked.
#[test]
fn a_client_with_handle_caching_only_gets_the_current_size_on_each_open() {
    let server = server(2);
    server.borrow_mut().put("one", &[1; 100], false);
    server.borrow_mut().grants = Caching {
        handle: true,
        ..Caching::NONE
    };
    let step = Cell::new(0);
    together(vec![
        Box::pin(async {
            let mut user = client(&server, 0, CacheOptions::modern()).await;
            until(|| step.get() == 1).await;
            let handle = user.open("one").await;
            user.close(handle).await;
            step.set(2);
            until(|| step.get() == 3).await;
            passed(&server);
            let open = Open {
                path: "one",
                access: Access::Read,
                disposition: Disposition::Open,
                directory: false,
                delete_on_close: false,
                ask: Ask::Nothing,
            };
            let opened = user.call(Call::Open(open)).await;
            assert!(matches!(opened, Ok(Reply::Opened { info, .. }) if info.bytes == 101));
            assert_eq!(passed(&server), ["query file"]);
            user.finish().await;
        }),
        Box::pin(async {
            let mut user = client(&server, 1, CacheOptions::modern()).await;
            let handle = user.edit("one").await;
            step.set(1);
            until(|| step.get() == 2).await;
            user.write(handle, 100, b"!").await;
            step.set(3);
            user.finish().await;
        }),
    ]);
}

#[test]
fn an_own_second_open_breaks_the_own_oplock_and_both_handles_agree() {
    let server = server(1);
    server.borrow_mut().put("one", &[1; 100], false);
    // The break of level II is only delivered after the end of the write, as with real servers.
    server.borrow_mut().slow_breaks = true;
    alone(async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        let reader = user.open("one").await;
        assert_eq!(user.read(reader, 0, 4).await, [1; 4]);
        let writer = user.edit("one").await;
        user.write(writer, 0, b"new!").await;
        assert_eq!(user.read(reader, 0, 4).await, b"new!");
        server.borrow_mut().deliver_breaks();
        assert_eq!(user.read(reader, 0, 4).await, b"new!");
        user.finish().await;
    });
    assert_eq!(server.borrow().wrong_answers, 0);
}

#[test]
fn an_own_truncating_open_truncates_the_file_for_other_own_handles() {
    let server = server(1);
    server.borrow_mut().put("one", &[1; 100], false);
    server.borrow_mut().grants = Caching::READ;
    server.borrow_mut().slow_breaks = true;
    alone(async {
        let mut user = client(&server, 0, CacheOptions::default()).await;
        let reader = user.open("one").await;
        assert_eq!(user.read(reader, 0, 4).await, [1; 4]);
        let emptied = user
            .try_open("one", Access::ReadWrite, Disposition::Overwrite)
            .await;
        assert!(emptied.unwrap().is_some());
        assert_eq!(user.read(reader, 0, 4).await, b"");
    });
}

#[test]
fn a_grant_that_was_broken_before_it_was_read_is_void() {
    let server = server(2);
    server.borrow_mut().put("one", &[0; 100], false);
    let step = Cell::new(0);
    let holder = async {
        let mut user = client(&server, 0, leases()).await;
        let reader = user.open("one").await;
        user.read(reader, 0, 1).await;
        server.borrow_mut().by_hand = true;
        step.set(1);
        // The other client's open comes first and breaks the lease; this client receives the old lease
        // state.
        let writer = user.edit("one").await;
        user.write(writer, 0, b"new").await;
        step.set(2);
        until(|| step.get() == 3).await;
        user.finish().await;
    };
    let other = async {
        until(|| step.get() == 1).await;
        let mut user = client(&server, 1, leases()).await;
        let handle = user.open("one").await;
        while step.get() < 2 {
            user.idle(MS).await;
        }
        // The holder does not delay the read.
        assert_eq!(user.read(handle, 0, 3).await, b"new");
        step.set(3);
    };
    let mut both_wait = false;
    run(vec![Box::pin(holder), Box::pin(other)], || {
        let mut server = server.borrow_mut();
        let waiting = server.waiting_clients();
        both_wait |= waiting == [0, 1];
        both_wait && server.carry_out_any(waiting.len() - 1)
    });
    assert!(both_wait);
    assert_eq!(server.borrow().wrong_answers, 0);
}

const REGION: usize = 1000;
const FILES: usize = 3;

/// Works on the same files as other clients: repeatedly writes this client's own region, and must read its last data
/// there. In the other regions, no byte may ever become older. A file may be open twice, for reading and for writing.
async fn work(mut user: User, me: usize, clients: usize, mut seed: u64, rounds: u32) {
    let mut versions = [0_u8; FILES];
    let mut seen = vec![vec![0_u8; REGION * clients]; FILES];
    let mut open: Vec<[Option<Handle>; 2]> = vec![[None; 2]; FILES];
    for _ in 0..rounds {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (file, what, writes) = (
            (seed >> 33) as usize % FILES,
            (seed >> 40) % 10,
            (seed >> 50) as usize % 2,
        );
        let Some(handle) = open[file][writes] else {
            let path = format!("file{file}");
            let access = [Access::Read, Access::ReadWrite][writes];
            open[file][writes] = user.try_open(&path, access, Disposition::OpenIf).await.unwrap();
            continue;
        };
        match what {
            0..=3 if writes == 1 => {
                versions[file] += 1;
                user.write(handle, (me * REGION) as u64, &[versions[file]; REGION])
                    .await;
            }
            0..=6 => {
                let data = user.read(handle, 0, (REGION * clients) as u32).await;
                let mut whole = vec![0; REGION * clients];
                whole[..data.len()].copy_from_slice(&data);
                let own = &whole[me * REGION..(me + 1) * REGION];
                assert!(
                    own.iter().all(|byte| *byte == versions[file]),
                    "client {me} lost what it wrote to {file}"
                );
                let older = whole
                    .iter()
                    .zip(&seen[file])
                    .position(|(now, before)| now < before);
                assert_eq!(older, None, "client {me} was shown an older byte of {file}");
                seen[file] = whole;
            }
            7..=8 => {
                user.close(handle).await;
                open[file][writes] = None;
            }
            _ => user.idle(MS).await,
        }
    }
    for handle in open.into_iter().flatten().flatten() {
        user.close(handle).await;
    }
    // The other clients may still want the cached files.
    user.idle(1000 * MS).await;
    user.finish().await;
}

proptest! {
    #![proptest_config(some_cases())]

    #[test]
    fn concurrent_clients_lose_no_data_and_never_read_old_data(
        seed in any::<u64>(),
        lease in any::<bool>(),
        redirector in any::<bool>(),
    ) {
        let clients = 3;
        let server = server(clients);
        server.borrow_mut().by_hand = true;
        let options = CacheOptions {
            policy: if lease { Policy::Lease(Caching::ALL) } else { Policy::Oplock(Caching::ALL) },
            redirector: if redirector { dyno_files::Redirector::Xp } else { dyno_files::Redirector::Plain },
            ..CacheOptions::default()
        };
        let tasks = (0..clients).map(|me| -> crate::clock::Task<'_> {
            let server = server.clone();
            Box::pin(async move {
                let user = client(&server, me, options).await;
                work(user, me, clients, seed.wrapping_add(me as u64 * 7919), 60).await;
            })
        }).collect();
        // The server executes the calls in any order.
        let mut choice = seed;
        run(tasks, || {
            choice = choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            server.borrow_mut().carry_out_any((choice >> 40) as usize)
        });
        prop_assert_eq!(server.borrow().wrong_answers, 0);
        prop_assert_eq!(server.borrow().open_handles(), 0);
    }
}

/// One client has no cache and never answers a break by itself.
#[test]
fn a_client_that_waits_for_its_own_call_still_answers_breaks() {
    let server = server(2);
    server.borrow_mut().put("stuck", b"x", false);
    let done = Cell::new(false);
    let ready = Cell::new(false);
    let kept: RefCell<Option<Connection>> = RefCell::new(None);
    let opens = |path| {
        let ask = Ask::Oplock(Caching::ALL);
        Call::Open(Open {
            path,
            access: Access::ReadWrite,
            disposition: Disposition::OpenIf,
            directory: false,
            delete_on_close: false,
            ask,
        })
    };
    together(vec![
        Box::pin(async {
            let mut mute = Connection::new(&server, 1);
            mute.connect().await.unwrap();
            mute.begin(&opens("stuck")).await.unwrap();
            mute.next().await.unwrap();
            while !ready.get() {
                mute.break_until(crate::clock::now() + MS).await.unwrap();
            }
            // Each client waits for the other to answer a break: the other one of "stuck", this one of "kept".
            mute.begin(&opens("kept")).await.unwrap();
            mute.next().await.unwrap();
            done.set(true);
            *kept.borrow_mut() = Some(mute);
            server.borrow_mut().cut(1);
        }),
        Box::pin(async {
            let mut user = client(&server, 0, CacheOptions::default()).await;
            let handle = user.make("kept").await;
            user.write(handle, 0, b"dirty").await;
            ready.set(true);
            user.edit("stuck").await;
            assert!(done.get());
        }),
    ]);
    assert_eq!(server.borrow().content("kept"), Some(&b"dirty"[..]));
}
