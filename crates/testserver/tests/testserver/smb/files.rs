//! Files as seen by one session: contents, names, listings, space and credits.

use super::client::{create, existing, fault, fresh_path, pattern, run, Client};
use super::samba::{server_options, Samba};
use dyno_files::{Call, Disposition, FileClient, Open, Reply, Stability};
use dyno_measure::Fault;
use dyno_testserver::smb::Options;

const NAMES: usize = 3000;

#[test]
fn a_mebibyte_is_read_back_in_one_piece_or_many() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        let data = pattern((1 << 20) - 77, 5);
        client.write_file(&path, &data).await;
        let (handle, _, _, info) = client.open(&existing(&path)).await;
        assert_eq!(info.bytes, data.len() as u64);
        for bytes in [1 << 20, 65_536, 50_001] {
            let mut read = Vec::new();
            while read.len() < data.len() {
                let offset = read.len() as u64;
                client
                    .call(&Call::Read {
                        handle,
                        offset,
                        bytes,
                    })
                    .await
                    .expect("there is more");
                assert!(!client.data.is_empty());
                read.extend_from_slice(&client.data);
            }
            assert!(read == data, "{bytes}");
        }
        let behind = Call::Read {
            handle,
            offset: data.len() as u64,
            bytes: 10,
        };
        assert_eq!(client.call(&behind).await, Ok(Reply::Read { bytes: 0 }));
        client.close(handle).await;
    });
}

#[test]
fn a_directory_of_3000_names_is_listed_completely_and_by_pattern() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let directory = fresh_path();
        client.make_directory(&directory).await;
        for number in 0..NAMES {
            let path = format!("{directory}/a rather long name, so that it takes many answers, {number}.txt");
            let handle = client.create(&path).await;
            client.close(handle).await;
        }
        for (wanted, expected) in [("*", NAMES), ("*7.TXT", NAMES / 10), ("*.doc", 0), ("nothing", 0)] {
            let find = Call::Find {
                directory: &directory,
                pattern: wanted,
            };
            let found = client.call(&find).await;
            let counted = match found {
                Ok(Reply::Found { entries }) => entries as usize,
                other => panic!("{wanted}: {other:?}"),
            };
            assert_eq!(counted, expected, "{wanted}");
        }
    });
}

#[test]
fn names_are_found_in_any_case_and_never_replaced_by_another() {
    let Some(samba) = Samba::shared() else { return };
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let directory = fresh_path();
        client.make_directory(&directory).await;
        let (one, two) = (format!("{directory}/\u{c9}t\u{e9}"), format!("{directory}/two"));
        client.write_file(&one, b"1").await;
        client.write_file(&two, b"2").await;
        let upper = one.to_uppercase();
        let (handle, ..) = client.open(&existing(&upper)).await;
        client.close(handle).await;
        let onto = Call::Rename { from: &one, to: &two };
        assert_eq!(fault(client.call(&onto).await), Some(Fault::AlreadyThere));
        let elsewhere = fresh_path();
        let away = Call::Rename {
            from: &one,
            to: &elsewhere,
        };
        assert_eq!(client.call(&away).await, Ok(Reply::Done));
        let (handle, _, _, info) = client.open(&existing(&elsewhere)).await;
        assert_eq!(info.bytes, 1);
        client.close(handle).await;
        let full = Call::RemoveDirectory { path: &directory };
        assert!(client.call(&full).await.is_err());
        assert_eq!(client.call(&Call::Delete { path: &two }).await, Ok(Reply::Done));
        assert_eq!(client.call(&full).await, Ok(Reply::Done));
        let gone = Open {
            disposition: Disposition::Open,
            ..create(&two)
        };
        assert_eq!(client.call(&Call::Open(gone)).await, Ok(Reply::NotThere));
    });
}

#[test]
fn a_full_server_reports_it_and_has_space_again_after_deletions() {
    let samba = Samba::with(&Options {
        capacity_bytes: 1 << 20,
        ..server_options()
    });
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let data = pattern(700_000, 1);
        client.write_file("one", &data).await;
        let handle = client.create("two").await;
        let write = Call::Write {
            handle,
            offset: 0,
            data: &data,
            stability: Stability::Unstable,
        };
        assert_eq!(fault(client.call(&write).await), Some(Fault::NoSpace));
        client.close(handle).await;
        for path in ["one", "two"] {
            assert_eq!(client.call(&Call::Delete { path }).await, Ok(Reply::Done));
        }
        let Ok(Reply::Space(space)) = client.call(&Call::QuerySpace { directory: "" }).await else {
            panic!("there is space");
        };
        assert_eq!(space.free_bytes, space.total_bytes);
        client.write_file("three", &data).await;
    });
}

#[test]
fn server_and_client_count_the_same_requests() {
    let samba = Samba::with(&server_options());
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        client.make_directory("d").await;
        client.write_file("d/x", b"x").await;
        client
            .call(&Call::Rename {
                from: "d/x",
                to: "d/y",
            })
            .await
            .expect("it is there");
        client
            .call(&Call::Delete { path: "d/y" })
            .await
            .expect("it is there");
        client.session.disconnect().await;
        let served = samba.server.requests();
        for (name, count) in client.session.requests_by_name() {
            let found = served.iter().find(|one| one.0 == name).expect("every command");
            assert_eq!(found.1, count, "{name}");
        }
        assert_eq!(samba.server.open_files(), 0);
    });
}
