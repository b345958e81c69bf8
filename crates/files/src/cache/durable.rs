//! Making durable what was written: to a server that may lose an unstable write and keep the session, data are kept
//! until it has answered a flush under the verifier of the write (RFC 1813, 3.3.21), and written once more where the
//! verifier is another. Not for: servers that lose data together with the session, where the ledger knows.

use super::pages::FileId;
use super::{Cache, Trouble};
use crate::call::{Call, Reply, Stability};
use crate::client::{FileClient, Stored, Verifier};
use dyno_measure::{Failure, Fault};

/// A server that restarts more often than this between a write and its flush keeps nothing.
const MOST_TRIES: u32 = 4;

/// Under which runs of the server the unstable writes of a file were answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Runs {
    /// None are outstanding.
    #[default]
    None,
    /// All under one.
    One(Verifier),
    /// Under several: those of the earlier ones may be lost.
    Several,
}

impl Runs {
    /// Adds the answer to a write. Returns whether the server may still lose it.
    pub(super) fn add(&mut self, stored: Option<Stored>) -> bool {
        let Some(stored) = stored.filter(|stored| stored.stability == Stability::Unstable) else {
            return false;
        };
        *self = match *self {
            Self::None => Self::One(stored.verifier),
            Self::One(verifier) if verifier == stored.verifier => *self,
            _ => Self::Several,
        };
        true
    }

    fn are_durable_after(self, flushed: Option<Stored>) -> bool {
        match (self, flushed) {
            (Self::One(verifier), Some(stored)) => verifier == stored.verifier,
            (Self::Several, _) => false,
            // A server that says nothing of itself loses the data with the session.
            (_, None) | (Self::None, _) => true,
        }
    }
}

impl<C: FileClient> Cache<C> {
    /// Writes back all that was written of a file, and makes it durable where the server may lose it and go on. What is
    /// refused is kept for the file's next call.
    pub(super) async fn write_back(&mut self, id: FileId) -> Result<(), Trouble> {
        self.write_out(id).await?;
        for _ in 0..MOST_TRIES {
            if !self.tables.pages.any_unstable(id) {
                return Ok(());
            }
            if self.flush_once(id).await? {
                return Ok(());
            }
            self.write_out(id).await?;
        }
        self.give_up(id, Fault::ErrorStatus.into());
        Ok(())
    }

    /// Sends one flush. False: the server may have lost data since they were written, and they are dirty again.
    async fn flush_once(&mut self, id: FileId) -> Result<bool, Trouble> {
        let handle = self
            .tables
            .writing_wire(id)
            .expect("was written through one that is still open");
        let ended = self.end_at_once(&Call::Flush { handle }).await?;
        self.exchange.spare(ended.data);
        let runs = std::mem::take(&mut self.tables.file_mut(id).runs);
        match ended.result {
            Err(failure) => self.give_up(id, failure),
            Ok(Reply::Done) if runs.are_durable_after(ended.piggyback.stored) => {
                self.tables.pages.set_stable(id, 0..u64::MAX);
            }
            Ok(Reply::Done) => {
                self.tables.pages.set_dirty_again(id);
                return Ok(false);
            }
            Ok(_) => self.give_up(id, Fault::MalformedMessage.into()),
        }
        Ok(true)
    }

    /// What could not be made durable is as good as lost; the next call on the file says so.
    fn give_up(&mut self, id: FileId, failure: Failure) {
        self.tables.pages.forget_unstable(id);
        let file = self.tables.file_mut(id);
        file.failed.get_or_insert(failure);
        file.doubtful = true;
        if let Some(validity) = file.validity.as_mut() {
            validity.doubt();
        }
    }
}
