//! Checks directory leases with an independent dissector. It must find no malformed message, and the
//! requested, granted and broken leases.

use super::client::{existing, options, run, Client};
use super::network::{enter, find_program, Capture, Namespace};
use super::samba::{server_options, Samba};
use dyno_files::{Ask, Caching, Call, FileClient, LeaseKey, Open, Reply};
use dyno_measure::monotonic_ns;
use dyno_smb::Dialect;
use dyno_testserver::smb::Options;
use std::net::{Ipv4Addr, SocketAddr};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PORT: u16 = 445;
const KEY: LeaseKey = LeaseKey(0x5eed);
/// Wireshark's number for errors in its expert information.
const EXPERT_ERROR: u32 = 0x0080_0000;
const DIALECTS: [Dialect; 3] = [Dialect::Smb300, Dialect::Smb302, Dialect::Smb311];

/// A client leases a directory, lists it, and changes it under the lease. Then another client changes it, and
/// the first client returns the lease.
async fn exchange(holder: &mut Client, other: &mut Client, directory: &str) {
    holder.make_directory(directory).await;
    let open = Open {
        directory: true,
        ask: Ask::Lease(KEY, Caching::READ_HANDLE),
        ..existing(directory)
    };
    let (handle, granted, ..) = holder.open(&open).await;
    assert_eq!(granted, Caching::READ_HANDLE);
    let own = format!("{directory}/own");
    holder.write_file(&own, b"").await;
    let list = Call::Find {
        directory,
        pattern: "*",
    };
    assert_eq!(holder.call(&list).await, Ok(Reply::Found { entries: 1 }));
    assert_eq!(holder.call(&Call::Delete { path: &own }).await, Ok(Reply::Done));
    other.write_file(&format!("{directory}/another"), b"").await;
    let told = holder.session.break_until(monotonic_ns() + 10_000_000_000).await;
    let told = told.expect("the session goes on").expect("a break comes");
    assert_eq!((told.to, told.acknowledge), (Caching::NONE, true));
    let acknowledged = holder.session.acknowledge(told.grant, told.to).await;
    acknowledged.expect("the session goes on");
    holder.close(handle).await;
}

#[test]
fn a_dissector_finds_directory_leases_as_they_were_and_no_error() {
    if find_program("dumpcap").is_none() || find_program("tshark").is_none() {
        return eprintln!("skipped: dumpcap and tshark (Debian package tshark) are not installed");
    }
    let Some(namespace) = Namespace::make(ADDRESS) else {
        return;
    };
    let file = std::env::temp_dir().join(format!("serverdyno-leases-{}.pcap", std::process::id()));
    let capture = Capture::start(&namespace, file);
    let namespace_file = namespace.file();
    let working = std::thread::spawn(move || {
        enter(&namespace_file);
        // The server's threads run in the network namespace of the thread that starts them.
        let samba = Samba::with(&Options {
            bind: SocketAddr::from((ADDRESS, PORT)),
            ..server_options()
        });
        for dialect in DIALECTS {
            let asked = dyno_smb::Options {
                min_dialect: dialect,
                max_dialect: dialect,
                ..options()
            };
            let samba = samba.clone();
            run(|executor| async move {
                let connected = Client::try_connect(&executor, &samba, asked.clone()).await;
                let mut holder = connected.expect("a session");
                let mut other = Client::try_connect(&executor, &samba, asked)
                    .await
                    .expect("another");
                exchange(&mut holder, &mut other, dialect.name()).await;
                holder.session.disconnect().await;
                other.session.disconnect().await;
            });
        }
        capture.finish(PORT)
    });
    let dissected = working.join().expect("the work was done");

    let faults = dissected.values(
        &format!("_ws.malformed || _ws.expert.severity >= {EXPERT_ERROR}"),
        "frame.number",
    );
    assert!(faults.is_empty(), "frames {faults:?} are malformed");
    // Under the lease, creations and deletions contain its key, in requests and responses.
    let set = "smb2.lease.lease_state.parent_lease_key_set == 1";
    let named = dissected.values(set, "smb2.lease.parent_lease_key");
    assert_eq!(named.len(), DIALECTS.len() * 4, "{named:?}");
    assert!(named.iter().all(|key| key.starts_with("00005eed")), "{named:?}");
    // A break notification, its acknowledgement, and the response to that.
    let breaks = dissected.values("smb2.cmd == 18", "frame.number");
    assert_eq!(breaks.len(), DIALECTS.len() * 3);
    let leasing = dissected.values(
        "smb2.cmd == 0 && smb2.flags.response == 1 && smb2.capabilities.directory_leasing == 1",
        "frame.number",
    );
    assert_eq!(leasing.len(), DIALECTS.len() * 2, "each connection is told");
}
