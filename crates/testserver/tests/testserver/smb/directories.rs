//! Directory leases between two sessions: what the server grants, and what breaks it.

use super::client::{create, existing, fresh_path, options, run, Client};
use super::samba::{server_options, Samba};
use dyno_files::{
    Access, Ask, Break, Caching, Call, Disposition, FileClient, Grant, Handle, LeaseKey, Open, Reply,
    Stability,
};
use dyno_measure::monotonic_ns;
use dyno_smb::Dialect;
use dyno_testserver::smb::Options;
use std::sync::Arc;

const KEY: LeaseKey = LeaseKey(7);
const SPACE: Call<'static> = Call::QuerySpace { directory: "" };

fn directory(path: &str, caching: Caching) -> Open<'_> {
    Open {
        directory: true,
        ask: Ask::Lease(KEY, caching),
        ..existing(path)
    }
}

/// Starts a server with one thread, so that breaks and answers on one connection are in order.
fn server(options: Options) -> Arc<Samba> {
    Samba::with(&Options {
        threads: 1,
        ..options
    })
}

/// Returns all breaks that the server has sent, each of which arrives before the answer to a later request.
async fn breaks(client: &mut Client) -> Vec<Break> {
    assert!(matches!(client.call(&SPACE).await, Ok(Reply::Space(_))));
    std::mem::take(&mut client.breaks)
}

async fn done(client: &mut Client, call: Call<'_>) {
    let reply = client.call(&call).await;
    assert!(reply.is_ok(), "{call:?}: {reply:?}");
}

/// Opens a file for writing.
async fn opened(client: &mut Client, path: &str) -> Handle {
    client.open(&create(path)).await.0
}

#[test]
fn only_read_and_handle_caching_of_a_directory_is_granted() {
    let samba = server(server_options());
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        let path = fresh_path();
        client.make_directory(&path).await;
        for (asked, expected) in [
            (Caching::READ, Caching::READ),
            (Caching::READ_HANDLE, Caching::READ_HANDLE),
            (Caching::ALL, Caching::READ_HANDLE),
        ] {
            let (handle, granted, ..) = client.open(&directory(&path, asked)).await;
            assert_eq!(granted, expected, "{asked:?}");
            client.close(handle).await;
        }
    });
}

#[test]
fn a_broken_lease_is_granted_again_on_the_next_open_of_the_directory() {
    let samba = server(server_options());
    run(|executor| async move {
        let mut holder = Client::connect(&executor, &samba).await;
        let mut other = Client::connect(&executor, &samba).await;
        set_up(&mut holder).await;
        let (first, ..) = holder.open(&directory("d", Caching::ALL)).await;
        carry_out(&mut other, Act::MakeFile).await;
        let [told] = breaks(&mut holder).await[..] else {
            panic!("one break");
        };
        let acknowledged = holder.session.acknowledge(told.grant, told.to).await;
        acknowledged.expect("the session goes on");
        let (second, granted, ..) = holder.open(&directory("d", Caching::ALL)).await;
        assert_eq!(granted, Caching::READ_HANDLE);
        holder.close(first).await;
        holder.close(second).await;
    });
}

#[test]
fn directory_leases_need_smb_3_and_the_option_and_exclude_durable_handles() {
    let old = dyno_smb::Options {
        max_dialect: Dialect::Smb210,
        ..options()
    };
    let durable = dyno_smb::Options {
        durable_handles: true,
        ..options()
    };
    let off = Options {
        directory_leases: false,
        ..server_options()
    };
    for (of_server, of_client, expected) in [
        (server_options(), options(), Caching::READ_HANDLE),
        (server_options(), old, Caching::NONE),
        (server_options(), durable, Caching::NONE),
        (off, options(), Caching::NONE),
    ] {
        let samba = server(of_server);
        run(move |executor| async move {
            let connected = Client::try_connect(&executor, &samba, of_client).await;
            let mut client = connected.expect("a session");
            client.make_directory("d").await;
            let (handle, granted, ..) = client.open(&directory("d", Caching::READ_HANDLE)).await;
            assert_eq!(granted, expected);
            let agreed = client.session.agreed().expect("a session");
            assert_eq!(agreed.directory_leases, expected != Caching::NONE);
            client.close(handle).await;
        });
    }
}

/// An act of a client in the directory `d`, which has a file `x` and an empty directory `e`. The file `o` is
/// outside.
#[derive(Debug, Clone, Copy)]
enum Act {
    MakeFile,
    Overwrite,
    Write,
    SetEnd,
    SetTimes,
    Delete,
    DeleteOnClose,
    Rename,
    RenameOut,
    RenameIn,
    MakeDirectory,
    RemoveDirectory,
    List,
    Read,
    LookUp,
    MakeElsewhere,
    MakeBelow,
}

const CHANGES: [Act; 12] = [
    Act::MakeFile,
    Act::Overwrite,
    Act::Write,
    Act::SetEnd,
    Act::SetTimes,
    Act::Delete,
    Act::DeleteOnClose,
    Act::Rename,
    Act::RenameOut,
    Act::RenameIn,
    Act::MakeDirectory,
    Act::RemoveDirectory,
];
const HARMLESS: [Act; 5] = [
    Act::List,
    Act::Read,
    Act::LookUp,
    Act::MakeElsewhere,
    Act::MakeBelow,
];

async fn set_up(client: &mut Client) {
    client.make_directory("d").await;
    client.make_directory("d/e").await;
    client.write_file("d/x", b"some").await;
    client.write_file("o", b"out").await;
}

async fn carry_out(client: &mut Client, act: Act) {
    let write = |handle| Call::Write {
        handle,
        offset: 0,
        data: b"longer",
        stability: Stability::Unstable,
    };
    match act {
        Act::MakeFile => client.write_file("d/y", b"").await,
        Act::Overwrite => {
            let open = Open {
                disposition: Disposition::Overwrite,
                ..create("d/x")
            };
            let handle = client.open(&open).await.0;
            client.close(handle).await;
        }
        Act::Write | Act::SetEnd | Act::SetTimes => {
            let handle = opened(client, "d/x").await;
            let call = match act {
                Act::Write => write(handle),
                Act::SetEnd => Call::SetEnd { handle, bytes: 1 },
                _ => Call::SetTimes { handle },
            };
            done(client, call).await;
            client.close(handle).await;
        }
        Act::Delete => done(client, Call::Delete { path: "d/x" }).await,
        Act::DeleteOnClose => {
            let open = Open {
                delete_on_close: true,
                access: Access::Delete,
                ..existing("d/x")
            };
            let handle = client.open(&open).await.0;
            client.close(handle).await;
        }
        Act::Rename | Act::RenameOut | Act::RenameIn => {
            let (from, to) = match act {
                Act::Rename => ("d/x", "d/z"),
                Act::RenameOut => ("d/x", "z"),
                _ => ("o", "d/z"),
            };
            done(client, Call::Rename { from, to }).await;
        }
        Act::MakeDirectory => client.make_directory("d/f").await,
        Act::RemoveDirectory => done(client, Call::RemoveDirectory { path: "d/e" }).await,
        Act::List => {
            let call = Call::Find {
                directory: "d",
                pattern: "*",
            };
            assert_eq!(client.call(&call).await, Ok(Reply::Found { entries: 2 }));
        }
        Act::Read => {
            let handle = client.open(&existing("d/x")).await.0;
            let call = Call::Read {
                handle,
                offset: 0,
                bytes: 4,
            };
            done(client, call).await;
            client.close(handle).await;
        }
        Act::LookUp => done(client, Call::QueryPath { path: "d/x" }).await,
        Act::MakeElsewhere => client.write_file("other", b"").await,
        Act::MakeBelow => client.write_file("d/e/deep", b"").await,
    }
}

/// Checks that another client's act breaks the lease to `broken`, and that the holder's own act never does.
fn check(act: Act, caching: Caching, broken: bool) {
    let samba = server(server_options());
    run(move |executor| async move {
        let mut holder = Client::connect(&executor, &samba).await;
        let mut other = Client::connect(&executor, &samba).await;
        set_up(&mut holder).await;
        let (handle, granted, ..) = holder.open(&directory("d", caching)).await;
        assert_eq!(granted, caching);
        carry_out(&mut other, act).await;
        let expected = Break {
            grant: Grant::Lease(KEY),
            to: Caching::NONE,
            acknowledge: caching.handle,
        };
        let expected = if broken { vec![expected] } else { Vec::new() };
        assert_eq!(breaks(&mut holder).await, expected, "{act:?} by another");
        holder.close(handle).await;
    });
    let samba = server(server_options());
    run(move |executor| async move {
        let mut holder = Client::connect(&executor, &samba).await;
        set_up(&mut holder).await;
        let (handle, ..) = holder.open(&directory("d", caching)).await;
        carry_out(&mut holder, act).await;
        // A move gives the lease of its source directory, not that of its target directory.
        let own = !matches!(act, Act::RenameIn);
        assert_eq!(breaks(&mut holder).await.is_empty(), own, "{act:?} by the holder");
        holder.close(handle).await;
    });
}

#[test]
fn a_change_by_another_client_breaks_directory_leases() {
    for act in CHANGES {
        check(act, Caching::READ_HANDLE, true);
        check(act, Caching::READ, true);
    }
}

#[test]
fn an_act_that_changes_nothing_in_a_directory_breaks_no_lease() {
    for act in HARMLESS {
        check(act, Caching::READ_HANDLE, false);
    }
}

#[test]
fn a_directory_is_removed_once_its_handle_was_closed() {
    let samba = server(server_options());
    run(|executor| async move {
        let mut holder = Client::connect(&executor, &samba).await;
        let mut other = Client::connect(&executor, &samba).await;
        holder.make_directory("d").await;
        let (handle, ..) = holder.open(&directory("d", Caching::READ_HANDLE)).await;
        let removal = other.begin(&Call::RemoveDirectory { path: "d" }).await;
        let told = holder
            .session
            .break_until(monotonic_ns() + 10_000_000_000)
            .await
            .expect("the session goes on");
        let expected = Break {
            grant: Grant::Lease(KEY),
            to: Caching::READ,
            acknowledge: true,
        };
        assert_eq!(told, Some(expected));
        holder.close(handle).await;
        assert_eq!(other.end(removal).await, Ok(Reply::Done));
    });
}

#[test]
fn with_the_fault_directories_change_without_a_break_but_files_do_not() {
    let samba = server(Options {
        fault: Some("no-directory-breaks".parse().expect("a fault")),
        ..server_options()
    });
    run(|executor| async move {
        let mut holder = Client::connect(&executor, &samba).await;
        let mut other = Client::connect(&executor, &samba).await;
        set_up(&mut holder).await;
        let (handle, ..) = holder.open(&directory("d", Caching::READ_HANDLE)).await;
        let of_file = Ask::Lease(LeaseKey(8), Caching::READ);
        let (file, granted, ..) = holder
            .open(&Open {
                ask: of_file,
                ..existing("d/x")
            })
            .await;
        assert_eq!(granted, Caching::READ);
        carry_out(&mut other, Act::Write).await;
        let told: Vec<Grant> = breaks(&mut holder).await.iter().map(|one| one.grant).collect();
        assert_eq!(told, [Grant::Lease(LeaseKey(8))]);
        holder.close(file).await;
        holder.close(handle).await;
    });
}

#[test]
fn a_listing_through_a_leased_handle_needs_half_the_requests_and_restarts_each_time() {
    let samba = server(server_options());
    run(|executor| async move {
        let mut client = Client::connect(&executor, &samba).await;
        set_up(&mut client).await;
        let mut requests = Vec::new();
        for leased in [false, true, true] {
            let handle = match leased {
                true => Some(client.open(&directory("d", Caching::READ_HANDLE)).await.0),
                false => None,
            };
            let before = client.session.traffic().requests;
            carry_out(&mut client, Act::List).await;
            carry_out(&mut client, Act::List).await;
            requests.push(client.session.traffic().requests - before);
            if let Some(handle) = handle {
                client.close(handle).await;
            }
        }
        assert_eq!(requests, [8, 4, 4]);
    });
}
