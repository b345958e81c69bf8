//! Bonnie's six phases over any file protocol: what T. Bray's program of 1996 does, in its order.
//!
//! What differs from it: a character is a store and a comparison, no call of a C library; the seekers are threads with
//! sessions of their own that start at one moment, not processes that were given five seconds; their places come from a
//! seed. Not for: rows and tables (the control plane).

use super::alone::{alone, apart, at_once, Gate};
use super::cache::FilesOptions;
use super::client::CachedClient;
use super::measured::Measured;
use super::sessions::Sessions;
use crate::bonnie::{BonniePhase, BonnieSpec};
use dyno_files::{Access, Ask, Call, Disposition, FileClient, Files, Handle, Open, Reply, Stability};
use dyno_measure::{monotonic_ns, Failure, Fault};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

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
    let mut phases = apart(|| {
        alone(sessions, identity, 0, spec.most_ns, |session| {
            sequential(options.client(session), spec.clone(), stop.clone())
        })
    })?;
    let seeks = all_seekers(sessions, options, identity, spec, stop);
    let removed = apart(|| {
        alone(sessions, identity, 0, spec.most_ns, |session| {
            remove(options.client(session), spec.file.clone())
        })
    });
    phases.extend(seeks?);
    removed.map(|()| phases)
}

/// The seekers, each on a thread of its own; None where there are none.
fn all_seekers<S: Sessions>(
    sessions: &S,
    options: FilesOptions,
    identity: u64,
    spec: &BonnieSpec,
    stop: &Arc<AtomicBool>,
) -> Result<Option<BonniePhase>, Failure> {
    let seeks = Arc::new(Seeks {
        gate: Gate::new(spec.seekers),
        taken: AtomicU32::new(0),
    });
    let found = at_once(&seeks.gate, |number| {
        alone(sessions, identity, 1 + number, spec.most_ns, |session| {
            let worker = Worker::new(options.client(session), spec.clone(), stop.clone());
            seek(worker, number, seeks.clone())
        })
    })?;
    Ok(Measured::together(found).map(|all| phase(&all, "seeks")))
}

/// A phase, as it is told.
fn phase(measured: &Measured, name: &'static str) -> BonniePhase {
    let us = |ns: u64| ns as f64 / 1e3;
    BonniePhase {
        phase: name,
        bytes: measured.bytes,
        calls: measured.times.count(),
        elapsed_s: measured.elapsed_s(),
        user_s: measured.user_s(),
        system_s: measured.system_s(),
        p50_us: us(measured.times.value_at(0.5)),
        p99_us: us(measured.times.value_at(0.99)),
        max_us: us(measured.times.max()),
        requests: measured.requests.clone(),
    }
}

/// A program's buffer of whole pages, as Bonnie has it: the kernel copies to one that begins elsewhere at more cost.
#[derive(Debug)]
struct Pages {
    room: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Pages {
    const ALIGNMENT: usize = 4096;

    fn new(bytes: u32) -> Self {
        let bytes = bytes as usize;
        let room = vec![0; bytes + Self::ALIGNMENT];
        let begin = room.as_ptr().align_offset(Self::ALIGNMENT).min(Self::ALIGNMENT);
        Self {
            room,
            begin,
            end: begin + bytes,
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.room[self.begin..self.end]
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.begin..self.end]
    }
}

/// The file, as one client works on it.
struct Worker<C: FileClient> {
    client: CachedClient<C>,
    spec: BonnieSpec,
    stop: Arc<AtomicBool>,
}

impl<C: FileClient> Worker<C> {
    fn new(client: CachedClient<C>, spec: BonnieSpec, stop: Arc<AtomicBool>) -> Self {
        Self { client, spec, stop }
    }

    fn begin(&self) -> Measured {
        Measured::begin(self.client.requests())
    }

    fn end(&self, measured: Measured, name: &'static str) -> BonniePhase {
        phase(&measured.end(self.client.requests()), name)
    }

    /// Fails once the phases are to end.
    fn go_on(&self) -> Result<(), Failure> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Fault::OtherIo.into()),
            false => Ok(()),
        }
    }

    async fn call(&mut self, call: &Call<'_>) -> Result<Reply, Failure> {
        self.client.call(call, &mut |_: &[u8]| {}).await
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

    /// Reads as much as the file has from `offset` on.
    async fn read(
        &mut self,
        measured: &mut Measured,
        handle: Handle,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Failure> {
        self.go_on()?;
        let begun_ns = monotonic_ns();
        let bytes = self.client.read_into(handle, offset, into).await?;
        measured.times.record(monotonic_ns() - begun_ns);
        measured.bytes += bytes as u64;
        Ok(bytes)
    }

    async fn write(
        &mut self,
        measured: &mut Measured,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Failure> {
        self.go_on()?;
        let begun_ns = monotonic_ns();
        let write = Call::Write {
            handle,
            offset,
            data,
            stability: Stability::Unstable,
        };
        let reply = self.call(&write).await?;
        measured.times.record(monotonic_ns() - begun_ns);
        match reply {
            Reply::Written { bytes } if bytes as usize == data.len() => Ok(()),
            _ => Err(Fault::NoSpace.into()),
        }
    }

    /// "Writing with putc()": one character after another, through a buffer.
    async fn put_characters(&mut self) -> Result<BonniePhase, Failure> {
        let handle = self.open(Disposition::Create).await?;
        let mut measured = self.begin();
        let mut pages = Pages::new(self.spec.stdio_bytes);
        let buffer: &mut [u8] = &mut pages;
        let (mut offset, mut filled) = (0, 0);
        for character in 0..self.spec.bytes {
            buffer[filled] = std::hint::black_box((character & 0x7f) as u8);
            filled += 1;
            if filled == buffer.len() {
                self.write(&mut measured, handle, offset, buffer).await?;
                (offset, filled) = (offset + filled as u64, 0);
            }
        }
        if filled > 0 {
            self.write(&mut measured, handle, offset, &buffer[..filled])
                .await?;
        }
        measured.bytes = self.spec.bytes;
        self.close(handle).await?;
        Ok(self.end(measured, "putc"))
    }

    /// "Rewriting": each chunk is read, changed in one word, and written where it was.
    async fn rewrite(&mut self) -> Result<BonniePhase, Failure> {
        let handle = self.open(Disposition::Open).await?;
        let mut measured = self.begin();
        let mut chunk = Pages::new(self.spec.chunk_bytes);
        let words = chunk.len() / WORD_BYTES;
        let (mut offset, mut word) = (0, 0);
        while self.read(&mut measured, handle, offset, &mut chunk).await? == chunk.len() {
            change(&mut chunk, word % words, 1);
            word += 1;
            self.write(&mut measured, handle, offset, &chunk).await?;
            offset += chunk.len() as u64;
        }
        self.close(handle).await?;
        Ok(self.end(measured, "rewrite"))
    }

    /// "Writing intelligently": whole chunks, into a new file.
    async fn write_chunks(&mut self) -> Result<BonniePhase, Failure> {
        self.delete().await?;
        let handle = self.open(Disposition::Create).await?;
        let mut measured = self.begin();
        let mut chunk = Pages::new(self.spec.chunk_bytes);
        let words = chunk.len() / WORD_BYTES;
        for number in 0..self.spec.bytes / u64::from(self.spec.chunk_bytes) {
            change(&mut chunk, number as usize % words, 1);
            let offset = number * chunk.len() as u64;
            self.write(&mut measured, handle, offset, &chunk).await?;
        }
        measured.bytes = self.spec.bytes;
        self.close(handle).await?;
        Ok(self.end(measured, "write"))
    }

    /// "Reading with getc()": each character is counted.
    async fn get_characters(&mut self) -> Result<BonniePhase, Failure> {
        let handle = self.open(Disposition::Open).await?;
        let mut measured = self.begin();
        let mut buffer = Pages::new(self.spec.stdio_bytes);
        let mut seen = [0u64; 256];
        let mut offset = 0;
        loop {
            let bytes = self.read(&mut measured, handle, offset, &mut buffer).await?;
            for character in &buffer[..bytes] {
                seen[usize::from(std::hint::black_box(*character))] += 1;
            }
            offset += bytes as u64;
            if bytes == 0 {
                break;
            }
        }
        self.close(handle).await?;
        std::hint::black_box(seen);
        Ok(self.end(measured, "getc"))
    }

    /// "Reading intelligently": whole chunks.
    async fn read_chunks(&mut self) -> Result<BonniePhase, Failure> {
        let handle = self.open(Disposition::Open).await?;
        let mut measured = self.begin();
        let mut chunk = Pages::new(self.spec.chunk_bytes);
        let mut offset = 0;
        loop {
            let bytes = self.read(&mut measured, handle, offset, &mut chunk).await?;
            if bytes == 0 {
                break;
            }
            offset += bytes as u64;
            std::hint::black_box(chunk[bytes / 2]);
        }
        self.close(handle).await?;
        if measured.bytes != self.spec.bytes {
            return Err(Fault::WrongLength.into());
        }
        Ok(self.end(measured, "read"))
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
#[derive(Debug)]
struct Seeks {
    gate: Gate,
    taken: AtomicU32,
}

async fn seek<C: FileClient>(
    mut worker: Worker<C>,
    number: u32,
    seeks: Arc<Seeks>,
) -> Result<Measured, Failure> {
    worker.client.connect().await?;
    let handle = worker.open(Disposition::Open).await?;
    let chunk_bytes = worker.spec.chunk_bytes;
    let chunks = worker.spec.bytes / u64::from(chunk_bytes);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(worker.spec.seed ^ u64::from(number) << 32);
    seeks.gate.pass(&mut worker.client).await?;
    let mut measured = worker.begin();
    let mut chunk = Pages::new(chunk_bytes);
    let mut done = 0;
    while seeks.taken.fetch_add(1, Ordering::Relaxed) < worker.spec.seeks {
        let offset = random.next_u64() % chunks * u64::from(chunk_bytes);
        let bytes = worker.read(&mut measured, handle, offset, &mut chunk).await?;
        if done % SEEKS_FOR_A_WRITE == 0 {
            let inner = (bytes / WORD_BYTES).saturating_sub(2).max(1);
            change(
                &mut chunk[..bytes],
                1 + random.next_u64() as usize % inner,
                u32::MAX,
            );
            worker
                .write(&mut measured, handle, offset, &chunk[..bytes])
                .await?;
        }
        done += 1;
    }
    worker.close(handle).await?;
    let measured = measured.end(worker.client.requests());
    worker.client.finish().await?;
    Ok(measured)
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
