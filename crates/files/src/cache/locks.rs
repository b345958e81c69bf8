//! Byte-range locks, which are sent to the server. Locked files are not cached.

use super::tables::{HeldLock, OpenHandle};
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
        let open = self.open_handle_for(handle)?;
        let file = self.tables.file(open.file);
        let taken = |lock: &HeldLock| {
            overlap(lock, offset, bytes)
                && self
                    .tables
                    .open_handle_of(lock.open)
                    .is_ok_and(|other| other.wire == open.wire)
        };
        // The server can't distinguish the locks of application handles that share one of its handles.
        if file.locks.iter().any(taken) {
            return Err(Trouble::Call(Fault::LockConflict.into()));
        }
        let local = file.read_only && self.options.lock_free_read_only && file.keeps_reads();
        if !local {
            self.write_back(open.file).await?;
            self.ask(&Call::Lock {
                handle: open.wire,
                offset,
                bytes,
            })
            .await?;
            self.forget_before_lock(open.file);
        }
        let lock = HeldLock {
            open: handle,
            offset,
            bytes,
            local,
        };
        self.tables.file_mut(open.file).locks.push(lock);
        Ok(Reply::Done)
    }

    pub(super) async fn unlock(&mut self, handle: Handle, offset: u64, bytes: u64) -> Result<Reply, Trouble> {
        let open = self.open_handle_for(handle)?;
        let same = |lock: &HeldLock| (lock.open, lock.offset, lock.bytes) == (handle, offset, bytes);
        let held = self
            .tables
            .file(open.file)
            .locks
            .iter()
            .find(|lock| same(lock))
            .copied();
        let reply = match held {
            Some(lock) if lock.local => Reply::Done,
            _ => {
                self.ask(&Call::Unlock {
                    handle: open.wire,
                    offset,
                    bytes,
                })
                .await?
            }
        };
        let locks = &mut self.tables.file_mut(open.file).locks;
        if let Some(place) = locks.iter().position(same) {
            locks.remove(place);
        }
        Ok(reply)
    }

    /// Releases the remaining locks of an application's handle on its close. The server's handle may stay open.
    pub(super) async fn unlock_all(&mut self, handle: Handle, open: &OpenHandle) -> Result<(), Trouble> {
        let mut result = Ok(());
        loop {
            let locks = &mut self.tables.file_mut(open.file).locks;
            let Some(place) = locks.iter().position(|lock| lock.open == handle) else {
                return result;
            };
            let lock = locks.remove(place);
            if lock.local {
                continue;
            }
            let (offset, bytes) = (lock.offset, lock.bytes);
            let call = Call::Unlock {
                handle: open.wire,
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

    /// Checks for locks of other application handles that share the server's handle. The server can't distinguish these
    /// locks.
    pub(super) fn check_locks(
        &self,
        handle: Handle,
        open: &OpenHandle,
        offset: u64,
        bytes: u64,
    ) -> Result<(), Trouble> {
        let another = |lock: &HeldLock| {
            lock.open != handle
                && overlap(lock, offset, bytes)
                && self
                    .tables
                    .open_handle_of(lock.open)
                    .is_ok_and(|other| other.wire == open.wire)
        };
        match self.tables.file(open.file).locks.iter().any(another) {
            true => Err(Trouble::Call(Fault::LockConflict.into())),
            false => Ok(()),
        }
    }
}
