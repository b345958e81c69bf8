//! Blocks with numbered versions: those that several clients write in turn under locks, and those of clients
//! that survive outages. Each read must return a permitted version.
//!
//! Acknowledged and flushed versions must persist. An unanswered write may have been executed fully, partly
//! or not at all. Acknowledged but unflushed versions may be lost with the session, which is counted.

use super::{FilesClient, Moved};
use crate::files::program::same_length;
use crate::files::sessions::Sessions;
use dyno_files::{Call, Files, Reply, Stability};
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_workload::{write_block, Block, BlockFault, Slot, Versions};
use std::collections::{HashMap, HashSet};

/// First interval between attempts to lock; the interval doubles each time.
const FIRST_LOOK_NS: u64 = 500_000;
const LONGEST_LOOK_NS: u64 = 32_000_000;

/// State of all shared blocks, and the content of the current block.
#[derive(Debug, Default)]
pub(super) struct SharedBlocks {
    versions: Versions,
    block: Vec<u8>,
    flushes: bool,
    /// Blocks with unanswered writes.
    doubtful: HashSet<Block>,
    /// Blocks written since the last flush, with their last flushed version.
    unflushed: HashMap<Block, u64>,
    /// Unflushed blocks of lost sessions, with their last flushed version.
    at_risk: HashMap<Block, u64>,
    read_back: ReadBack,
}

/// Result of reading the blocks after the level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ReadBack {
    /// Blocks that were read.
    pub blocks: u64,
    /// Blocks that equal no version.
    pub wrong: u64,
    /// Blocks older than an acknowledged and flushed version.
    pub lost: u64,
    /// Blocks older than an acknowledged but unflushed version, including those found during the level.
    pub lost_unflushed: u64,
}

impl SharedBlocks {
    pub(super) fn of_one_that_flushes() -> Self {
        Self {
            flushes: true,
            ..Self::default()
        }
    }

    pub(super) fn flushed(&mut self) {
        self.unflushed.clear();
    }

    pub(super) fn session_lost(&mut self) {
        self.at_risk.extend(self.unflushed.drain());
    }

    pub(super) fn read_back(&self) -> ReadBack {
        self.read_back
    }

    /// Records the end of a write. `before`: the block's newest version before the write.
    fn note_write(&mut self, block: Block, before: u64, done: bool) {
        if !self.flushes {
            return;
        }
        if done {
            self.unflushed.entry(block).or_insert(before);
            self.at_risk.remove(&block);
            self.doubtful.remove(&block);
        } else {
            self.doubtful.insert(block);
        }
    }

    /// Checks the current block.
    fn check(&mut self, block: Block) -> Result<(), Fault> {
        let fault = match self.versions.check(block, &self.block) {
            Ok(_) => {
                self.at_risk.remove(&block);
                self.doubtful.remove(&block);
                return Ok(());
            }
            Err(fault) => fault,
        };
        let at_risk = self.at_risk.remove(&block);
        match (fault, at_risk) {
            (BlockFault::Torn, _) if self.doubtful.contains(&block) => Ok(()),
            (BlockFault::Stale, Some(flushed)) => {
                let found = self.versions.put_back(block, &self.block);
                if found.is_some_and(|version| version.number >= flushed) {
                    self.read_back.lost_unflushed += 1;
                    return Ok(());
                }
                Err(Fault::StaleContent)
            }
            (BlockFault::Torn, _) => Err(Fault::WrongContent),
            (BlockFault::Stale, None) => Err(Fault::StaleContent),
            (BlockFault::LostUpdate, _) => Err(Fault::LostUpdate),
        }
    }
}

impl<S: Sessions> FilesClient<S> {
    /// Reads a whole block and checks it.
    pub(super) async fn read_block(
        &mut self,
        slot: Slot,
        block: Block,
        bytes: u32,
        moved: &mut Moved,
    ) -> Result<(), Failure> {
        let (handle, offset) = (self.handle(slot)?, block.offset);
        let into = &mut self.shared.block;
        into.clear();
        let call = Call::Read {
            handle,
            offset,
            bytes,
        };
        let mut copy = |piece: &[u8]| into.extend_from_slice(piece);
        self.client.call(&call, &mut copy).await?;
        let got = self.shared.block.len() as u64;
        moved.read = got;
        same_length(bytes.into(), got)?;
        self.checked_bytes += got;
        Ok(self.shared.check(block)?)
    }

    /// Reads a block after the level and counts errors.
    pub(super) async fn read_block_back(
        &mut self,
        slot: Slot,
        block: Block,
        bytes: u32,
    ) -> Result<(), Failure> {
        let read = self.read_block(slot, block, bytes, &mut Moved::default()).await;
        let found = &mut self.shared.read_back;
        found.blocks += 1;
        match read {
            Ok(()) => {}
            Err(failure) => match failure.fault {
                Fault::StaleContent | Fault::LostUpdate => found.lost += 1,
                Fault::WrongContent | Fault::WrongLength => found.wrong += 1,
                _ => {
                    found.blocks -= 1;
                    return Err(failure);
                }
            },
        }
        Ok(())
    }

    /// Writes the version after the one last read. After a failure, both versions are accepted in later reads.
    pub(super) async fn write_block(
        &mut self,
        slot: Slot,
        block: Block,
        bytes: u32,
        moved: &mut Moved,
    ) -> Result<(), Failure> {
        let (handle, offset) = (self.handle(slot)?, block.offset);
        let SharedBlocks {
            versions,
            block: data,
            ..
        } = &mut self.shared;
        let version = versions.next(block, self.ledger.client());
        let before = versions.newest(block).unwrap_or_default();
        write_block(data, block, version, bytes);
        let call = Call::Write {
            handle,
            offset,
            data,
            stability: Stability::Unstable,
        };
        let reply = self.client.call(&call, &mut |_: &[u8]| {}).await;
        let done = matches!(reply, Ok(Reply::Written { bytes: written }) if written == bytes);
        self.shared.note_write(block, before, done);
        reply?;
        if !done {
            return Err(Fault::WrongLength.into());
        }
        self.shared.versions.written(block, version);
        moved.written = bytes.into();
        Ok(())
    }

    /// Locks a range. Retries while another client holds it, as applications do, and handles breaks
    /// meanwhile.
    pub(super) async fn lock_waiting(&mut self, slot: Slot, offset: u64, bytes: u64) -> Result<(), Failure> {
        let handle = self.handle(slot)?;
        let until_ns = self.executor.task_clock_ns().saturating_add(self.timeout_ns);
        let call = Call::Lock {
            handle,
            offset,
            bytes,
        };
        let mut pause_ns = FIRST_LOOK_NS;
        loop {
            match self.client.call(&call, &mut |_: &[u8]| {}).await {
                Err(failure)
                    if failure.fault == Fault::LockConflict && self.executor.task_clock_ns() < until_ns => {}
                result => return result.map(|_| ()),
            }
            self.client.idle_until(monotonic_ns() + pause_ns).await?;
            self.executor.set_deadline_by_task_clock(until_ns);
            pause_ns = (pause_ns * 2).min(LONGEST_LOOK_NS);
        }
    }
}
