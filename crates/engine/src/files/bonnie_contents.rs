//! Contents of Bonnie's file in each phase, and the check of read data.
//!
//! Contents depend only on the position, except that seekers change chunks. The seekers of a client therefore share a
//! list of versions per chunk. A read that overlaps another seeker's write and equals no version is neither right nor
//! wrong. With close-to-open consistency, a client may cache between open and close (RFC 8881, section 10.3.1). A write
//! therefore lasts until the seeker's close, and older versions are right unless the seeker has seen a newer one.

use super::measured::Checked;
use dyno_measure::{Failure, Fault};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

pub(super) const WORD_BYTES: usize = 4;
/// Characters cycle through 0 to 127.
const CHARACTERS: usize = 128;

/// Checks one client's reads. Accepts everything if checks are off.
#[derive(Debug)]
pub(super) struct ContentCheck {
    is_on: bool,
    pub(super) checked: Checked,
    /// Content of chunk `number` after the phase "write".
    chunk: Vec<u8>,
    number: Option<u64>,
    /// Versions written by all seekers of the client.
    versions: Arc<Versions>,
    /// Whether a seeker's writes may become visible only at its close, so that the order of versions is unknown.
    writes_late: bool,
    /// Newest version of each chunk that the seeker has read or written.
    newest: HashMap<u64, usize>,
}

impl ContentCheck {
    pub(super) fn new(is_on: bool, chunk_bytes: u32, versions: Arc<Versions>) -> Self {
        Self {
            is_on,
            checked: Checked::default(),
            chunk: vec![0; chunk_bytes as usize],
            number: None,
            versions,
            writes_late: false,
            newest: HashMap::new(),
        }
    }

    pub(super) fn writing_late(self, writes_late: bool) -> Self {
        Self { writes_late, ..self }
    }

    /// Checks data of a file of characters.
    pub(super) fn characters(&mut self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        if !self.is_on {
            return Ok(());
        }
        let from = (offset % CHARACTERS as u64) as usize;
        let wanted: [u8; CHARACTERS] = std::array::from_fn(|place| ((from + place) % CHARACTERS) as u8);
        let mut pieces = data.chunks(CHARACTERS);
        self.judge(pieces.all(|piece| piece == &wanted[..piece.len()]), data)
    }

    /// Checks data of a file written by the phase "write".
    pub(super) fn chunks(&mut self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        if !self.is_on {
            return Ok(());
        }
        let (mut offset, mut rest, mut right) = (offset, data, true);
        let chunk_bytes = self.chunk.len() as u64;
        while !rest.is_empty() && right {
            let within = (offset % chunk_bytes) as usize;
            let wanted = &self.expected(offset / chunk_bytes)[within..];
            let bytes = wanted.len().min(rest.len());
            right = wanted[..bytes] == rest[..bytes];
            offset += bytes as u64;
            rest = &rest[bytes..];
        }
        self.judge(right, data)
    }

    /// Returns the content of chunk `number` after the phase "write". Each chunk has one more incremented
    /// word than the chunk before it.
    fn expected(&mut self, number: u64) -> &[u8] {
        if self.number != Some(number) {
            let words = (self.chunk.len() / WORD_BYTES) as u64;
            let (times, last) = ((number / words) as u32, (number % words) as usize * WORD_BYTES);
            // For consecutive chunks, only the last word has to change.
            let from = match self.number.is_some_and(|before| before + 1 == number) {
                true => last,
                false => 0,
            };
            fill(&mut self.chunk[from..last + WORD_BYTES], times + 1);
            if from == 0 {
                fill(&mut self.chunk[last + WORD_BYTES..], times);
            }
            self.number = Some(number);
        }
        &self.chunk
    }

    fn judge(&mut self, right: bool, data: &[u8]) -> Result<(), Failure> {
        if !right {
            return Err(Fault::WrongContent.into());
        }
        self.checked.bytes += data.len() as u64;
        Ok(())
    }

    /// Returns the state of a chunk before a seeker reads it.
    pub(super) fn begin_read(&self, number: u64) -> Standing {
        match self.is_on {
            true => self.versions.standing(number),
            false => Standing::default(),
        }
    }

    /// Checks a chunk that a seeker has read. `before`: the chunk's state at the start of the read.
    pub(super) fn end_read(&mut self, number: u64, before: Standing, data: &[u8]) -> Result<(), Failure> {
        if !self.is_on {
            return Ok(());
        }
        let (found, is_disturbed, now) = self.versions.find(number, data);
        let version = found.or_else(|| (self.expected(number) == data).then_some(0));
        let is_overlapped = is_disturbed || before != now || now.writing > 0;
        let seen = self.newest.entry(number).or_default();
        match version {
            Some(version) if version >= *seen => {
                *seen = version;
                self.judge(true, data)
            }
            _ if is_overlapped => {
                self.checked.unknown_bytes += data.len() as u64;
                Ok(())
            }
            _ => self.judge(false, data),
        }
    }

    /// Records a version that a seeker is about to write.
    pub(super) fn begin_write(&mut self, number: u64, data: &[u8]) {
        if self.is_on {
            let version = self.versions.begin_write(number, data);
            self.newest.insert(number, version);
        }
    }

    pub(super) fn end_write(&self, number: u64) {
        if self.is_on && !self.writes_late {
            self.versions.end_write(number);
        }
    }
}

fn fill(words: &mut [u8], value: u32) {
    for word in words.chunks_exact_mut(WORD_BYTES) {
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// State of a chunk: number of versions and of writes in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Standing {
    versions: usize,
    writing: u32,
}

/// Versions of one chunk. Version 0 is the content after the phase "write".
#[derive(Debug, Default)]
struct Chunk {
    digests: Vec<u64>,
    writing: u32,
    /// Whether two writes overlapped, so that the newest version is unknown and may be a mixture.
    is_disturbed: bool,
}

impl Chunk {
    fn standing(&self) -> Standing {
        Standing {
            versions: self.digests.len(),
            writing: self.writing,
        }
    }
}

/// Chunks changed by the seekers of one client.
#[derive(Debug, Default)]
pub(super) struct Versions {
    chunks: Mutex<HashMap<u64, Chunk>>,
}

impl Versions {
    fn chunks(&self) -> MutexGuard<'_, HashMap<u64, Chunk>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn standing(&self, number: u64) -> Standing {
        self.chunks()
            .get(&number)
            .map(Chunk::standing)
            .unwrap_or_default()
    }

    /// Records the start of a write and returns its version.
    fn begin_write(&self, number: u64, data: &[u8]) -> usize {
        let mut chunks = self.chunks();
        let chunk = chunks.entry(number).or_default();
        chunk.is_disturbed |= chunk.writing > 0;
        chunk.writing += 1;
        chunk.digests.push(xxh3_64(data));
        chunk.digests.len()
    }

    fn end_write(&self, number: u64) {
        if let Some(chunk) = self.chunks().get_mut(&number) {
            chunk.writing -= 1;
        }
    }

    /// Returns the newest version with this data, whether writes have overlapped, and the chunk's state.
    fn find(&self, number: u64, data: &[u8]) -> (Option<usize>, bool, Standing) {
        let chunks = self.chunks();
        let Some(chunk) = chunks.get(&number) else {
            return (None, false, Standing::default());
        };
        let digest = xxh3_64(data);
        let place = chunk.digests.iter().rposition(|known| *known == digest);
        (place.map(|place| place + 1), chunk.is_disturbed, chunk.standing())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK_BYTES: u32 = 512;

    /// Creates chunks like the phase "write".
    fn written(chunks: u64) -> Vec<u8> {
        let mut chunk = vec![0_u8; CHUNK_BYTES as usize];
        let words = chunk.len() / WORD_BYTES;
        let mut file = Vec::new();
        for number in 0..chunks {
            let place = number as usize % words * WORD_BYTES;
            let word = u32::from_le_bytes(*chunk[place..].first_chunk().expect("a word")) + 1;
            chunk[place..place + WORD_BYTES].copy_from_slice(&word.to_le_bytes());
            file.extend_from_slice(&chunk);
        }
        file
    }

    #[test]
    fn written_data_are_right_in_pieces_of_any_size_and_any_changed_byte_is_wrong() {
        let file = written(300);
        for piece in [1, 100, 512, 4096, 5000] {
            let mut check = ContentCheck::new(true, CHUNK_BYTES, Arc::default());
            for (number, data) in file.chunks(piece).enumerate() {
                assert_eq!(check.chunks((number * piece) as u64, data), Ok(()));
            }
            assert_eq!(check.checked.bytes, file.len() as u64);
        }
        let mut check = ContentCheck::new(true, CHUNK_BYTES, Arc::default());
        for place in (0..file.len()).step_by(997) {
            let mut wrong = file.clone();
            wrong[place] ^= 1;
            assert!(check.chunks(0, &wrong).is_err(), "{place}");
        }
        assert!(check.chunks(512, &file[..512]).is_err(), "another chunk");
        let mut off = ContentCheck::new(false, CHUNK_BYTES, Arc::default());
        assert_eq!(off.chunks(512, &file[..512]), Ok(()));
        assert_eq!(off.checked, Checked::default());
    }

    #[test]
    fn characters_depend_on_their_position() {
        let file: Vec<u8> = (0..10_000_u32).map(|place| (place & 0x7f) as u8).collect();
        let mut check = ContentCheck::new(true, CHUNK_BYTES, Arc::default());
        for (offset, bytes) in [(0, 10_000), (1, 500), (777, 4096), (9_999, 1)] {
            let data = &file[offset..offset + bytes.min(file.len() - offset)];
            assert_eq!(check.characters(offset as u64, data), Ok(()));
        }
        assert!(check.characters(1, &file[..500]).is_err());
    }

    #[test]
    fn a_seeker_reads_no_version_older_than_one_that_it_has_seen() {
        let base = written(1);
        let next = [&[9; 4], &base[4..]].concat();
        let (mut one, mut other) = two_seekers();
        assert_eq!(read(&mut one, &base), Ok(()));
        one.begin_write(0, &next);
        one.end_write(0);
        assert_eq!(read(&mut other, &base), Ok(()), "it may have kept what it had");
        assert_eq!(read(&mut other, &next), Ok(()));
        assert!(read(&mut other, &base).is_err(), "lost");
        assert!(read(&mut one, &base).is_err(), "its own write is lost");
        assert!(read(&mut one, &[7; 512]).is_err(), "no version");
    }

    #[test]
    fn data_read_during_a_write_are_unknown_unless_they_equal_a_version() {
        let base = written(1);
        let next = [&[9; 4], &base[4..]].concat();
        let torn = [&next[..2], &base[2..]].concat();
        let (mut one, mut other) = two_seekers();
        let before = other.begin_read(0);
        one.begin_write(0, &next);
        assert_eq!(other.end_read(0, before, &torn), Ok(()));
        assert_eq!((other.checked.bytes, other.checked.unknown_bytes), (0, 512));
        assert_eq!(read(&mut other, &next), Ok(()));
        one.end_write(0);
        assert_eq!((other.checked.bytes, other.checked.unknown_bytes), (512, 512));
        assert!(read(&mut other, &torn).is_err());
    }

    fn two_seekers() -> (ContentCheck, ContentCheck) {
        let versions = Arc::<Versions>::default();
        let one = || ContentCheck::new(true, CHUNK_BYTES, versions.clone());
        (one(), one())
    }

    fn read(check: &mut ContentCheck, data: &[u8]) -> Result<(), Failure> {
        let before = check.begin_read(0);
        check.end_read(0, before, data)
    }
}
