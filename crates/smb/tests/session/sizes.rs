//! Large transfers, many concurrent calls, and many sessions in one thread.

use crate::client::{fresh_path, options, pattern, run, Client};
use crate::samba::Samba;
use dyno_files::{Call, FileClient, Reply, Stability};
use dyno_measure::monotonic_ns;
use dyno_net::Executor;
use dyno_smb::{Encryption, Options, Signing};
use std::cell::Cell;
use std::fs;
use std::rc::Rc;

#[test]
fn a_mebibyte_is_one_request_in_each_direction() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let protections = [
            options(),
            Options {
                signing: Signing::Required,
                ..options()
            },
            Options {
                encryption: Encryption::Required,
                ..options()
            },
        ];
        for asked in protections {
            let mut client = Client::try_connect(&executor, &samba, asked)
                .await
                .expect("a session");
            assert_eq!(
                (client.session.max_read_bytes(), client.session.max_write_bytes()),
                (1 << 20, 1 << 20)
            );
            let path = fresh_path();
            // Unoptimized ciphers are slow.
            let length = if client
                .session
                .agreed()
                .is_some_and(|agreed| agreed.cipher.is_some())
            {
                150_000
            } else {
                1 << 20
            };
            let data = pattern(length, 9);
            let bytes = length as u32;
            let handle = client.create(&path).await;
            let before = client.session.traffic().requests;
            let write = Call::Write {
                handle,
                offset: 0,
                data: &data,
                stability: Stability::Unstable,
            };
            assert_eq!(client.call(&write).await, Ok(Reply::Written { bytes }));
            let read = Call::Read {
                handle,
                offset: 0,
                bytes: 1 << 20,
            };
            assert_eq!(client.call(&read).await, Ok(Reply::Read { bytes }));
            assert!(client.data == data);
            assert_eq!(client.session.traffic().requests, before + 2);
            assert!(fs::read(samba.share().join(&path)).expect("the file") == data);
        }
    });
}

#[test]
fn more_calls_than_credits_all_complete() {
    const CALLS: usize = 400;
    const BYTES: usize = 256 << 10;
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let handle = client.create(&fresh_path()).await;
        let data = pattern(BYTES, 11);
        // Write the data first that the reads expect, because the server may execute concurrent calls in any order.
        let first = Call::Write {
            handle,
            offset: 0,
            data: &data,
            stability: Stability::Unstable,
        };
        assert_eq!(
            client.call(&first).await,
            Ok(Reply::Written { bytes: BYTES as u32 })
        );
        let mut ids = Vec::new();
        // Reads between writes fill both directions at the same time.
        for number in 0..CALLS {
            let call = if number % 2 == 0 {
                let offset = (number % 8 * BYTES) as u64;
                Call::Write {
                    handle,
                    offset,
                    data: &data,
                    stability: Stability::Unstable,
                }
            } else {
                Call::Read {
                    handle,
                    offset: 0,
                    bytes: BYTES as u32,
                }
            };
            ids.push(client.begin(&call).await);
        }
        let mut ended = Vec::new();
        while ended.len() < CALLS {
            match client.session.next().await.expect("the session goes on") {
                dyno_files::Event::Ended {
                    id,
                    result,
                    data: read,
                    ..
                } => {
                    let is_write = ids.iter().position(|begun| *begun == id).expect("ours") % 2 == 0;
                    let expected = if is_write {
                        Reply::Written { bytes: BYTES as u32 }
                    } else {
                        assert!(read == data);
                        Reply::Read { bytes: BYTES as u32 }
                    };
                    assert_eq!(result, Ok(expected));
                    ended.push(id);
                }
                dyno_files::Event::Break(broken) => panic!("{broken:?}"),
            }
        }
        ended.sort_by_key(|id| id.0);
        assert_eq!(ended, ids);
    });
}

async fn work(executor: Executor, mut client: Client, done: Rc<Cell<u32>>) {
    executor.set_deadline(monotonic_ns() + 60_000_000_000);
    client.session.connect().await.expect("a session");
    let path = fresh_path();
    client.write_file(&path, path.as_bytes()).await;
    for _ in 0..10 {
        let Ok(Reply::Info(info)) = client.call(&Call::QueryPath { path: &path }).await else {
            panic!("no information");
        };
        assert_eq!(info.bytes, path.len() as u64);
    }
    assert_eq!(client.call(&Call::Delete { path: &path }).await, Ok(Reply::Done));
    client.session.disconnect().await;
    done.set(done.get() + 1);
}

#[test]
fn two_hundred_sessions_work_in_one_thread() {
    const SESSIONS: u32 = 200;
    let Some(samba) = Samba::shared() else { return };
    let executor = Executor::new().expect("an epoll instance");
    let done = Rc::new(Cell::new(0));
    for _ in 0..SESSIONS {
        let client = Client::new(&executor, samba.address, options(), "share");
        executor.spawn(work(executor.clone(), client, done.clone()));
    }
    executor.run(|| false).expect("the loop runs");
    assert_eq!(done.get(), SESSIONS);
}
