//! Durable handles, requested by this project's client and granted by this server.

use super::client::{create, existing, fresh_path, options as client_options, pattern, run, Client};
use super::samba::server_options;
use dyno_files::{Call, FileClient, Handle, KeptHandles, Reply, Stability};
use dyno_measure::{monotonic_ns, Fault};
use dyno_net::Executor;
use dyno_smb::wire::Dialect;
use dyno_smb::Options as ClientOptions;
use dyno_testserver::smb::{Options, Server};
use std::time::Duration;

const BYTES: usize = 40_000;
const PATIENCE_NS: u64 = 20_000_000_000;

struct Kept {
    server: Server,
    client: Client,
    path: String,
    handle: Handle,
}

impl Kept {
    /// Opens a file and writes it.
    async fn open(executor: &Executor, options: Options, client: ClientOptions) -> Self {
        let server = Server::start(&options).expect("it starts");
        let client = ClientOptions {
            durable_handles: true,
            ..client
        };
        let mut client = connected(executor, &server, client).await;
        let path = fresh_path();
        client.write_file(&path, &pattern(BYTES, 1)).await;
        let handle = client.create(&path).await;
        Self {
            server,
            client,
            path,
            handle,
        }
    }

    fn counts(&self) -> KeptHandles {
        self.client.session.kept_handles()
    }

    async fn read(&mut self) -> Result<Reply, Fault> {
        let call = Call::Read {
            handle: self.handle,
            offset: 0,
            bytes: BYTES as u32,
        };
        self.client.call(&call).await.map_err(|failure| failure.fault)
    }

    async fn write(&mut self, number: u32) -> Result<Reply, Fault> {
        let data = pattern(BYTES, number);
        let call = Call::Write {
            handle: self.handle,
            offset: 0,
            data: &data,
            stability: Stability::Unstable,
        };
        self.client.call(&call).await.map_err(|failure| failure.fault)
    }

    /// Checks that the session continues with its open files and that nothing is lost.
    async fn check_goes_on(&mut self) {
        let before = self.counts();
        assert!(matches!(self.read().await, Ok(Reply::Read { .. })));
        assert!(self.client.data == pattern(self.client.data.len(), 1)[..]);
        let since = self.counts().since(&before);
        assert_eq!((since.regained, since.lost), (1, 0));
    }
}

async fn connected(executor: &Executor, server: &Server, options: ClientOptions) -> Client {
    let mut client = Client::new(executor, server.address(), options, "share");
    executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    client.session.connect().await.expect("a session");
    client
}

fn with_dialect(max_dialect: Dialect) -> ClientOptions {
    ClientOptions {
        max_dialect,
        ..client_options()
    }
}

#[test]
fn a_cut_connection_loses_no_handle_with_any_dialect_and_protection() {
    let oplocks_alone = Options {
        leases: false,
        ..server_options()
    };
    let encrypted = ClientOptions {
        encryption: dyno_smb::Encryption::Required,
        ..client_options()
    };
    let signed = ClientOptions {
        signing: dyno_smb::Signing::Required,
        ..with_dialect(Dialect::Smb302)
    };
    for (server, client) in [
        (server_options(), client_options()),
        (server_options(), encrypted),
        (server_options(), signed),
        (server_options(), with_dialect(Dialect::Smb300)),
        (server_options(), with_dialect(Dialect::Smb210)),
        (server_options(), with_dialect(Dialect::Smb202)),
        (oplocks_alone, client_options()),
    ] {
        run(move |executor| async move {
            let mut kept = Kept::open(&executor, server, client).await;
            let counts = kept.counts();
            assert_eq!((counts.asked, counts.granted, counts.persistent), (2, 2, 0));
            kept.server.cut_connections();
            kept.check_goes_on().await;
            assert_eq!(kept.client.session.traffic().connections, 2);
        });
    }
}

#[test]
fn an_unanswered_call_is_sent_again_and_executed_once() {
    run(|executor| async move {
        let mut kept = Kept::open(&executor, server_options(), client_options()).await;
        for number in 2..6 {
            kept.client.session.cut();
            let bytes = BYTES as u32;
            assert_eq!(kept.write(number).await, Ok(Reply::Written { bytes }));
            assert!(matches!(kept.read().await, Ok(Reply::Read { .. })));
            assert!(kept.client.data == pattern(kept.client.data.len(), number)[..]);
        }
        let counts = kept.counts();
        assert_eq!((counts.regained, counts.lost, counts.sent_again), (4, 0, 4));
        let handle = kept.handle;
        kept.client.session.cut();
        assert_eq!(kept.client.call(&Call::Flush { handle }).await, Ok(Reply::Done));
        kept.client.session.cut();
        kept.client.close(handle).await;
        assert_eq!(kept.server.open_files(), 0);
    });
}

#[test]
fn only_persistent_handles_survive_a_restart() {
    for continuously_available in [true, false] {
        let options = Options {
            continuously_available,
            ..server_options()
        };
        run(move |executor| async move {
            let mut kept = Kept::open(&executor, options, client_options()).await;
            let persistent = if continuously_available { 2 } else { 0 };
            assert_eq!(kept.counts().persistent, persistent);
            kept.server.restart(Duration::from_millis(20)).expect("the port");
            if continuously_available {
                return kept.check_goes_on().await;
            }
            assert_eq!(kept.read().await, Err(Fault::SessionLost));
            assert_eq!((kept.counts().regained, kept.counts().lost), (0, 1));
            // The session continues: the file is opened again.
            kept.handle = kept.client.open(&create(&kept.path)).await.0;
            assert!(matches!(kept.read().await, Ok(Reply::Read { .. })));
        });
    }
}

#[test]
fn a_server_that_forgets_handles_or_undoes_writes_is_detected() {
    let faulty = |name: &str| Options {
        fault: Some(name.parse().expect("a fault")),
        ..server_options()
    };
    let (forgets, undoes) = (faulty("forgotten-handles"), faulty("undone-writes"));
    run(|executor| async move {
        let mut kept = Kept::open(&executor, forgets, client_options()).await;
        kept.server.cut_connections();
        assert_eq!(kept.read().await, Err(Fault::SessionLost));
        assert_eq!((kept.counts().regained, kept.counts().lost), (0, 1));
    });
    run(|executor| async move {
        let mut kept = Kept::open(&executor, undoes, client_options()).await;
        kept.write(7).await.expect("room");
        kept.server.cut_connections();
        kept.check_goes_on().await; // With the content before that write.
    });
}

#[test]
fn a_client_without_durable_handles_loses_them_with_the_connection() {
    run(|executor| async move {
        let mut kept = Kept::open(&executor, server_options(), client_options()).await;
        let plain = ClientOptions {
            durable_handles: false,
            ..client_options()
        };
        let mut client = connected(&executor, &kept.server, plain).await;
        let (handle, ..) = client.open(&existing(&kept.path)).await;
        kept.server.cut_connections();
        let begun = client.session.begin(&Call::QueryHandle { handle }).await;
        assert!(begun.is_err() || client.session.next().await.is_err());
        // The new open did not close the other client's.
        kept.check_goes_on().await;
    });
}
