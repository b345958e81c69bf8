//! Sessions with several connections: the distribution of calls, and the loss of a connection. A relay
//! between client and server counts the bytes of each connection, and can delay or close it.

use super::client::{create, existing, fault, fresh_path, options, pattern, run, Client};
use super::samba::Samba;
use dyno_files::{Ask, Caching, Call, FileClient, Grant, Handle, LeaseKey, Open, Reply, Stability, Traffic};
use dyno_measure::{monotonic_ns, Fault};
use dyno_net::Executor;
use dyno_smb::{Dialect, Encryption, Options, Signing};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const BLOCK_BYTES: usize = 65_536;
const BLOCKS: u64 = 24;
const PATIENCE_NS: u64 = 20_000_000_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection through the relay.
struct Relayed {
    client: TcpStream,
    server: TcpStream,
    /// Bytes from client to server.
    bytes: AtomicU64,
    /// Whether the server's data is held back.
    held: AtomicBool,
}

/// Forwards connections to a server, in the order in which they arrive.
#[derive(Clone)]
struct Relay {
    address: SocketAddr,
    connections: Arc<(Mutex<Vec<Arc<Relayed>>>, Condvar)>,
}

impl Relay {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let relay = Self {
            address: listener.local_addr().expect("bound"),
            connections: Arc::default(),
        };
        let connections = relay.connections.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else {
                    return;
                };
                let relayed = Arc::new(Relayed {
                    client,
                    server,
                    bytes: AtomicU64::new(0),
                    held: AtomicBool::new(false),
                });
                for back in [false, true] {
                    let relayed = relayed.clone();
                    std::thread::spawn(move || pass(&relayed, back));
                }
                connections.0.lock().expect("whole").push(relayed);
                connections.1.notify_all();
            }
        });
        relay
    }

    fn connection(&self, place: usize) -> Arc<Relayed> {
        let known = self.connections.0.lock().expect("whole");
        let (known, late) = self
            .connections
            .1
            .wait_timeout_while(known, PATIENCE, |known| known.len() <= place)
            .expect("whole");
        assert!(!late.timed_out(), "there is no connection {place}");
        known[place].clone()
    }

    /// Holds back the server's data on a connection.
    fn hold(&self, place: usize) {
        self.connection(place).held.store(true, Ordering::SeqCst);
    }

    fn cut(&self, place: usize) {
        let relayed = self.connection(place);
        let _ = relayed.client.shutdown(Shutdown::Both);
        let _ = relayed.server.shutdown(Shutdown::Both);
    }

    fn bytes(&self, place: usize) -> u64 {
        self.connection(place).bytes.load(Ordering::SeqCst)
    }
}

fn pass(relayed: &Relayed, back: bool) {
    let (mut from, mut to) = match back {
        true => (&relayed.server, &relayed.client),
        false => (&relayed.client, &relayed.server),
    };
    let mut buffer = vec![0; BLOCK_BYTES];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !back {
            relayed.bytes.fetch_add(count as u64, Ordering::SeqCst);
        }
        if back && relayed.held.load(Ordering::SeqCst) {
            continue;
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = relayed.client.shutdown(Shutdown::Both);
    let _ = relayed.server.shutdown(Shutdown::Both);
}

fn with_channels(channels: u16) -> Options {
    Options {
        channels,
        ..options()
    }
}

async fn connected(executor: &Executor, address: SocketAddr, options: Options) -> Client {
    let mut client = Client::new(executor, address, options, "share");
    executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    client.session.connect().await.expect("a session");
    client
}

fn block(number: u64) -> Vec<u8> {
    pattern(BLOCK_BYTES, number as u32 + 7)
}

fn read_call(handle: Handle, number: u64) -> Call<'static> {
    Call::Read {
        handle,
        offset: number * BLOCK_BYTES as u64,
        bytes: BLOCK_BYTES as u32,
    }
}

/// Writes all blocks concurrently, then reads them concurrently. `meanwhile` acts on the relay during both.
async fn check_blocks(client: &mut Client, handle: Handle, meanwhile: impl Fn()) {
    let mut calls = Vec::new();
    for number in 0..BLOCKS {
        let data = block(number);
        let call = Call::Write {
            handle,
            offset: number * BLOCK_BYTES as u64,
            data: &data,
            stability: Stability::Unstable,
        };
        calls.push(client.begin(&call).await);
    }
    meanwhile();
    for id in calls {
        let bytes = BLOCK_BYTES as u32;
        assert_eq!(client.end(id).await, Ok(Reply::Written { bytes }));
    }
    let mut calls = Vec::new();
    for number in 0..BLOCKS {
        calls.push(client.begin(&read_call(handle, number)).await);
    }
    for (number, id) in (0..).zip(calls) {
        let bytes = BLOCK_BYTES as u32;
        assert_eq!(client.end(id).await, Ok(Reply::Read { bytes }));
        assert!(client.data == block(number), "block {number}");
    }
}

#[test]
fn reads_and_writes_use_all_connections_with_any_protection() {
    let Some(samba) = Samba::shared() else { return };
    let of = |dialect| Options {
        max_dialect: dialect,
        ..with_channels(3)
    };
    let signed = |dialect| Options {
        signing: Signing::Required,
        ..of(dialect)
    };
    let encrypted = |dialect| Options {
        encryption: Encryption::Required,
        ..of(dialect)
    };
    for options in [
        of(Dialect::Smb300),
        of(Dialect::Smb311),
        signed(Dialect::Smb302),
        signed(Dialect::Smb311),
        encrypted(Dialect::Smb300),
        encrypted(Dialect::Smb311),
    ] {
        let relay = Relay::to(samba.address);
        run(move |executor| async move {
            let mut client = connected(&executor, relay.address, options).await;
            let agreed = client.session.agreed().expect("a session");
            assert_eq!(agreed.channels, 3);
            let handle = client.create(&fresh_path()).await;
            check_blocks(&mut client, handle, || ()).await;
            // Consecutive calls also take turns.
            for number in 0..BLOCKS {
                let bytes = BLOCK_BYTES as u32;
                assert_eq!(
                    client.call(&read_call(handle, number)).await,
                    Ok(Reply::Read { bytes })
                );
            }
            client.close(handle).await;
            let Traffic {
                connections,
                bytes_out,
                ..
            } = client.session.traffic();
            client.session.disconnect().await;
            assert_eq!(connections, 3);
            let shares: Vec<u64> = (0..3).map(|place| relay.bytes(place)).collect();
            // Each connection carries about a third of the blocks.
            let least = BLOCKS * BLOCK_BYTES as u64 / 6;
            assert!(shares.iter().all(|share| *share > least), "{shares:?}");
            assert!(shares.iter().sum::<u64>() >= bytes_out);
        });
    }
}

#[test]
fn calls_on_any_lost_connection_continue_on_another() {
    let Some(samba) = Samba::shared() else { return };
    for (place, encryption) in [
        (0, Encryption::WhenRequired),
        (1, Encryption::WhenRequired),
        (2, Encryption::Required),
        (0, Encryption::Required),
    ] {
        let relay = Relay::to(samba.address);
        let options = Options {
            encryption,
            ..with_channels(3)
        };
        run(move |executor| async move {
            let mut client = connected(&executor, relay.address, options).await;
            let path = fresh_path();
            let handle = client.create(&path).await;
            relay.hold(place);
            check_blocks(&mut client, handle, || relay.cut(place)).await;
            let kept = client.session.kept_handles();
            assert_eq!((kept.channels_lost, kept.lost), (1, 0), "{place}");
            assert!(kept.sent_again > 0, "{place}");
            client.close(handle).await;
            // Opens and calls by name also still have a connection.
            let handle = client.open(&existing(&path)).await.0;
            check_reads(&mut client, handle).await;
            client.close(handle).await;
            assert_eq!(client.session.traffic().connections, 3);
            client.session.disconnect().await;
        });
    }
}

async fn check_reads(client: &mut Client, handle: Handle) {
    for number in 0..BLOCKS {
        let bytes = BLOCK_BYTES as u32;
        assert_eq!(
            client.call(&read_call(handle, number)).await,
            Ok(Reply::Read { bytes })
        );
        assert!(client.data == block(number), "block {number}");
    }
}

#[test]
fn the_loss_of_the_last_connection_is_the_loss_of_the_session() {
    let Some(samba) = Samba::shared() else { return };
    let relay = Relay::to(samba.address);
    run(move |executor| async move {
        let mut client = connected(&executor, relay.address, with_channels(2)).await;
        let handle = client.create(&fresh_path()).await;
        check_blocks(&mut client, handle, || relay.cut(0)).await;
        assert_eq!(client.session.kept_handles().channels_lost, 1);
        relay.cut(1);
        let lost = async {
            client.session.begin(&read_call(handle, 0)).await?;
            loop {
                client.session.next().await?;
            }
        };
        let lost: Result<(), _> = lost.await;
        assert!(matches!(
            fault(lost),
            Some(Fault::SessionLost | Fault::ClosedEarly | Fault::ConnectionReset)
        ));
        assert!(client.session.agreed().is_none());
        client.session.connect().await.expect("another session");
        let handle = client.create(&fresh_path()).await;
        check_blocks(&mut client, handle, || ()).await;
        client.session.disconnect().await;
    });
}

#[test]
fn a_break_arrives_over_another_connection_if_the_first_is_lost() {
    let Some(samba) = Samba::shared() else { return };
    let relay = Relay::to(samba.address);
    let address = samba.address;
    run(move |executor| async move {
        let mut client = connected(&executor, relay.address, with_channels(2)).await;
        let path = fresh_path();
        let ask = Ask::Lease(LeaseKey(77), Caching::ALL);
        let (handle, granted, ..) = client.open(&Open { ask, ..create(&path) }).await;
        assert_eq!(granted, Caching::ALL);
        relay.cut(0);
        // A session that loses a connection gives up its caching, because a break may have been lost with the
        // connection.
        let told = client.session.break_until(monotonic_ns() + PATIENCE_NS).await;
        let told = told.expect("the session goes on").expect("it is told");
        assert_eq!((told.grant, told.to), (Grant::Lease(LeaseKey(77)), Caching::NONE));
        let other = std::thread::spawn(move || {
            run(move |executor| async move {
                let mut other = connected(&executor, address, options()).await;
                let handle = other.create(&path).await;
                other.close(handle).await;
                other.session.disconnect().await;
            });
        });
        let told = client.session.break_until(monotonic_ns() + PATIENCE_NS).await;
        let told = told.expect("the session goes on").expect("a break comes");
        assert!(told.acknowledge);
        client
            .session
            .acknowledge(told.grant, Caching::NONE)
            .await
            .expect("the session goes on");
        other.join().expect("the other client has opened the file");
        client.close(handle).await;
        client.session.disconnect().await;
    });
}

#[test]
fn a_server_without_multichannel_is_refused_with_a_message() {
    let Some(samba) = Samba::shared() else { return };
    let old = Options {
        max_dialect: Dialect::Smb210,
        ..with_channels(2)
    };
    run(move |executor| async move {
        let refused = Client::try_connect(&executor, &samba, old).await;
        let refused = refused.err().expect("it is refused");
        assert_eq!(refused.fault, Fault::SessionRefused);
        assert!(
            refused.to_string().contains("several connections per session"),
            "{refused}"
        );
    });
}
