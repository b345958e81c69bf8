//! Oplocks and leases between two sessions: what the server grants and breaks. The second session continues as soon as
//! the first acknowledges a break.

use super::client::{beside, create, existing, fault, fresh_path, options, run, Client};
use super::samba::Samba;
use dyno_files::{
    Access, Ask, Break, Caching, Call, Disposition, Event, FileClient, Grant, LeaseKey, Open, Reply,
    Stability,
};
use dyno_measure::{monotonic_ns, Fault};
use dyno_smb::{Dialect, Encryption, Options, Signing};
use std::sync::Arc;

const SECOND_NS: u64 = 1_000_000_000;

fn of(dialect: Dialect) -> Options {
    Options {
        min_dialect: dialect,
        max_dialect: dialect,
        ..options()
    }
}

/// Waits for a break that must arrive.
async fn awaited_break(client: &mut Client) -> Break {
    let broken = client.session.break_until(monotonic_ns() + 10 * SECOND_NS).await;
    broken.expect("the session goes on").expect("a break comes")
}

/// Opens the file for writing, possibly after waiting for another client. Returns the file's length at that time.
async fn open_for_writing(mut client: Client, path: String) -> u64 {
    let (handle, _, _, info) = client.open(&create(&path)).await;
    client.close(handle).await;
    info.bytes
}

/// Checks that the first client's open with `ask` is granted `granted`, that another client's open for writing breaks
/// this to `left`, and that the other open completes after the first client's acknowledgement.
async fn check(samba: &Arc<Samba>, first: &mut Client, ask: Ask, granted: Caching, left: Caching) {
    let path = fresh_path();
    let (handle, got, ..) = first.open(&Open { ask, ..create(&path) }).await;
    assert_eq!(got, granted, "{ask:?}");
    let second = beside(samba, move |client| open_for_writing(client, path));
    let broken = awaited_break(first).await;
    let grant = match ask {
        Ask::Lease(key, _) if first.session.agreed().is_some_and(|agreed| agreed.leases) => Grant::Lease(key),
        _ => Grant::Handle(handle),
    };
    let expected = Break {
        grant,
        to: left,
        acknowledge: true,
    };
    assert_eq!(broken, expected, "{ask:?}");
    // The holder may use its handle before it acknowledges.
    let write = Call::Write {
        handle,
        offset: 0,
        data: b"kept back",
        stability: Stability::Unstable,
    };
    assert_eq!(first.call(&write).await, Ok(Reply::Written { bytes: 9 }));
    assert!(!second.is_finished(), "the other waits until it is let in");
    first
        .session
        .acknowledge(broken.grant, broken.to)
        .await
        .expect("the session goes on");
    assert_eq!(
        second.join().expect("it opens"),
        9,
        "the other sees what was kept back"
    );
    first.close(handle).await;
}

#[test]
fn an_exclusive_or_batch_oplock_is_broken_for_another_client() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        for dialect in Dialect::ALL {
            let mut first = Client::try_connect(&executor, &samba, of(dialect))
                .await
                .expect("a session");
            for caching in [Caching::ALL, Caching::READ_WRITE] {
                check(&samba, &mut first, Ask::Oplock(caching), caching, Caching::READ).await;
            }
        }
    });
}

/// A client that has everything in its cache makes no requests and only polls for breaks. The other client
/// waits until the first one notices the break, at most 35 s.
#[test]
fn a_client_that_only_polls_and_never_waits_finds_a_break() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut first = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let ask = Ask::Lease(LeaseKey(0x10_0c), Caching::ALL);
        let (handle, ..) = first.open(&Open { ask, ..create(&path) }).await;
        let second = beside(&samba, move |client| open_for_writing(client, path));
        let give_up_ns = monotonic_ns() + 10 * SECOND_NS;
        let mut found = None;
        while found.is_none() && monotonic_ns() < give_up_ns {
            found = first.session.break_until(0).await.expect("the session goes on");
        }
        let broken = found.expect("a break comes");
        first
            .session
            .acknowledge(broken.grant, broken.to)
            .await
            .expect("the session goes on");
        second.join().expect("it opens");
        first.close(handle).await;
    });
}

#[test]
fn a_lease_is_reduced_only_as_far_as_needed() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        for dialect in [Dialect::Smb210, Dialect::Smb300, Dialect::Smb302, Dialect::Smb311] {
            let mut first = Client::try_connect(&executor, &samba, of(dialect))
                .await
                .expect("a session");
            let cases = [
                (Caching::ALL, Caching::READ_HANDLE),
                (Caching::READ_WRITE, Caching::READ),
            ];
            for (key, (caching, left)) in (1..).zip(cases) {
                check(
                    &samba,
                    &mut first,
                    Ask::Lease(LeaseKey(key), caching),
                    caching,
                    left,
                )
                .await;
            }
        }
    });
}

#[test]
fn breaks_arrive_also_if_all_messages_are_signed_or_encrypted() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let protections = [
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
            let mut first = Client::try_connect(&executor, &samba, asked)
                .await
                .expect("a session");
            let ask = Ask::Lease(LeaseKey(0xc), Caching::ALL);
            check(&samba, &mut first, ask, Caching::ALL, Caching::READ_HANDLE).await;
        }
    });
}

#[test]
fn without_leases_an_oplock_replaces_a_lease() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut first = Client::try_connect(&executor, &samba, of(Dialect::Smb202))
            .await
            .expect("a session");
        let ask = Ask::Lease(LeaseKey(5), Caching::ALL);
        check(&samba, &mut first, ask, Caching::ALL, Caching::READ).await;
    });
}

#[test]
fn read_caching_is_broken_when_another_client_writes() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut reader = Client::connect(&executor, &samba).await;
        let asks = [
            Ask::Oplock(Caching::READ),
            Ask::Lease(LeaseKey(0xa), Caching::READ),
            Ask::Lease(LeaseKey(0xb), Caching::READ_HANDLE),
        ];
        for ask in asks {
            let path = fresh_path();
            reader.write_file(&path, b"old").await;
            let (handle, granted, ..) = reader
                .open(&Open {
                    ask,
                    ..existing(&path)
                })
                .await;
            assert!(granted.read && !granted.write, "{ask:?}");
            let writer = beside(&samba, move |mut client| async move {
                client.write_file(&path, b"new").await
            });
            let broken = awaited_break(&mut reader).await;
            assert!(!broken.to.read, "{broken:?}");
            // Losing read caching needs no acknowledgement; losing handle caching does.
            assert_eq!(broken.acknowledge, granted.handle, "{broken:?}");
            if broken.acknowledge {
                reader
                    .session
                    .acknowledge(broken.grant, broken.to)
                    .await
                    .expect("the session goes on");
            }
            writer.join().expect("it writes");
            reader.close(handle).await;
        }
    });
}

#[test]
fn two_opens_under_one_key_share_a_lease() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut first = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let key = LeaseKey(0x77);
        let open = Open {
            ask: Ask::Lease(key, Caching::ALL),
            ..create(&path)
        };
        let (one, granted, ..) = first.open(&open).await;
        let (two, again, ..) = first.open(&open).await;
        assert_eq!((granted, again), (Caching::ALL, Caching::ALL));
        assert!(first.breaks.is_empty());
        first.close(one).await;
        let second = beside(&samba, move |client| open_for_writing(client, path));
        let broken = awaited_break(&mut first).await;
        assert_eq!(broken.grant, Grant::Lease(key));
        first
            .session
            .acknowledge(broken.grant, broken.to)
            .await
            .expect("the session goes on");
        assert_eq!(second.join().expect("it opens"), 0);
        first.close(two).await;
    });
}

#[test]
fn a_close_also_answers_a_break() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut first = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let ask = Ask::Oplock(Caching::ALL);
        let (handle, ..) = first.open(&Open { ask, ..create(&path) }).await;
        let second = beside(&samba, move |client| open_for_writing(client, path));
        let broken = awaited_break(&mut first).await;
        first.close(handle).await;
        // A late acknowledgement is harmless.
        first
            .session
            .acknowledge(broken.grant, broken.to)
            .await
            .expect("the session goes on");
        assert_eq!(second.join().expect("it opens"), 0);
        assert_eq!(first.session.traffic().breaks, 1);
    });
}

#[test]
fn idling_ends_when_due_and_keeps_calls_that_ended_meanwhile() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        client.write_file(&path, b"contents").await;
        let (handle, ..) = client.open(&existing(&path)).await;
        let id = client
            .begin(&Call::Read {
                handle,
                offset: 0,
                bytes: 8,
            })
            .await;
        let due_ns = monotonic_ns() + SECOND_NS / 20;
        let idled = client.session.break_until(due_ns).await;
        assert!(matches!(idled, Ok(None)));
        assert!(monotonic_ns() >= due_ns);
        match client.session.next().await.expect("the session goes on") {
            Event::Ended {
                id: ended,
                result,
                data,
                ..
            } => {
                assert_eq!(
                    (ended, result, data),
                    (id, Ok(Reply::Read { bytes: 8 }), &b"contents"[..])
                );
            }
            Event::Break(broken) => panic!("{broken:?}"),
        }
    });
}

#[test]
fn an_open_file_is_not_deleted_by_another_client() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut first = Client::connect(&executor, &samba).await;
        let mut second = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let handle = first.create(&path).await;
        assert_eq!(second.call(&Call::Delete { path: &path }).await, Ok(Reply::Done));
        // The file is deleted when its last handle is closed; until then nobody else can open it.
        let again = Call::Open(Open {
            access: Access::Read,
            disposition: Disposition::Open,
            ..create(&path)
        });
        assert_eq!(fault(second.call(&again).await), Some(Fault::SharingViolation));
        first.close(handle).await;
        assert_eq!(second.call(&again).await, Ok(Reply::NotThere));
    });
}
