//! Streams: clients write or read files block by block, with several concurrent blocks and no client cache. Data read
//! is compared. Data written is flushed within the measured time. System calls on directories are synchronous, so depth
//! has no effect there.

use super::level;
use crate::files::job::{Job, JobClient};
use crate::files::measured::Measured;
use crate::files::program::{same_length, Program};
use crate::files::sessions::Sessions;
use crate::job::JobLevels;
use crate::scenario::{StepSpec, StreamsSpec};
use dyno_files::{Access, Call, CallId, Disposition, FileClient, Files, Handle, Reply, Stability};
use dyno_measure::{Failure, Fault};
use dyno_workload::{block_offsets, content_of, Writing};
use std::collections::HashMap;

/// Number of concurrent blocks for unmeasured writes and reads.
const MAKING_DEPTH: u32 = 4;

pub(super) fn carry_out<S: Sessions>(
    job: &Job<'_, S>,
    spec: &StepSpec,
    shape: &StreamsSpec,
) -> Result<JobLevels, Failure> {
    // No cache, because there are several concurrent calls and written data is flushed.
    let options = job.options.without_cache();
    let found =
        Job { options, ..*job }.by_several(shape.writers + shape.readers, 1, 0, |number, client| {
            let stream = Stream {
                client,
                path: format!("{}/{}.{number}", spec.base, shape.name),
                order: block_offsets(
                    shape.bytes,
                    shape.block_bytes,
                    shape.random.then_some((spec.seed.into(), number)),
                ),
                writing: Writing {
                    client: number,
                    level: spec.seed,
                    file: 0,
                    generation: super::SOURCE_GENERATION,
                },
                shape: shape.clone(),
            };
            let writes = number < shape.writers;
            async move { stream.run(writes).await.map(|measured| (writes, measured)) }
        })?;
    let (writers, readers): (Vec<_>, Vec<_>) = found.into_iter().partition(|(writes, _)| *writes);
    let sides = [(shape.writers, writers), (shape.readers, readers)];
    let there = sides.into_iter().filter(|(planned, _)| *planned > 0);
    let levels = there.map(|(_, all)| {
        let files = all.len() as u64;
        Measured::together(all.into_iter().map(|(_, measured)| measured)).map(|all| level(all, files))
    });
    Ok(levels.collect())
}

struct Stream<C> {
    client: JobClient<C>,
    path: String,
    order: Vec<u64>,
    writing: Writing,
    shape: StreamsSpec,
}

impl<C: FileClient> Stream<C> {
    async fn run(mut self, writes: bool) -> Result<Measured, Failure> {
        self.client.connect().await?;
        self.client.files.takes_at_once(self.shape.block_bytes)?;
        let mut handle = self.open(Disposition::Create).await?;
        if !writes {
            let blocks = block_offsets(self.shape.bytes, self.shape.block_bytes, None);
            let mut untimed = self.client.begin();
            self.pump(handle, &blocks, true, MAKING_DEPTH, &mut untimed)
                .await?;
            self.client.close(handle).await?;
            handle = self.open(Disposition::Open).await?;
        }
        let mut measured = self.client.begin_together().await?;
        let order = std::mem::take(&mut self.order);
        let depth = self.shape.depth;
        self.pump(handle, &order, writes, depth, &mut measured).await?;
        self.client.close(handle).await?;
        let measured = self.client.end_together(measured).await?;
        if writes {
            self.compare_all().await?;
        }
        self.client.delete(&self.path).await?;
        self.client.finish().await?;
        Ok(measured)
    }

    /// Checks a written file outside the measured time.
    async fn compare_all(&mut self) -> Result<(), Failure> {
        let handle = self.open(Disposition::Open).await?;
        let blocks = block_offsets(self.shape.bytes, self.shape.block_bytes, None);
        let mut untimed = self.client.begin();
        self.pump(handle, &blocks, false, MAKING_DEPTH, &mut untimed)
            .await?;
        self.client.close(handle).await
    }

    async fn open(&mut self, disposition: Disposition) -> Result<Handle, Failure> {
        self.client.open(&self.path, Access::ReadWrite, disposition).await
    }

    async fn pump(
        &mut self,
        handle: Handle,
        order: &[u64],
        writes: bool,
        depth: u32,
        measured: &mut Measured,
    ) -> Result<(), Failure> {
        let block_bytes = self.shape.block_bytes;
        let writing = self.writing;
        let mut under_way: HashMap<CallId, (u64, u64)> = HashMap::new();
        let mut blocks = order.iter();
        loop {
            // Answers that arrive before the rate limit permits the next call are processed first.
            while under_way.is_empty() || (under_way.len() < depth as usize && self.client.is_due()) {
                let Some(&offset) = blocks.next() else { break };
                self.client.go_on()?;
                let begun_ns = self.client.call_clock_ns();
                let id = self.begin_block(handle, offset, writes).await?;
                under_way.insert(id, (offset, begun_ns));
            }
            if under_way.is_empty() {
                break;
            }
            let mut wrong = false;
            let mut compare = |id, data: &[u8]| {
                let begins_at = under_way.get(&id).map(|(offset, _)| *offset);
                wrong |= begins_at.is_some_and(|offset| content_of(writing, offset, data.len()) != data);
            };
            let (id, result) = self.client.ended(&mut compare).await?;
            let Some((_, begun_ns)) = under_way.remove(&id) else {
                continue;
            };
            measured.times.record(self.client.call_clock_ns() - begun_ns);
            match result? {
                Reply::Written { bytes } | Reply::Read { bytes } => {
                    same_length(block_bytes.into(), bytes.into())?;
                }
                _ => return Err(Fault::MalformedMessage.into()),
            }
            if wrong {
                return Err(Fault::WrongContent.into());
            }
        }
        if writes {
            self.client.ask(&Call::Flush { handle }).await?;
        }
        Ok(())
    }

    async fn begin_block(&mut self, handle: Handle, offset: u64, writes: bool) -> Result<CallId, Failure> {
        let bytes = self.shape.block_bytes;
        let call = match writes {
            true => Call::Write {
                handle,
                offset,
                data: content_of(self.writing, offset, bytes as usize),
                stability: Stability::Unstable,
            },
            false => Call::Read {
                handle,
                offset,
                bytes,
            },
        };
        self.client.begin_call(&call).await
    }
}
