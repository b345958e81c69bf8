//! Scripted sequences and the resulting calls below the cache, as in the captures of 2004. Source: facts of the disk
//! mix, behaviour of the client's redirector.

use crate::clock::MS;
use crate::rig::{alone, client, passed, server};
use dyno_files::{Access, CacheOptions, Caching, Call, Disposition, Policy, Redirector, Reply};
use dyno_measure::Fault;

const SECOND: u64 = 1000 * MS;

fn xp() -> CacheOptions {
    CacheOptions::default()
}

#[test]
fn a_new_file_is_extended_once_and_written_in_one_run_at_its_close() {
    let server = server(1);
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        let handle = user.make("new").await;
        for piece in 0..30 {
            user.write(handle, piece * 1000, &[7; 1000]).await;
        }
        assert_eq!(passed(&server), ["create", "write 999+1", "query file"]);
        user.close(handle).await;
        assert_eq!(passed(&server), ["write 0+30000", "close"]);
        assert_eq!(server.borrow().content("new"), Some(&[7; 30_000][..]));
    });
}

#[test]
fn a_handle_that_extended_a_file_is_not_kept_but_one_that_overwrote_is() {
    let server = server(1);
    server.borrow_mut().put("one", &[5; 100], false);
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        let handle = user.edit("one").await;
        user.write(handle, 0, &[6; 100]).await;
        user.close(handle).await;
        assert_eq!(passed(&server), ["open", "write 0+100"]);
        let handle = user.edit("one").await;
        user.write(handle, 50, &[7; 100]).await;
        user.close(handle).await;
        assert_eq!(passed(&server).last().map(String::as_str), Some("close"));
        let handle = user.edit("one").await;
        assert_eq!(
            user.read(handle, 0, 200).await,
            [&[6; 50][..], &[7; 100]].concat()
        );
        assert_eq!(passed(&server), ["open", "read 0+150"]);
    });
}

#[test]
fn a_query_of_times_is_sent_to_the_server_but_one_of_size_is_not() {
    let server = server(1);
    server.borrow_mut().put("one", &[5; 100], false);
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        let handle = user.edit("one").await;
        user.write(handle, 0, &[6; 80]).await;
        passed(&server);
        let size = user.call(Call::QueryHandle { handle }).await;
        assert_eq!(passed(&server), [""; 0]);
        let times = user.call(Call::QueryTimes { handle }).await;
        // The server's times refer to its own data.
        assert_eq!(passed(&server), ["write 0+100", "query file"]);
        assert_eq!(size, times);
    });
}

#[test]
fn a_file_is_extended_again_once_it_exceeds_the_allocated_space() {
    let server = server(1);
    server.borrow_mut().allocation_bytes = 8192;
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        let handle = user.make("new").await;
        for piece in 0..5 {
            user.write(handle, piece * 4096, &[1; 4096]).await;
        }
        let extended = [
            "write 4095+1",
            "query file",
            "write 12287+1",
            "query file",
            "write 20479+1",
            "query file",
        ];
        assert_eq!(passed(&server)[1..], extended);
    });
}

#[test]
fn a_plain_client_extends_nothing() {
    let server = server(1);
    let plain = CacheOptions {
        redirector: Redirector::Plain,
        ..xp()
    };
    alone(async {
        let mut user = client(&server, 0, plain).await;
        let handle = user.make("new").await;
        user.write(handle, 0, &[1; 70_000]).await;
        user.close(handle).await;
        assert_eq!(passed(&server), ["create", "write 0+65536", "write 65536+4464"]);
    });
}

#[test]
fn bulk_overwriting_off_page_boundaries_reads_one_page_per_chunk() {
    let server = server(1);
    server.borrow_mut().put("seed", &vec![9; 1 << 20], false);
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        let handle = user.edit("seed").await;
        for chunk in 0..2 {
            user.write(handle, chunk * 65_534, &vec![3; 65_534]).await;
        }
        assert_eq!(passed(&server), ["open", "read 61440+4096", "read 126976+4096"]);
        user.close(handle).await;
        assert_eq!(passed(&server), ["write 0+65536", "write 65536+65536"]);
        let server = server.borrow();
        let content = server.content("seed").unwrap();
        assert!(content[..131_068].iter().all(|byte| *byte == 3));
        assert!(content[131_068..].iter().all(|byte| *byte == 9));
    });
}

#[test]
fn bulk_reads_are_split_in_two_and_a_small_read_fetches_one_page() {
    let server = server(1);
    server.borrow_mut().put("seed", &vec![9; 327_680], false);
    server.borrow_mut().put("document", &vec![9; 260_096], false);
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        let handle = user.open("seed").await;
        for chunk in 0..2 {
            assert_eq!(user.read(handle, chunk * 65_534, 65_534).await.len(), 65_534);
        }
        let pairs = [
            "read 0+61440",
            "read 61440+4096",
            "read 65536+61440",
            "read 126976+4096",
        ];
        assert_eq!(passed(&server)[1..], pairs);
        let handle = user.open("document").await;
        for offset in [0, 512, 24, 2048, 5000, 4090] {
            user.read(handle, offset, 512).await;
        }
        assert_eq!(passed(&server), ["open", "read 0+4096", "read 4096+4096"]);
        let counts = user.files.counts();
        assert_eq!((counts.reads_missed, counts.reads_hit), (4, 4));
    });
}

#[test]
fn sequential_reads_fetch_ahead_if_enabled() {
    let server = server(1);
    server.borrow_mut().put("file", &vec![9; 1 << 20], false);
    let ahead = CacheOptions {
        read_ahead_bytes: 65_536,
        read_run_bytes: 1 << 20,
        ..xp()
    };
    alone(async {
        let mut user = client(&server, 0, ahead).await;
        let handle = user.open("file").await;
        user.read(handle, 0, 4096).await;
        user.read(handle, 4096, 4096).await;
        user.read(handle, 8192, 65_536).await;
        user.read(handle, 73_728, 1000).await;
        user.read(handle, 500_000, 10).await;
        let reads = [
            "read 0+4096",
            "read 4096+69632",
            "read 73728+69632",
            "read 499712+4096",
        ];
        assert_eq!(passed(&server)[1..], reads);
    });
}

#[test]
fn opens_join_a_kept_handle_until_its_directory_is_changed() {
    let server = server(1);
    for path in ["one", "two", "three"] {
        server.borrow_mut().put(path, b"x", false);
    }
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        for path in ["ONE", "one", "two", "One"] {
            let handle = user.open(path).await;
            user.close(handle).await;
        }
        assert_eq!(passed(&server), ["open", "open"]);
        user.delete("three").await;
        assert_eq!(passed(&server), ["close", "close", "query path", "delete"]);
        assert_eq!(user.files.counts().opens_joined, 2);
    });
}

#[test]
fn a_handle_for_reading_is_not_joined_for_writing() {
    let server = server(1);
    server.borrow_mut().put("one", b"x", false);
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        let handle = user.open("one").await;
        user.close(handle).await;
        let handle = user.edit("one").await;
        user.close(handle).await;
        let handle = user.open("one").await;
        user.close(handle).await;
        assert_eq!(passed(&server), ["open", "close", "open"]);
        assert_eq!(server.borrow().wrong_answers, 0);
    });
}

#[test]
fn under_a_lease_the_second_open_shares_the_key_and_the_pages() {
    let server = server(1);
    server.borrow_mut().put("one", &[5; 100], false);
    alone(async {
        let mut user = client(&server, 0, CacheOptions::modern()).await;
        let reader = user.open("one").await;
        user.read(reader, 0, 100).await;
        let writer = user.edit("one").await;
        user.write(writer, 50, b"new").await;
        assert_eq!(user.read(reader, 49, 5).await, b"\x05new\x05");
        assert_eq!(passed(&server), ["open", "read 0+100", "open"]);
        user.finish().await;
        assert_eq!(passed(&server)[0], "write 0+100");
    });
}

#[test]
fn renaming_imitates_windows_xp() {
    let script = |redirector| {
        let server = server(1);
        server.borrow_mut().put("old", b"x", false);
        alone(async {
            let options = CacheOptions { redirector, ..xp() };
            let mut user = client(&server, 0, options).await;
            let (from, to) = ("old", "new");
            assert_eq!(user.call(Call::Rename { from, to }).await, Ok(Reply::Done));
        });
        passed(&server)
    };
    let xp = ["query path", "query path -", "open", "close", "rename"];
    assert_eq!(script(Redirector::Xp), xp);
    assert_eq!(script(Redirector::Plain), ["rename"]);
}

#[test]
fn a_renamed_open_file_keeps_its_cached_writes() {
    let server = server(1);
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        let handle = user.make("old").await;
        user.write(handle, 0, b"text").await;
        let (from, to) = ("old", "new");
        assert_eq!(user.call(Call::Rename { from, to }).await, Ok(Reply::Done));
        user.write(handle, 4, b" more").await;
        passed(&server);
        assert_eq!(
            user.try_open("old", Access::Read, Disposition::Open).await,
            Ok(None)
        );
        let other = user.open("new").await;
        assert_eq!(user.read(other, 0, 9).await, b"text more");
        assert_eq!(passed(&server)[0], "open -");
        user.finish().await;
        assert_eq!(server.borrow().content("new"), Some(&b"text more"[..]));
        assert_eq!(server.borrow().content("old"), None);
    });
}

#[test]
fn bytes_beyond_a_shortened_end_are_zero_when_the_file_grows_again() {
    for redirector in [Redirector::Xp, Redirector::Plain] {
        let server = server(1);
        server.borrow_mut().put("one", &[7; 10_000], false);
        alone(async {
            let mut user = client(&server, 0, CacheOptions { redirector, ..xp() }).await;
            let handle = user.edit("one").await;
            user.read(handle, 0, 10_000).await;
            user.write(handle, 5_000, &[8; 5_000]).await;
            let bytes = 100;
            assert_eq!(user.call(Call::SetEnd { handle, bytes }).await, Ok(Reply::Done));
            assert_eq!(user.read(handle, 0, 10_000).await, [7; 100]);
            user.write(handle, 9_000, b"x").await;
            let mut whole = vec![0; 9_001];
            whole[..100].fill(7);
            whole[9_000] = b'x';
            assert_eq!(user.read(handle, 0, 10_000).await, whole);
            user.close(handle).await;
            assert_eq!(server.borrow().content("one"), Some(&whole[..]));
        });
    }
}

#[test]
fn a_flush_sends_cached_writes_first() {
    let server = server(1);
    server.borrow_mut().put("one", &[0; 8192], false);
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        let handle = user.edit("one").await;
        user.write(handle, 0, &[1; 4096]).await;
        assert_eq!(user.call(Call::Flush { handle }).await, Ok(Reply::Done));
        assert_eq!(user.call(Call::Flush { handle }).await, Ok(Reply::Done));
        assert_eq!(passed(&server), ["open", "write 0+4096", "flush", "flush"]);
    });
}

#[test]
fn a_locked_file_is_not_cached() {
    let server = server(1);
    server.borrow_mut().put("one", &[0; 8192], false);
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        let handle = user.edit("one").await;
        user.write(handle, 4096, &[1; 100]).await;
        let (offset, bytes) = (0x7FFF_FF92, 1);
        let lock = Call::Lock {
            handle,
            offset,
            bytes,
        };
        assert_eq!(user.call(lock).await, Ok(Reply::Done));
        user.read(handle, 10, 20).await;
        user.read(handle, 10, 20).await;
        user.write(handle, 30, b"abc").await;
        let unlock = Call::Unlock {
            handle,
            offset,
            bytes,
        };
        assert_eq!(user.call(unlock).await, Ok(Reply::Done));
        user.read(handle, 10, 20).await;
        user.read(handle, 10, 20).await;
        let calls = [
            "open",
            "read 4096+4096",
            "write 4096+4096",
            "lock",
            "read 10+20",
            "read 10+20",
            "write 30+3",
            "unlock",
            "read 0+4096",
        ];
        assert_eq!(passed(&server), calls);
    });
}

#[test]
fn locks_of_read_only_files_stay_local_if_enabled() {
    let server = server(1);
    server.borrow_mut().put("one", &[0; 8192], true);
    let free = CacheOptions {
        lock_free_read_only: true,
        ..xp()
    };
    alone(async {
        let mut user = client(&server, 0, free).await;
        let handle = user.open("one").await;
        let (offset, bytes) = (0, 10);
        assert_eq!(
            user.call(Call::Lock {
                handle,
                offset,
                bytes
            })
            .await,
            Ok(Reply::Done)
        );
        let other = user.open("one").await;
        let read = Call::Read {
            handle: other,
            offset: 5,
            bytes: 1,
        };
        assert_eq!(user.call(read).await, Err(Fault::LockConflict));
        user.read(handle, 0, 10).await;
        user.read(handle, 0, 10).await;
        assert_eq!(
            user.call(Call::Unlock {
                handle,
                offset,
                bytes
            })
            .await,
            Ok(Reply::Done)
        );
        user.read(other, 5, 1).await;
        assert_eq!(passed(&server), ["open", "read 0+4096"]);
    });
}

#[test]
fn an_open_for_attributes_closes_a_kept_handle_in_xp_and_otherwise_joins_it() {
    let script = |redirector| {
        let server = server(1);
        server.borrow_mut().put("one", b"x", false);
        alone(async {
            let mut user = client(&server, 0, CacheOptions { redirector, ..xp() }).await;
            let handle = user.open("one").await;
            user.close(handle).await;
            let looked = user.try_open("one", Access::Attributes, Disposition::Open).await;
            let handle = looked.unwrap().unwrap();
            assert!(matches!(
                user.call(Call::QueryHandle { handle }).await,
                Ok(Reply::Info(_))
            ));
            user.close(handle).await;
        });
        passed(&server)
    };
    assert_eq!(
        script(Redirector::Xp),
        ["open", "close", "open", "query file", "close"]
    );
    assert_eq!(script(Redirector::Plain), ["open"]);
}

#[test]
fn look_ups_are_sent_each_time() {
    let server = server(1);
    server.borrow_mut().put("one", b"x", false);
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        for _ in 0..2 {
            user.call(Call::QueryPath { path: "one" }).await.unwrap();
            user.call(Call::QueryPath { path: "none" }).await.unwrap();
            let (directory, pattern) = ("", "o*");
            assert_eq!(
                user.call(Call::Find { directory, pattern }).await,
                Ok(Reply::Found { entries: 1 })
            );
            assert_eq!(
                user.try_open("none", Access::Read, Disposition::Open).await,
                Ok(None)
            );
            user.call(Call::QuerySpace { directory: "" }).await.unwrap();
        }
        let once = ["query path", "query path -", "find", "open -", "query space"];
        assert_eq!(passed(&server), [once, once].concat());
    });
}

#[test]
fn the_oldest_handles_beyond_the_limit_are_closed() {
    let server = server(1);
    for number in 0..4 {
        server.borrow_mut().put(&format!("file{number}"), b"x", false);
    }
    let two = CacheOptions {
        most_deferred: 2,
        ..xp()
    };
    alone(async {
        let mut user = client(&server, 0, two).await;
        for number in [0, 1, 0, 2, 3] {
            let handle = user.open(&format!("file{number}")).await;
            user.close(handle).await;
        }
        assert_eq!(
            passed(&server),
            ["open", "open", "open", "close", "open", "close"]
        );
        // The last two are cached: opening them needs no request.
        for number in [2, 3] {
            let handle = user.open(&format!("file{number}")).await;
            user.close(handle).await;
        }
        assert_eq!(passed(&server), [""; 0]);
        assert_eq!(server.borrow().open_handles(), 2);
    });
}

#[test]
fn handles_that_were_kept_too_long_are_closed() {
    let server = server(1);
    server.borrow_mut().put("one", b"x", false);
    server.borrow_mut().put("two", b"x", false);
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        let handle = user.open("one").await;
        user.close(handle).await;
        user.idle(5 * SECOND).await;
        let handle = user.open("two").await;
        user.close(handle).await;
        user.idle(5 * SECOND - 1).await;
        assert_eq!(passed(&server), ["open", "open"]);
        user.idle(1).await;
        assert_eq!(passed(&server), ["close"]);
        user.idle(4 * SECOND).await;
        let handle = user.open("two").await;
        user.close(handle).await;
        user.idle(9 * SECOND).await;
        assert_eq!(passed(&server), [""; 0]);
        user.idle(SECOND).await;
        assert_eq!(passed(&server), ["close"]);
    });
}

#[test]
fn without_oplocks_all_calls_are_sent() {
    let server = server(1);
    server.borrow_mut().put("one", &[0; 100], false);
    server.borrow_mut().grants = Caching::NONE;
    alone(async {
        let mut user = client(&server, 0, xp()).await;
        let handle = user.edit("one").await;
        user.write(handle, 10, b"abc").await;
        user.read(handle, 0, 20).await;
        user.read(handle, 0, 20).await;
        user.call(Call::QueryHandle { handle }).await.unwrap();
        user.close(handle).await;
        let calls = [
            "open",
            "write 10+3",
            "read 0+20",
            "read 0+20",
            "query file",
            "close",
        ];
        assert_eq!(passed(&server), calls);
    });
}

#[test]
fn with_little_memory_dirty_pages_are_written_before_the_close() {
    let server = server(1);
    let little = CacheOptions {
        policy: Policy::Oplock(Caching::ALL),
        most_bytes: CacheOptions::LEAST_BYTES,
        ..xp()
    };
    alone(async {
        let mut user = client(&server, 0, little).await;
        let data: Vec<u8> = (0..3_000_000_u32).map(|place| (place % 251) as u8).collect();
        let handle = user.make("big").await;
        for (number, piece) in data.chunks(10_000).enumerate() {
            user.write(handle, number as u64 * 10_000, piece).await;
        }
        let before_close = passed(&server)
            .iter()
            .filter(|call| call.ends_with("+65536"))
            .count();
        assert!(before_close >= 30, "{before_close}");
        assert_eq!(user.read(handle, 0, 3_000_000).await, data);
        user.close(handle).await;
        assert_eq!(server.borrow().content("big"), Some(&data[..]));
    });
}

#[test]
fn a_write_does_not_evict_the_page_in_which_it_ends() {
    // The page exists and is the least recently used: the pages created by the earlier part of the write
    // need its space.
    let server = server(1);
    let old = vec![b'o'; 20 * 4096];
    server.borrow_mut().put("one", &old, false);
    server.borrow_mut().put("two", &vec![b't'; 1 << 20], false);
    alone(async {
        let options = CacheOptions {
            most_bytes: CacheOptions::LEAST_BYTES,
            redirector: Redirector::Plain,
            ..CacheOptions::default()
        };
        let mut user = client(&server, 0, options).await;
        let one = user.edit("one").await;
        user.read(one, 15 * 4096, 1).await;
        let two = user.open("two").await;
        let room = CacheOptions::LEAST_BYTES / 4096 - 1;
        for page in 0..room {
            user.read(two, page * 4096, 1).await;
        }
        user.write(one, 0, &[b'n'; 65_534]).await;
        assert_eq!(user.read(one, 65_530, 10).await, b"nnnnoooooo");
        user.finish().await;
    });
}
