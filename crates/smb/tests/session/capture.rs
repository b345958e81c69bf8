//! Checks the client's messages with an independent dissector: none is malformed, and the number of each
//! kind equals the client's own count. Also tests the consent of a server that is not on loopback.

use crate::client::{create, existing, fresh_path, options, pattern, run, Client};
use crate::network::{find_program, Capture, Namespace};
use crate::samba::Samba;
use dyno_files::{Access, Ask, Caching, Call, FileClient, LeaseKey, Open, Reply, Stability};
use dyno_measure::monotonic_ns;
use dyno_net::consent_document;
use dyno_smb::wire::Command;
use dyno_smb::{Dialect, Options, Signing, SmbTarget, TargetError};
use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const PORT: u16 = 445;
/// Wireshark's number for errors in its expert information.
const EXPERT_ERROR: u32 = 0x0080_0000;
const TOKEN: &str = "0123456789abcdefghij";

/// Makes every call in every form that differs on the wire.
async fn do_everything(client: &mut Client) {
    let (directory, path) = (fresh_path(), fresh_path());
    client.make_directory(&directory).await;
    let asks = [
        Ask::Nothing,
        Ask::Oplock(Caching::ALL),
        Ask::Lease(LeaseKey(u128::from(monotonic_ns())), Caching::ALL),
    ];
    for ask in asks {
        let (handle, ..) = client.open(&Open { ask, ..create(&path) }).await;
        let data = pattern(70_000, 1);
        let part = &data[..data.len().min(client.session.max_write_bytes() as usize)];
        let bytes = part.len() as u32;
        let calls = [
            Call::Write {
                handle,
                offset: 0,
                data: part,
                stability: Stability::Unstable,
            },
            Call::Read {
                handle,
                offset: 0,
                bytes,
            },
            Call::Read {
                handle,
                offset: 1 << 20,
                bytes: 1,
            },
            Call::Flush { handle },
            Call::Lock {
                handle,
                offset: 0,
                bytes: 1,
            },
            Call::Unlock {
                handle,
                offset: 0,
                bytes: 1,
            },
            Call::QueryHandle { handle },
            Call::SetEnd { handle, bytes: 10 },
            Call::SetTimes { handle },
        ];
        for call in calls {
            assert!(client.call(&call).await.is_ok(), "{call:?}");
        }
        client.close(handle).await;
    }
    let renamed = format!("{directory}/ren\u{e4}med");
    let calls = [
        Call::QueryPath { path: &path },
        Call::QueryPath { path: "no such/file" },
        Call::QuerySpace { directory: "" },
        Call::Find {
            directory: "",
            pattern: "*",
        },
        Call::Rename {
            from: &path,
            to: &renamed,
        },
        Call::Delete { path: &renamed },
        Call::RemoveDirectory { path: &directory },
    ];
    for call in calls {
        assert!(client.call(&call).await.is_ok(), "{call:?}");
    }
}

/// Makes the client break its own oplock and acknowledge the break.
async fn be_broken(client: &mut Client) {
    let path = fresh_path();
    let asks = [
        Ask::Oplock(Caching::ALL),
        Ask::Lease(LeaseKey(u128::from(monotonic_ns())), Caching::ALL),
    ];
    for ask in asks {
        let (held, ..) = client.open(&Open { ask, ..create(&path) }).await;
        let second = client
            .begin(&Call::Open(Open {
                access: Access::Read,
                ..existing(&path)
            }))
            .await;
        let broken = client.session.break_until(monotonic_ns() + 10_000_000_000).await;
        let broken = broken.expect("the session goes on").expect("a break comes");
        client
            .session
            .acknowledge(broken.grant, broken.to)
            .await
            .expect("the session goes on");
        let Ok(Reply::Opened { handle, .. }) = client.end(second).await else {
            panic!("the second open ends");
        };
        client.close(handle).await;
        client.close(held).await;
    }
}

fn work_as_every_dialect(address: SocketAddr) -> BTreeMap<&'static str, u64> {
    let counts = std::rc::Rc::new(std::cell::RefCell::new(BTreeMap::new()));
    for dialect in Dialect::ALL {
        for signing in [Signing::WhenRequired, Signing::Required] {
            let asked = Options {
                min_dialect: dialect,
                max_dialect: dialect,
                signing,
                ..options()
            };
            let sum = counts.clone();
            run(|executor| async move {
                let mut client = Client::new(&executor, address, asked, "share");
                executor.set_deadline(monotonic_ns() + 20_000_000_000);
                client.session.connect().await.expect("a session");
                do_everything(&mut client).await;
                be_broken(&mut client).await;
                client.session.disconnect().await;
                for (name, count) in client.session.requests_by_name() {
                    *sum.borrow_mut().entry(name).or_insert(0) += count;
                }
            });
        }
    }
    counts.take()
}

#[test]
fn a_dissector_finds_no_error_and_the_same_counts() {
    if find_program("dumpcap").is_none() || find_program("tshark").is_none() {
        return eprintln!("skipped: dumpcap and tshark (Debian package tshark) are not installed");
    }
    let Some(namespace) = Namespace::make(ADDRESS) else {
        return;
    };
    let address = SocketAddr::from((ADDRESS, PORT));
    let Some(_samba) = Samba::start_at("capture", "", address, Some(&namespace)) else {
        return;
    };
    let file = std::env::temp_dir().join(format!("serverdyno-smb-{}.pcap", std::process::id()));
    let capture = Capture::start(&namespace, file);
    let namespace_file = namespace.file();
    let working = std::thread::spawn(move || {
        crate::network::enter(&namespace_file);
        let counted = work_as_every_dialect(address);
        (counted, capture.finish(PORT))
    });
    let (counted, dissected) = working.join().expect("the work was done");

    let faults = dissected.values(
        &format!("_ws.malformed || _ws.expert.severity >= {EXPERT_ERROR}"),
        "frame.number",
    );
    assert!(faults.is_empty(), "frames {faults:?} are malformed");
    let mut found: BTreeMap<&str, u64> = Command::ALL.iter().map(|command| (command.name(), 0)).collect();
    for code in dissected.values("smb2.flags.response == 0", "smb2.cmd") {
        let code: u16 = code.parse().expect("a number");
        let command = Command::ALL
            .iter()
            .find(|command| **command as u16 == code)
            .expect("one of ours");
        *found.entry(command.name()).or_insert(0) += 1;
    }
    assert_eq!(found, counted);
    assert!(
        counted.values().all(|count| *count > 0),
        "every kind of request was sent: {counted:?}"
    );
}

fn open(namespace: &Path, token: Option<&str>) -> Result<SmbTarget, TargetError> {
    let url = format!("smb://{ADDRESS}/share/below");
    SmbTarget::open(&url, vec![], options(), Some(namespace), token)
}

#[test]
fn a_server_outside_loopback_must_consent() {
    let Some(namespace) = Namespace::make(ADDRESS) else {
        return;
    };
    let address = SocketAddr::from((ADDRESS, PORT));
    let Some(samba) = Samba::start_at("consent", "", address, Some(&namespace)) else {
        return;
    };
    let file = samba.share().join(format!("serverdyno-{TOKEN}.txt"));
    let document = consent_document(&ADDRESS.to_string(), TOKEN);
    let refusal = |token| match open(&namespace.file(), token) {
        Err(TargetError::Consent(words)) => words,
        other => panic!("{other:?}"),
    };
    refusal(None);
    refusal(Some("too short"));
    assert!(
        refusal(Some(TOKEN)).contains(&document),
        "it says what is missing"
    );
    fs::write(&file, TOKEN).expect("a file");
    refusal(Some(TOKEN));
    fs::write(&file, format!("{document}\n")).expect("a file");
    let target = open(&namespace.file(), Some(TOKEN)).expect("the server agreed");
    assert_eq!((target.address(), target.is_loopback()), (address, false));
    assert_eq!(target.options().base_path, "below");
    refusal(Some("another0123456789token"));
}

#[test]
fn loopback_of_another_namespace_needs_no_consent_and_is_entered() {
    let Some(namespace) = Namespace::make(ADDRESS) else {
        return;
    };
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let Some(_samba) = Samba::start_at("entered", "", address, Some(&namespace)) else {
        return;
    };
    let target = SmbTarget::open(
        "smb://127.0.0.1/share",
        vec![],
        options(),
        Some(&namespace.file()),
        None,
    );
    let target = target.expect("loopback needs no consent");
    assert!(target.is_loopback());
    // A target keeps its namespace, even after the processes in it have ended.
    let working = std::thread::spawn(move || {
        target.enter().expect("root may");
        run(|executor| async move {
            let options = target.options().clone();
            let mut client = Client::new(&executor, target.address(), options, &target.shares()[0]);
            executor.set_deadline(monotonic_ns() + 20_000_000_000);
            client.session.connect().await.expect("a session");
            assert!(client.call(&Call::QuerySpace { directory: "" }).await.is_ok());
        });
    });
    working.join().expect("the work was done");
}
