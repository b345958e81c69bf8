//! Contents of objects on their way: PUTs whole or in parts, and GETs compared while they arrive.

use dyno_http::Transport;
use dyno_measure::{Failure, Fault};
use dyno_s3::{Call, Client, Tag};
use dyno_workload::{ObjectVersion, MOST_BYTES_AT_ONCE};

/// A multipart upload that was begun and neither completed nor aborted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenUpload {
    pub key: String,
    pub upload: String,
}

/// Replaces `pieces` by a version's bytes from `from` to before `end`.
fn cut(version: &ObjectVersion, from: u64, end: u64, pieces: &mut Vec<&'static [u8]>) {
    pieces.clear();
    let mut offset = from;
    while offset < end {
        let bytes = (end - offset).min(MOST_BYTES_AT_ONCE as u64);
        pieces.push(version.content(offset, bytes as usize));
        offset += bytes;
    }
}

/// Stores a version under `key`, in one PUT.
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

/// Stores a version under `key` as a multipart upload. If that fails, aborts it. An upload that can't be aborted is added
/// to `open`.
pub(crate) async fn put_in_parts<T: Transport>(
    client: &mut Client<T>,
    key: &str,
    version: &ObjectVersion,
    part_bytes: u64,
    (pieces, open): (&mut Vec<&'static [u8]>, &mut Vec<OpenUpload>),
    call: &mut Call,
) -> Result<Tag, Failure> {
    let upload = client.begin_upload(key, call).await?;
    let stored = put_parts(client, (key, &upload), version, part_bytes, pieces, call).await;
    if stored.is_err() && client.abort_upload(key, &upload, call).await.is_err() {
        open.push(OpenUpload {
            key: key.to_owned(),
            upload,
        });
    }
    stored
}

async fn put_parts<T: Transport>(
    client: &mut Client<T>,
    (key, upload): (&str, &str),
    version: &ObjectVersion,
    part_bytes: u64,
    pieces: &mut Vec<&'static [u8]>,
    call: &mut Call,
) -> Result<Tag, Failure> {
    let (mut parts, mut offset, mut number) = (Vec::new(), 0, 0);
    while offset < version.bytes {
        let end = (offset + part_bytes).min(version.bytes);
        number += 1;
        cut(version, offset, end, pieces);
        parts.push(client.put_part(key, upload, number, pieces, call).await?);
        offset = end;
    }
    client.complete_upload(key, upload, &parts, call).await
}

/// Compares content with a version while it arrives.
#[derive(Debug)]
pub(crate) struct Comparison {
    version: ObjectVersion,
    before: Option<ObjectVersion>,
    offset: u64,
    pub checked_bytes: u64,
    difference: Option<Fault>,
}

impl Comparison {
    /// Begins to compare content that starts at `offset` with `version`. `before`: the version that a stale answer has.
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
