//! Sessions for tests.

use super::samba::{Samba, PASSWORD, USER};
use dyno_files::{
    Access, Ask, Break, Caching, Call, CallId, Disposition, Event, FileClient, Handle, Info, Open, Reply,
    Stability,
};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::{Dialer, Executor};
use dyno_smb::{Options, Session};
use std::cell::Cell;
use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

const PATIENCE_NS: u64 = 20_000_000_000;

/// Runs one task to its end, in its own event loop.
pub fn run<F: Future<Output = ()> + 'static>(task: impl FnOnce(Executor) -> F) {
    let executor = Executor::new().expect("an epoll instance");
    let finished = Rc::new(Cell::new(false));
    let (task, tell) = (task(executor.clone()), finished.clone());
    executor.spawn(async move {
        task.await;
        tell.set(true);
    });
    executor.run(|| false).expect("the loop runs");
    assert!(finished.get());
}

/// Runs `work` as another client, with its own session and thread.
pub fn beside<T, F>(samba: &Arc<Samba>, work: impl FnOnce(Client) -> F + Send + 'static) -> JoinHandle<T>
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let samba = samba.clone();
    std::thread::spawn(move || {
        let slot = Rc::new(Cell::new(None));
        let filled = slot.clone();
        run(|executor| async move {
            let client = Client::connect(&executor, &samba).await;
            filled.set(Some(work(client).await));
        });
        slot.take().expect("the work was done")
    })
}

pub fn options() -> Options {
    Options {
        user: USER.to_owned(),
        password: PASSWORD.to_owned(),
        guid_seed: u64::from(std::process::id()),
        ..Options::default()
    }
}

pub fn fresh_path() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("d{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub fn fresh_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A session that is used call by call.
pub struct Client {
    pub session: Session,
    pub executor: Executor,
    /// Data of the last read.
    pub data: Vec<u8>,
    /// Breaks that arrived during the wait for a call.
    pub breaks: Vec<Break>,
    /// Results of calls that nobody has waited for yet.
    ended: HashMap<CallId, (Result<Reply, Failure>, Vec<u8>)>,
}

impl Client {
    pub fn new(executor: &Executor, address: SocketAddr, options: Options, share: &str) -> Self {
        let dialer = Rc::new(Dialer::new(executor.clone(), address, 0));
        Self {
            session: Session::new(executor.clone(), dialer, Rc::new(options), fresh_number(), share),
            executor: executor.clone(),
            data: Vec::new(),
            breaks: Vec::new(),
            ended: HashMap::new(),
        }
    }

    pub async fn try_connect(executor: &Executor, samba: &Samba, options: Options) -> Result<Self, Failure> {
        Self::try_connect_to(executor, samba, options, "share").await
    }

    pub async fn try_connect_to(
        executor: &Executor,
        samba: &Samba,
        options: Options,
        share: &str,
    ) -> Result<Self, Failure> {
        let mut client = Self::new(executor, samba.address, options, share);
        executor.set_deadline(monotonic_ns() + PATIENCE_NS);
        client.session.connect().await?;
        Ok(client)
    }

    pub async fn connect(executor: &Executor, samba: &Samba) -> Self {
        Self::try_connect(executor, samba, options())
            .await
            .expect("a session")
    }

    pub async fn begin(&mut self, call: &Call<'_>) -> CallId {
        self.executor.set_deadline(monotonic_ns() + PATIENCE_NS);
        self.session.begin(call).await.expect("the session goes on")
    }

    /// Waits for the end of the call `id`; stores other results and breaks.
    pub async fn end(&mut self, id: CallId) -> Result<Reply, Failure> {
        loop {
            if let Some((result, data)) = self.ended.remove(&id) {
                self.data = data;
                return result;
            }
            match self.session.next().await.expect("the session goes on") {
                Event::Ended { id, result, data, .. } => {
                    self.ended.insert(id, (result, data.to_vec()));
                }
                Event::Break(broken) => self.breaks.push(broken),
            }
        }
    }

    pub async fn call(&mut self, call: &Call<'_>) -> Result<Reply, Failure> {
        let id = self.begin(call).await;
        self.end(id).await
    }

    pub async fn open(&mut self, open: &Open<'_>) -> (Handle, Caching, bool, Info) {
        match self.call(&Call::Open(*open)).await {
            Ok(Reply::Opened {
                handle,
                granted,
                created,
                info,
            }) => (handle, granted, created, info),
            other => panic!("{open:?}: {other:?}"),
        }
    }

    pub async fn create(&mut self, path: &str) -> Handle {
        self.open(&create(path)).await.0
    }

    pub async fn close(&mut self, handle: Handle) {
        assert_eq!(self.call(&Call::Close { handle }).await, Ok(Reply::Done));
    }

    pub async fn make_directory(&mut self, path: &str) {
        assert_eq!(self.call(&Call::MakeDirectory { path }).await, Ok(Reply::Done));
    }

    pub async fn write_file(&mut self, path: &str, data: &[u8]) {
        let handle = self.create(path).await;
        let written = self
            .call(&Call::Write {
                handle,
                offset: 0,
                data,
                stability: Stability::Unstable,
            })
            .await;
        let bytes = u32::try_from(data.len()).expect("small");
        assert_eq!(written, Ok(Reply::Written { bytes }));
        self.close(handle).await;
    }
}

/// Returns the fault of a failed call.
pub fn fault<T>(result: Result<T, Failure>) -> Option<Fault> {
    result.err().map(|failure| failure.fault)
}

/// Returns an open of `path` for reading and writing that creates the file if necessary.
pub fn create(path: &str) -> Open<'_> {
    Open {
        path,
        access: Access::ReadWrite,
        disposition: Disposition::OpenIf,
        directory: false,
        delete_on_close: false,
        ask: Ask::Nothing,
    }
}

/// Returns an open of an existing `path` for reading.
pub fn existing(path: &str) -> Open<'_> {
    Open {
        access: Access::Read,
        disposition: Disposition::Open,
        ..create(path)
    }
}

/// Returns bytes that vary with their position.
pub fn pattern(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}
