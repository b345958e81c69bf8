//! Requests that wait for other clients: for a holder that never acknowledges, for one that disconnects, and for a
//! lock.

use super::client::{beside, create, existing, fault, fresh_path, options, run, Client};
use super::samba::{server_options, Samba};
use dyno_files::{Access, Ask, Caching, Call, Disposition, FileClient, LeaseKey, Open, Reply};
use dyno_measure::{monotonic_ns, Fault};
use dyno_testserver::smb::Options;

const MS: u64 = 1_000_000;
const PATIENCE_NS: u64 = 300 * MS;

async fn open_for_writing(mut client: Client, path: String) -> u64 {
    let started_ns = monotonic_ns();
    let (handle, ..) = client.open(&create(&path)).await;
    client.close(handle).await;
    monotonic_ns() - started_ns
}

#[test]
fn a_holder_that_never_answers_a_break_delays_others_only_until_the_timeout_and_loses_its_caching() {
    let samba = Samba::with(&Options {
        break_timeout_ns: PATIENCE_NS,
        ..server_options()
    });
    run(|executor| async move {
        for ask in [Ask::Oplock(Caching::ALL), Ask::Lease(LeaseKey(1), Caching::ALL)] {
            let mut first = Client::connect(&executor, &samba).await;
            let path = fresh_path();
            let (handle, granted, ..) = first.open(&Open { ask, ..create(&path) }).await;
            assert_eq!(granted, Caching::ALL);
            let other = path.clone();
            let second = beside(&samba, move |client| open_for_writing(client, other));
            let due_ns = monotonic_ns() + 5_000 * MS;
            let broken = first
                .session
                .break_until(due_ns)
                .await
                .expect("it goes on")
                .expect("a break");
            let waited_ns = second.join().expect("it opens");
            assert!(waited_ns >= PATIENCE_NS, "{waited_ns}");
            // This is too late: no break is left to acknowledge, and nothing happens.
            let late = first.session.acknowledge(broken.grant, broken.to).await;
            late.expect("the session goes on");
            first.close(handle).await;
            first.session.disconnect().await;
        }
        assert_eq!(samba.server.open_files(), 0);
    });
}

#[test]
fn a_holder_that_disconnects_is_no_longer_waited_for() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut first = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let ask = Ask::Oplock(Caching::ALL);
        first.open(&Open { ask, ..create(&path) }).await;
        let second = beside(&samba, move |client| open_for_writing(client, path));
        let due_ns = monotonic_ns() + 5_000 * MS;
        first
            .session
            .break_until(due_ns)
            .await
            .expect("it goes on")
            .expect("a break");
        drop(first);
        second.join().expect("it opens");
    });
}

#[test]
fn a_handle_kept_for_reuse_is_closed_before_its_file_is_renamed_or_deleted() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        for (key, delete) in [(11, false), (12, true)] {
            let mut first = Client::connect(&executor, &samba).await;
            let path = fresh_path();
            first.write_file(&path, b"x").await;
            let ask = Ask::Lease(LeaseKey(key), Caching::READ_HANDLE);
            let open = Open {
                ask,
                ..existing(&path)
            };
            let (handle, granted, ..) = first.open(&open).await;
            assert_eq!(granted, Caching::READ_HANDLE);
            let second = beside(&samba, move |mut client| async move {
                let to = fresh_path();
                let call = if delete {
                    Call::Delete { path: &path }
                } else {
                    Call::Rename { from: &path, to: &to }
                };
                client.call(&call).await
            });
            let due_ns = monotonic_ns() + 5_000 * MS;
            let broken = first
                .session
                .break_until(due_ns)
                .await
                .expect("it goes on")
                .expect("a break");
            assert!(broken.acknowledge && broken.to == Caching::READ, "{broken:?}");
            assert!(!second.is_finished());
            first.close(handle).await;
            assert_eq!(second.join().expect("it ends"), Ok(Reply::Done));
        }
    });
}

#[test]
fn a_locked_range_is_denied_to_others_until_it_is_unlocked() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut first = Client::connect(&executor, &samba).await;
        let mut second = Client::try_connect(&executor, &samba, options())
            .await
            .expect("a session");
        let path = fresh_path();
        first.write_file(&path, &[1; 100]).await;
        let (mine, ..) = first.open(&create(&path)).await;
        let (theirs, ..) = second.open(&create(&path)).await;
        let lock = |handle| Call::Lock {
            handle,
            offset: 10,
            bytes: 10,
        };
        let read = |offset| Call::Read {
            handle: theirs,
            offset,
            bytes: 10,
        };
        assert_eq!(first.call(&lock(mine)).await, Ok(Reply::Done));
        assert_eq!(fault(second.call(&lock(theirs)).await), Some(Fault::LockConflict));
        assert_eq!(fault(second.call(&read(15)).await), Some(Fault::LockConflict));
        assert_eq!(second.call(&read(20)).await, Ok(Reply::Read { bytes: 10 }));
        let unlock = Call::Unlock {
            handle: mine,
            offset: 10,
            bytes: 10,
        };
        assert_eq!(first.call(&unlock).await, Ok(Reply::Done));
        assert_eq!(second.call(&read(15)).await, Ok(Reply::Read { bytes: 10 }));
        assert_eq!(second.call(&lock(theirs)).await, Ok(Reply::Done));
        // A closed file holds no locks.
        second.close(theirs).await;
        assert_eq!(first.call(&lock(mine)).await, Ok(Reply::Done));
    });
}

#[test]
fn a_file_marked_for_deletion_can_no_longer_be_opened() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut first = Client::connect(&executor, &samba).await;
        let mut second = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let marked = Open {
            delete_on_close: true,
            disposition: Disposition::Create,
            ..create(&path)
        };
        let (handle, ..) = first.open(&marked).await;
        let reads = Call::Open(Open {
            access: Access::Read,
            ..existing(&path)
        });
        assert!(matches!(second.call(&reads).await, Ok(Reply::Opened { .. })));
        first.close(handle).await;
        // The file is still open elsewhere.
        assert_eq!(fault(second.call(&reads).await), Some(Fault::SharingViolation));
        second.session.disconnect().await;
        assert_eq!(first.call(&reads).await, Ok(Reply::NotThere));
    });
}
