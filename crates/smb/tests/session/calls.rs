//! Every call against a real server, compared with the contents of its directory.

use crate::client::{create, existing, fault, fresh_path, options, pattern, run, Client};
use crate::samba::Samba;
use dyno_files::{
    Access, Ask, Caching, Call, Disposition, FileClient, Handle, Info, LeaseKey, Open, Reply, Stability,
};
use dyno_measure::Fault;
use dyno_smb::Options;
use std::fs;

#[test]
fn written_data_are_read_back_and_are_in_the_servers_directory() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let data = pattern(10_000, 1);
        let (handle, _, created, info) = client.open(&create(&path)).await;
        assert!(created && info.bytes == 0 && !info.directory);
        let write = Call::Write {
            handle,
            offset: 5,
            data: &data,
            stability: Stability::Unstable,
        };
        assert_eq!(client.call(&write).await, Ok(Reply::Written { bytes: 10_000 }));
        assert_eq!(client.call(&Call::Flush { handle }).await, Ok(Reply::Done));
        let read = |offset, bytes| Call::Read {
            handle,
            offset,
            bytes,
        };
        assert_eq!(
            client.call(&read(5, 10_000)).await,
            Ok(Reply::Read { bytes: 10_000 })
        );
        assert_eq!(client.data, data);
        assert_eq!(
            client.call(&read(10_000, 100)).await,
            Ok(Reply::Read { bytes: 5 })
        );
        assert_eq!(client.data, data[9995..]);
        assert_eq!(
            client.call(&read(10_005, 100)).await,
            Ok(Reply::Read { bytes: 0 })
        );
        client.close(handle).await;
        let stored = fs::read(samba.share().join(&path)).expect("the file");
        assert_eq!(stored[..5], [0; 5]);
        assert_eq!(stored[5..], data);
    });
}

/// The credits suffice for one or two parts of a compound of three. The parts are then sent one by one, with the same
/// result.
#[test]
fn few_credits_suffice_for_every_call() {
    for most in [1, 2] {
        let Some(samba) = Samba::start("poor", &format!("  smb2 max credits = {most}")) else {
            return;
        };
        run(|executor| async move {
            let mut client = Client::connect(&executor, &samba).await;
            let (path, other) = (fresh_path(), fresh_path());
            let (handle, ..) = client.open(&create(&path)).await;
            client.close(handle).await;
            let info = client.call(&Call::QueryPath { path: &path }).await;
            assert!(matches!(info, Ok(Reply::Info(Info { bytes: 0, .. }))), "{info:?}");
            let space = client.call(&Call::QuerySpace { directory: "" }).await;
            assert!(matches!(space, Ok(Reply::Space(_))), "{space:?}");
            let find = Call::Find {
                directory: "",
                pattern: &path,
            };
            assert_eq!(client.call(&find).await, Ok(Reply::Found { entries: 1 }));
            let rename = Call::Rename {
                from: &path,
                to: &other,
            };
            assert_eq!(client.call(&rename).await, Ok(Reply::Done));
            assert_eq!(
                client.call(&Call::QueryPath { path: &path }).await,
                Ok(Reply::NotThere)
            );
            assert_eq!(fault(client.call(&rename).await), Some(Fault::NotFound));
            assert_eq!(client.call(&Call::Delete { path: &other }).await, Ok(Reply::Done));
            assert_eq!(client.call(&find).await, Ok(Reply::Found { entries: 0 }));
            assert_eq!(fs::read_dir(samba.share()).expect("the share").count(), 0);
        });
    }
}

#[test]
fn each_disposition_opens_creates_or_truncates_as_specified() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let open = |disposition| {
            Call::Open(Open {
                disposition,
                ..create(&path)
            })
        };
        assert_eq!(client.call(&open(Disposition::Open)).await, Ok(Reply::NotThere));
        assert_eq!(
            client.call(&open(Disposition::Overwrite)).await,
            Ok(Reply::NotThere)
        );
        client.write_file(&path, b"something").await;
        assert_eq!(
            fault(client.call(&open(Disposition::Create)).await),
            Some(Fault::AlreadyThere)
        );
        for (disposition, bytes) in [
            (Disposition::Open, 9),
            (Disposition::OpenIf, 9),
            (Disposition::Overwrite, 0),
        ] {
            let Ok(Reply::Opened {
                handle,
                created,
                info,
                ..
            }) = client.call(&open(disposition)).await
            else {
                panic!("{disposition:?}");
            };
            assert_eq!((created, info.bytes), (false, bytes), "{disposition:?}");
            client.close(handle).await;
        }
    });
}

#[test]
fn sizes_and_times_are_set_and_queried_by_handle_and_by_path() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let handle = client.create(&path).await;
        assert_eq!(
            client
                .call(&Call::SetEnd {
                    handle,
                    bytes: 70_000
                })
                .await,
            Ok(Reply::Done)
        );
        let Ok(Reply::Info(info)) = client.call(&Call::QueryHandle { handle }).await else {
            panic!("no information");
        };
        assert_eq!(
            (info.bytes, info.directory, info.read_only),
            (70_000, false, false)
        );
        let on_disk = samba.share().join(&path);
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(86_400);
        let file = fs::File::options().write(true).open(&on_disk).expect("the file");
        file.set_modified(long_ago).expect("allowed");
        assert_eq!(client.call(&Call::SetTimes { handle }).await, Ok(Reply::Done));
        client.close(handle).await;
        let age = fs::metadata(&on_disk)
            .and_then(|data| data.modified())
            .expect("a time")
            .elapsed();
        assert!(age.expect("not in the future").as_secs() < 60);
        let Ok(Reply::Info(by_path)) = client.call(&Call::QueryPath { path: &path }).await else {
            panic!("no information");
        };
        assert_eq!(by_path, info);
        assert_eq!(
            client.call(&Call::QueryPath { path: "no/such" }).await,
            Ok(Reply::NotThere)
        );
    });
}

#[test]
fn directories_are_created_listed_and_removed() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        client.make_directory(&path).await;
        for name in ["a.txt", "b.txt", "c.doc"] {
            client.write_file(&format!("{path}/{name}"), b"x").await;
        }
        for (pattern, entries) in [("*", 3), ("*.txt", 2), ("b.txt", 1), ("?.doc", 1), ("none", 0)] {
            let find = Call::Find {
                directory: &path,
                pattern,
            };
            assert_eq!(
                client.call(&find).await,
                Ok(Reply::Found { entries }),
                "{pattern}"
            );
        }
        let nowhere = Call::Find {
            directory: "nowhere",
            pattern: "*",
        };
        assert_eq!(client.call(&nowhere).await, Ok(Reply::NotThere));
        let remove = Call::RemoveDirectory { path: &path };
        assert_eq!(fault(client.call(&remove).await), Some(Fault::ErrorStatus));
        assert_eq!(
            fault(client.call(&Call::MakeDirectory { path: &path }).await),
            Some(Fault::AlreadyThere)
        );
        for name in ["a.txt", "b.txt", "c.doc"] {
            let file = format!("{path}/{name}");
            assert_eq!(client.call(&Call::Delete { path: &file }).await, Ok(Reply::Done));
        }
        assert_eq!(client.call(&remove).await, Ok(Reply::Done));
        assert!(!samba.share().join(&path).exists());
        assert_eq!(fault(client.call(&remove).await), Some(Fault::NotFound));
        // The handles of compounds that failed half-way were closed: the server has none left.
        client.session.disconnect().await;
    });
}

#[test]
fn a_directory_of_3000_names_is_listed_completely() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        client.make_directory(&path).await;
        let directory = samba.share().join(&path);
        // These names need no short form. Servers also match patterns against short forms.
        for number in 0..3000 {
            fs::write(directory.join(format!("n{number:07}.txt")), b"").expect("a file");
        }
        let find = |pattern| Call::Find {
            directory: &path,
            pattern,
        };
        assert_eq!(client.call(&find("*")).await, Ok(Reply::Found { entries: 3000 }));
        assert_eq!(
            client.call(&find("*7.txt")).await,
            Ok(Reply::Found { entries: 300 })
        );
        assert_eq!(
            client.call(&find("n00029?9.txt")).await,
            Ok(Reply::Found { entries: 10 })
        );
    });
}

#[test]
fn a_rename_moves_a_file_and_never_replaces_one() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let (from, to, taken) = (fresh_path(), fresh_path(), fresh_path());
        client.write_file(&from, b"moved").await;
        client.write_file(&taken, b"stays").await;
        let rename = |to| Call::Rename { from: &from, to };
        assert_eq!(
            fault(client.call(&rename(&taken)).await),
            Some(Fault::AlreadyThere)
        );
        assert_eq!(client.call(&rename(&to)).await, Ok(Reply::Done));
        assert_eq!(fault(client.call(&rename(&to)).await), Some(Fault::NotFound));
        assert_eq!(fs::read(samba.share().join(&to)).expect("moved"), b"moved");
        assert_eq!(fs::read(samba.share().join(&taken)).expect("there"), b"stays");
    });
}

#[test]
fn a_file_is_deleted_with_its_handle_on_request() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let open = Open {
            delete_on_close: true,
            ..create(&path)
        };
        let (handle, ..) = client.open(&open).await;
        assert!(samba.share().join(&path).exists());
        client.close(handle).await;
        assert!(!samba.share().join(&path).exists());
    });
}

#[test]
fn a_locked_range_is_denied_to_others_until_it_is_unlocked() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut first = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let handle = first.create(&path).await;
        // Two handles of one session are separate lock owners, like two clients.
        let other = first.create(&path).await;
        let lock = |handle| Call::Lock {
            handle,
            offset: 10,
            bytes: 10,
        };
        let unlock = |handle| Call::Unlock {
            handle,
            offset: 10,
            bytes: 10,
        };
        assert_eq!(first.call(&lock(handle)).await, Ok(Reply::Done));
        assert_eq!(fault(first.call(&lock(other)).await), Some(Fault::LockConflict));
        let write = Call::Write {
            handle: other,
            offset: 15,
            data: b"x",
            stability: Stability::Unstable,
        };
        assert_eq!(fault(first.call(&write).await), Some(Fault::LockConflict));
        assert_eq!(first.call(&unlock(handle)).await, Ok(Reply::Done));
        assert_eq!(first.call(&lock(other)).await, Ok(Reply::Done));
        assert_eq!(first.call(&unlock(other)).await, Ok(Reply::Done));
    });
}

#[test]
fn space_is_that_of_the_servers_file_system() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let Ok(Reply::Space(space)) = client.call(&Call::QuerySpace { directory: "" }).await else {
            panic!("no answer");
        };
        let file_system = rustix::fs::statvfs(samba.share()).expect("a file system");
        assert_eq!(space.total_bytes, file_system.f_blocks * file_system.f_frsize);
        assert!(space.free_bytes > 0 && space.free_bytes <= space.total_bytes);
    });
}

#[test]
fn access_rights_are_enforced_by_the_server() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let on_disk = samba.share().join(&path);
        fs::write(&on_disk, b"root's own").expect("a file");
        let with = |access| {
            Call::Open(Open {
                access,
                ..existing(&path)
            })
        };
        assert_eq!(
            fault(client.call(&with(Access::Write)).await),
            Some(Fault::AccessDenied)
        );
        let Ok(Reply::Opened { handle, .. }) = client.call(&with(Access::Read)).await else {
            panic!("reading is allowed");
        };
        let write = Call::Write {
            handle,
            offset: 0,
            data: b"x",
            stability: Stability::Unstable,
        };
        assert_eq!(fault(client.call(&write).await), Some(Fault::AccessDenied));
    });
}

#[test]
fn a_base_path_is_put_before_all_other_paths() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let base = fresh_path();
        Client::connect(&executor, &samba)
            .await
            .make_directory(&base)
            .await;
        let with_base = Options {
            base_path: base.clone(),
            ..options()
        };
        let mut client = Client::try_connect(&executor, &samba, with_base)
            .await
            .expect("a session");
        client.write_file("one", b"1").await;
        let rename = Call::Rename {
            from: "one",
            to: "two",
        };
        assert_eq!(client.call(&rename).await, Ok(Reply::Done));
        let find = Call::Find {
            directory: "",
            pattern: "*",
        };
        assert_eq!(client.call(&find).await, Ok(Reply::Found { entries: 1 }));
        assert!(samba.share().join(base).join("two").exists());
    });
}

#[test]
fn a_call_on_a_closed_handle_fails_but_the_session_continues() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let handle = client.create(&fresh_path()).await;
        client.close(handle).await;
        for handle in [handle, Handle(77)] {
            let flush = client.call(&Call::Flush { handle }).await;
            assert_eq!(fault(flush), Some(Fault::SessionLost));
        }
        client.create(&fresh_path()).await;
    });
}

#[test]
fn requests_are_counted_by_name_and_a_session_can_be_established_again() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        client.write_file(&path, b"twelve bytes").await;
        assert_eq!(client.call(&Call::Delete { path: &path }).await, Ok(Reply::Done));
        let deadline_ns = executor.deadline_ns();
        client.session.disconnect().await;
        assert_eq!(executor.deadline_ns(), deadline_ns);
        assert!(client
            .session
            .begin(&Call::QuerySpace { directory: "" })
            .await
            .is_err());
        client.session.connect().await.expect("another session");
        assert!(matches!(
            client.call(&Call::QuerySpace { directory: "" }).await,
            Ok(Reply::Space(_))
        ));
        let counts: std::collections::BTreeMap<_, _> =
            client.session.requests_by_name().into_iter().collect();
        let expected = [
            ("NEGOTIATE", 2),
            ("SESSION_SETUP", 4),
            ("TREE_CONNECT", 2),
            ("TREE_DISCONNECT", 1),
            ("LOGOFF", 1),
            ("CREATE", 3),
            ("WRITE", 1),
            ("SET_INFO", 1),
            ("QUERY_INFO", 1),
            ("CLOSE", 3),
            ("READ", 0),
        ];
        for (name, count) in expected {
            assert_eq!(counts[name], count, "{name}");
        }
        let traffic = client.session.traffic();
        assert_eq!((traffic.requests, traffic.connections), (19, 2));
        assert!(traffic.bytes_out > 19 * 64 && traffic.bytes_in > 19 * 64);
    });
}

#[test]
fn an_info_says_whether_the_path_is_a_directory() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        client.make_directory(&path).await;
        let reply = client.call(&Call::QueryPath { path: &path }).await;
        assert!(
            matches!(reply, Ok(Reply::Info(Info { directory: true, .. }))),
            "{reply:?}"
        );
        let as_file = client.call(&Call::Open(existing(&path))).await;
        assert_eq!(fault(as_file), Some(Fault::ErrorStatus));
    });
}

#[test]
fn a_lease_without_its_context_counts_as_no_lease() {
    let fake = "  fake oplocks = yes\n  level2 oplocks = no";
    let Some(samba) = Samba::start("fake", fake) else {
        return;
    };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let ask = Ask::Lease(LeaseKey(7), Caching::ALL);
        let (handle, granted, ..) = client.open(&Open { ask, ..create(&path) }).await;
        assert_eq!(granted, Caching::NONE);
        let write = Call::Write {
            handle,
            offset: 0,
            data: b"sent at once",
            stability: Stability::Unstable,
        };
        assert_eq!(client.call(&write).await, Ok(Reply::Written { bytes: 12 }));
        client.close(handle).await;
    });
}
