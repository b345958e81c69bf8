//! Counts calls to a client by kind, to compare them with the server's counts and the captures.

use crate::call::{Caching, Call, Disposition, Handle, Reply, Stability};
use crate::client::{Break, CallId, Event, FileClient, Grant};
use crate::page_run::PageRun;
use dyno_measure::{monotonic_ns, named_enum, Failure, Histogram};
use rustc_hash::FxHashMap;
use std::collections::HashMap;

named_enum! {
    /// A kind of call, with the name that records contain.
    pub enum CallKind {
        Open "open"
        Create "create"
        Close "close"
        Read "read"
        Write "write"
        Flush "flush"
        Lock "lock"
        Unlock "unlock"
        QueryHandle "query file"
        SetEnd "set end"
        SetTimes "set times"
        QueryPath "query path"
        QuerySpace "query space"
        Find "find"
        Rename "rename"
        Delete "delete"
        MakeDirectory "make directory"
        RemoveDirectory "remove directory"
    }
}

impl CallKind {
    /// Returns the kind of `call`. An open that may create the file counts as a create.
    pub fn of(call: &Call<'_>) -> Self {
        match call {
            Call::Open(open) if matches!(open.disposition, Disposition::Open | Disposition::Overwrite) => {
                Self::Open
            }
            Call::Open(_) => Self::Create,
            Call::Close { .. } => Self::Close,
            Call::Read { .. } => Self::Read,
            Call::Write { .. } => Self::Write,
            Call::Flush { .. } => Self::Flush,
            Call::Lock { .. } => Self::Lock,
            Call::Unlock { .. } => Self::Unlock,
            Call::QueryHandle { .. } | Call::QueryTimes { .. } => Self::QueryHandle,
            Call::SetEnd { .. } => Self::SetEnd,
            Call::SetTimes { .. } => Self::SetTimes,
            Call::QueryPath { .. } => Self::QueryPath,
            Call::QuerySpace { .. } => Self::QuerySpace,
            Call::Find { .. } => Self::Find,
            Call::Rename { .. } => Self::Rename,
            Call::Delete { .. } => Self::Delete,
            Call::MakeDirectory { .. } => Self::MakeDirectory,
            Call::RemoveDirectory { .. } => Self::RemoveDirectory,
        }
    }
}

/// Calls of one kind that have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindCount {
    /// Successful calls that found or did something.
    pub done: u64,
    /// Successful calls with a negative result: `Reply::NotThere`, and finds without a match.
    pub not_there: u64,
    pub failed: u64,
    /// Data read or written.
    pub bytes: u64,
}

impl KindCount {
    pub fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.not_there += other.not_there;
        self.failed += other.failed;
        self.bytes += other.bytes;
    }

    /// Returns the difference from `before`, an earlier value of the same client.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            done: self.done - before.done,
            not_there: self.not_there - before.not_there,
            failed: self.failed - before.failed,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// Calls by kind. Index: `kind as usize`.
pub type Calls = [KindCount; CallKind::ALL.len()];

/// Breaks in all sessions of a client.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Breaks {
    pub came: u64,
    /// Breaks that the server waits for.
    pub to_answer: u64,
    /// Breaks in `to_answer` that were answered by an acknowledgement, not by a close.
    pub answered: u64,
    /// Time from a break's arrival to its answer, in nanoseconds. None if there were no breaks, to save memory.
    pub answer_time: Option<Histogram>,
}

impl Breaks {
    /// Returns the difference from `before`, an earlier value of the same client.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            came: self.came - before.came,
            to_answer: self.to_answer - before.to_answer,
            answered: self.answered - before.answered,
            answer_time: match (&self.answer_time, &before.answer_time) {
                (Some(now), Some(then)) => Some(now.since(then)),
                (now, _) => now.clone(),
            },
        }
    }
}

/// Wrapper that counts the calls and breaks of a client.
#[derive(Debug)]
pub struct Counted<C> {
    client: C,
    calls: Calls,
    outstanding: FxHashMap<CallId, CallKind>,
    breaks: Breaks,
    /// Arrival time of each unanswered break.
    unanswered: HashMap<Grant, u64>,
}

impl<C> Counted<C> {
    pub fn new(client: C) -> Self {
        Self {
            client,
            calls: Calls::default(),
            outstanding: FxHashMap::default(),
            breaks: Breaks::default(),
            unanswered: HashMap::new(),
        }
    }

    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    pub fn breaks(&self) -> &Breaks {
        &self.breaks
    }

    pub fn inner(&self) -> &C {
        &self.client
    }
}

fn note_break(breaks: &mut Breaks, unanswered: &mut HashMap<Grant, u64>, broken: &Break) {
    breaks.came += 1;
    if broken.acknowledge {
        breaks.to_answer += 1;
        unanswered.insert(broken.grant, monotonic_ns());
    }
}

fn count(calls: &mut Calls, kind: CallKind, result: &Result<Reply, Failure>) {
    let count = &mut calls[kind as usize];
    match result {
        Ok(Reply::NotThere | Reply::Found { entries: 0 }) => count.not_there += 1,
        Ok(Reply::Read { bytes } | Reply::Written { bytes }) => {
            count.done += 1;
            count.bytes += u64::from(*bytes);
        }
        Ok(_) => count.done += 1,
        Err(_) => count.failed += 1,
    }
}

impl<C: FileClient> FileClient for Counted<C> {
    async fn connect(&mut self) -> Result<(), Failure> {
        self.client.connect().await
    }

    async fn begin(&mut self, call: &Call<'_>) -> Result<CallId, Failure> {
        let id = self.client.begin(call).await?;
        self.outstanding.insert(id, CallKind::of(call));
        Ok(id)
    }

    async fn begin_write(
        &mut self,
        handle: Handle,
        offset: u64,
        data: &PageRun,
        stability: Stability,
    ) -> Option<Result<CallId, Failure>> {
        let begun = self.client.begin_write(handle, offset, data, stability).await?;
        if let Ok(id) = begun {
            self.outstanding.insert(id, CallKind::Write);
        }
        Some(begun)
    }

    async fn call_at_once(
        &mut self,
        call: &Call<'_>,
        data: &mut impl FnMut(&[u8]),
    ) -> Option<Result<Reply, Failure>> {
        let ended = self.client.call_at_once(call, data).await?;
        count(&mut self.calls, CallKind::of(call), &ended);
        Some(ended)
    }

    async fn next(&mut self) -> Result<Event<'_>, Failure> {
        let event = self.client.next().await?;
        match &event {
            Event::Ended { id, result, .. } => {
                if let Some(kind) = self.outstanding.remove(id) {
                    count(&mut self.calls, kind, result);
                }
            }
            Event::Break(broken) => note_break(&mut self.breaks, &mut self.unanswered, broken),
        }
        Ok(event)
    }

    async fn read_into(
        &mut self,
        handle: Handle,
        offset: u64,
        into: &mut [u8],
    ) -> Option<Result<u32, Failure>> {
        let read = self.client.read_into(handle, offset, into).await?;
        let reply = read.map(|bytes| Reply::Read { bytes });
        count(&mut self.calls, CallKind::Read, &reply);
        Some(read)
    }

    async fn break_until(&mut self, due_ns: u64) -> Result<Option<Break>, Failure> {
        let broken = self.client.break_until(due_ns).await?;
        if let Some(broken) = &broken {
            note_break(&mut self.breaks, &mut self.unanswered, broken);
        }
        Ok(broken)
    }

    async fn acknowledge(&mut self, grant: Grant, left: Caching) -> Result<(), Failure> {
        self.client.acknowledge(grant, left).await?;
        if let Some(came_ns) = self.unanswered.remove(&grant) {
            self.breaks.answered += 1;
            let times = self.breaks.answer_time.get_or_insert_default();
            times.record(monotonic_ns().saturating_sub(came_ns));
        }
        Ok(())
    }

    crate::forward_to_client!();

    async fn disconnect(&mut self) {
        self.outstanding.clear();
        self.unanswered.clear();
        self.client.disconnect().await;
    }
}
