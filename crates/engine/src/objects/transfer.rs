//! Transfers object contents: PUTs, whole or in parts, and GETs whose data is compared on arrival.

use dyno_http::Transport;
use dyno_measure::{monotonic_ns, Failure, Fault};
use dyno_s3::{Call, Client, Tag};
use dyno_workload::{ObjectVersion, MOST_BYTES_AT_ONCE};
use std::cell::{Cell, RefCell};
use std::future::{poll_fn, Future};
use std::task::Poll;

/// A multipart upload that was begun and neither completed nor aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenUpload {
    pub key: String,
    pub upload: String,
}

/// Sets `pieces` to a version's bytes from `from` to before `end`.
fn cut(version: &ObjectVersion, from: u64, end: u64, pieces: &mut Vec<&'static [u8]>) {
    pieces.clear();
    let mut offset = from;
    while offset < end {
        let bytes = (end - offset).min(MOST_BYTES_AT_ONCE as u64);
        pieces.push(version.content(offset, bytes as usize));
        offset += bytes;
    }
}

/// Stores a version under `key` with one PUT.
pub(crate) async fn put<T: Transport>(
    client: &mut Client<T>,
    key: &str,
    version: &ObjectVersion,
    pieces: &mut Vec<&'static [u8]>,
    call: &mut Call,
) -> Result<Tag, Failure> {
    cut(version, 0, version.bytes, pieces);
    client.put(key, pieces, call).await
}

/// Stores a version under `key` as a multipart upload, with one part at a time per client. If that fails, aborts it. An
/// upload that can't be aborted is added to `open`.
pub(crate) async fn put_in_parts<T: Transport>(
    clients: &mut [Client<T>],
    key: &str,
    version: &ObjectVersion,
    part_bytes: u64,
    open: &mut Vec<OpenUpload>,
    call: &mut Call,
) -> Result<Tag, Failure> {
    let upload = clients[0].begin_upload(key, call).await?;
    let stored = match put_parts(clients, (key, &upload), version, part_bytes, call).await {
        Ok(parts) => clients[0].complete_upload(key, &upload, &parts, call).await,
        Err(failure) => Err(failure),
    };
    if stored.is_err() {
        // The operation's own time limit may be over.
        let mut own = Call::new(monotonic_ns());
        let aborted = clients[0].abort_upload(key, &upload, &mut own).await;
        call.merge(&own);
        if aborted.is_err() {
            open.push(OpenUpload {
                key: key.to_owned(),
                upload,
            });
        }
    }
    stored
}

/// Stores all parts: each client takes the next one until all are stored or one has failed. Returns the
/// entries of the parts in order.
async fn put_parts<T: Transport>(
    clients: &mut [Client<T>],
    (key, upload): (&str, &str),
    version: &ObjectVersion,
    part_bytes: u64,
    call: &mut Call,
) -> Result<Vec<String>, Failure> {
    let next = Cell::new(0);
    let entries = RefCell::new(Vec::new());
    let begin = *call;
    let lanes = clients.iter_mut().map(|client| async {
        let (mut pieces, mut call) = (Vec::new(), Call::new(begin.start_ns));
        loop {
            let place = next.get();
            let from = place * part_bytes;
            if from >= version.bytes {
                return (call, Ok(()));
            }
            next.set(place + 1);
            cut(version, from, (from + part_bytes).min(version.bytes), &mut pieces);
            let number = u32::try_from(place + 1).unwrap_or(u32::MAX);
            match client.put_part(key, upload, number, &pieces, &mut call).await {
                Ok(entry) => entries.borrow_mut().push((number, entry)),
                Err(failure) => {
                    // The other clients must not start further parts.
                    next.set(u64::MAX / part_bytes);
                    return (call, Err(failure));
                }
            }
        }
    });
    let mut result = Ok(());
    for (lane, ended) in all(lanes).await {
        call.merge(&lane);
        call.start_ns = call.start_ns.max(lane.start_ns);
        result = result.and(ended);
    }
    result?;
    let mut entries = entries.into_inner();
    entries.sort_unstable_by_key(|(number, _)| *number);
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

/// Waits for all futures together, and returns their results in order.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        for (future, result) in &mut futures {
            if result.is_none() {
                if let Poll::Ready(output) = future.as_mut().poll(context) {
                    *result = Some(output);
                }
            }
        }
        if futures.iter().all(|(_, result)| result.is_some()) {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
    futures.into_iter().filter_map(|(_, result)| result).collect()
}

/// Compares content with a version as it arrives.
#[derive(Debug)]
pub(crate) struct Comparison {
    version: ObjectVersion,
    before: Option<ObjectVersion>,
    offset: u64,
    pub checked_bytes: u64,
    difference: Option<Fault>,
}

impl Comparison {
    /// Starts to compare content from `offset` with `version`. `before`: the version that a stale answer
    /// would contain.
    pub(crate) fn new(version: ObjectVersion, before: Option<ObjectVersion>, offset: u64) -> Self {
        Self {
            version,
            before,
            offset,
            checked_bytes: 0,
            difference: None,
        }
    }

    pub(crate) fn take(&mut self, data: &[u8]) {
        if self.difference.is_some() {
            return;
        }
        for piece in data.chunks(MOST_BYTES_AT_ONCE) {
            let is = |version: &ObjectVersion| version.content(self.offset, piece.len()) == piece;
            if !is(&self.version) {
                let stale = self.before.as_ref().is_some_and(is);
                self.difference = Some(if stale {
                    Fault::StaleObject
                } else {
                    Fault::WrongContent
                });
                return;
            }
            self.offset += piece.len() as u64;
            self.checked_bytes += piece.len() as u64;
        }
    }

    /// Returns how the content differs.
    pub(crate) fn result(&self) -> Result<(), Failure> {
        self.difference.map_or(Ok(()), |fault| Err(fault.into()))
    }
}
