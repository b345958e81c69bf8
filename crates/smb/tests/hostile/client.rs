//! An application that uses every call, without a cache and with each kind of cache.

use dyno_files::{Access, Ask, CacheOptions, Call, Disposition, Files, Handle, Open, Reply, Stability};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::Executor;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Time limit per call: enough for a correct answer on a busy machine.
pub const PATIENCE_NS: u64 = 1_000_000_000;
/// How an application uses the files.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    Uncached,
    Cached(CacheOptions),
}

pub fn ways() -> [(&'static str, Way); 4] {
    [
        ("uncached", Way::Uncached),
        ("with oplocks", Way::Cached(CacheOptions::default())),
        ("with leases", Way::Cached(CacheOptions::modern())),
        ("by rules", Way::Cached(CacheOptions::close_to_open())),
    ]
}

/// Returns calls by path; the last one opens a file.
fn by_path(path: &str) -> [Call<'_>; 4] {
    let directory = "";
    let open = Open {
        path,
        access: Access::ReadWrite,
        disposition: Disposition::OpenIf,
        directory: false,
        delete_on_close: false,
        ask: Ask::Nothing,
    };
    let pattern = "*";
    [
        Call::Find { directory, pattern },
        Call::QuerySpace { directory },
        Call::QueryPath { path },
        Call::Open(open),
    ]
}

/// Returns calls on an open file, then on its path.
#[rustfmt::skip] // One call per line.
fn with_file<'a>(handle: Handle, path: &'a str, data: &'a [u8]) -> [Call<'a>; 13] {
    let (offset, bytes, stability) = (10, 20_000, Stability::Unstable);
    [
        Call::Read { handle, offset, bytes },
        Call::Read { handle, offset: 20_010, bytes },
        Call::Write { handle, offset, data, stability },
        Call::QueryHandle { handle },
        Call::Flush { handle },
        Call::SetEnd { handle, bytes: 50_000 },
        Call::SetTimes { handle },
        Call::Lock { handle, offset, bytes: 9 },
        Call::Read { handle, offset, bytes },
        Call::Unlock { handle, offset, bytes: 9 },
        Call::Close { handle },
        Call::Rename { from: path, to: "renamed" },
        Call::Delete { path: "renamed" },
    ]
}

async fn one(files: &mut impl Files, executor: &Executor, call: Call<'_>) -> Result<Reply, Failure> {
    executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    let reply = files.call(&call, &mut |_: &[u8]| {}).await?;
    match (call, reply) {
        // Without a cache, the engine checks this.
        (Call::Write { data, .. }, Reply::Written { bytes }) if bytes as usize != data.len() => {
            Err(Fault::WrongLength.into())
        }
        _ => Ok(reply),
    }
}

/// Makes every kind of call on its own file.
async fn round(files: &mut impl Files, executor: &Executor, path: &str) -> Result<(), Failure> {
    let data = [7; 70_000];
    for call in by_path(path) {
        if let Reply::Opened { handle, .. } = one(files, executor, call).await? {
            for call in with_file(handle, path, &data) {
                one(files, executor, call).await?;
            }
        }
    }
    executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    files.idle_until(monotonic_ns() + 2_000_000).await
}

/// Works twice, setting `armed` in between, and returns the first failure.
pub async fn work(mut files: impl Files, executor: Executor, armed: Arc<AtomicBool>) -> Result<(), Failure> {
    executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    files.connect().await?;
    let mut worked = round(&mut files, &executor, "one").await;
    armed.store(true, Ordering::SeqCst);
    if worked.is_ok() {
        worked = round(&mut files, &executor, "two").await;
    }
    executor.set_deadline(monotonic_ns() + PATIENCE_NS);
    let finished = files.finish().await;
    worked.and(finished)
}
