//! S3 as a `Protocol`: operations on objects, with each answer compared with the ledger.

use super::listing::{self, fault_of};
use super::names::Names;
use super::transfer::{put, put_in_parts, Comparison, OpenUpload};
use super::{may_pass, ObjectsClientOptions, ObjectsWork};
use crate::counting::ObjectCounts;
use crate::protocol::{Performed, Protocol};
use crate::removal::Patience;
use crate::sampling::Sampling;
use dyno_http::Transport;
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_net::Executor;
use dyno_s3::{may_act_later, traced, was_refused, Call, Client, Fetched, Tag, Trace};
use dyno_workload::{part_of_object, ObjectFault, ObjectLedger, ObjectOp, ObjectVersion, ObjectsOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// One engine thread's view of the objects shared by all threads.
pub(crate) struct SharedObjects {
    pub names: Names,
    pub ledger: RefCell<ObjectLedger>,
}

/// One client thread that speaks S3.
pub(crate) struct ObjectsClient<T: Transport> {
    /// The first client performs operations. The others send parts of uploads at the same time.
    clients: Vec<Client<T>>,
    workload: Arc<ObjectsOptions>,
    options: ObjectsClientOptions,
    names: Names,
    ledger: ObjectLedger,
    shared: Rc<SharedObjects>,
    sampling: Sampling,
    key: String,
    other_key: String,
    pieces: Vec<&'static [u8]>,
    open_uploads: Vec<OpenUpload>,
    /// Whether the thread may have stored an object on the server.
    pub may_have_stored: bool,
    /// Time for which the rate limit delayed the last operation after its first request, in nanoseconds.
    postponed_ns: u64,
    pub counts: ObjectCounts,
}

/// Application bytes that an operation read and wrote.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    read: u64,
    written: u64,
}

impl<T: Transport> ObjectsClient<T> {
    pub(crate) fn new(
        work: &ObjectsWork,
        clients: Vec<Client<T>>,
        (number, thread): (usize, usize),
        ledger: ObjectLedger,
        shared: Rc<SharedObjects>,
        sampling: Sampling,
    ) -> Self {
        Self {
            clients,
            workload: work.workload.clone(),
            options: work.options,
            names: work.names_of(number, thread),
            ledger,
            shared,
            sampling,
            key: String::new(),
            other_key: String::new(),
            pieces: Vec::new(),
            open_uploads: Vec::new(),
            may_have_stored: false,
            postponed_ns: 0,
            counts: ObjectCounts::default(),
        }
    }

    /// Takes the ledger, and leaves one without objects.
    pub(crate) fn take_ledger(&mut self) -> ObjectLedger {
        std::mem::replace(&mut self.ledger, ObjectLedger::new(0, 0))
    }

    /// Puts each object that is not known to exist. `sizes`: object sizes by number.
    pub(crate) async fn prepare(&mut self, executor: &Executor, sizes: &[u64]) -> Result<(), Failure> {
        for (object, bytes) in (0..).zip(sizes) {
            let mut patience = Patience::new(executor, may_pass);
            while self.ledger.known(object).is_none() {
                let mut call = Call::new(monotonic_ns());
                let stored = self.put(object, *bytes, &mut call).await;
                self.count_outside(&call);
                if let Err(failure) = stored {
                    patience.wait_after(failure).await?;
                }
            }
        }
        Ok(())
    }

    /// Puts the objects that all threads share.
    pub(crate) async fn prepare_shared(&mut self, executor: &Executor) -> Result<(), Failure> {
        let shared = self.shared.clone();
        for object in 0..self.workload.objects {
            let Some(version) = shared.ledger.borrow().known(object) else {
                continue;
            };
            let mut patience = Patience::new(executor, may_pass);
            let tag = loop {
                shared.names.write_key(object, 0, &mut self.key);
                let mut call = Call::new(monotonic_ns());
                let stored = self.store(&version, &mut call).await;
                self.count_outside(&call);
                match stored {
                    Ok(tag) => break tag,
                    Err(failure) => patience.wait_after(failure).await?,
                }
            };
            shared.ledger.borrow_mut().stored(object, version, tag.0);
        }
        Ok(())
    }

    /// Removes everything below the thread's prefix.
    pub(crate) async fn remove(&mut self, until_ns: u64) -> Result<(), Failure> {
        let mut keys = Vec::new();
        for object in self.ledger.present() {
            let mut key = String::new();
            self.names
                .write_key(object, self.ledger.retired(object), &mut key);
            keys.push(key);
        }
        let mut sum = Call::default();
        let deleted = listing::delete_all(&mut self.clients[0], &keys, &mut sum).await;
        self.count_outside(&sum);
        deleted?;
        self.end_uploads().await?;
        // A PUT or an upload whose answer was lost may have left objects that the ledger does not contain.
        let uploads = self.options.part_bytes > 0;
        let mut sum = Call::default();
        let prefix = self.names.prefix();
        let removed = listing::remove_all(&mut self.clients[0], prefix, uploads, until_ns, &mut sum).await;
        self.count_outside(&sum);
        removed
    }

    /// Tries again to abort the multipart uploads that could not be aborted before.
    pub(crate) async fn end_uploads(&mut self) -> Result<(), Failure> {
        while let Some(OpenUpload { key, upload }) = self.open_uploads.pop() {
            let mut call = Call::new(monotonic_ns());
            let ended = self.clients[0].abort_upload(&key, &upload, &mut call).await;
            self.count_outside(&call);
            ended?;
        }
        Ok(())
    }

    fn count_outside(&mut self, call: &Call) {
        self.counts.requests_outside += call.requests.total();
        self.counts.connections += u64::from(call.cost.connections);
    }

    /// Stores a version under `self.key`.
    async fn store(&mut self, version: &ObjectVersion, call: &mut Call) -> Result<Tag, Failure> {
        let part_bytes = self.options.part_bytes;
        let stored = if part_bytes > 0 && version.bytes > part_bytes {
            let open = &mut self.open_uploads;
            put_in_parts(&mut self.clients, &self.key, version, part_bytes, open, call).await
        } else {
            put(&mut self.clients[0], &self.key, version, &mut self.pieces, call).await
        };
        let is_refused = stored.as_ref().is_err_and(was_refused) && self.open_uploads.is_empty();
        self.may_have_stored |= !is_refused;
        stored
    }

    /// Returns the result of a change to objects. If the server may still execute the change, gives the
    /// objects new keys.
    fn settle<R>(&mut self, objects: &[u32], result: Result<R, Failure>) -> Result<R, Failure> {
        if result.as_ref().is_err_and(may_act_later) {
            objects.iter().for_each(|object| self.ledger.retire(*object));
        }
        result
    }

    async fn put(&mut self, object: u32, bytes: u64, call: &mut Call) -> Result<Moved, Failure> {
        let version = self.ledger.begin_put(object, bytes);
        self.names
            .write_key(object, self.ledger.retired(object), &mut self.key);
        let stored = self.store(&version, call).await;
        let tag = self.settle(&[object], stored)?;
        self.ledger.stored(object, version, tag.0);
        Ok(Moved {
            written: bytes,
            ..Moved::default()
        })
    }

    /// Sets `self.key` to the key of an object to read. Returns what the object must contain, and what it
    /// contained before.
    fn expected(&mut self, object: u32, shared: bool) -> Option<(ObjectVersion, Option<ObjectVersion>)> {
        if shared {
            self.shared.names.write_key(object, 0, &mut self.key);
            let ledger = self.shared.ledger.borrow();
            ledger.known(object).map(|version| (version, None))
        } else {
            self.names
                .write_key(object, self.ledger.retired(object), &mut self.key);
            let version = self.ledger.known(object)?;
            Some((version, self.ledger.before(object)))
        }
    }

    fn judge(&mut self, object: u32, shared: bool, found: &Fetched, whole: bool) -> Result<(), Failure> {
        let (bytes, tag) = (found.bytes.filter(|_| whole), found.tag.map(|tag| tag.0));
        let judged = if shared {
            self.shared.ledger.borrow_mut().judge(object, bytes, tag)
        } else {
            self.ledger.judge(object, bytes, tag)
        };
        judged.map_err(|fault| self.explained(fault_of(fault), &found.traces))
    }

    /// Adds to a failure what may have caused it.
    fn explained(&self, failure: Failure, traces: &[Option<Trace>]) -> Failure {
        let part_bytes = self.options.part_bytes;
        let in_parts = part_bytes > 0 && self.workload.size.most_bytes() > part_bytes;
        let is_of_tag = matches!(failure.fault, Fault::WrongEtag | Fault::ListWrong);
        let in_parts = (in_parts && is_of_tag).then_some(Trace::InParts);
        traced(failure, traces.iter().copied().chain([in_parts]).flatten())
    }

    async fn get(
        &mut self,
        (object, shared): (u32, bool),
        part: Option<u64>,
        call: &mut Call,
    ) -> Result<Moved, Failure> {
        let expected = self.expected(object, shared);
        let range = match (part, &expected) {
            (Some(part), Some((version, _))) if version.bytes > 0 => {
                Some(part_of_object(part, version.bytes))
            }
            _ => None,
        };
        let offset = range.map_or(0, |(first, _)| first);
        let sampled = self.sampling.draw();
        let mut comparison = expected
            .filter(|_| sampled)
            .map(|(version, before)| Comparison::new(version, before, offset));
        let mut take = |data: &[u8]| {
            if let Some(comparison) = &mut comparison {
                comparison.take(data);
            }
        };
        let found = self.clients[0].get(&self.key, range, &mut take, call).await?;
        self.judge(object, shared, &found, range.is_none())?;
        if let (Some((first, last)), Some(got)) = (range, found.bytes) {
            let expected = last - first + 1;
            if got != expected {
                let wrong = fault_of(ObjectFault::Length { expected, got });
                return Err(self.explained(wrong, &found.traces));
            }
        }
        if let Some(comparison) = &comparison {
            self.counts.checked_bytes += comparison.checked_bytes;
            comparison
                .result()
                .map_err(|wrong| self.explained(wrong, &found.traces))?;
        }
        Ok(Moved {
            read: found.bytes.unwrap_or_default(),
            ..Moved::default()
        })
    }

    async fn head(&mut self, object: u32, shared: bool, call: &mut Call) -> Result<Moved, Failure> {
        self.expected(object, shared);
        let found = self.clients[0].head(&self.key, call).await?;
        self.judge(object, shared, &found, true)?;
        Ok(Moved::default())
    }

    async fn delete(&mut self, object: u32, call: &mut Call) -> Result<Moved, Failure> {
        self.ledger.begin_change(object);
        self.names
            .write_key(object, self.ledger.retired(object), &mut self.key);
        let deleted = self.clients[0].delete(&self.key, call).await;
        self.settle(&[object], deleted)?;
        self.ledger.deleted(object);
        Ok(Moved::default())
    }

    async fn delete_many(&mut self, objects: &[u32], call: &mut Call) -> Result<Moved, Failure> {
        let mut keys = Vec::with_capacity(objects.len());
        for object in objects {
            self.ledger.begin_change(*object);
            let mut key = String::new();
            self.names
                .write_key(*object, self.ledger.retired(*object), &mut key);
            keys.push(key);
        }
        let deleted = self.clients[0].delete_many(&keys, call).await;
        self.settle(objects, deleted)?;
        objects.iter().for_each(|object| self.ledger.deleted(*object));
        Ok(Moved::default())
    }

    async fn copy(&mut self, from: u32, to: u32, call: &mut Call) -> Result<Moved, Failure> {
        let source = self.ledger.known(from);
        self.ledger.begin_change(to);
        self.names
            .write_key(from, self.ledger.retired(from), &mut self.key);
        self.names
            .write_key(to, self.ledger.retired(to), &mut self.other_key);
        let copied = self.clients[0].copy(&self.key, &self.other_key, call).await;
        let tag = self.settle(&[to], copied)?;
        if let Some(version) = source {
            self.ledger.stored(to, version, tag.0);
        }
        Ok(Moved::default())
    }

    async fn list(&mut self, prefix: u32, call: &mut Call) -> Result<Moved, Failure> {
        let (client, key) = (&mut self.clients[0], &mut self.key);
        let compared = listing::compare(client, &self.names, prefix, &mut self.ledger, key, call).await;
        compared.map_err(|wrong| self.explained(wrong, &[]))?;
        Ok(Moved::default())
    }
}

impl<T: Transport> Protocol for ObjectsClient<T> {
    type Op = ObjectOp;

    fn postponed_ns(&self) -> u64 {
        self.postponed_ns
    }

    async fn perform(&mut self, op: &ObjectOp, start_ns: u64) -> Performed {
        let mut call = Call::due(start_ns);
        let result = match *op {
            ObjectOp::Put { object, bytes } => self.put(object, bytes, &mut call).await,
            ObjectOp::Get { object, shared } => self.get((object, shared), None, &mut call).await,
            ObjectOp::GetRange { object, shared, part } => {
                self.get((object, shared), Some(part), &mut call).await
            }
            ObjectOp::Head { object, shared } => self.head(object, shared, &mut call).await,
            ObjectOp::Delete { object } => self.delete(object, &mut call).await,
            ObjectOp::DeleteMany { objects, count } => {
                self.delete_many(&objects[..usize::from(count)], &mut call).await
            }
            ObjectOp::Copy { from, to } => self.copy(from, to, &mut call).await,
            ObjectOp::List { prefix } => self.list(prefix, &mut call).await,
        };
        self.counts.requests.add(&call.requests);
        self.postponed_ns = call.start_ns - start_ns;
        let moved = result.unwrap_or_default();
        Performed {
            class: self.workload.class_of(op),
            result: result.map(|_| ()),
            bytes_read: moved.read,
            bytes_written: moved.written,
            cost: call.cost,
            session_lost: false,
        }
    }
}
