//! Bonnie's six phases over any file protocol, in the order of T. Bray's program of 1996.
//!
//! There are four differences. A character is a store and a comparison, not a call of the C library. The
//! seekers are threads with their own sessions and start together, whereas Bonnie starts processes and waits
//! five seconds for them. A seed determines the seek positions. Read data is checked (`bonnie_contents.rs`).

use super::bonnie_contents::{ContentCheck, Versions, WORD_BYTES};
use super::client::CachedClient;
use super::job::{Job, JobClient};
use super::measured::Measured;
use super::program::{same_length, Program};
use super::sessions::Sessions;
use crate::bonnie::BonnieSpec;
use crate::job::JobLevels;
use crate::tally::LevelTally;
use dyno_files::{Access, Disposition, FileClient, Files, Handle};
use dyno_measure::{Failure, Fault};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// A seeker rewrites the chunk at its first seek and at every tenth seek after that.
const SEEKS_FOR_A_WRITE: u64 = 10;
/// Sequential phases: putc, rewrite, write, getc, read.
const SEQUENTIAL: usize = 5;

/// Runs the phases until one fails or the job is stopped. Removes the file unless the server is gone.
pub(super) fn carry_out<S: Sessions>(job: &Job<'_, S>, spec: &BonnieSpec) -> Result<JobLevels, Failure> {
    let clients: Vec<_> = (0..spec.clients).filter(|number| job.has(*number)).collect();
    let Some(&first) = clients.first() else {
        return Ok(vec![None; SEQUENTIAL + 1]);
    };
    let mut phases = all_sequential(job, spec)?;
    let seeks = all_seekers(job, spec);
    let files: Vec<_> = clients
        .iter()
        .map(|&number| of_client(spec, number).file)
        .collect();
    if matches!(&seeks, Err(failure) if failure.fault == Fault::ResponseTimeout) {
        // The controller removes the files, so that only one wait is spent on a hanging server.
        return seeks.map(|_| phases);
    }
    // Use one client for all files, because several sessions would interfere with each other.
    let by_first = Job {
        part: None,
        max_rate_per_s: job.own_rate_per_s(),
        ..*job
    };
    let removed = by_first.by_several(1, 1, first, |_, client| remove(client.files, files.clone()));
    phases.push(seeks?);
    removed.map(|_| phases)
}

/// Runs the sequential phases, one thread per client.
fn all_sequential<S: Sessions>(job: &Job<'_, S>, spec: &BonnieSpec) -> Result<JobLevels, Failure> {
    let found = job.by_several(spec.clients, 1, 0, |number, client| {
        sequential(Worker::new(client, of_client(spec, number), Arc::default()))
    })?;
    let mut clients: Vec<_> = found.into_iter().map(Vec::into_iter).collect();
    let of_all = |_| Measured::together(clients.iter_mut().filter_map(Iterator::next)).map(phase);
    Ok((0..SEQUENTIAL).map(of_all).collect())
}

/// Returns the parameters of one of several clients, with its own file and seek positions.
fn of_client(spec: &BonnieSpec, number: u32) -> BonnieSpec {
    let file = match number {
        0 => spec.file.clone(),
        number => format!("{}.{}", spec.file, number + 1),
    };
    BonnieSpec {
        file,
        seed: spec.seed ^ u64::from(number) << 48,
        ..spec.clone()
    }
}

/// Runs the seekers of all clients, one thread each. Returns None if no client runs in this process.
fn all_seekers<S: Sessions>(job: &Job<'_, S>, spec: &BonnieSpec) -> Result<Option<LevelTally>, Failure> {
    let shared: Vec<_> = (0..spec.clients)
        .map(|_| (Arc::new(AtomicU32::new(0)), Arc::<Versions>::default()))
        .collect();
    let after = Job {
        first_gate: job.first_gate + 2 * SEQUENTIAL as u64,
        ..*job
    };
    let found = after.by_several(spec.clients, spec.seekers, spec.clients, |place, client| {
        let (number, seeker) = (place / spec.seekers, place % spec.seekers);
        let (taken, versions) = shared[number as usize].clone();
        let writes_late = spec.seekers > 1 && job.options.is_close_to_open();
        let worker = Worker::new(client, of_client(spec, number), versions).writing_late(writes_late);
        seek(worker, seeker, taken)
    })?;
    Ok(Measured::together(found).map(phase))
}

fn phase(measured: Measured) -> LevelTally {
    LevelTally {
        bytes_checked: Some(measured.checked.bytes),
        bytes_unknown: Some(measured.checked.unknown_bytes),
        ..measured.tally()
    }
}

/// Page-aligned buffer, as in Bonnie: copies to unaligned buffers take longer.
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

/// One client while it works on its file.
struct Worker<C> {
    client: JobClient<C>,
    check: ContentCheck,
    spec: BonnieSpec,
    /// Whether this run created the file.
    is_ours: bool,
}

impl<C: FileClient> Worker<C> {
    fn new(client: JobClient<C>, spec: BonnieSpec, versions: Arc<Versions>) -> Self {
        Self {
            client,
            check: ContentCheck::new(spec.check, spec.chunk_bytes, versions),
            spec,
            is_ours: false,
        }
    }

    /// Returns the worker of a seeker. `writes_late`: its writes may become visible only at its close.
    fn writing_late(self, writes_late: bool) -> Self {
        Self {
            check: self.check.writing_late(writes_late),
            ..self
        }
    }

    /// Opens the file, and starts a phase together with all other clients.
    async fn open_together(&mut self, disposition: Disposition) -> Result<(Handle, Measured), Failure> {
        self.client.go_on()?;
        let opened = self.open(disposition).await;
        self.is_ours |= !opened.is_err_and(|failure| failure.fault == Fault::AlreadyThere);
        Ok((opened?, self.client.begin_together().await?))
    }

    async fn end_together(&mut self, measured: Measured) -> Result<Measured, Failure> {
        let mut measured = self.client.end_together(measured).await?;
        measured.checked = std::mem::take(&mut self.check.checked);
        Ok(measured)
    }

    async fn open(&mut self, disposition: Disposition) -> Result<Handle, Failure> {
        let (path, access) = (&self.spec.file, Access::ReadWrite);
        self.client.open(path, access, disposition).await
    }

    /// Reads from `offset`, at most to the end of the file. Returns the number of bytes read.
    async fn read(
        &mut self,
        measured: &mut Measured,
        handle: Handle,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Failure> {
        let begun_ns = self.client.call_clock_ns();
        let bytes = self.client.read_into(handle, offset, into).await?;
        measured.times.record(self.client.call_clock_ns() - begun_ns);
        Ok(bytes)
    }

    async fn write(
        &mut self,
        measured: &mut Measured,
        handle: Handle,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Failure> {
        let begun_ns = self.client.call_clock_ns();
        self.client.write(handle, offset, data).await?;
        measured.times.record(self.client.call_clock_ns() - begun_ns);
        Ok(())
    }

    async fn put_characters(&mut self) -> Result<Measured, Failure> {
        let (handle, mut measured) = self.open_together(Disposition::Create).await?;
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
        self.client.close(handle).await?;
        self.end_together(measured).await
    }

    /// "Rewriting": reads each chunk, changes one word, and writes it back.
    async fn rewrite(&mut self) -> Result<Measured, Failure> {
        let (handle, mut measured) = self.open_together(Disposition::Open).await?;
        let mut chunk = Pages::new(self.spec.chunk_bytes);
        let words = chunk.len() / WORD_BYTES;
        let (mut offset, mut word) = (0, 0);
        while self.read(&mut measured, handle, offset, &mut chunk).await? == chunk.len() {
            self.check.characters(offset, &chunk)?;
            change(&mut chunk, word % words, 1);
            word += 1;
            self.write(&mut measured, handle, offset, &chunk).await?;
            offset += chunk.len() as u64;
        }
        self.client.close(handle).await?;
        same_length(self.spec.bytes, offset)?;
        self.end_together(measured).await
    }

    /// "Writing intelligently": writes whole chunks to a new file.
    async fn write_chunks(&mut self) -> Result<Measured, Failure> {
        self.client.delete(&self.spec.file).await?;
        let (handle, mut measured) = self.open_together(Disposition::Create).await?;
        let mut chunk = Pages::new(self.spec.chunk_bytes);
        let words = chunk.len() / WORD_BYTES;
        for number in 0..self.spec.bytes / u64::from(self.spec.chunk_bytes) {
            change(&mut chunk, number as usize % words, 1);
            let offset = number * chunk.len() as u64;
            self.write(&mut measured, handle, offset, &chunk).await?;
        }
        self.client.close(handle).await?;
        self.end_together(measured).await
    }

    /// "Reading with getc()": counts each character.
    async fn get_characters(&mut self) -> Result<Measured, Failure> {
        let (handle, mut measured) = self.open_together(Disposition::Open).await?;
        let mut buffer = Pages::new(self.spec.stdio_bytes);
        let mut seen = [0u64; 256];
        let mut offset = 0;
        loop {
            let bytes = self.read(&mut measured, handle, offset, &mut buffer).await?;
            for character in &buffer[..bytes] {
                seen[usize::from(std::hint::black_box(*character))] += 1;
            }
            self.check.chunks(offset, &buffer[..bytes])?;
            offset += bytes as u64;
            if bytes == 0 {
                break;
            }
        }
        self.client.close(handle).await?;
        std::hint::black_box(seen);
        same_length(self.spec.bytes, offset)?;
        self.end_together(measured).await
    }

    /// "Reading intelligently": reads whole chunks.
    async fn read_chunks(&mut self) -> Result<Measured, Failure> {
        let (handle, mut measured) = self.open_together(Disposition::Open).await?;
        let mut chunk = Pages::new(self.spec.chunk_bytes);
        let mut offset = 0;
        loop {
            let bytes = self.read(&mut measured, handle, offset, &mut chunk).await?;
            if bytes == 0 {
                break;
            }
            self.check.chunks(offset, &chunk[..bytes])?;
            offset += bytes as u64;
            std::hint::black_box(chunk[bytes / 2]);
        }
        self.client.close(handle).await?;
        same_length(self.spec.bytes, offset)?;
        self.end_together(measured).await
    }

    /// Runs the sequential phases and returns the measurement of each.
    async fn all_in_sequence(&mut self) -> Result<Vec<Measured>, Failure> {
        Ok(vec![
            self.put_characters().await?,
            self.rewrite().await?,
            self.write_chunks().await?,
            self.get_characters().await?,
            self.read_chunks().await?,
        ])
    }
}

async fn sequential<C: FileClient>(mut worker: Worker<C>) -> Result<Vec<Measured>, Failure> {
    worker.client.connect().await?;
    let found = worker.all_in_sequence().await;
    if found.is_err() && worker.is_ours {
        let _ = worker.client.files.delete(&worker.spec.file).await;
    }
    let finished = worker.client.finish().await;
    let phases = found?;
    finished.map(|()| phases)
}

/// Removes the clients' files. Continues after failures.
async fn remove<C: FileClient>(mut client: CachedClient<C>, files: Vec<String>) -> Result<(), Failure> {
    client.connect().await?;
    let mut removed = Ok(());
    for path in files {
        removed = removed.and(client.delete(&path).await);
    }
    let finished = client.finish().await;
    removed.and(finished)
}

async fn seek<C: FileClient>(
    mut worker: Worker<C>,
    number: u32,
    taken: Arc<AtomicU32>,
) -> Result<Measured, Failure> {
    worker.client.connect().await?;
    let handle = worker.open(Disposition::Open).await?;
    let chunk_bytes = worker.spec.chunk_bytes;
    let chunks = worker.spec.bytes / u64::from(chunk_bytes);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(worker.spec.seed ^ u64::from(number) << 32);
    let mut measured = worker.client.begin_together().await?;
    let mut chunk = Pages::new(chunk_bytes);
    let mut done = 0;
    while taken.fetch_add(1, Ordering::Relaxed) < worker.spec.seeks {
        let place = random.next_u64() % chunks;
        let offset = place * u64::from(chunk_bytes);
        let before = worker.check.begin_read(place);
        let bytes = worker.read(&mut measured, handle, offset, &mut chunk).await?;
        same_length(chunk_bytes.into(), bytes as u64)?;
        worker.check.end_read(place, before, &chunk)?;
        if done % SEEKS_FOR_A_WRITE == 0 {
            let inner = (bytes / WORD_BYTES).saturating_sub(2).max(1);
            change(&mut chunk, 1 + random.next_u64() as usize % inner, u32::MAX);
            worker.check.begin_write(place, &chunk);
            worker.write(&mut measured, handle, offset, &chunk).await?;
            worker.check.end_write(place);
        }
        done += 1;
    }
    worker.client.close(handle).await?;
    let measured = worker.end_together(measured).await?;
    worker.client.finish().await?;
    Ok(measured)
}

/// Adds `by` to one word of a chunk.
fn change(chunk: &mut [u8], word: usize, by: u32) {
    if let Some(bytes) = chunk
        .chunks_exact_mut(WORD_BYTES)
        .nth(word)
        .and_then(|word| word.first_chunk_mut())
    {
        *bytes = u32::from_le_bytes(*bytes).wrapping_add(by).to_le_bytes();
    }
}
