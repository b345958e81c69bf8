//! The client cache, as in a workstation's redirector. It caches data and handles as far as the server allows
//! (oplocks, leases), gathers writes, and writes back and closes everything on request. [`CacheOptions`] configures
//! it; the defaults model the client of the disk mix of 2004.
//!
//! Guarantee: later calls of any client see the effect of a completed call, if the server keeps the promises of its
//! oplocks. (Servers do not wait for an answer when they break level II oplocks, and R leases without W. These breaks
//! take effect only on arrival.) A failed write-back is reported by the next call on that file, at the latest by its
//! close, flush or [`Files::finish`].
//!
//! This file passes each call to the module for its kind. The modules look up handles in `tables`, use `pages`, and
//! call the server through `exchange`, which also receives breaks.

mod breaks;
mod close_to_open;
mod directories;
mod durable;
mod exchange;
mod handles;
mod held;
mod locks;
mod names;
mod options;
mod page_set;
mod pages;
mod paths;
mod places;
mod policy;
mod read_ahead;
mod sent;
mod stream;
mod tables;
mod validity;
mod write_behind;

use crate::call::{Call, Reply};
use crate::client::{FileClient, Files};
use dyno_measure::{monotonic_ns, Failure, Fault};
use exchange::{Exchange, MOST_BREAKS};
pub use options::{CacheCounts, CacheOptions, Redirector};
pub use policy::{AttributeAges, Policy};
use tables::Tables;

/// Kinds of failure.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// One call failed. The session continues.
    Call(Failure),
    /// The session is lost, with everything that was cached.
    Lost(Failure),
}

impl Trouble {
    fn call(self) -> Result<Failure, Self> {
        match self {
            Self::Call(failure) => Ok(failure),
            lost @ Self::Lost(_) => Err(lost),
        }
    }

    fn failure(self) -> Failure {
        match self {
            Self::Call(failure) | Self::Lost(failure) => failure,
        }
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Call(failure)
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Call(fault.into())
    }
}

/// A client cache on top of the client `C`.
#[derive(Debug)]
pub struct Cache<C> {
    client: C,
    options: CacheOptions,
    now: fn() -> u64,
    tables: Tables,
    exchange: Exchange,
    /// Failure of a deferred close, reported by the next call.
    stray: Option<Failure>,
    counts: CacheCounts,
}

impl<C> Cache<C> {
    pub fn new(client: C, options: CacheOptions) -> Self {
        Self::with_clock(client, options, monotonic_ns)
    }

    /// Creates a cache whose clock, `now`, is the one that the client's `break_until` uses.
    pub fn with_clock(client: C, options: CacheOptions, now: fn() -> u64) -> Self {
        let options = CacheOptions {
            most_bytes: options.most_bytes.max(CacheOptions::LEAST_BYTES),
            ..options
        };
        Self {
            client,
            options,
            now,
            tables: Tables::new(options.most_bytes, options.policy.rules().is_some()),
            exchange: Exchange::default(),
            stray: None,
            counts: CacheCounts::default(),
        }
    }

    pub fn client(&self) -> &C {
        &self.client
    }

    pub fn counts(&self) -> CacheCounts {
        self.counts
    }
}

impl<C: FileClient> Cache<C> {
    /// Handles the breaks received so far. Must run before each call, because revoked caching must no longer be used.
    async fn catch_up(&mut self) -> Result<(), Trouble> {
        for _ in 0..=MOST_BREAKS {
            match self.client.break_until(0).await {
                Ok(Some(broken)) => self.note_break(broken)?,
                Ok(None) => {
                    self.settle().await?;
                    return self.scavenge().await;
                }
                Err(failure) => return Err(self.lost(failure)),
            }
        }
        Err(self.lost(Fault::MalformedMessage.into()))
    }

    async fn carry_out(&mut self, call: &Call<'_>, data: &mut impl FnMut(&[u8])) -> Result<Reply, Trouble> {
        if !self.goes_along(call) {
            self.land().await?;
        }
        self.catch_up().await?;
        if !matches!(call, Call::Close { .. }) {
            if let Some(failure) = self.stray.take() {
                return Err(failure.into());
            }
        }
        let changed = self.changed_by(call);
        let reply = self.dispatch(call, data).await;
        for key in changed.iter().flatten() {
            self.tables.forget_name(key);
        }
        if !matches!(reply, Err(Trouble::Lost(_))) {
            self.settle().await?;
        }
        reply
    }

    async fn dispatch(&mut self, call: &Call<'_>, data: &mut impl FnMut(&[u8])) -> Result<Reply, Trouble> {
        match *call {
            Call::Open(ref open) => self.open(open).await,
            Call::Close { handle } => self.close(handle).await,
            Call::Read {
                handle,
                offset,
                bytes,
            } => self.read(handle, offset, bytes, data).await,
            Call::Write {
                handle,
                offset,
                data: written,
                stability,
            } => self.write(handle, offset, written, stability).await,
            Call::Flush { handle } => self.flush(handle).await,
            Call::Lock {
                handle,
                offset,
                bytes,
            } => self.lock(handle, offset, bytes).await,
            Call::Unlock {
                handle,
                offset,
                bytes,
            } => self.unlock(handle, offset, bytes).await,
            Call::QueryHandle { handle } => self.query_handle(handle).await,
            Call::QueryTimes { handle } => self.query_times(handle).await,
            Call::SetEnd { handle, bytes } => self.set_end(handle, bytes).await,
            Call::SetTimes { handle } => self.set_times(handle).await,
            Call::QueryPath { path } => self.query_path(path).await,
            Call::Rename { from, to } => self.rename(from, to).await,
            Call::Delete { path } => self.delete(path).await,
            Call::RemoveDirectory { path } => self.remove_directory(path).await,
            Call::Find { directory, pattern } => self.find(directory, pattern).await,
            Call::QuerySpace { .. } | Call::MakeDirectory { .. } => self.ask(call).await,
        }
    }

    /// Writes back and closes everything that is cached. Returns the first failure.
    async fn give_back(&mut self) -> Result<(), Trouble> {
        self.land().await?;
        self.settle().await?;
        for file in self.tables.pages.dirty_files() {
            self.write_back(file).await?;
        }
        let failed = self.tables.first_failure();
        let deferred = self.tables.all_deferred();
        self.close_wires(&deferred).await?;
        match failed.or(self.stray.take()) {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }
}

impl<C: FileClient> Files for Cache<C> {
    async fn connect(&mut self) -> Result<(), Failure> {
        match self.client.connect().await {
            Ok(()) => Ok(()),
            Err(failure) => Err(self.lost(failure).failure()),
        }
    }

    async fn call(&mut self, call: &Call<'_>, data: &mut impl FnMut(&[u8])) -> Result<Reply, Failure> {
        self.carry_out(call, data).await.map_err(Trouble::failure)
    }

    async fn idle_until(&mut self, due_ns: u64) -> Result<(), Failure> {
        self.land().await.map_err(Trouble::failure)?;
        loop {
            self.settle().await.map_err(Trouble::failure)?;
            self.scavenge().await.map_err(Trouble::failure)?;
            let until_ns = self.next_scavenging_ns().map_or(due_ns, |ns| ns.min(due_ns));
            match self.client.break_until(until_ns).await {
                Ok(Some(broken)) => self.note_break(broken).map_err(Trouble::failure)?,
                Ok(None) if until_ns == due_ns => return self.scavenge().await.map_err(Trouble::failure),
                Ok(None) => {}
                Err(failure) => return Err(self.lost(failure).failure()),
            }
        }
    }

    async fn finish(&mut self) -> Result<(), Failure> {
        let given_back = self.give_back().await.map_err(Trouble::failure);
        self.client.disconnect().await;
        self.tables.clear();
        self.exchange.clear();
        given_back
    }
}
