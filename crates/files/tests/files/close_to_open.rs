//! Close-to-open, step by step: the requests, what another client sees and when, and writes that the server has lost.

use crate::clock::MS;
use crate::rig::{alone, client, passed, Shared, User};
use crate::server::{Refusal, Server};
use dyno_files::{Access, CacheOptions, Call, CallKind, Disposition, Info, Reply, Stability};
use dyno_measure::Fault;
use std::cell::RefCell;
use std::rc::Rc;

const S: u64 = 1000 * MS;

fn options() -> CacheOptions {
    CacheOptions {
        read_ahead_bytes: 0,
        ..CacheOptions::close_to_open()
    }
}

/// Creates a file `f` of ten bytes, and two clients.
fn with_two<F: std::future::Future<Output = ()>>(steps: impl FnOnce(Shared, User, User) -> F) {
    let server: Shared = Rc::new(RefCell::new(Server::stateless(2)));
    server.borrow_mut().put("f", b"old data..", false);
    let shared = server.clone();
    alone(async move {
        let one = client(&shared, 0, options()).await;
        let other = client(&shared, 1, options()).await;
        steps(shared, one, other).await;
    });
}

async fn size(user: &mut User, path: &str) -> u64 {
    match user.call(Call::QueryPath { path }).await {
        Ok(Reply::Info(Info { bytes, .. })) => bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn data_survive_a_close_and_are_reused_while_the_file_is_unchanged() {
    with_two(|server, mut one, _| async move {
        let handle = one.open("f").await;
        assert_eq!(one.read(handle, 0, 10).await, b"old data..");
        one.close(handle).await;
        assert_eq!(passed(&server), ["open", "read 0+10", "close"]);
        let handle = one.open("f").await;
        assert_eq!(one.read(handle, 0, 10).await, b"old data..");
        one.close(handle).await;
        assert_eq!(passed(&server), ["open", "close"]);
        // Also under another name: the file is identified by its number.
        assert_eq!(
            one.call(Call::Rename { from: "f", to: "g" }).await,
            Ok(Reply::Done)
        );
        let handle = one.open("g").await;
        assert_eq!(one.read(handle, 0, 10).await, b"old data..");
        assert_eq!(passed(&server), ["rename", "open"]);
        one.finish().await;
    });
}

#[test]
fn an_open_after_another_clients_close_sees_its_writes() {
    with_two(|server, mut one, mut other| async move {
        let handle = one.open("f").await;
        assert_eq!(one.read(handle, 0, 10).await, b"old data..");
        one.close(handle).await;
        let writing = other.edit("f").await;
        other.write(writing, 4, b"news").await;
        assert_eq!(server.borrow().content("f"), Some(&b"old data.."[..]));
        other.close(writing).await;
        assert_eq!(server.borrow().content("f"), Some(&b"old news.."[..]));
        let handle = one.open("f").await;
        assert_eq!(one.read(handle, 0, 10).await, b"old news..");
        // The client's own writes do not invalidate its cache.
        passed(&server);
        let again = other.edit("f").await;
        assert_eq!(other.read(again, 0, 10).await, b"old news..");
        assert_eq!(passed(&server), ["open"]);
        one.finish().await;
        other.finish().await;
    });
}

#[test]
fn changes_to_an_open_file_are_seen_once_its_attributes_expire() {
    with_two(|server, mut one, mut other| async move {
        let handle = one.open("f").await;
        assert_eq!(one.read(handle, 0, 10).await, b"old data..");
        let writing = other.edit("f").await;
        other.write(writing, 4, b"news").await;
        other.close(writing).await;
        one.idle(3 * S - 1).await;
        assert_eq!(one.read(handle, 0, 10).await, b"old data..");
        passed(&server);
        one.idle(1).await;
        assert_eq!(one.read(handle, 0, 10).await, b"old news..");
        assert_eq!(passed(&server), ["query file", "read 0+10"]);
        one.idle(3 * S).await;
        assert_eq!(one.read(handle, 0, 10).await, b"old news..");
        assert_eq!(passed(&server), ["query file"]);
        one.finish().await;
        other.finish().await;
    });
}

#[test]
fn own_writes_do_not_hide_another_clients_earlier_changes() {
    for without_before in [false, true] {
        with_two(|server, mut one, mut other| async move {
            server.borrow_mut().stateless.as_mut().unwrap().without_before = without_before;
            let handle = one.edit("f").await;
            assert_eq!(one.read(handle, 0, 10).await, b"old data..");
            let writing = other.edit("f").await;
            other.write(writing, 4, b"news").await;
            other.close(writing).await;
            one.write(handle, 0, b"OLD").await;
            assert_eq!(one.call(Call::Flush { handle }).await, Ok(Reply::Done));
            one.idle(60 * S).await;
            assert_eq!(one.read(handle, 0, 10).await, b"OLD news..");
            one.finish().await;
            other.finish().await;
        });
    }
}

#[test]
fn a_name_is_looked_up_again_only_after_it_or_its_file_has_expired() {
    with_two(|server, mut one, mut other| async move {
        let handle = one.open("f").await;
        one.close(handle).await;
        passed(&server);
        assert_eq!(size(&mut one, "f").await, 10);
        assert_eq!(passed(&server), [] as [&str; 0]);
        let writing = other.edit("f").await;
        other.write(writing, 10, b"more").await;
        other.close(writing).await;
        one.idle(3 * S).await;
        passed(&server);
        assert_eq!(size(&mut one, "f").await, 14);
        assert_eq!(passed(&server), ["query path"]);
        other.delete("f").await;
        one.idle(3 * S).await;
        assert_eq!(one.call(Call::QueryPath { path: "f" }).await, Ok(Reply::NotThere));
        one.finish().await;
        other.finish().await;
    });
}

#[test]
fn two_clients_can_write_different_parts_of_one_page() {
    with_two(|server, mut one, mut other| async move {
        let (first, second) = (one.edit("f").await, other.edit("f").await);
        one.write(first, 0, b"ONE").await;
        other.write(second, 7, b"TWO").await;
        one.close(first).await;
        other.close(second).await;
        assert_eq!(server.borrow().content("f"), Some(&b"ONE datTWO"[..]));
        // Write two parts of one page, with a gap between them.
        let again = one.edit("f").await;
        one.write(again, 0, b"o").await;
        one.write(again, 5, b"X").await;
        one.close(again).await;
        assert_eq!(server.borrow().content("f"), Some(&b"oNE dXtTWO"[..]));
        one.finish().await;
        other.finish().await;
    });
}

#[test]
fn writes_are_unstable_and_a_close_makes_them_durable() {
    with_two(|server, mut one, _| async move {
        let handle = one.edit("f").await;
        one.write(handle, 0, &[1; 9000]).await;
        assert_eq!(passed(&server), ["open"]);
        one.close(handle).await;
        assert_eq!(passed(&server), ["write 0+9000", "flush", "close"]);
        server.borrow_mut().start_anew();
        assert_eq!(server.borrow().content("f"), Some(&[1; 9000][..]));
        // There is nothing left to commit.
        let handle = one.edit("f").await;
        assert_eq!(one.call(Call::Flush { handle }).await, Ok(Reply::Done));
        assert_eq!(passed(&server), ["open"]);
        let write = Call::Write {
            handle,
            offset: 0,
            data: b"durable",
            stability: Stability::Data,
        };
        assert_eq!(one.call(write).await, Ok(Reply::Written { bytes: 7 }));
        server.borrow_mut().start_anew();
        assert_eq!(
            server.borrow().content("f").map(|data| &data[..7]),
            Some(&b"durable"[..])
        );
        one.finish().await;
    });
}

#[test]
fn writes_that_a_restarted_server_has_lost_are_sent_again() {
    with_two(|server, mut one, _| async move {
        let handle = one.edit("f").await;
        // More than half of the memory: part of the data is sent, and the server loses that part.
        let data: Vec<u8> = (0..6 << 20).map(|place: u32| (place % 251) as u8).collect();
        for (part, bytes) in data.chunks(1 << 20).enumerate() {
            one.write(handle, (part as u64) << 20, bytes).await;
            server.borrow_mut().start_anew();
        }
        one.write(handle, 0, &data[..100]).await;
        server.borrow_mut().held.push(CallKind::Flush);
        let (shared, wanted) = (server.clone(), data.clone());
        let closing = async {
            one.close(handle).await;
            one.finish().await;
        };
        let restarting = async {
            // Restart the server between the last write and its flush.
            crate::clock::until(|| server.borrow().waiting_clients() == [0]).await;
            server.borrow_mut().start_anew();
            server.borrow_mut().held.clear();
            server.borrow_mut().carry_out_all();
        };
        futures_of_two(closing, restarting).await;
        shared.borrow_mut().start_anew();
        assert!(
            shared.borrow().content("f") == Some(&wanted[..]),
            "all of it is there"
        );
    });
}

async fn futures_of_two(
    one: impl std::future::Future<Output = ()>,
    two: impl std::future::Future<Output = ()>,
) {
    use std::task::Poll;
    let (mut one, mut two) = (std::pin::pin!(one), std::pin::pin!(two));
    let (mut first, mut second) = (false, false);
    std::future::poll_fn(|context| {
        first = first || one.as_mut().poll(context) == Poll::Ready(());
        second = second || two.as_mut().poll(context) == Poll::Ready(());
        match first && second {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

#[test]
fn a_failure_to_make_data_durable_is_reported_at_the_close() {
    with_two(|server, mut one, _| async move {
        let handle = one.edit("f").await;
        one.write(handle, 0, b"new").await;
        server.borrow_mut().refusals.push(Refusal {
            client: 0,
            kind: CallKind::Flush,
            after: 0,
            with: Fault::NoSpace,
        });
        assert_eq!(one.call(Call::Close { handle }).await, Err(Fault::NoSpace));
        one.finish().await;
    });
}

#[test]
fn a_lock_invalidates_cached_data() {
    with_two(|server, mut one, mut other| async move {
        let handle = one.edit("f").await;
        assert_eq!(one.read(handle, 0, 10).await, b"old data..");
        let writing = other.edit("f").await;
        other.write(writing, 4, b"news").await;
        other.close(writing).await;
        let (offset, bytes) = (0, 10);
        let lock = Call::Lock {
            handle,
            offset,
            bytes,
        };
        assert_eq!(one.call(lock).await, Ok(Reply::Done));
        assert_eq!(one.read(handle, 0, 10).await, b"old news..");
        one.write(handle, 0, b"new").await;
        assert_eq!(server.borrow().content("f"), Some(&b"new news.."[..]));
        let unlock = Call::Unlock {
            handle,
            offset,
            bytes,
        };
        assert_eq!(one.call(unlock).await, Ok(Reply::Done));
        assert_eq!(one.read(handle, 0, 10).await, b"new news..");
        one.finish().await;
        other.finish().await;
    });
}

#[test]
fn a_deleted_and_recreated_file_is_a_different_file() {
    with_two(|server, mut one, mut other| async move {
        let handle = one.open("f").await;
        assert_eq!(one.read(handle, 0, 10).await, b"old data..");
        one.close(handle).await;
        other.delete("f").await;
        let made = other.make("f").await;
        other.write(made, 0, b"another").await;
        other.close(made).await;
        let handle = one.open("f").await;
        assert_eq!(one.read(handle, 0, 10).await, b"another");
        let opened = one
            .try_open("f", Access::ReadWrite, Disposition::OverwriteIf)
            .await;
        one.write(opened.unwrap().unwrap(), 0, b"x").await;
        assert_eq!(size(&mut one, "f").await, 1);
        one.finish().await;
        assert_eq!(server.borrow().content("f"), Some(&b"x"[..]));
        other.finish().await;
    });
}

#[test]
fn a_write_only_handle_caches_its_writes_and_the_close_makes_them_durable() {
    with_two(|server, mut one, mut other| async move {
        let made = one.try_open("g", Access::Write, Disposition::Create).await;
        let handle = made.unwrap().unwrap();
        let data: Vec<u8> = (0..9000).map(|place: u32| (place % 251) as u8).collect();
        for (part, piece) in data.chunks(1000).enumerate() {
            one.write(handle, part as u64 * 1000, piece).await;
        }
        assert_eq!(passed(&server), ["create"]);
        one.close(handle).await;
        assert_eq!(passed(&server), ["write 0+9000", "flush", "close"]);
        server.borrow_mut().start_anew();
        assert_eq!(server.borrow().content("g"), Some(&data[..]));
        let handle = other.open("g").await;
        assert_eq!(other.read(handle, 0, 9000).await, data);
        one.finish().await;
        other.finish().await;
    });
}

#[test]
fn a_write_only_handle_does_not_read_to_write_part_of_a_page() {
    with_two(|server, mut one, _| async move {
        let opened = one.try_open("f", Access::Write, Disposition::Open).await;
        let handle = opened.unwrap().unwrap();
        one.write(handle, 4, b"news").await;
        assert_eq!(passed(&server), ["open", "write 4+4"]);
        // The cache has no copy to send again, so the server must not lose it.
        server.borrow_mut().start_anew();
        assert_eq!(server.borrow().content("f"), Some(&b"old news.."[..]));
        // Pages that cover all of the server's data are kept, before and after a partial write.
        one.write(handle, 0, &[1; 5000]).await;
        assert_eq!(passed(&server), [""; 0]);
        one.write(handle, 4990, b"more of it").await;
        assert_eq!(passed(&server), [""; 0]);
        one.close(handle).await;
        assert_eq!(passed(&server), ["write 0+5000", "flush", "close"]);
        let content = server.borrow().content("f").map(<[u8]>::to_vec);
        assert_eq!(content, Some([&[1; 4990][..], b"more of it"].concat()));
        one.finish().await;
    });
}
