//! Expected contents of each file of one client. Successful operations update them, and data read is compared with
//! them.
//!
//! A file is a list of extents, each written by one generation of one level, zero, or unknown. Adjacent runs of one
//! writer are one extent, so the ledger of a workspace has only a few thousand entries. Content becomes unknown after a
//! failed write, or if the session was lost before data was sent; unknown content is never reported as wrong.
//!
//! The ledger persists from level to level with the workspace. Each level writes its own contents, and the ledger
//! stores the level of each extent. A lost write leaves the data of an earlier level, which is reported as wrong.
//!
//! The engine queries the server, and checks lengths and answers.

use crate::{content_of, FileAction, Intent, PathId, Slot, Writing, MOST_BYTES_AT_ONCE};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of extents per file. Above it, the two shortest neighbours become one unknown extent, which
/// saves memory but checks less.
const MOST_EXTENTS_OF_A_FILE: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Written { level: u32, generation: u32 },
    Zero,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: u64,
    end: u64,
    kind: Kind,
}

/// One file. The extents start at 0 and have no gaps. They end at the file's size if the size is known.
#[derive(Clone, Debug, Default)]
struct Contents {
    extents: Vec<Extent>,
    /// Whether the file ends at the end of its extents. Otherwise, it may end anywhere.
    size_known: bool,
    /// Whether the file may have written data that no flush or close has sent.
    unsent: bool,
    /// Number of paths (at most one) and slots that refer to the file.
    links: u32,
}

impl Contents {
    fn end(&self) -> u64 {
        self.extents.last().map_or(0, |extent| extent.end)
    }

    /// Sets `start` .. `end` to `kind`. Sets a gap between the end of the file and `start` to zero, or to unknown if
    /// the size is unknown.
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

    /// Joins neighbours of the same kind among the extents `from` .. `to`.
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

    /// Compares `data` with the extents. Returns the number of bytes whose content is known.
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
                Kind::Written { level, generation } => is_content(
                    Writing {
                        level,
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

/// The data read differs from the data written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the content from offset {offset} on differs from the data written there")]
pub struct Mismatch {
    /// Start of the differing extent, or of the part of the extent that was read.
    pub offset: u64,
}

#[derive(Clone, Debug)]
pub struct Ledger {
    client: u32,
    /// Level to which subsequent writes belong.
    level: u32,
    files: HashMap<u32, Contents>,
    next_file: u32,
    /// None: the path is known not to exist. A path that is not in the map may refer to any file or none.
    paths: BTreeMap<PathId, Option<u32>>,
    slots: Vec<Option<u32>>,
}

impl Ledger {
    /// Returns the ledger of a client whose files are unknown.
    pub fn new(client: u32) -> Self {
        Self {
            client,
            level: 0,
            files: HashMap::new(),
            next_file: 1,
            paths: BTreeMap::new(),
            slots: Vec::new(),
        }
    }

    /// Starts a level, to which subsequent writes belong. Data of earlier levels stays known.
    pub fn begin_level(&mut self, level: u32) {
        self.level = level;
    }

    /// Returns the level to which writes currently belong.
    pub fn level(&self) -> u32 {
        self.level
    }

    pub fn client(&self) -> u32 {
        self.client
    }

    /// Forgets all files. Does not reuse their numbers.
    pub fn clear(&mut self) {
        self.files.clear();
        self.paths.clear();
        self.slots.clear();
    }

    /// Closes all slots, because the session is lost. The whole content of a file becomes unknown if data may not have
    /// been sent since the file's last flush.
    pub fn session_lost(&mut self) {
        for place in 0..self.slots.len() {
            self.leave(place);
        }
    }

    /// Returns the identity of the content of a write to `slot`, or None if the slot is free.
    pub fn writing(&self, slot: Slot, generation: u32) -> Option<Writing> {
        let file = self.file_of(slot)?;
        Some(Writing {
            client: self.client,
            level: self.level,
            file,
            generation,
        })
    }

    /// Returns the number of bytes that a read must return, or None if the file's size is unknown.
    pub fn expected_bytes(&self, slot: Slot, offset: u64, bytes: u32) -> Option<u32> {
        let size = self.known_bytes(self.file_of(slot)?)?;
        let left = size.saturating_sub(offset);
        Some(u32::try_from(left).map_or(bytes, |left| left.min(bytes)))
    }

    /// Compares data read from `slot` with the expected data. Returns the number of bytes whose content is known.
    ///
    /// # Errors
    /// The data differs.
    pub fn check(&self, slot: Slot, offset: u64, data: &[u8]) -> Result<u64, Mismatch> {
        self.file_of(slot)
            .map_or(Ok(0), |id| self.check_file(id, offset, data))
    }

    /// Like [`Self::check`], for the file at `path`, however it was read.
    ///
    /// # Errors
    /// The data differs.
    pub fn check_path(&self, path: PathId, offset: u64, data: &[u8]) -> Result<u64, Mismatch> {
        let id = self.paths.get(&path).copied().flatten();
        id.map_or(Ok(0), |id| self.check_file(id, offset, data))
    }

    /// Returns every file known to exist, with its size if known.
    pub fn files(&self) -> impl Iterator<Item = (PathId, Option<u64>)> + '_ {
        let there = self.paths.iter().filter_map(|(&path, &id)| Some((path, id?)));
        there.map(|(path, id)| (path, self.known_bytes(id)))
    }

    /// Returns the total number of extents, which determines the ledger's memory.
    pub fn extents(&self) -> usize {
        self.files.values().map(|file| file.extents.len()).sum()
    }

    /// Marks a range as unknown, because a write to it failed.
    pub fn forget(&mut self, slot: Slot, offset: u64, bytes: u32) {
        let Some(file) = self.open_file(slot) else { return };
        let end = offset + u64::from(bytes);
        if file.size_known && end > file.end() {
            // The file may end anywhere between the old and the new end, or after a gap. The content is known
            // only up to the old end.
            file.size_known = false;
        }
        let end = end.min(file.end());
        file.put(offset, end, Kind::Unknown);
    }

    /// Records an action that succeeded.
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
                let level = self.level;
                if let Some(file) = self.open_file(slot) {
                    file.unsent = true;
                    let kind = Kind::Written { level, generation };
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

    fn new_file(&mut self, path: PathId) -> u32 {
        let id = self.unknown_file();
        if let Some(file) = self.files.get_mut(&id) {
            file.size_known = true;
        }
        self.lead(path, Some(id));
        id
    }

    /// Adds an unknown file without a path. Returns its number. Numbers wrap after 2^32 files.
    fn unknown_file(&mut self) -> u32 {
        while self.files.contains_key(&self.next_file) {
            self.next_file = self.next_file.wrapping_add(1);
        }
        let id = self.next_file;
        self.next_file = id.wrapping_add(1);
        self.files.insert(id, Contents::default());
        id
    }

    /// Makes `path` refer to another file, or to none.
    fn lead(&mut self, path: PathId, to: Option<u32>) {
        if let Some(file) = to.and_then(|id| self.files.get_mut(&id)) {
            file.links += 1;
        }
        if let Some(before) = self.paths.insert(path, to).flatten() {
            self.unlink(before);
        }
    }

    /// Frees a slot. If the file was not closed successfully and data may not have been sent, the whole content becomes
    /// unknown.
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
            level: self.level,
            file: id,
            generation: 0,
        };
        match self.files.get(&id) {
            Some(file) => file.check(writing, offset, data),
            None => Ok(0),
        }
    }
}
