//! Bonnie's six phases over any file protocol: what T. Bray's program of 1996 does, in its order.
//!
//! What differs from it: a character is a store and a comparison, no call of a C library; the seekers are threads with
//! sessions of their own that start at one moment, not processes that were given five seconds; their places come from a
//! seed. Not for: rows and tables (the control plane).

use super::cache::FilesOptions;
use super::client::CachedClient;
use super::sessions::{Place, Sessions, FIRST_ASKING_CLIENT};
use crate::bonnie::{BonniePhase, BonnieSpec};
use dyno_files::{Access, Ask, Call, Disposition, FileClient, Files, Handle, Open, Reply, Stability};
use dyno_measure::{monotonic_ns, thread_cpu, Failure, Fault, Histogram, NS_PER_S};
use dyno_reactor::Executor;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;

/// So often a seeker that is ready looks whether the others are.
const LOOK_NS: u64 = 200_000;
/// Each seeker writes what it has read at its first seek, and at every tenth after it.
const SEEKS_FOR_A_WRITE: u64 = 10;
const WORD_BYTES: usize = 4;

/// Carries the phases out, until one fails or `stop` is set; the file is removed in any case.
pub(crate) fn carry_out<S: Sessions>(
    sessions: &S,
    options: FilesOptions,
    identity: u64,
    spec: &BonnieSpec,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<BonniePhase>, Failure> {
    std::thread::scope(|scope| {
        let sequence = scope.spawn(|| {
            alone(sessions, options, identity, 0, spec.most_ns, |client, _| {
                sequential(client, spec.clone(), stop.clone())
            })
        });
        let mut phases = joined(sequence)?;
        let seeks = Arc::new(Seeks::default());
        let seekers: Vec<_> = (0..spec.seekers)
            .map(|number| {
                let seeks = seeks.clone();
                scope.spawn(move || {
                    let found = alone(
                        sessions,
                        options,
                        identity,
                        1 + number,
                        spec.most_ns,
                        |client, executor| {
                            seek(
                                client,
                                executor,
                                spec.clone(),
                                number,
                                seeks.clone(),
                                stop.clone(),
                            )
                        },
                    );
                    seeks.failed.fetch_or(found.is_err(), Ordering::Relaxed);
                    found
                })
            })
            .collect();
        let found: Vec<_> = seekers.into_iter().map(joined).collect();
        let removed = scope.spawn(|| {
            alone(sessions, options, identity, 0, spec.most_ns, |client, _| {
                remove(client, spec.file.clone())
            })
        });
        let mut found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
        joined(removed)?;
        if let Some(first) = found.pop() {
            phases.push(together(first, found));
        }
        Ok(phases)
    })
}

fn joined<T>(thread: ScopedJoinHandle<'_, Result<T, Failure>>) -> Result<T, Failure> {
    thread.join().unwrap_or_else(|_| Err(Fault::OtherIo.into()))
}

/// One client on a thread of its own: who has entered a namespace doesn't come back.
fn alone<S: Sessions, T: 'static, F: Future<Output = Result<T, Failure>> + 'static>(
    sessions: &S,
    options: FilesOptions,
    identity: u64,
    number: u32,
    most_ns: u64,
    work: impl FnOnce(CachedClient<S::Client>, Executor) -> F,
) -> Result<T, Failure> {
    sessions.enter().map_err(|_| Fault::Unreachable)?;
    let executor = Executor::new().map_err(|_| Fault::NoFiles)?;
    let dialer = super::dialer(&executor, sessions, 0);
    let place = Place {
        executor: &executor,
        dialer: &dialer,
    };
    let session = sessions.session(
        place,
        identity,
        FIRST_ASKING_CLIENT - number,
        sessions.share_of(0),
    );
    let result = Rc::new(RefCell::new(Err(Fault::ResponseTimeout.into())));
    let work = work(options.client(session), executor.clone());
    let (slot, handle) = (result.clone(), executor.clone());
    executor.spawn(async move {
        handle.set_deadline(monotonic_ns().saturating_add(most_ns));
        let outcome = work.await;
        *slot.borrow_mut() = outcome;
    });
    executor.run(|| false).map_err(|_| Fault::OtherIo)?;
    result.replace(Err(Fault::ResponseTimeout.into()))
}

/// A phase under way.
struct Meter {
    started_ns: u64,
    cpu_s: f64,
    requests: BTreeMap<&'static str, u64>,
    times: Histogram,
    bytes: u64,
}

/// What a phase of one thread came to.
struct Measured {
    started_ns: u64,
    ended_ns: u64,
    cpu_s: f64,
    requests: BTreeMap<&'static str, u64>,
    times: Histogram,
    bytes: u64,
}

impl Measured {
    fn phase(self, phase: &'static str) -> BonniePhase {
        let us = |ns: u64| ns as f64 / 1e3;
        BonniePhase {
            phase,
            bytes: self.bytes,
            calls: self.times.count(),
            elapsed_s: (self.ended_ns - self.started_ns) as f64 / NS_PER_S as f64,
            cpu_s: self.cpu_s,
            p50_us: us(self.times.value_at(0.5)),
            p99_us: us(self.times.value_at(0.99)),
            max_us: us(self.times.max()),
            requests: self.requests,
        }
    }
}

/// The file, as one client works on it.
struct Worker<C: FileClient> {
    client: CachedClient<C>,
    spec: BonnieSpec,
    stop: Arc<AtomicBool>,
    /// What was read.
    read: Vec<u8>,
}

impl<C: FileClient> Worker<C> {
    fn new(client: CachedClient<C>, spec: BonnieSpec, stop: Arc<AtomicBool>) -> Self {
        Self {
            client,
            spec,
            stop,
            read: Vec::new(),
        }
    }

    fn begin(&self) -> Meter {
        Meter {
            started_ns: monotonic_ns(),
            cpu_s: cpu_s(),
            requests: self.client.requests(),
            times: Histogram::new(),
            bytes: 0,
        }
    }

    fn end(&self, meter: Meter) -> Measured {
        let mut requests = self.client.requests();
        for (name, count) in &mut requests {
            *count -= meter.requests.get(name).copied().unwrap_or_default();
        }
        requests.retain(|_, count| *count > 0);
        Measured {
            started_ns: meter.started_ns,
            ended_ns: monotonic_ns(),
            cpu_s: (cpu_s() - meter.cpu_s).max(0.0),
            requests,
            times: meter.times,
            bytes: meter.bytes,
        }
    }

    async fn call(&mut self, call: &Call<'_>) -> Result<Reply, Failure> {
        let read = &mut self.read;
        read.clear();
        self.client
            .call(call, &mut |bytes: &[u8]| read.extend_from_slice(bytes))
            .await
    }

    async fn open(&mut self, disposition: Disposition) -> Result<Handle, Failure> {
        let path = self.spec.file.clone();
        let open = Open {
            path: &path,
            access: Access::ReadWrite,
            disposition,
            directory: false,
            delete_on_close: false,
            ask: Ask::Nothing,
        };
        match self.call(&Call::Open(open)).await? {
            Reply::Opened { handle, .. } => Ok(handle),
            _ => Err(Fault::NotFound.into()),
        }
    }

    async fn close(&mut self, handle: Handle) -> Result<(), Failure> {
        self.call(&Call::Close { handle }).await.map(|_| ())
    }

    async fn delete(&mut self) -> Result<(), Failure> {
        let path = self.spec.file.clone();
        self.call(&Call::Delete { path: &path }).await.map(|_| ())
    }

    /// Reads into `self.read`; shorter at the end of the file.
    async fn read(
        &mut self,
        meter: &mut Meter,
        handle: Handle,
        offset: u64,
        bytes: u32,
    ) -> Result<usize, Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Fault::OtherIo.into());
        }
        let begun_ns = monotonic_ns();
        self.call(&Call::Read {
            handle,
            offset,
            bytes,
        })
        .await?;
        meter.times.record(monotonic_ns() - begun_ns);
        meter.bytes += self.read.len() as u64;
        Ok(self.read.len())
    }

    async fn write(
        &mut self,
        meter: &mut Meter,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Failure> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Fault::OtherIo.into());
        }
        let begun_ns = monotonic_ns();
        let write = Call::Write {
            handle,
            offset,
            data,
            stability: Stability::Unstable,
        };
        let reply = self.client.call(&write, &mut |_: &[u8]| {}).await?;
        meter.times.record(monotonic_ns() - begun_ns);
        match reply {
            Reply::Written { bytes } if bytes as usize == data.len() => Ok(()),
            _ => Err(Fault::NoSpace.into()),
        }
    }

    /// "Writing with putc()": one character after another, through a buffer.
    async fn put_characters(&mut self) -> Result<BonniePhase, Failure> {
        let handle = self.open(Disposition::Create).await?;
        let mut meter = self.begin();
        let mut buffer = vec![0; self.spec.stdio_bytes as usize];
        let (mut offset, mut filled) = (0, 0);
        for character in 0..self.spec.bytes {
            buffer[filled] = std::hint::black_box((character & 0x7f) as u8);
            filled += 1;
            if filled == buffer.len() {
                self.write(&mut meter, handle, offset, &buffer).await?;
                (offset, filled) = (offset + filled as u64, 0);
            }
        }
        if filled > 0 {
            self.write(&mut meter, handle, offset, &buffer[..filled]).await?;
        }
        meter.bytes = self.spec.bytes;
        self.close(handle).await?;
        Ok(self.end(meter).phase("putc"))
    }

    /// "Rewriting": each chunk is read, changed in one word, and written where it was.
    async fn rewrite(&mut self) -> Result<BonniePhase, Failure> {
        let handle = self.open(Disposition::Open).await?;
        let mut meter = self.begin();
        let (chunk_bytes, words) = (self.spec.chunk_bytes, self.spec.chunk_bytes as usize / WORD_BYTES);
        let (mut offset, mut word) = (0, 0);
        loop {
            let bytes = self.read(&mut meter, handle, offset, chunk_bytes).await?;
            if bytes < chunk_bytes as usize {
                break;
            }
            let mut chunk = std::mem::take(&mut self.read);
            change(&mut chunk, word % words, 1);
            word += 1;
            self.write(&mut meter, handle, offset, &chunk).await?;
            self.read = chunk;
            offset += bytes as u64;
        }
        self.close(handle).await?;
        Ok(self.end(meter).phase("rewrite"))
    }

    /// "Writing intelligently": whole chunks, into a new file.
    async fn write_chunks(&mut self) -> Result<BonniePhase, Failure> {
        self.delete().await?;
        let handle = self.open(Disposition::Create).await?;
        let mut meter = self.begin();
        let mut chunk = vec![0; self.spec.chunk_bytes as usize];
        let words = chunk.len() / WORD_BYTES;
        for number in 0..self.spec.bytes / u64::from(self.spec.chunk_bytes) {
            change(&mut chunk, number as usize % words, 1);
            let offset = number * chunk.len() as u64;
            self.write(&mut meter, handle, offset, &chunk).await?;
        }
        meter.bytes = self.spec.bytes;
        self.close(handle).await?;
        Ok(self.end(meter).phase("write"))
    }

    /// "Reading with getc()": each character is counted.
    async fn get_characters(&mut self) -> Result<BonniePhase, Failure> {
        let handle = self.open(Disposition::Open).await?;
        let mut meter = self.begin();
        let mut seen = [0u64; 256];
        let mut offset = 0;
        loop {
            let bytes = self
                .read(&mut meter, handle, offset, self.spec.stdio_bytes)
                .await?;
            for character in &self.read {
                seen[usize::from(std::hint::black_box(*character))] += 1;
            }
            offset += bytes as u64;
            if bytes == 0 {
                break;
            }
        }
        self.close(handle).await?;
        std::hint::black_box(seen);
        Ok(self.end(meter).phase("getc"))
    }

    /// "Reading intelligently": whole chunks.
    async fn read_chunks(&mut self) -> Result<BonniePhase, Failure> {
        let handle = self.open(Disposition::Open).await?;
        let mut meter = self.begin();
        let mut offset = 0;
        loop {
            let bytes = self
                .read(&mut meter, handle, offset, self.spec.chunk_bytes)
                .await?;
            if bytes == 0 {
                break;
            }
            offset += bytes as u64;
            std::hint::black_box(self.read[bytes / 2]);
        }
        self.close(handle).await?;
        if meter.bytes != self.spec.bytes {
            return Err(Fault::WrongLength.into());
        }
        Ok(self.end(meter).phase("read"))
    }

    async fn all_in_sequence(&mut self) -> Result<Vec<BonniePhase>, Failure> {
        Ok(vec![
            self.put_characters().await?,
            self.rewrite().await?,
            self.write_chunks().await?,
            self.get_characters().await?,
            self.read_chunks().await?,
        ])
    }
}

async fn sequential<C: FileClient>(
    client: CachedClient<C>,
    spec: BonnieSpec,
    stop: Arc<AtomicBool>,
) -> Result<Vec<BonniePhase>, Failure> {
    let mut worker = Worker::new(client, spec, stop);
    worker.client.connect().await?;
    let found = worker.all_in_sequence().await;
    // Where it was somebody else's, nothing of ours is there.
    if found
        .as_ref()
        .is_err_and(|failure| failure.fault != Fault::AlreadyThere)
    {
        let _ = worker.delete().await;
    }
    let finished = worker.client.finish().await;
    let phases = found?;
    finished.map(|()| phases)
}

async fn remove<C: FileClient>(client: CachedClient<C>, file: String) -> Result<(), Failure> {
    let mut client = client;
    client.connect().await?;
    client
        .call(&Call::Delete { path: &file }, &mut |_: &[u8]| {})
        .await?;
    client.finish().await
}

/// What the seekers share.
#[derive(Debug, Default)]
struct Seeks {
    ready: AtomicU32,
    failed: AtomicBool,
    taken: AtomicU32,
}

async fn seek<C: FileClient>(
    client: CachedClient<C>,
    executor: Executor,
    spec: BonnieSpec,
    number: u32,
    seeks: Arc<Seeks>,
    stop: Arc<AtomicBool>,
) -> Result<Measured, Failure> {
    let mut worker = Worker::new(client, spec, stop);
    worker.client.connect().await?;
    let handle = worker.open(Disposition::Open).await?;
    let (seekers, chunk_bytes) = (worker.spec.seekers, worker.spec.chunk_bytes);
    let chunks = worker.spec.bytes / u64::from(chunk_bytes);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(worker.spec.seed ^ u64::from(number) << 32);
    seeks.ready.fetch_add(1, Ordering::Relaxed);
    while seeks.ready.load(Ordering::Relaxed) < seekers {
        if seeks.failed.load(Ordering::Relaxed) {
            return Err(Fault::OtherIo.into());
        }
        executor.sleep_until(monotonic_ns() + LOOK_NS).await;
    }
    let mut meter = worker.begin();
    let mut done = 0;
    while seeks.taken.fetch_add(1, Ordering::Relaxed) < worker.spec.seeks {
        let offset = random.next_u64() % chunks * u64::from(chunk_bytes);
        worker.read(&mut meter, handle, offset, chunk_bytes).await?;
        if done % SEEKS_FOR_A_WRITE == 0 {
            let mut chunk = std::mem::take(&mut worker.read);
            let inner = (chunk.len() / WORD_BYTES).saturating_sub(2).max(1);
            change(&mut chunk, 1 + random.next_u64() as usize % inner, u32::MAX);
            worker.write(&mut meter, handle, offset, &chunk).await?;
            worker.read = chunk;
        }
        done += 1;
    }
    worker.close(handle).await?;
    let measured = worker.end(meter);
    worker.client.finish().await?;
    Ok(measured)
}

/// From the first seeker's start to the last one's end, with the CPU time of all.
fn together(first: Measured, others: Vec<Measured>) -> BonniePhase {
    let mut all = first;
    for one in others {
        all.started_ns = all.started_ns.min(one.started_ns);
        all.ended_ns = all.ended_ns.max(one.ended_ns);
        all.cpu_s += one.cpu_s;
        all.bytes += one.bytes;
        all.times.add(&one.times);
        for (name, count) in one.requests {
            *all.requests.entry(name).or_default() += count;
        }
    }
    all.phase("seeks")
}

/// Adds to one word of a chunk.
fn change(chunk: &mut [u8], word: usize, by: u32) {
    if let Some(bytes) = chunk
        .chunks_exact_mut(WORD_BYTES)
        .nth(word)
        .and_then(|word| word.first_chunk_mut())
    {
        *bytes = u32::from_le_bytes(*bytes).wrapping_add(by).to_le_bytes();
    }
}

fn cpu_s() -> f64 {
    let used = thread_cpu();
    used.user_s + used.system_s
}
