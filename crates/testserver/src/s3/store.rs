//! Buckets with their objects and unfinished multipart uploads, in memory.

use super::checksum::Algorithm;
use crate::pages::Space;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

/// Memory that an object uses. It is freed when the last reference is dropped.
#[derive(Debug)]
pub(super) struct Held {
    space: Arc<Space>,
    bytes: u64,
}

impl Held {
    /// Reserves memory. Returns None if the server's memory limit is reached.
    pub(super) fn take(space: &Arc<Space>, bytes: u64) -> Option<Self> {
        space.take(bytes).ok()?;
        Some(Self {
            space: space.clone(),
            bytes,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.space.give(self.bytes);
    }
}

/// Content in pieces, which are never copied. The pieces of a multipart upload are its parts.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub(super) pieces: Vec<Bytes>,
    pub(super) length: u64,
    /// Never read. It keeps the memory reserved.
    _held: Vec<Arc<Held>>,
}

impl Content {
    pub(super) fn new(bytes: Vec<u8>, held: Held) -> Self {
        Self {
            length: bytes.len() as u64,
            pieces: vec![bytes.into()],
            _held: vec![Arc::new(held)],
        }
    }

    pub(super) fn joined<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        let mut whole = Self::default();
        for part in parts {
            whole.length += part.length;
            whole.pieces.extend(part.pieces.iter().cloned());
            whole._held.extend(part._held.iter().cloned());
        }
        whole
    }

    /// Returns the bytes of a range, which must lie within the content.
    pub(super) fn slice(&self, range: Range<u64>) -> Vec<Bytes> {
        let (mut found, mut start) = (Vec::new(), 0);
        for piece in &self.pieces {
            let end = start + piece.len() as u64;
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                // Does not truncate: both lie inside the piece.
                found.push(piece.slice((from - start) as usize..(to - start) as usize));
            }
            start = end;
        }
        found
    }

    /// Returns the first `length` bytes of the content as separate content.
    pub(super) fn first(&self, length: u64) -> Self {
        Self {
            pieces: self.slice(0..length),
            length,
            _held: self._held.clone(),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) content: Content,
    /// The ETag, without quotation marks.
    pub(super) etag: String,
    pub(super) modified: SystemTime,
    /// Header fields (name and value) that are stored with the object and returned with it.
    pub(super) fields: Vec<(String, String)>,
    pub(super) checksum: Option<(Algorithm, String)>,
    /// The object that this one replaced. Stored only on a server with a fault for stale reads.
    pub(super) before: Option<Arc<Object>>,
}

/// A part of a multipart upload.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) content: Content,
    pub(super) etag: String,
    pub(super) md5: [u8; 16],
    pub(super) modified: SystemTime,
}

/// A multipart upload that is neither completed nor aborted.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) key: Vec<u8>,
    pub(super) fields: Vec<(String, String)>,
    pub(super) parts: BTreeMap<u32, Part>,
    pub(super) begun: SystemTime,
}

#[derive(Debug, Default)]
pub(super) struct Bucket {
    pub(super) objects: BTreeMap<Vec<u8>, Arc<Object>>,
    /// Uploads by key and ID, in the order of listings.
    pub(super) uploads: BTreeMap<(Vec<u8>, String), Upload>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_freed_with_the_last_reference_to_an_object() {
        let space = Arc::new(Space::new(10));
        let part = |text: &str| {
            let held = Held::take(&space, text.len() as u64).expect("room");
            Content::new(text.as_bytes().to_vec(), held)
        };
        let (first, second) = (part("abcd"), part("efg"));
        let whole = Content::joined([&first, &second].into_iter());
        drop((first, second));
        assert_eq!((whole.length, space.free()), (7, 3));
        assert!(Held::take(&space, 4).is_none());
        assert_eq!(whole.slice(2..6).concat(), b"cdef");
        assert_eq!(whole.slice(4..7).concat(), b"efg");
        assert_eq!(whole.first(3).slice(0..3).concat(), b"abc");
        drop(whole);
        assert_eq!(space.free(), 10);
    }
}
