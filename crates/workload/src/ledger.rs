//! What each file of one client should contain: kept along with the operations that succeeded, and held against what
//! is read back.
//!
//! A file is a row of extents, each written by one generation of one mix, zero, or unknown; runs that continue each
//! other are one extent, so that the books of a workspace stay at some thousand entries. What can't be known any more (a
//! write that failed half-way, a session that was lost before data was sent) is unknown, and is never reported as wrong.
//!
//! The books go on from mix to mix with the workspace. Each mix writes contents of its own, and the books say of each
//! extent which mix wrote it: a write that is lost leaves what a former mix wrote, and that is wrong.
//!
//! Not for: asking the server, nor for judging lengths and answers; the engine does that.

use crate::{content_of, FileAction, Intent, PathId, Slot, Writing, MOST_BYTES_AT_ONCE};
use std::collections::{BTreeMap, HashMap};

/// Beyond it the two shortest neighbours of a file become one extent that is unknown: memory before checking.
const MOST_EXTENTS_OF_A_FILE: usize = 4096;

/// What a stretch of a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Written { mix: u32, generation: u32 },
    Zero,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: u64,
    end: u64,
    kind: Kind,
}

/// One file. Its extents follow each other from 0 without gaps; they end at its size where that is known.
#[derive(Clone, Debug, Default)]
struct Contents {
    extents: Vec<Extent>,
    /// The end of the extents is the end of the file. Else the file may end anywhere.
    size_known: bool,
    /// Something was written that no flush or close has sent for certain.
    unsent: bool,
    /// Paths (one at most) and slots that lead here.
    links: u32,
}

impl Contents {
    fn end(&self) -> u64 {
        self.extents.last().map_or(0, |extent| extent.end)
    }

    /// Makes `start` .. `end` be of `kind`, and what lies between the end of the file and `start` zero.
    fn put(&mut self, start: u64, end: u64, kind: Kind) {
        if start >= end {
            return;
        }
        let old_end = self.end();
        if old_end < start {
            let between = if self.size_known {
                Kind::Zero
            } else {
                Kind::Unknown
            };
            self.push(old_end, start, between);
        }
        let first = self.extents.partition_point(|extent| extent.end <= start);
        let last = self.extents.partition_point(|extent| extent.start < end);
        let mut parts = [None; 3];
        if let Some(extent) = self.extents.get(first).filter(|extent| extent.start < start) {
            parts[0] = Some(Extent {
                end: start,
                ..*extent
            });
        }
        parts[1] = Some(Extent { start, end, kind });
        if let Some(extent) = self.extents[first..last].last().filter(|extent| extent.end > end) {
            parts[2] = Some(Extent {
                start: end,
                ..*extent
            });
        }
        self.extents.splice(first..last, parts.into_iter().flatten());
        self.join(first.saturating_sub(1), first + 4);
        self.bound();
    }

    fn push(&mut self, start: u64, end: u64, kind: Kind) {
        match self.extents.last_mut() {
            Some(last) if last.kind == kind => last.end = end,
            _ => self.extents.push(Extent { start, end, kind }),
        }
    }

    /// Joins neighbours of one kind among the extents `from` .. `to`.
    fn join(&mut self, from: usize, to: usize) {
        let mut place = from;
        for _ in from..to {
            let [one, next] = match self.extents.get(place..place + 2) {
                Some(&[one, next]) => [one, next],
                _ => return,
            };
            if one.kind == next.kind {
                self.extents[place].end = next.end;
                self.extents.remove(place + 1);
            } else {
                place += 1;
            }
        }
    }

    fn bound(&mut self) {
        while self.extents.len() > MOST_EXTENTS_OF_A_FILE {
            let pairs = self.extents.windows(2).map(|pair| pair[1].end - pair[0].start);
            let Some((place, _)) = pairs.enumerate().min_by_key(|&(_, bytes)| bytes) else {
                return;
            };
            self.extents[place].end = self.extents[place + 1].end;
            self.extents[place].kind = Kind::Unknown;
            self.extents.remove(place + 1);
            self.join(place.saturating_sub(1), place + 2);
        }
    }

    fn set_end(&mut self, bytes: u64) {
        let kept = self.extents.partition_point(|extent| extent.start < bytes);
        self.extents.truncate(kept);
        if let Some(last) = self.extents.last_mut() {
            last.end = last.end.min(bytes);
        }
        let end = self.end();
        if end < bytes {
            let between = if self.size_known {
                Kind::Zero
            } else {
                Kind::Unknown
            };
            self.push(end, bytes, between);
        }
        self.size_known = true;
    }

    fn forget(&mut self) {
        self.extents.clear();
        self.size_known = false;
        self.unsent = false;
    }

    /// Holds `data` against the extents; how many bytes were known.
    fn check(&self, writing: Writing, offset: u64, data: &[u8]) -> Result<u64, Mismatch> {
        let end = offset + data.len() as u64;
        if self.size_known && end > self.end() {
            return Err(Mismatch {
                offset: self.end().max(offset),
            });
        }
        let mut checked_bytes = 0;
        let first = self.extents.partition_point(|extent| extent.end <= offset);
        for extent in self.extents[first..]
            .iter()
            .take_while(|extent| extent.start < end)
        {
            let (start, stop) = (extent.start.max(offset), extent.end.min(end));
            let piece = &data[(start - offset) as usize..(stop - offset) as usize];
            let same = match extent.kind {
                Kind::Unknown => continue,
                Kind::Zero => piece.iter().all(|&byte| byte == 0),
                Kind::Written { mix, generation } => is_content(
                    Writing {
                        mix,
                        generation,
                        ..writing
                    },
                    start,
                    piece,
                ),
            };
            if !same {
                return Err(Mismatch { offset: start });
            }
            checked_bytes += piece.len() as u64;
        }
        Ok(checked_bytes)
    }
}

fn is_content(writing: Writing, offset: u64, data: &[u8]) -> bool {
    let mut offset = offset;
    data.chunks(MOST_BYTES_AT_ONCE).all(|piece| {
        let same = content_of(writing, offset, piece.len()) == piece;
        offset += piece.len() as u64;
        same
    })
}

/// Something else was read than was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the content from {offset} on is not what was written there")]
pub struct Mismatch {
    /// The beginning of the extent, or of the part of it that was read, in which the contents differ.
    pub offset: u64,
}

/// The books of one client.
#[derive(Clone, Debug)]
pub struct Ledger {
    client: u32,
    /// Of what is written from here on.
    mix: u32,
    files: HashMap<u32, Contents>,
    next_file: u32,
    /// None: it is known not to be there. A path that is missing here may lead to anything.
    paths: BTreeMap<PathId, Option<u32>>,
    slots: Vec<Option<u32>>,
}

impl Ledger {
    /// Of one client, whose files nobody knows.
    #[must_use]
    pub fn new(client: u32) -> Self {
        Self {
            client,
            mix: 0,
            files: HashMap::new(),
            next_file: 1,
            paths: BTreeMap::new(),
            slots: Vec::new(),
        }
    }

    /// What is written from here on belongs to `mix`. What former mixes wrote stays known.
    pub fn begin_mix(&mut self, mix: u32) {
        self.mix = mix;
    }

    /// What is written now belongs to this one.
    #[must_use]
    pub fn mix(&self) -> u32 {
        self.mix
    }

    /// Whose files they are.
    #[must_use]
    pub fn client(&self) -> u32 {
        self.client
    }

    /// Forgets every file. Numbers of files are not used again.
    pub fn clear(&mut self) {
        self.files.clear();
        self.paths.clear();
        self.slots.clear();
    }

    /// The session is gone with all slots. What was written into open files since they were last sent is unknown.
    pub fn session_lost(&mut self) {
        for place in 0..self.slots.len() {
            self.leave(place);
        }
    }

    /// What a write into `slot` writes. None: there is no such slot.
    #[must_use]
    pub fn writing(&self, slot: Slot, generation: u32) -> Option<Writing> {
        let file = self.file_of(slot)?;
        Some(Writing {
            client: self.client,
            mix: self.mix,
            file,
            generation,
        })
    }

    /// How many bytes a read must bring. None: the size is not known.
    #[must_use]
    pub fn expected_bytes(&self, slot: Slot, offset: u64, bytes: u32) -> Option<u32> {
        let size = self.known_bytes(self.file_of(slot)?)?;
        let left = size.saturating_sub(offset);
        Some(u32::try_from(left).map_or(bytes, |left| left.min(bytes)))
    }

    /// Holds what was read from `slot` against what was written; how many bytes of it were known.
    ///
    /// # Errors
    /// The contents differ.
    pub fn check(&self, slot: Slot, offset: u64, data: &[u8]) -> Result<u64, Mismatch> {
        self.file_of(slot)
            .map_or(Ok(0), |id| self.check_file(id, offset, data))
    }

    /// As [`Self::check`], for the file at `path`, however it was read.
    ///
    /// # Errors
    /// The contents differ.
    pub fn check_path(&self, path: PathId, offset: u64, data: &[u8]) -> Result<u64, Mismatch> {
        let id = self.paths.get(&path).copied().flatten();
        id.map_or(Ok(0), |id| self.check_file(id, offset, data))
    }

    /// Every file that is known to be there, with its size where that is known.
    pub fn files(&self) -> impl Iterator<Item = (PathId, Option<u64>)> + '_ {
        let there = self.paths.iter().filter_map(|(&path, &id)| Some((path, id?)));
        there.map(|(path, id)| (path, self.known_bytes(id)))
    }

    /// How many extents all files have: what the books cost.
    #[must_use]
    pub fn extents(&self) -> usize {
        self.files.values().map(|file| file.extents.len()).sum()
    }

    /// Nobody knows any more what stands in this stretch: a write into it failed.
    pub fn forget(&mut self, slot: Slot, offset: u64, bytes: u32) {
        let Some(file) = self.open_file(slot) else { return };
        let end = offset + u64::from(bytes);
        if file.size_known && end > file.end() {
            // Somewhere between its old end and the new one, or beyond a gap: up to its old end it is certain.
            file.size_known = false;
        }
        let end = end.min(file.end());
        file.put(offset, end, Kind::Unknown);
    }

    /// Notes an action that succeeded.
    pub fn apply(&mut self, action: &FileAction) {
        match *action {
            FileAction::Open {
                slot,
                directory: true,
                ..
            } => self.leave(usize::from(slot.0)),
            FileAction::Open {
                slot, path, intent, ..
            } => self.open(slot, path, intent),
            FileAction::Close { slot } => {
                if let Some(file) = self.open_file(slot) {
                    file.unsent = false;
                }
                self.leave(usize::from(slot.0));
            }
            FileAction::Write {
                slot,
                offset,
                bytes,
                generation,
            } => {
                let mix = self.mix;
                if let Some(file) = self.open_file(slot) {
                    file.unsent = true;
                    let kind = Kind::Written { mix, generation };
                    file.put(offset, offset + u64::from(bytes), kind);
                }
            }
            FileAction::SetEnd { slot, bytes } => {
                if let Some(file) = self.open_file(slot) {
                    file.unsent = true;
                    file.set_end(bytes);
                }
            }
            FileAction::Flush { slot } => {
                if let Some(file) = self.open_file(slot) {
                    file.unsent = false;
                }
            }
            FileAction::Rename { from, to } if from != to => {
                let id = self.paths.get(&from).copied().flatten();
                let id = id.unwrap_or_else(|| self.unknown_file());
                self.lead(to, Some(id));
                self.lead(from, None);
            }
            FileAction::Delete { path, .. } => self.lead(path, None),
            _ => {}
        }
    }

    fn open(&mut self, slot: Slot, path: PathId, intent: Intent) {
        let known = self.paths.get(&path).copied();
        let id = match (intent, known) {
            (Intent::Make, _) | (Intent::MakeOrEdit, Some(None)) => self.new_file(path),
            (Intent::Replace, Some(Some(id))) => {
                if let Some(file) = self.files.get_mut(&id) {
                    file.set_end(0);
                }
                id
            }
            (Intent::Replace, _) => self.new_file(path),
            (_, Some(Some(id))) => id,
            (_, None | Some(None)) => {
                let id = self.unknown_file();
                self.lead(path, Some(id));
                id
            }
        };
        let place = usize::from(slot.0);
        self.leave(place);
        if self.slots.len() <= place {
            self.slots.resize(place + 1, None);
        }
        self.slots[place] = Some(id);
        if let Some(file) = self.files.get_mut(&id) {
            file.links += 1;
        }
    }

    /// An empty file at `path`.
    fn new_file(&mut self, path: PathId) -> u32 {
        let id = self.unknown_file();
        if let Some(file) = self.files.get_mut(&id) {
            file.size_known = true;
        }
        self.lead(path, Some(id));
        id
    }

    /// A file of which nothing is known, without a path. Numbers begin again after four thousand million files.
    fn unknown_file(&mut self) -> u32 {
        while self.files.contains_key(&self.next_file) {
            self.next_file = self.next_file.wrapping_add(1);
        }
        let id = self.next_file;
        self.next_file = id.wrapping_add(1);
        self.files.insert(id, Contents::default());
        id
    }

    /// Makes `path` lead to another file, or to none.
    fn lead(&mut self, path: PathId, to: Option<u32>) {
        if let Some(file) = to.and_then(|id| self.files.get_mut(&id)) {
            file.links += 1;
        }
        if let Some(before) = self.paths.insert(path, to).flatten() {
            self.unlink(before);
        }
    }

    /// Frees a slot. Where no close has succeeded before, what was not sent for certain is unknown from here on.
    fn leave(&mut self, place: usize) {
        let Some(id) = self.slots.get_mut(place).and_then(Option::take) else {
            return;
        };
        if let Some(file) = self.files.get_mut(&id).filter(|file| file.unsent) {
            file.forget();
        }
        self.unlink(id);
    }

    fn unlink(&mut self, id: u32) {
        if let Some(file) = self.files.get_mut(&id) {
            file.links = file.links.saturating_sub(1);
            if file.links == 0 {
                self.files.remove(&id);
            }
        }
    }

    fn file_of(&self, slot: Slot) -> Option<u32> {
        self.slots.get(usize::from(slot.0)).copied().flatten()
    }

    fn open_file(&mut self, slot: Slot) -> Option<&mut Contents> {
        let id = self.file_of(slot)?;
        self.files.get_mut(&id)
    }

    fn known_bytes(&self, id: u32) -> Option<u64> {
        let file = self.files.get(&id)?;
        file.size_known.then(|| file.end())
    }

    fn check_file(&self, id: u32, offset: u64, data: &[u8]) -> Result<u64, Mismatch> {
        let writing = Writing {
            client: self.client,
            mix: self.mix,
            file: id,
            generation: 0,
        };
        match self.files.get(&id) {
            Some(file) => file.check(writing, offset, data),
            None => Ok(0),
        }
    }
}
