//! Locks of byte ranges: they go to the server, and a file with one is not cached. Not for: oplocks.

use super::tables::{HeldLock, Seat};
use super::{Cache, Trouble};
use crate::call::{Call, Handle, Reply};
use crate::client::FileClient;
use dyno_measure::Fault;

fn overlap(lock: &HeldLock, offset: u64, bytes: u64) -> bool {
    let end = |offset: u64, bytes: u64| u128::from(offset) + u128::from(bytes);
    u128::from(lock.offset) < end(offset, bytes) && u128::from(offset) < end(lock.offset, lock.bytes)
}

impl<C: FileClient> Cache<C> {
    pub(super) async fn lock(&mut self, handle: Handle, offset: u64, bytes: u64) -> Result<Reply, Trouble> {
        let seat = self.seat_for(handle)?;
        let file = self.tables.file(seat.file);
        let taken = |lock: &HeldLock| {
            overlap(lock, offset, bytes)
                && self
                    .tables
                    .seat_of(lock.seat)
                    .is_ok_and(|other| other.wire == seat.wire)
        };
        // Handles of applications that share one below can't lock against each other there.
        if file.locks.iter().any(taken) {
            return Err(Trouble::Call(Fault::LockConflict.into()));
        }
        let local = file.read_only && self.options.lock_free_read_only && file.keeps_reads();
        if !local {
            self.write_back(seat.file).await?;
            self.ask(&Call::Lock {
                handle: seat.wire,
                offset,
                bytes,
            })
            .await?;
            self.forget_before_lock(seat.file);
        }
        let lock = HeldLock {
            seat: handle,
            offset,
            bytes,
            local,
        };
        self.tables.file_mut(seat.file).locks.push(lock);
        Ok(Reply::Done)
    }

    pub(super) async fn unlock(&mut self, handle: Handle, offset: u64, bytes: u64) -> Result<Reply, Trouble> {
        let seat = self.seat_for(handle)?;
        let same = |lock: &HeldLock| (lock.seat, lock.offset, lock.bytes) == (handle, offset, bytes);
        let held = self
            .tables
            .file(seat.file)
            .locks
            .iter()
            .find(|lock| same(lock))
            .copied();
        let reply = match held {
            Some(lock) if lock.local => Reply::Done,
            _ => {
                self.ask(&Call::Unlock {
                    handle: seat.wire,
                    offset,
                    bytes,
                })
                .await?
            }
        };
        let locks = &mut self.tables.file_mut(seat.file).locks;
        if let Some(place) = locks.iter().position(same) {
            locks.remove(place);
        }
        Ok(reply)
    }

    /// Gives back what an application still has locked when it closes its handle: the one below may stay open.
    pub(super) async fn unlock_all(&mut self, handle: Handle, seat: &Seat) -> Result<(), Trouble> {
        let mut result = Ok(());
        loop {
            let locks = &mut self.tables.file_mut(seat.file).locks;
            let Some(place) = locks.iter().position(|lock| lock.seat == handle) else {
                return result;
            };
            let lock = locks.remove(place);
            if lock.local {
                continue;
            }
            let (offset, bytes) = (lock.offset, lock.bytes);
            let call = Call::Unlock {
                handle: seat.wire,
                offset,
                bytes,
            };
            match self.ask(&call).await {
                Err(lost @ Trouble::Lost(_)) => return Err(lost),
                Err(refused) => result = Err(refused),
                Ok(_) => {}
            }
        }
    }

    /// Whether another of our applications has locked what this one wants, on the same handle below, where the server
    /// can't tell them apart.
    pub(super) fn check_locks(
        &self,
        handle: Handle,
        seat: &Seat,
        offset: u64,
        bytes: u64,
    ) -> Result<(), Trouble> {
        let another = |lock: &HeldLock| {
            lock.seat != handle
                && overlap(lock, offset, bytes)
                && self
                    .tables
                    .seat_of(lock.seat)
                    .is_ok_and(|other| other.wire == seat.wire)
        };
        match self.tables.file(seat.file).locks.iter().any(another) {
            true => Err(Trouble::Call(Fault::LockConflict.into())),
            false => Ok(()),
        }
    }
}
