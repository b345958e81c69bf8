//! The journal of a power cut: a list of the files written and flushed until the server is gone, and of what
//! the server acknowledged. Keep it on a machine whose power is not cut. `files/journal.rs` writes the files.

use dyno_measure::{monotonic_ns, Failure, NS_PER_S};
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Bytes per write.
pub(crate) const PIECE_BYTES: usize = 8 << 10;
/// Maximum writes per file.
const MOST_PIECES: u32 = 6;
/// One of this many files is not flushed, so the server may lose it.
const UNFLUSHED_EACH: u32 = 4;
/// Time in which clients may read the last responses before they end.
const ENDING_NS: u64 = NS_PER_S;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalSpec {
    pub seed: u64,
    /// Directory of this journal, which must not exist.
    pub directory: String,
    /// Number of concurrent clients with a session each.
    pub clients: u32,
    /// Time limit of writing or reading.
    pub most_ns: u64,
}

/// A file, and how much of it the server acknowledged. Byte counts start at the beginning of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub client: u32,
    /// The file's number among the client's files, from 0.
    pub file: u32,
    /// Bytes, from the beginning of the file, whose writes were acknowledged.
    pub written_bytes: u64,
    /// Bytes, from the beginning of the file, that an acknowledged flush covers.
    pub flushed_bytes: u64,
}

/// What remains of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOfFile {
    pub client: u32,
    pub file: u32,
    /// Intact bytes from the beginning of the file.
    pub intact_bytes: u64,
    /// Why the file can't be read. None: it was read, or does not exist.
    pub why: Option<String>,
}

impl JournalSpec {
    pub(crate) fn client_directory(&self, client: u32) -> String {
        format!("{}/{client}", self.directory)
    }

    pub(crate) fn path(&self, client: u32, file: u32) -> String {
        format!("{}/{file:06}", self.client_directory(client))
    }

    pub(crate) fn content(&self, client: u32, file: u32) -> Vec<u8> {
        let seed = self.seed ^ (u64::from(client) << 32) ^ u64::from(file);
        let mut content = vec![0; PIECE_BYTES * (1 + file % MOST_PIECES) as usize];
        Xoshiro256PlusPlus::seed_from_u64(seed).fill_bytes(&mut content);
        content
    }

    pub(crate) fn flushes(&self, file: u32) -> bool {
        file % UNFLUSHED_EACH != UNFLUSHED_EACH - 1
    }
}

/// State shared by the writer and its owner.
#[derive(Debug, Default)]
pub(crate) struct Page {
    entries: Mutex<Vec<Entry>>,
    /// Time at which the clients were asked to end; 0 before that.
    ends_ns: AtomicU64,
}

impl Page {
    pub(crate) fn begin(&self, client: u32, file: u32) -> usize {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(Entry {
            client,
            file,
            written_bytes: 0,
            flushed_bytes: 0,
        });
        entries.len() - 1
    }

    pub(crate) fn written(&self, place: usize, bytes: u64) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)[place].written_bytes += bytes;
    }

    pub(crate) fn flushed(&self, place: usize) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries[place].flushed_bytes = entries[place].written_bytes;
    }

    pub(crate) fn stopped(&self) -> bool {
        self.ends_ns.load(Ordering::Relaxed) != 0
    }

    /// Returns whether the time in which clients may end on their own is over.
    pub(crate) fn is_over(&self) -> bool {
        self.stopped() && monotonic_ns() > self.ends_ns.load(Ordering::Relaxed) + ENDING_NS
    }
}

/// A running journal on its own thread.
#[derive(Debug)]
pub struct Journal {
    page: Arc<Page>,
    thread: Mutex<Option<JoinHandle<Vec<Failure>>>>,
}

impl Journal {
    pub(crate) fn start(write: impl FnOnce(&Arc<Page>) -> Vec<Failure> + Send + 'static) -> Self {
        let page = Arc::new(Page::default());
        let shared = page.clone();
        Self {
            page,
            thread: Mutex::new(Some(std::thread::spawn(move || write(&shared)))),
        }
    }

    pub fn entries(&self) -> Vec<Entry> {
        let entries = self.page.entries.lock();
        entries.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the clients within one second. The entries then contain all acknowledged files. Returns the
    /// failure of each client that did not end on its own. A second call returns no failures.
    pub fn end(&self) -> Vec<Failure> {
        self.page.ends_ns.store(monotonic_ns(), Ordering::Relaxed);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread.map_or_else(Vec::new, |thread| thread.join().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_differ_by_seed_client_and_number_and_are_reproducible() {
        let spec = |seed| JournalSpec {
            seed,
            directory: "d".into(),
            clients: 2,
            most_ns: 0,
        };
        assert_eq!(spec(7).content(1, 2), spec(7).content(1, 2));
        assert_ne!(spec(7).content(1, 6), spec(7).content(0, 6));
        assert_ne!(spec(7).content(1, 6)[..99], spec(7).content(1, 12)[..99]);
        assert_ne!(spec(7).content(1, 6), spec(8).content(1, 6));
        assert_eq!((0..8).filter(|&file| spec(7).flushes(file)).count(), 6);
    }

    #[test]
    fn a_flush_covers_exactly_the_writes_acknowledged_before_it() {
        let page = Page::default();
        let place = page.begin(0, 3);
        page.written(place, 10);
        page.flushed(place);
        page.written(place, 5);
        let entry = page.entries.lock().unwrap()[0];
        assert_eq!((entry.written_bytes, entry.flushed_bytes), (15, 10));
    }
}
