//! Helpers for scripted tests: caching clients on one server, calls, and the requests below the caches.

use crate::clock::{now, run, Task};
use crate::connection::Connection;
use crate::server::{Logged, Server};
use dyno_files::{
    Access, Ask, Cache, CacheOptions, Call, CallKind, Disposition, Files, Handle, Open, Reply, Stability,
};
use dyno_measure::{Failure, Fault};
use proptest::prelude::ProptestConfig;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;

pub type Shared = Rc<RefCell<Server>>;
pub type Cached = Cache<Connection>;

/// Returns the settings for a few cases, so that tests stay quick, or as many as PROPTEST_CASES says.
pub fn some_cases() -> ProptestConfig {
    let any = ProptestConfig::default();
    ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").map_or(64, |_| any.cases),
        failure_persistence: None,
        ..any
    }
}

pub fn server(clients: usize) -> Shared {
    Rc::new(RefCell::new(Server::new(clients)))
}

pub fn together(tasks: Vec<Task<'_>>) {
    run(tasks, || false);
}

pub fn alone(task: impl Future<Output = ()>) {
    run(vec![Box::pin(task)], || false);
}

/// Returns a connected client with a cache.
pub async fn client(server: &Shared, number: usize, options: CacheOptions) -> User {
    let mut files = Cache::with_clock(Connection::new(server, number), options, now);
    files.connect().await.unwrap();
    User { files }
}

/// An application.
pub struct User {
    pub files: Cached,
}

impl User {
    pub async fn call(&mut self, call: Call<'_>) -> Result<Reply, Fault> {
        let reply = self.files.call(&call, &mut |_: &[u8]| {}).await;
        reply.map_err(|failure: Failure| failure.fault)
    }

    pub async fn try_open(
        &mut self,
        path: &str,
        access: Access,
        disposition: Disposition,
    ) -> Result<Option<Handle>, Fault> {
        let open = Open {
            path,
            access,
            disposition,
            directory: false,
            delete_on_close: false,
            ask: Ask::Nothing,
        };
        match self.call(Call::Open(open)).await? {
            Reply::Opened { handle, .. } => Ok(Some(handle)),
            _ => Ok(None),
        }
    }

    pub async fn open(&mut self, path: &str) -> Handle {
        let opened = self.try_open(path, Access::Read, Disposition::Open).await;
        opened.unwrap().expect("is there")
    }

    pub async fn edit(&mut self, path: &str) -> Handle {
        let opened = self.try_open(path, Access::ReadWrite, Disposition::Open).await;
        opened.unwrap().expect("is there")
    }

    pub async fn make(&mut self, path: &str) -> Handle {
        let opened = self.try_open(path, Access::ReadWrite, Disposition::Create).await;
        opened.unwrap().expect("is made")
    }

    pub async fn try_write(&mut self, handle: Handle, offset: u64, data: &[u8]) -> Result<Reply, Fault> {
        let call = Call::Write {
            handle,
            offset,
            data,
            stability: Stability::Unstable,
        };
        self.call(call).await
    }

    pub async fn write(&mut self, handle: Handle, offset: u64, data: &[u8]) {
        let bytes = u32::try_from(data.len()).unwrap();
        assert_eq!(
            self.try_write(handle, offset, data).await,
            Ok(Reply::Written { bytes })
        );
    }

    pub async fn read(&mut self, handle: Handle, offset: u64, bytes: u32) -> Vec<u8> {
        let mut data = Vec::new();
        let call = Call::Read {
            handle,
            offset,
            bytes,
        };
        let mut take = |piece: &[u8]| data.extend_from_slice(piece);
        self.files.call(&call, &mut take).await.unwrap();
        data
    }

    pub async fn close(&mut self, handle: Handle) {
        assert_eq!(self.call(Call::Close { handle }).await, Ok(Reply::Done));
    }

    pub async fn delete(&mut self, path: &str) {
        assert_eq!(self.call(Call::Delete { path }).await, Ok(Reply::Done));
    }

    pub async fn idle(&mut self, ns: u64) {
        self.files.idle_until(now() + ns).await.unwrap();
    }

    pub async fn finish(&mut self) {
        self.files.finish().await.unwrap();
    }
}

/// Returns the requests below the caches since the last call, as text: "read 0+4096".
pub fn passed(server: &Shared) -> Vec<String> {
    let log = std::mem::take(&mut server.borrow_mut().log);
    log.iter().map(words).collect()
}

fn words(call: &Logged) -> String {
    let mut words = call.kind.name().to_owned();
    if matches!(call.kind, CallKind::Read | CallKind::Write) {
        words += &format!(" {}+{}", call.offset, call.bytes);
    }
    if call.not_there {
        words += " -";
    }
    words
}
